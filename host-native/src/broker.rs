//! The queues of a store, for whoever serves them: the core's broker, run by the store's one writer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jadpo_core::broker::limits::PRODUCERS_MAX;
use jadpo_core::broker::{
    Backlog, Batch, BrokerError, Gone, How, LeaseKey, Metrics, NewBatch, Peeked, QueueInfo, Sent, Settings, Settle,
    Settled, Swept, Take, Wake,
};
use jadpo_core::host::{Level, LogEntry};
use serde_json::json;
use tokio::sync::watch;

use crate::log;
use crate::store::Store;

/// How often the queues are swept while there is nothing that waits for it.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// A handle to the queues of one store. Clones share everything.
///
/// Every answer is given when what it says is on disk. A store that has too much to do says so at once, with
/// [`BrokerError::Store`] or [`BrokerError::Overloaded`], for both of which [`BrokerError::may_pass`] is true.
#[derive(Debug, Clone)]
pub struct Broker {
    store: Store,
    lease_key: LeaseKey,
    producers: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Broker {
    /// The queues of a store that was opened with [`OpenStore::create`](crate::store::OpenStore::create).
    ///
    /// # Errors
    /// [`BrokerError::Store`], for one if the store is behind this build.
    pub async fn open(store: Store) -> Result<Self, BrokerError> {
        let lease_key = store.broker(|broker, _, _| Ok(broker.lease_key())).await?;
        Ok(Self { store, lease_key, producers: Arc::default() })
    }

    /// What turns leases into ids that can leave the process, and back.
    #[must_use]
    pub fn lease_key(&self) -> &LeaseKey {
        &self.lease_key
    }

    /// Makes a queue.
    ///
    /// # Errors
    /// As [`create`](jadpo_core::broker::Broker::create).
    pub async fn create(&self, name: &str, settings: Settings) -> Result<QueueInfo, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, moment| broker.create(sql, moment, &name, settings.clone())).await
    }

    /// Changes a queue's settings.
    ///
    /// # Errors
    /// As [`update`](jadpo_core::broker::Broker::update).
    pub async fn update(&self, name: &str, settings: Settings) -> Result<QueueInfo, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, moment| broker.update(sql, moment, &name, settings.clone())).await
    }

    /// Pauses a queue or lets it go on.
    ///
    /// # Errors
    /// As [`pause`](jadpo_core::broker::Broker::pause).
    pub async fn pause(&self, name: &str, paused: bool) -> Result<QueueInfo, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, moment| broker.pause(sql, moment, &name, paused)).await
    }

    /// Empties a queue, and answers how much it held.
    ///
    /// # Errors
    /// As [`purge`](jadpo_core::broker::Broker::purge).
    pub async fn purge(&self, name: &str) -> Result<Backlog, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, _| broker.purge(sql, &name)).await
    }

    /// Deletes a queue, and answers how much it held.
    ///
    /// # Errors
    /// As [`delete`](jadpo_core::broker::Broker::delete).
    pub async fn delete(&self, name: &str) -> Result<Backlog, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, _| broker.delete(sql, &name)).await
    }

    /// Every queue, by name.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub async fn list(&self) -> Result<Vec<QueueInfo>, BrokerError> {
        self.store.broker(|broker, _, _| Ok(broker.list().cloned().collect())).await
    }

    /// One queue.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`] or [`BrokerError::Store`].
    pub async fn info(&self, name: &str) -> Result<QueueInfo, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, _, _| broker.info(&name).cloned()).await
    }

    /// Sends messages, all of them or none.
    ///
    /// # Errors
    /// As [`send`](jadpo_core::broker::Broker::send); [`BrokerError::Overloaded`] if too many calls send to this queue
    /// already.
    pub async fn send(&self, name: &str, batch: NewBatch) -> Result<Sent, BrokerError> {
        batch.check()?;
        let _place = self.producer_place(name)?;
        let name = name.to_owned();
        let bytes = batch.messages.iter().map(|message| message.body.len()).sum();
        self.store.broker_writing(bytes, move |broker, sql, moment| broker.send(sql, moment, &name, &batch)).await
    }

    /// Takes messages that are due.
    ///
    /// # Errors
    /// As [`take`](jadpo_core::broker::Broker::take).
    pub async fn take(&self, name: &str, take: Take) -> Result<Batch, BrokerError> {
        let name = name.to_owned();
        let batch = self.store.broker(move |broker, sql, moment| broker.take(sql, moment, &name, take)).await?;
        report(&batch.gone);
        Ok(batch)
    }

    /// Acknowledges and retries messages.
    ///
    /// # Errors
    /// As [`settle`](jadpo_core::broker::Broker::settle).
    pub async fn settle(&self, name: &str, settle: Settle) -> Result<Settled, BrokerError> {
        let name = name.to_owned();
        let settled = self.store.broker(move |broker, sql, moment| broker.settle(sql, moment, &name, &settle)).await?;
        report(&settled.gone);
        Ok(settled)
    }

    /// Looks at messages and takes none.
    ///
    /// # Errors
    /// As [`peek`](jadpo_core::broker::Broker::peek).
    pub async fn peek(&self, name: &str, max: usize) -> Result<Vec<Peeked>, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, moment| broker.peek(sql, moment, &name, max)).await
    }

    /// A queue's figures.
    ///
    /// # Errors
    /// As [`metrics`](jadpo_core::broker::Broker::metrics).
    pub async fn metrics(&self, name: &str) -> Result<Metrics, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, _| broker.metrics(sql, &name)).await
    }

    /// When there is something to take from a queue.
    ///
    /// # Errors
    /// As [`wake`](jadpo_core::broker::Broker::wake).
    pub async fn wake(&self, name: &str) -> Result<Wake, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, moment| broker.wake(sql, moment, &name)).await
    }

    /// Changes whenever something was written, which may have made a message ready. A consumer that waits looks at
    /// [`wake`](Self::wake) again when it does, or when the time has come that `wake` told.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.store.changes()
    }

    /// Does one slice of what time does to the queues.
    ///
    /// # Errors
    /// As [`sweep`](jadpo_core::broker::Broker::sweep).
    pub async fn sweep(&self) -> Result<Swept, BrokerError> {
        let swept = self.store.broker(|broker, sql, moment| broker.sweep(sql, moment)).await?;
        report(&swept.gone);
        Ok(swept)
    }

    /// Sweeps for as long as it is polled.
    pub async fn keep_swept(&self) {
        loop {
            let more = match self.sweep().await {
                Ok(swept) => swept.more,
                Err(error) => {
                    write_log(Level::Warn, "queues.not_swept", vec![("error", error.to_string().into())]);
                    false
                }
            };
            if more {
                // Whoever waits for the writer goes first.
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(SWEEP_EVERY).await;
            }
        }
    }

    fn producer_place(&self, name: &str) -> Result<ProducerPlace, BrokerError> {
        let mut producers = self.producers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = match producers.get_mut(name) {
            Some(count) => count,
            None => producers.entry(name.to_owned()).or_default(),
        };
        if *count >= PRODUCERS_MAX {
            let why = format!("{PRODUCERS_MAX} calls send to the queue `{name}` already");
            return Err(BrokerError::Overloaded(why));
        }
        *count += 1;
        Ok(ProducerPlace { producers: self.producers.clone(), name: name.to_owned() })
    }
}

/// One of the calls that send to a queue at a time.
struct ProducerPlace {
    producers: Arc<Mutex<BTreeMap<String, usize>>>,
    name: String,
}

impl Drop for ProducerPlace {
    fn drop(&mut self) {
        let mut producers = self.producers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = producers.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                producers.remove(&self.name);
            }
        }
    }
}

/// Says in the log what left its queue without an ack. Expired messages are counted, since they may be many.
fn report(gone: &[Gone]) {
    let mut expired: BTreeMap<&str, u64> = BTreeMap::new();
    for one in gone {
        let mut fields = vec![
            ("queue", one.queue.as_str().into()),
            ("message", one.id.to_string().into()),
            ("attempts", one.attempts.into()),
        ];
        match &one.how {
            How::DeadLettered(to) => {
                fields.push(("dead_letter_queue", to.as_str().into()));
                write_log(Level::Warn, "queue.dead_lettered", fields);
            }
            How::Dropped => write_log(Level::Error, "queue.dropped", fields),
            How::Expired => *expired.entry(&one.queue).or_default() += 1,
        }
    }
    for (queue, count) in expired {
        write_log(Level::Warn, "queue.expired", vec![("queue", queue.into()), ("messages", json!(count))]);
    }
}

fn write_log(level: Level, event: &'static str, fields: Vec<(&'static str, serde_json::Value)>) {
    log::write(&LogEntry { level, event, fields });
}
