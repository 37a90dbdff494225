//! Who takes what is due for Workers, and begins it: one for all of their queues.
//!
//! A queue has so many seats as its concurrency says, which begins at one and follows how batches end. No batch is taken
//! that no seat is free for. What ends goes to the settler, so the next batch does not wait for the disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jadpo_core::host::Level;
use jadpo_core::push::{Asks, Concurrency, Consumed, Found, Handed, released};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::super::Shared;
use super::batch::{self, Way};
use super::settle::Ended;
use crate::workerd::Workerd;

/// How long it looks away at most: another process may have written to the store, and nobody tells.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// The pause before a queue is looked at again whose batch reached nobody.
const PAUSE: Duration = Duration::from_millis(250);
/// The pause after the store failed.
const PAUSE_FAILED: Duration = Duration::from_secs(1);
/// Batches of one queue that are taken at once.
const TAKEN_MAX: usize = 4;
/// Bytes of bodies in batches that run, past which no more are taken: what is taken at once comes on top.
const HELD_BYTES_MAX: usize = 64 << 20;

/// The pusher.
pub(super) struct Push {
    shared: Shared,
    workerd: Workerd,
    ended: mpsc::Sender<Ended>,
    consumed: watch::Receiver<Vec<Consumed>>,
    queues: BTreeMap<String, Queue>,
    under_way: JoinSet<Over>,
    /// Bytes of bodies in batches that run.
    held: Arc<AtomicUsize>,
    /// Rounds that there were: each begins with another queue, so that none is always the last.
    rounds: usize,
}

/// A batch's bytes among those that are held, until it is dropped.
struct Held {
    bytes: usize,
    of: Arc<AtomicUsize>,
}

impl Held {
    fn new(bytes: usize, of: &Arc<AtomicUsize>) -> Self {
        of.fetch_add(bytes, Ordering::Relaxed);
        Self { bytes, of: of.clone() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A queue that a Worker consumes.
struct Queue {
    consumed: Arc<Consumed>,
    concurrency: Concurrency,
    /// Each batch that runs holds one.
    running: Arc<()>,
    /// Messages that were ready yet when it was last looked at.
    ready: u64,
    /// It is not looked at before this.
    not_before: Instant,
}

/// A batch that is over.
struct Over {
    queue: String,
    way: Way,
}

impl Queue {
    fn new(consumed: Consumed) -> Self {
        let concurrency = Concurrency::new(consumed.settings.max_concurrency);
        let (running, not_before) = (Arc::default(), Instant::now());
        Self { consumed: Arc::new(consumed), concurrency, running, ready: 0, not_before }
    }

    /// Batches that may begin now.
    fn room(&self) -> usize {
        (self.concurrency.now() as usize).saturating_sub(Arc::strong_count(&self.running) - 1)
    }
}

impl Push {
    pub(super) fn new(
        shared: Shared,
        workerd: Workerd,
        ended: mpsc::Sender<Ended>,
        consumed: watch::Receiver<Vec<Consumed>>,
    ) -> Self {
        let (queues, under_way) = (BTreeMap::new(), JoinSet::new());
        Self { shared, workerd, ended, consumed, queues, under_way, held: Arc::default(), rounds: 0 }
    }

    /// Pushes until told to stop; then takes nothing more and lets what runs end.
    pub(super) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut changes = self.shared.own.changes();
        let mut pause = Duration::ZERO;
        self.read();
        while !*stopped.borrow() {
            tokio::select! {
                _ = stopped.changed() => break,
                Ok(()) = self.consumed.changed() => self.read(),
                Some(over) = self.under_way.join_next() => self.over(over.ok()),
                Ok(()) = changes.changed() => {}
                () = sleep(pause) => {}
            }
            while let Some(over) = self.under_way.try_join_next() {
                self.over(over.ok());
            }
            pause = self.round(&stopped).await;
        }
        self.finish().await;
    }

    /// What is consumed is this from now on. A queue that stays as it was keeps what is known of it.
    fn read(&mut self) {
        let consumed = self.consumed.borrow_and_update().clone();
        let mut before = std::mem::take(&mut self.queues);
        for one in consumed {
            let queue = match before.remove(&one.queue) {
                Some(known) if *known.consumed == one => known,
                // What runs of it counts still.
                Some(Queue { running, .. }) => Queue { running, ..Queue::new(one.clone()) },
                None => Queue::new(one.clone()),
            };
            self.queues.insert(one.queue, queue);
        }
    }

    /// A batch is over. One whose task was lost by a panic has said so on standard error.
    fn over(&mut self, over: Option<Over>) {
        let Some(Over { queue, way }) = over else { return };
        let Some(queue) = self.queues.get_mut(&queue) else { return };
        match way {
            Way::Well => queue.concurrency.ended(true, queue.ready > 0),
            Way::Failed => queue.concurrency.ended(false, queue.ready > 0),
            Way::ReachedNobody => queue.not_before = Instant::now() + PAUSE,
        }
    }

    /// Takes what is due and begins it. Answers how long there is nothing to do if nothing happens.
    async fn round(&mut self, stopped: &watch::Receiver<bool>) -> Duration {
        let now = Instant::now();
        let mut pause = LOOK_AGAIN;
        let mut asks = Vec::new();
        for (name, queue) in &self.queues {
            let wait = queue.not_before.saturating_duration_since(now);
            if !wait.is_zero() {
                pause = pause.min(wait);
            } else if queue.room() > 0 {
                let batches = queue.room().min(TAKEN_MAX);
                asks.push(Asks { queue: name.clone(), worker: queue.consumed.worker.clone(), batches });
            }
        }
        if asks.is_empty() || self.held.load(Ordering::Relaxed) >= HELD_BYTES_MAX {
            return pause;
        }
        self.rounds = self.rounds.wrapping_add(1);
        let first = self.rounds % asks.len();
        asks.rotate_left(first);
        let names: Vec<String> = asks.iter().map(|asks| asks.queue.clone()).collect();
        let found = match self.shared.own.take_for_workers(asks).await {
            Ok(found) => found,
            Err(error) => {
                self.shared.log(Level::Error, "worker.not_taken", vec![("error", error.to_string().into())]);
                return PAUSE_FAILED;
            }
        };
        for (name, found) in names.into_iter().zip(found) {
            if *stopped.borrow() {
                self.release(&name, found).await;
            } else {
                pause = pause.min(self.start(&name, found));
            }
        }
        pause
    }

    /// Begins what was taken. Answers when to look at the queue again.
    fn start(&mut self, name: &str, found: Found) -> Duration {
        let Some(queue) = self.queues.get_mut(name) else { return LOOK_AGAIN };
        if let Some(consumer) = &found.consumer {
            queue.concurrency.limit(consumer.max_concurrency);
        }
        queue.ready = found.ready;
        for Handed { taken, beside } in found.batches {
            let (shared, workerd, ended) = (self.shared.clone(), self.workerd.clone(), self.ended.clone());
            let (consumed, running) = (queue.consumed.clone(), queue.running.clone());
            let held = Held::new(taken.iter().map(|taken| taken.message.body.len()).sum(), &self.held);
            self.under_way.spawn(async move {
                let way = batch::hand(&shared, &workerd, &consumed, taken, &beside, &ended).await;
                drop((running, held));
                Over { queue: consumed.queue.clone(), way }
            });
        }
        match found.again_in_ms {
            Some(ms) if queue.room() > 0 => Duration::from_millis(ms),
            _ => LOOK_AGAIN,
        }
    }

    /// Gives back what was taken while the server was told to stop.
    async fn release(&self, name: &str, found: Found) {
        for Handed { taken, .. } in found.batches {
            // The settler outlives whoever sends to it.
            let _ = self.ended.send(Ended { queue: name.to_owned(), settle: released(&taken), line: None }).await;
        }
    }

    /// Waits for what runs. What runs on past the grace is left to its leases, which whoever begins next on this store
    /// ends.
    async fn finish(mut self) {
        let grace = self.shared.options.grace;
        let all = async { while self.under_way.join_next().await.is_some() {} };
        if timeout(grace, all).await.is_err() {
            let fields =
                vec![("batches", self.under_way.len().into()), ("grace_ms", grace.as_millis().to_string().into())];
            self.shared.log(Level::Warn, "worker.left_to_leases", fields);
        }
    }
}
