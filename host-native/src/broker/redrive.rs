//! Putting dead letters back.

use jadpo_core::broker::{BrokerError, Redrive, RedrivePreview, RedriveTask};

use super::Broker;

impl Broker {
    /// The queue that holds a queue's dead letters.
    ///
    /// # Errors
    /// As [`dead_letter_queue_of`](jadpo_core::broker::Broker::dead_letter_queue_of), or [`BrokerError::Store`].
    pub async fn dead_letter_queue_of(&self, name: &str) -> Result<String, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, _, _| broker.dead_letter_queue_of(&name)).await
    }

    /// Begins a redrive. It goes on while somebody polls [`keep_redriven`](Self::keep_redriven) or calls
    /// [`redrive_step`](Self::redrive_step).
    ///
    /// # Errors
    /// As [`redrive`](jadpo_core::broker::Broker::redrive).
    pub async fn redrive(&self, redrive: Redrive) -> Result<RedriveTask, BrokerError> {
        self.store.broker(move |broker, sql, moment| broker.redrive(sql, moment, &redrive)).await
    }

    /// What a redrive would do. A long queue is looked through in slices, between which others have their turn.
    ///
    /// # Errors
    /// As [`redrive_look`](jadpo_core::broker::Broker::redrive_look).
    pub async fn redrive_preview(&self, redrive: Redrive) -> Result<RedrivePreview, BrokerError> {
        let mut look = self.store.broker(move |broker, _, _| broker.redrive_look(&redrive)).await?;
        loop {
            if let Some(preview) = look.done() {
                return Ok(preview.clone());
            }
            // A copy goes on: the operation is run again if its transaction is rolled back.
            look = self
                .store
                .broker(move |broker, sql, moment| {
                    let mut look = look.clone();
                    broker.redrive_look_on(sql, moment, &mut look)?;
                    Ok(look)
                })
                .await?;
        }
    }

    /// Does a slice of a redrive.
    ///
    /// # Errors
    /// As [`redrive_step`](jadpo_core::broker::Broker::redrive_step).
    pub async fn redrive_step(&self, id: u64, max: usize) -> Result<RedriveTask, BrokerError> {
        self.store.broker(move |broker, sql, moment| broker.redrive_step(sql, moment, id, max)).await
    }

    /// Every redrive that runs, and the last that have ended.
    ///
    /// # Errors
    /// As [`redrives`](jadpo_core::broker::Broker::redrives).
    pub async fn redrives(&self) -> Result<Vec<RedriveTask>, BrokerError> {
        self.store.broker(|broker, sql, moment| broker.redrives(sql, moment)).await
    }

    /// One redrive.
    ///
    /// # Errors
    /// As [`redrive_task`](jadpo_core::broker::Broker::redrive_task).
    pub async fn redrive_task(&self, id: u64) -> Result<RedriveTask, BrokerError> {
        self.store.broker(move |broker, sql, moment| broker.redrive_task(sql, moment, id)).await
    }

    /// Stops a redrive.
    ///
    /// # Errors
    /// As [`cancel_redrive`](jadpo_core::broker::Broker::cancel_redrive).
    pub async fn cancel_redrive(&self, id: u64) -> Result<RedriveTask, BrokerError> {
        self.store.broker(move |broker, sql, moment| broker.cancel_redrive(sql, moment, id)).await
    }
}
