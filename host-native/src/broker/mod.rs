//! The queues of a store, for whoever serves them: the core's broker, run by the store's one writer.

mod api;
mod immediate;
mod keep;
mod producers;
mod push;
mod redrive;
mod report;
mod triggers;

use std::collections::BTreeMap;
use std::sync::Arc;

use jadpo_core::broker::Broker as Core;
use jadpo_core::broker::{
    Backlog, Batch, BrokerError, LeaseKey, MessageRef, Metrics, NewBatch, NewMessage, Once, Peek, Peeked, QueueInfo,
    Removed, Sent, SentOnce, Settings, Settle, Settled, Sql, Take, Wake,
};
use jadpo_core::trigger::Triggers;
use tokio::sync::watch;

use crate::store::Store;
pub use api::ApiPlace;
use producers::Producers;

/// Queues whose figures are read in one turn of the writer.
const METRICS_AT_ONCE: usize = 100;

/// A handle to the queues of one store. Clones share everything.
///
/// Every answer is given when what it says is on disk. A store that has too much to do says so at once, with
/// [`BrokerError::Store`] or [`BrokerError::Overloaded`], for both of which [`BrokerError::may_pass`] is true.
#[derive(Debug, Clone)]
pub struct Broker {
    store: Store,
    lease_key: LeaseKey,
    producers: Producers,
}

impl Broker {
    /// The queues of a store that was opened with [`OpenStore::create`](crate::store::OpenStore::create).
    ///
    /// # Errors
    /// [`BrokerError::Store`], for one if the store is behind this build.
    pub async fn open(store: Store) -> Result<Self, BrokerError> {
        let lease_key = store.broker(|broker, _, _| Ok(broker.lease_key())).await?;
        Ok(Self { store, lease_key, producers: Producers::default() })
    }

    /// The same queues for the server's own work: see [`Store::for_own_work`].
    #[must_use]
    pub fn for_own_work(&self) -> Self {
        Self { store: self.store.for_own_work(), ..self.clone() }
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
        self.store.broker(move |broker, sql, moment| broker.purge(sql, moment, &name)).await
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

    /// The declared queues that are not there, or not as they are declared.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub async fn strayed(&self, triggers: &Arc<Triggers>) -> Result<Vec<String>, BrokerError> {
        let triggers = triggers.clone();
        self.store.broker(move |broker, _, _| Ok(triggers.strayed(broker))).await
    }

    /// Sends messages, all of them or none.
    ///
    /// # Errors
    /// As [`send`](jadpo_core::broker::Broker::send); [`BrokerError::Overloaded`] if too many calls send to this queue
    /// already.
    pub async fn send(&self, name: &str, batch: NewBatch) -> Result<Sent, BrokerError> {
        batch.check()?;
        let _place = self.producers.place(name)?;
        self.store.send(name.to_owned(), batch).await
    }

    /// Sends a message, unless one was sent under this key before.
    ///
    /// # Errors
    /// As [`send_once`](jadpo_core::broker::Broker::send_once), and as [`send`](Self::send).
    pub async fn send_once(&self, name: &str, once: Once<'_>, message: NewMessage) -> Result<SentOnce, BrokerError> {
        let _place = self.producers.place(name)?;
        let (name, scope, key) = (name.to_owned(), once.scope.to_owned(), once.key.to_owned());
        let bytes = message.body.len();
        let send = move |broker: &mut Core, sql: &mut dyn Sql, moment| {
            broker.send_once(sql, moment, &name, Once { scope: &scope, key: &key }, &message)
        };
        self.store.broker_writing(bytes, send).await
    }

    /// Takes messages that are due.
    ///
    /// # Errors
    /// As [`take`](jadpo_core::broker::Broker::take).
    pub async fn take(&self, name: &str, take: Take) -> Result<Batch, BrokerError> {
        let name = name.to_owned();
        let batch = self.store.broker(move |broker, sql, moment| broker.take(sql, moment, &name, take)).await?;
        report::gone(&batch.gone);
        Ok(batch)
    }

    /// Acknowledges, retries and gives back messages.
    ///
    /// # Errors
    /// As [`settle`](jadpo_core::broker::Broker::settle).
    pub async fn settle(&self, name: &str, settle: Settle) -> Result<Settled, BrokerError> {
        let name = name.to_owned();
        // Acknowledgements make nothing ready.
        let is_quiet = |settled: &Settled| settled.retried == 0 && settled.released == 0;
        let settle = move |broker: &mut Core, sql: &mut dyn Sql, moment| broker.settle(sql, moment, &name, &settle);
        let settled = self.store.broker_quietly(is_quiet, settle).await?;
        report::gone(&settled.gone);
        Ok(settled)
    }

    /// Looks at messages and takes none.
    ///
    /// # Errors
    /// As [`peek`](jadpo_core::broker::Broker::peek).
    pub async fn peek(&self, name: &str, peek: Peek) -> Result<Vec<Peeked>, BrokerError> {
        let name = name.to_owned();
        self.store.broker(move |broker, sql, moment| broker.peek(sql, moment, &name, peek)).await
    }

    /// Removes messages, wherever they stand.
    ///
    /// # Errors
    /// As [`remove`](jadpo_core::broker::Broker::remove).
    pub async fn remove(&self, name: &str, references: &[MessageRef]) -> Result<Removed, BrokerError> {
        let (name, references) = (name.to_owned(), references.to_vec());
        self.store.broker(move |broker, sql, _| broker.remove(sql, &name, &references)).await
    }

    /// The figures of many queues, by name. Those that are not there are left out. Between a hundred and the next
    /// others have their turn.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub async fn metrics_of(&self, names: &[String]) -> Result<BTreeMap<String, Metrics>, BrokerError> {
        let mut all = BTreeMap::new();
        for names in names.chunks(METRICS_AT_ONCE) {
            let names = names.to_vec();
            let some = self.store.broker(move |broker, sql, _| {
                let figures = |name: &String| match broker.metrics(sql, name) {
                    Ok(metrics) => Some(Ok((name.clone(), metrics))),
                    Err(BrokerError::QueueNotFound(_)) => None,
                    Err(error) => Some(Err(error)),
                };
                names.iter().filter_map(figures).collect::<Result<Vec<_>, _>>()
            });
            all.extend(some.await?);
        }
        Ok(all)
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

    /// When there is something to take from each of these queues. Queues that are not there are left out.
    ///
    /// # Errors
    /// As [`wakes`](jadpo_core::broker::Broker::wakes).
    pub async fn wakes(&self, names: &[impl AsRef<str>]) -> Result<Vec<(String, Wake)>, BrokerError> {
        let names: Vec<String> = names.iter().map(|name| name.as_ref().to_owned()).collect();
        self.store.broker(move |broker, sql, moment| broker.wakes(sql, moment, &names)).await
    }

    /// Changes whenever something was written that may have made a message ready. A consumer that waits looks at
    /// [`wake`](Self::wake) again when it does, or when the time has come that `wake` told.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.store.changes()
    }
}
