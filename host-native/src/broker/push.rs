//! Queues of Workers.

use std::sync::Arc;

use jadpo_core::broker::{Broker as Core, BrokerError, Sql};
use jadpo_core::push::{self, Asks, Found, Told};
use jadpo_core::trigger::Triggers;
use jadpo_core::workers::Worker;

use super::{Broker, report};

impl Broker {
    /// Makes and sets the queues of these Workers as their Wrangler files declare them. `app` is what runs beside them.
    ///
    /// # Errors
    /// As [`declare`](jadpo_core::push::declare).
    pub async fn declare_workers(
        &self,
        workers: &Arc<Vec<Worker>>,
        app: &Arc<Triggers>,
    ) -> Result<Vec<Told>, BrokerError> {
        let (workers, app) = (workers.clone(), app.clone());
        self.store.broker(move |broker, sql, moment| push::declare(broker, sql, moment, &workers, &app)).await
    }

    /// Makes those queues of these Workers that somebody deleted.
    ///
    /// # Errors
    /// As [`declare_again`](jadpo_core::push::declare_again).
    pub async fn declare_workers_again(&self, workers: &Arc<Vec<Worker>>) -> Result<Vec<Told>, BrokerError> {
        let workers = workers.clone();
        self.store.broker(move |broker, sql, moment| push::declare_again(broker, sql, moment, &workers)).await
    }

    /// Gives back what is leased on a queue, and answers how much that was.
    ///
    /// # Errors
    /// As [`reclaim`](jadpo_core::broker::Broker::reclaim).
    pub async fn reclaim(&self, name: &str) -> Result<u64, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, _| broker.reclaim(sql, &name)).await
    }

    /// Takes the batches that are due for Workers.
    ///
    /// # Errors
    /// As [`take`](jadpo_core::push::take).
    pub async fn take_for_workers(&self, asks: Vec<Asks>) -> Result<Vec<Found>, BrokerError> {
        // What died in a take may be ready in a queue of dead letters.
        let is_quiet = |found: &Vec<Found>| found.iter().all(|found| found.gone.is_empty());
        let take = move |broker: &mut Core, sql: &mut dyn Sql, moment| push::take(broker, sql, moment, &asks);
        let found = self.store.broker_quietly(is_quiet, take).await?;
        found.iter().for_each(|found| report::gone(&found.gone));
        Ok(found)
    }
}
