//! Messages whose sender waits for what becomes of them.

use jadpo_core::broker::{BrokerError, Kept, NewBatch, NewMessage, Once, Retaken, Retry, Taken, TakenOnce};

use super::{Broker, report};

impl Broker {
    /// Keeps a message and leases it at once to its sender.
    ///
    /// # Errors
    /// As [`send_taken`](jadpo_core::broker::Broker::send_taken), and as [`send`](Self::send).
    pub async fn send_taken(&self, name: &str, message: NewMessage, visibility_ms: u32) -> Result<Taken, BrokerError> {
        let _place = self.producers.place(name)?;
        let (name, bytes) = (name.to_owned(), message.body.len());
        self.store
            .broker_writing(bytes, move |broker, sql, moment| {
                broker.send_taken(sql, moment, &name, &message, visibility_ms)
            })
            .await
    }

    /// Keeps a batch's messages, all of them or none, and leases each at once that is not delayed.
    ///
    /// # Errors
    /// As [`send_batch_taken`](jadpo_core::broker::Broker::send_batch_taken), and as [`send`](Self::send).
    pub async fn send_batch_taken(
        &self,
        name: &str,
        batch: NewBatch,
        visibility_ms: impl Fn(usize) -> u32 + Send + 'static,
    ) -> Result<Vec<Kept>, BrokerError> {
        let _place = self.producers.place(name)?;
        let (name, bytes) = (name.to_owned(), batch.messages.iter().map(|message| message.body.len()).sum());
        self.store
            .broker_writing(bytes, move |broker, sql, moment| {
                broker.send_batch_taken(sql, moment, &name, &batch, &visibility_ms)
            })
            .await
    }

    /// As [`send_taken`](Self::send_taken), unless one was sent under this key before.
    ///
    /// # Errors
    /// As [`send_once_taken`](jadpo_core::broker::Broker::send_once_taken), and as [`send`](Self::send).
    pub async fn send_once_taken(
        &self,
        name: &str,
        once: Once<'_>,
        message: NewMessage,
        visibility_ms: u32,
    ) -> Result<TakenOnce, BrokerError> {
        let _place = self.producers.place(name)?;
        let (name, bytes) = (name.to_owned(), message.body.len());
        let (scope, key) = (once.scope.to_owned(), once.key.to_owned());
        self.store
            .broker_writing(bytes, move |broker, sql, moment| {
                let once = Once { scope: &scope, key: &key };
                broker.send_once_taken(sql, moment, &name, once, &message, visibility_ms)
            })
            .await
    }

    /// Ends an attempt that failed and leases the message again at once, or gives it up.
    ///
    /// # Errors
    /// As [`retry_taken`](jadpo_core::broker::Broker::retry_taken).
    pub async fn retry_taken(&self, name: &str, retry: Retry, visibility_ms: u32) -> Result<Retaken, BrokerError> {
        let name = name.to_owned();
        let retaken = self
            .store
            .broker(move |broker, sql, moment| broker.retry_taken(sql, moment, &name, &retry, visibility_ms))
            .await?;
        if let Retaken::Gone(gone) = &retaken {
            report::gone(std::slice::from_ref(gone));
        }
        Ok(retaken)
    }
}
