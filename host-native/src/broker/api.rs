//! Calls of the API, and what only it needs: consumers, tokens, the account.

use std::collections::BTreeMap;
use std::sync::Arc;

use jadpo_core::broker::{ApiToken, BrokerError, Consumer, ConsumerKind, ConsumerSettings, NewApiToken};
use jadpo_core::pull::{Call, Done, Refusal, Rules};

use super::{Broker, report};

/// What a client of the API needs to know of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiPlace {
    /// Its account.
    pub account: String,
    /// The token for development.
    pub dev_token: String,
}

impl Broker {
    /// Carries out one part of a call.
    ///
    /// # Errors
    /// [`BrokerError`] if the store failed or has too much to do; within that, why the call is refused.
    pub async fn call(
        &self,
        rules: &Arc<Rules>,
        call: &Arc<Call>,
        part: usize,
    ) -> Result<Result<Done, Refusal>, BrokerError> {
        let (rules, call, bytes) = (rules.clone(), call.clone(), call.bytes());
        let done = self
            .store
            .broker_writing(bytes, move |broker, sql, moment| call.run(part, &rules, broker, sql, moment))
            .await?;
        if let Ok(done) = &done {
            report::gone(done.gone());
        }
        Ok(done)
    }

    /// Lets in who has a token.
    ///
    /// # Errors
    /// [`BrokerError`] if the store failed or has too much to do; within that, why the token is none.
    pub async fn admit(
        &self,
        rules: &Arc<Rules>,
        authorization: Option<String>,
    ) -> Result<Result<(), Refusal>, BrokerError> {
        let rules = rules.clone();
        self.store.broker(move |broker, _, moment| Ok(rules.admit(authorization.as_deref(), broker, moment))).await
    }

    /// The account, and the token for development.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub async fn api_place(&self) -> Result<ApiPlace, BrokerError> {
        self.store
            .broker(|broker, _, _| Ok(ApiPlace { account: broker.account().to_owned(), dev_token: broker.dev_token() }))
            .await
    }

    /// The consumers of queues, by the queues' names.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub async fn consumers(&self) -> Result<BTreeMap<String, Consumer>, BrokerError> {
        self.store
            .broker(|broker, _, _| {
                let names: Vec<String> = broker.list().map(|info| info.name.clone()).collect();
                let consumer = |name: String| match broker.consumer(&name) {
                    Ok(Some(consumer)) => Some((name, consumer.clone())),
                    _ => None,
                };
                Ok(names.into_iter().filter_map(consumer).collect())
            })
            .await
    }

    /// Lets a queue be pulled over HTTP. What is set for it stays, but for the size of a pull that names none.
    ///
    /// # Errors
    /// As [`add_consumer`](jadpo_core::broker::Broker::add_consumer).
    pub async fn let_pull(&self, name: &str) -> Result<Consumer, BrokerError> {
        let name = name.to_owned();
        self.store
            .broker(move |broker, sql, moment| {
                let kind = ConsumerKind::HttpPull;
                let settings = ConsumerSettings {
                    batch_size: kind.default_settings().batch_size,
                    ..broker.info(&name)?.settings.consumer.clone()
                };
                broker.add_consumer(sql, moment, &name, kind, settings, None)
            })
            .await
    }

    /// Takes a queue's consumer away.
    ///
    /// # Errors
    /// As [`remove_consumer`](jadpo_core::broker::Broker::remove_consumer).
    pub async fn remove_consumer(&self, name: &str) -> Result<Consumer, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, moment| broker.remove_consumer(sql, moment, &name)).await
    }

    /// Makes a token, and answers it. It is shown nowhere else.
    ///
    /// # Errors
    /// As [`create_token`](jadpo_core::broker::Broker::create_token).
    pub async fn create_token(&self, new: NewApiToken) -> Result<(ApiToken, String), BrokerError> {
        self.store.broker(move |broker, sql, moment| broker.create_token(sql, moment, new.clone())).await
    }

    /// Every token, by name.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub async fn tokens(&self) -> Result<Vec<ApiToken>, BrokerError> {
        let mut tokens: Vec<ApiToken> =
            self.store.broker(|broker, _, _| Ok(broker.tokens().cloned().collect())).await?;
        tokens.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(tokens)
    }

    /// Makes a token good for nothing.
    ///
    /// # Errors
    /// As [`revoke_token`](jadpo_core::broker::Broker::revoke_token).
    pub async fn revoke_token(&self, name: &str) -> Result<ApiToken, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, _| broker.revoke_token(sql, &name)).await
    }
}
