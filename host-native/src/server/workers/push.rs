//! Who takes what is due for Workers, and begins it: one for all of their queues.
//!
//! A queue has so many seats as its concurrency says, which begins at one and follows how batches end. No batch is taken
//! that no seat is free for. What ends goes to the settler, so the next batch does not wait for the disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jadpo_core::broker::{MessageId, Metrics, Taken};
use jadpo_core::host::Level;
use jadpo_core::push::{Asks, Concurrency, Consumed, CutOff, Found, Handed, Next, Suspects, Turn, Verdict, released};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::super::Shared;
use super::batch::{self, CANCELED, Way, Why};
use super::settle::{Ended, UntilSettled};
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

/// How long what was called off at the end has to be told so: workerd may take two seconds to go.
const CALLED_OFF_MAX: Duration = Duration::from_secs(3);

/// The pusher.
pub(super) struct Push {
    shared: Shared,
    workerd: Workerd,
    ended: mpsc::Sender<Ended>,
    consumed: watch::Receiver<Vec<Consumed>>,
    queues: BTreeMap<String, Queue>,
    under_way: JoinSet<Over>,
    /// Who may have ended a workerd, and runs alone therefore.
    suspects: Suspects,
    /// Told when what was given back is settled.
    settled: Arc<Notify>,
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
    /// Batches that are given back and not settled yet: what comes behind them must not overtake them.
    given_back: Arc<AtomicUsize>,
    /// Messages that were ready yet when it was last looked at.
    ready: u64,
    /// It is not looked at before this.
    not_before: Instant,
}

/// A batch that is over.
struct Over {
    consumed: Arc<Consumed>,
    ids: Vec<MessageId>,
    started: Instant,
    way: Way,
    /// Its seat, which is free when what became of it is known.
    _running: Arc<()>,
}

impl Queue {
    fn new(consumed: Consumed) -> Self {
        let concurrency = Concurrency::new(consumed.settings.max_concurrency);
        let (running, given_back, not_before) = (Arc::default(), Arc::default(), Instant::now());
        Self { consumed: Arc::new(consumed), concurrency, running, given_back, ready: 0, not_before }
    }

    /// Batches that may begin now.
    fn room(&self) -> usize {
        if self.given_back.load(Ordering::Acquire) > 0 {
            return 0;
        }
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
        let (suspects, settled, held) = (Suspects::default(), Arc::default(), Arc::default());
        Self { shared, workerd, ended, consumed, queues, under_way, suspects, settled, held, rounds: 0 }
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
                Some(over) = self.under_way.join_next() => self.over(over.ok()).await,
                Ok(()) = changes.changed() => {}
                () = self.settled.notified() => {}
                () = sleep(pause) => {}
            }
            while let Some(over) = self.under_way.try_join_next() {
                self.over(over.ok()).await;
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
                Some(Queue { running, given_back, .. }) => Queue { running, given_back, ..Queue::new(one.clone()) },
                None => Queue::new(one.clone()),
            };
            self.queues.insert(one.queue, queue);
        }
    }

    /// A batch is over. One whose task was lost by a panic has said so on standard error.
    async fn over(&mut self, over: Option<Over>) {
        let Some(Over { consumed, ids, started, way, _running }) = over else { return self.suspects.called_off() };
        let name = consumed.queue.as_str();
        let (taken, why) = match way {
            Way::Well | Way::Failed => {
                self.suspects.ended(&ids);
                if let Some(queue) = self.queues.get_mut(name) {
                    queue.concurrency.ended(matches!(way, Way::Well), queue.ready > 0);
                }
                return;
            }
            Way::Unanswered(taken, why) => (taken, why),
        };
        let verdict = match why {
            Why::CutOff { outcome, error, in_company } => {
                self.suspects.cut_off(name, &taken, CutOff { outcome, why: &error, in_company })
            }
            Why::CalledOff(error) => {
                self.suspects.called_off();
                let (outcome, error) = (Some(CANCELED.to_owned()), Some(error));
                Verdict { settle: released(&taken), outcome, error, ..Verdict::default() }
            }
            Why::ReachedNobody(error) => {
                self.suspects.called_off();
                self.reached_nobody(&consumed, &taken, error);
                return self.give_back(name, &taken).await;
            }
        };
        self.settle(batch::settled(&consumed, verdict, &ids, started)).await;
    }

    fn reached_nobody(&mut self, consumed: &Consumed, taken: &[Taken], error: String) {
        let fields = vec![
            ("worker", consumed.worker.as_str().into()),
            ("queue", consumed.queue.as_str().into()),
            ("messages", taken.len().into()),
            ("error", error.into()),
        ];
        self.shared.log(Level::Warn, "worker.not_reached", fields);
        self.hold(&consumed.queue, PAUSE);
    }

    /// Gives back what was taken, without a word.
    async fn give_back(&self, name: &str, taken: &[Taken]) {
        let (queue, settle) = (name.to_owned(), released(taken));
        self.settle(Ended { queue, settle, line: None, until_settled: None }).await;
    }

    /// Has it settled, before anything else is taken of its queue.
    async fn settle(&self, ended: Ended) {
        let queue = self.queues.get(&ended.queue);
        let until_settled = queue.map(|queue| UntilSettled::new(&queue.given_back, &self.settled));
        // The settler outlives whoever sends to it.
        let _ = self.ended.send(Ended { until_settled, ..ended }).await;
    }

    /// Takes what is due and begins it. Answers how long there is nothing to do if nothing happens.
    async fn round(&mut self, stopped: &watch::Receiver<bool>) -> Duration {
        let turn = self.suspects.turn(self.under_way.len());
        let (mut asks, mut pause) = self.asks(&turn);
        if self.held.load(Ordering::Relaxed) >= HELD_BYTES_MAX {
            return pause;
        }
        if asks.is_empty() {
            // A queue that is to be tried alone and cannot be asked now is waited for, if it is there.
            let is_there = matches!(&turn, Turn::One(queue) if self.queues.contains_key(queue));
            return if is_there { pause } else { self.turned(&turn, 0, pause) };
        }
        self.rounds = self.rounds.wrapping_add(1);
        let first = self.rounds % asks.len();
        asks.rotate_left(first);
        let names: Vec<String> = asks.iter().map(|asks| asks.queue.clone()).collect();
        let found = match self.shared.own.take_for_workers(asks).await {
            Ok(found) => found,
            Err(error) => {
                self.shared.log(Level::Error, "worker.not_taken", vec![("error", error.to_string().into())]);
                // Whatever happens meanwhile: others write on, and each time would be another failure.
                for name in names {
                    self.hold(&name, PAUSE_FAILED);
                }
                return PAUSE_FAILED;
            }
        };
        let before = self.under_way.len();
        for (name, found) in names.into_iter().zip(found) {
            let is_stopping = *stopped.borrow();
            pause = pause.min(self.start(&name, found, &turn, is_stopping).await);
        }
        self.turned(&turn, self.under_way.len() - before, pause)
    }

    /// A turn is over in which so many batches were begun. Answers how long there is nothing to do.
    fn turned(&mut self, turn: &Turn, begun: usize, pause: Duration) -> Duration {
        self.suspects.turned(turn, begun);
        if *turn != Turn::Nobody && self.suspects.is_due(self.under_way.len()) { Duration::ZERO } else { pause }
    }

    /// A queue is not looked at for so long.
    fn hold(&mut self, name: &str, pause: Duration) {
        if let Some(queue) = self.queues.get_mut(name) {
            queue.not_before = Instant::now() + pause;
        }
    }

    /// What is asked for in this turn, and how long there is nothing to ask for.
    fn asks(&self, turn: &Turn) -> (Vec<Asks>, Duration) {
        let now = Instant::now();
        let (mut asks, mut pause) = (Vec::new(), LOOK_AGAIN);
        for (name, queue) in &self.queues {
            let most = match turn {
                Turn::Nobody => 0,
                Turn::One(one) => usize::from(one == name),
                Turn::All if self.suspects.waits(name) => 0,
                Turn::All => TAKEN_MAX,
            };
            let wait = queue.not_before.saturating_duration_since(now);
            let batches = queue.room().min(most);
            if batches > 0 && wait.is_zero() {
                asks.push(Asks { queue: name.clone(), worker: queue.consumed.worker.clone(), batches });
            } else if batches > 0 {
                pause = pause.min(wait);
            }
        }
        (asks, pause)
    }

    /// Begins what was taken. Answers when to look at the queue again.
    async fn start(&mut self, name: &str, found: Found, turn: &Turn, is_stopping: bool) -> Duration {
        let Some(queue) = self.queues.get_mut(name) else { return LOOK_AGAIN };
        if let Some(consumer) = &found.consumer {
            queue.concurrency.limit(consumer.max_concurrency);
        }
        queue.ready = found.ready;
        for Handed { taken, beside } in found.batches {
            if is_stopping || self.suspects.taken(turn, name, &taken) == Next::GiveBack {
                self.give_back(name, &taken).await;
            } else {
                self.begin(name, taken, beside);
            }
        }
        match found.again_in_ms {
            Some(ms) if self.queues.get(name).is_some_and(|queue| queue.room() > 0) => Duration::from_millis(ms),
            _ => LOOK_AGAIN,
        }
    }

    fn begin(&mut self, name: &str, taken: Vec<Taken>, beside: Metrics) {
        let Some(queue) = self.queues.get(name) else { return };
        let (shared, workerd, ended) = (self.shared.clone(), self.workerd.clone(), self.ended.clone());
        let (consumed, running) = (queue.consumed.clone(), queue.running.clone());
        let held = Held::new(taken.iter().map(|taken| taken.message.body.len()).sum(), &self.held);
        self.under_way.spawn(async move {
            let (ids, started) = (batch::ids(&taken), Instant::now());
            let way = batch::hand(&shared, &workerd, &consumed, taken, &beside, &ended).await;
            drop(held);
            Over { consumed, ids, started, way, _running: running }
        });
    }

    /// Waits for what runs. What runs on past the grace is called off and given back.
    async fn finish(mut self) {
        let grace = self.shared.options.grace;
        if timeout(grace, self.all_over()).await.is_ok() {
            return;
        }
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let why = "they run on; their messages are given back, and the attempt does not count";
        let fields = vec![("batches", self.under_way.len().into()), ("grace_ms", grace_ms.into()), ("why", why.into())];
        self.shared.log(Level::Warn, "worker.called_off", fields);
        self.workerd.end();
        if timeout(CALLED_OFF_MAX, self.all_over()).await.is_err() {
            self.shared.log(Level::Warn, "worker.left_to_leases", vec![("batches", self.under_way.len().into())]);
        }
    }

    async fn all_over(&mut self) {
        while let Some(over) = self.under_way.join_next().await {
            self.over(over.ok()).await;
        }
    }
}
