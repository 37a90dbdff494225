//! Triggers, schedules and webhooks, as far as the store knows of them.

use std::collections::BTreeMap;

use jadpo_core::admin::queues::{ServedWorker, Serving};
use jadpo_core::broker::Broker as Core;
use jadpo_core::broker::{BrokerError, MessageId, NewMessage, Run, Sql, TriggerState};

use super::Broker;

impl Broker {
    /// What is known of triggers, by name.
    ///
    /// # Errors
    /// As [`triggers`](jadpo_core::broker::Broker::triggers).
    pub async fn triggers(&self) -> Result<BTreeMap<String, TriggerState>, BrokerError> {
        self.store.broker(|broker, sql, _| broker.triggers(sql)).await
    }

    /// Enables a trigger or disables it.
    ///
    /// # Errors
    /// As [`enable_trigger`](jadpo_core::broker::Broker::enable_trigger).
    pub async fn enable_trigger(&self, name: &str, enabled: bool) -> Result<(), BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, _| broker.enable_trigger(sql, &name, enabled)).await
    }

    /// Keeps how triggers' last runs ended.
    ///
    /// # Errors
    /// As [`record_runs`](jadpo_core::broker::Broker::record_runs).
    pub async fn record_runs(&self, runs: Vec<(String, Run)>) -> Result<(), BrokerError> {
        self.store.broker(move |broker, sql, _| broker.record_runs(sql, &runs)).await
    }

    /// Records one occurrence of a schedule and sends its message; `None` if it has occurred already.
    ///
    /// # Errors
    /// As [`occur`](jadpo_core::broker::Broker::occur).
    pub async fn occur(
        &self,
        schedule: &str,
        occurrence_ms: i64,
        queue: &str,
        message: NewMessage,
    ) -> Result<Option<MessageId>, BrokerError> {
        let (schedule, queue, bytes) = (schedule.to_owned(), queue.to_owned(), message.body.len());
        self.store
            .broker_writing(bytes, move |broker, sql, moment| {
                broker.occur(sql, moment, &schedule, occurrence_ms, &queue, &message)
            })
            .await
    }

    /// Records that a schedule is followed up to a time and that nothing was sent for it.
    ///
    /// # Errors
    /// As [`pass`](jadpo_core::broker::Broker::pass).
    pub async fn pass(&self, schedule: &str, until_ms: i64) -> Result<(), BrokerError> {
        let schedule = schedule.to_owned();
        self.store.broker(move |broker, sql, _| broker.pass(sql, &schedule, until_ms)).await
    }

    /// A webhook's token, made when it is first asked for.
    ///
    /// # Errors
    /// As [`webhook_token`](jadpo_core::broker::Broker::webhook_token).
    pub async fn webhook_token(&self, name: &str) -> Result<String, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, moment| broker.webhook_token(sql, moment, &name)).await
    }

    /// Gives a webhook a new token.
    ///
    /// # Errors
    /// As [`rotate_webhook_token`](jadpo_core::broker::Broker::rotate_webhook_token).
    pub async fn rotate_webhook_token(&self, name: &str) -> Result<String, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, moment| broker.rotate_webhook_token(sql, moment, &name)).await
    }

    /// Every token that was made, by the webhook's name.
    ///
    /// # Errors
    /// As [`webhook_tokens`](jadpo_core::broker::Broker::webhook_tokens).
    pub async fn webhook_tokens(&self) -> Result<BTreeMap<String, String>, BrokerError> {
        self.store.broker(|broker, sql, _| broker.webhook_tokens(sql)).await
    }

    /// What the server said that last started on this store.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub async fn serving(&self) -> Result<Option<Serving>, BrokerError> {
        let told = self.store.broker(|broker, sql, _| broker.serving(sql)).await?;
        Ok(told.as_deref().and_then(Serving::from_json))
    }

    /// Keeps which Workers run here, of what a server says of itself.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub async fn set_served_workers(&self, workers: Vec<ServedWorker>) -> Result<(), BrokerError> {
        let set = move |broker: &mut Core, sql: &mut dyn Sql, _| match broker
            .serving(sql)?
            .as_deref()
            .map(Serving::from_json)
        {
            Some(Some(serving)) if serving.workers != workers => {
                broker.set_serving(sql, &serving.with_workers(workers.clone()).to_json())
            }
            _ => Ok(()),
        };
        self.store.broker(set).await
    }

    /// The Workers that run on this store now.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub async fn served_workers(&self) -> Result<Vec<ServedWorker>, BrokerError> {
        if !self.store.is_served() {
            return Ok(Vec::new());
        }
        Ok(self.serving().await?.map(|serving| serving.workers).unwrap_or_default())
    }

    /// Keeps what a server says of itself when it starts, for commands that open its store.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub async fn set_serving(&self, serving: &Serving) -> Result<(), BrokerError> {
        let told = serving.to_json();
        self.store.broker(move |broker, sql, _| broker.set_serving(sql, &told)).await
    }
}
