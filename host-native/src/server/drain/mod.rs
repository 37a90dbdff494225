//! The drain: one dispatcher takes what is due from every queue that somebody here handles, and sees it handled.
//!
//! It takes no more than can be begun at once, so nothing waits under a lease for its turn. What ends goes to the
//! settler, which settles in groups. Two drains on one store never get the same message: a lease sees to that.

mod attempt;
mod events;
mod lane;
mod settle;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use jadpo_core::broker::{BrokerError, Settle, Take, Taken, Wake};
use jadpo_core::host::Level;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, timeout};

use super::Shared;
pub(super) use attempt::{Attempted, attempt};
use lane::Work;
pub(super) use lane::{Lane, lanes};
use settle::Ended;

/// How long the drain looks away at most: another process may have written to the store, and nobody tells.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// The pause before a queue is looked at again that said it had something and gave nothing: it is paused, for one.
const PAUSE: Duration = Duration::from_millis(100);
/// A round looks at every queue that somebody is free for, and whatever is written begins another: of so many queues
/// one more millisecond passes between two rounds, so that looking never takes the writer's time.
const QUEUES_PER_MS: u64 = 20;
/// The pause after the store failed.
const PAUSE_FAILED: Duration = Duration::from_secs(1);
/// How long what is broken off may take to say so.
const CUT_MAX: Duration = Duration::from_secs(1);
/// Ended messages that wait to be settled. Past it, whoever ends waits too.
const ENDED_MAX: usize = 1_024;

/// When messages are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// What is due at a tick is delivered at that tick.
    Ticks(Duration),
    /// As soon as it is due.
    AsItArrives,
}

/// Delivers until told to stop; then takes nothing more and lets what runs end, for the server's grace at most.
pub(super) async fn run(shared: Shared, lanes: Vec<Lane>, pace: Pace, mut stopped: watch::Receiver<bool>) {
    let (ended, endings) = mpsc::channel(ENDED_MAX);
    let settler = tokio::spawn(settle::run(shared.clone(), endings));
    let allowance = matches!(pace, Pace::Ticks(_)).then_some(0);
    let seat = |lane| Seat { lane: Arc::new(lane), allowance, not_before: Instant::now() };
    let (cut, _) = watch::channel(false);
    let seats = lanes.into_iter().map(seat).collect();
    let mut drain = Drain { shared, seats, ended, freed: Arc::default(), under_way: JoinSet::new(), cut };
    drain.until_stopped(pace, &mut stopped).await;
    drain.finish().await;
    // It only ends early by a panic, which has said why on standard error.
    let _ = settler.await;
}

struct Drain {
    shared: Shared,
    seats: Vec<Seat>,
    ended: mpsc::Sender<Ended>,
    /// Told whenever somebody is free again.
    freed: Arc<Notify>,
    /// What was begun; each says whether it is left to its lease.
    under_way: JoinSet<bool>,
    /// Tells whatever runs yet that it is broken off.
    cut: watch::Sender<bool>,
}

/// A lane, and what the dispatcher knows of it.
struct Seat {
    lane: Arc<Lane>,
    /// Messages that it may still take, where ticks say how many.
    allowance: Option<u64>,
    /// It is not looked at before this.
    not_before: Instant,
}

/// What is begun at once.
enum Run {
    Message(Taken),
    Batch(Vec<Taken>),
}

impl Seat {
    /// How many messages it may take and begin now.
    fn room(&self) -> usize {
        let allowed = self.allowance.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        self.lane.room().min(allowed)
    }

    /// It is not looked at before this.
    fn not_before(&self) -> Instant {
        self.lane.rests_until().map_or(self.not_before, |until| until.max(self.not_before))
    }
}

impl Drain {
    async fn until_stopped(&mut self, pace: Pace, stopped: &mut watch::Receiver<bool>) {
        let freed = self.freed.clone();
        let mut changes = self.shared.own.changes();
        let mut ticks = match pace {
            Pace::Ticks(every) => Some(clock(every)),
            Pace::AsItArrives => None,
        };
        let between = Duration::from_millis(self.seats.len() as u64 / QUEUES_PER_MS);
        let mut pause = Duration::ZERO;
        while !*stopped.borrow() {
            tokio::select! {
                _ = stopped.changed() => break,
                () = tick(ticks.as_mut()) => self.allow().await,
                () = freed.notified() => {}
                Ok(()) = changes.changed(), if pace == Pace::AsItArrives => {}
                () = sleep(pause) => {}
            }
            while self.under_way.try_join_next().is_some() {}
            pause = self.round(stopped).await;
            if !between.is_zero() {
                sleep(between).await;
            }
        }
    }

    /// A tick: what is due now may be taken. What an earlier tick left is due still.
    async fn allow(&mut self) {
        let names: Vec<String> = self.seats.iter().map(|seat| seat.lane.queue().to_owned()).collect();
        let Some(wakes) = self.wakes(&names).await else { return };
        for seat in &mut self.seats {
            seat.allowance = Some(wakes.get(seat.lane.queue()).map_or(0, |wake| wake.ready));
        }
    }

    /// Takes from every queue that has something and that somebody is free for. Answers how long there is nothing to
    /// do if nothing happens.
    async fn round(&mut self, stopped: &watch::Receiver<bool>) -> Duration {
        let now = Instant::now();
        let may = |seat: &&Seat| seat.room() > 0 && seat.not_before() <= now;
        let names: Vec<String> = self.seats.iter().filter(may).map(|seat| seat.lane.queue().to_owned()).collect();
        if names.is_empty() {
            return self.seats.iter().fold(LOOK_AGAIN, |pause, seat| {
                match seat.not_before().checked_duration_since(now) {
                    Some(until) if !until.is_zero() => pause.min(until),
                    _ => pause,
                }
            });
        }
        let Some(wakes) = self.wakes(&names).await else { return PAUSE_FAILED };
        let mut pause = LOOK_AGAIN;
        let mut takes = Vec::new();
        for (index, seat) in self.seats.iter().enumerate() {
            match wakes.get(seat.lane.queue()) {
                Some(wake) if wake.ready > 0 || wake.next_in_ms == Some(0) => takes.push(self.take(index, seat)),
                Some(Wake { next_in_ms: Some(ms), .. }) => pause = pause.min(Duration::from_millis(*ms)),
                _ => {}
            }
        }
        for (index, taken) in join_all(takes).await {
            match taken {
                Ok(taken) if *stopped.borrow() => self.release(index, taken).await,
                Ok(taken) => pause = pause.min(self.start(index, taken)),
                Err(until) => {
                    self.rest(index, until);
                    pause = pause.min(until);
                }
            }
        }
        pause
    }

    /// When there is something to take from each queue; nothing of one whose trigger is disabled. `None` if the store
    /// does not say.
    async fn wakes(&self, names: &[String]) -> Option<BTreeMap<String, Wake>> {
        match self.shared.own.wakes(names).await {
            Ok(wakes) => Some(wakes.into_iter().collect()),
            Err(error) => {
                self.shared.log(Level::Error, "drain.not_looked", vec![("error", error.to_string().into())]);
                None
            }
        }
    }

    /// What was taken, or how long there is nothing to be taken.
    async fn take(&self, index: usize, seat: &Seat) -> (usize, Result<Vec<Taken>, Duration>) {
        let take = Take { max: seat.room(), visibility_ms: Some(seat.lane.declared.lease_ms()) };
        let taken = match self.shared.own.take(seat.lane.queue(), take).await {
            Ok(batch) if batch.messages.is_empty() => Err(PAUSE),
            Ok(batch) => Ok(batch.messages),
            Err(BrokerError::Paused(_)) => Err(PAUSE),
            Err(error) => {
                let fields = vec![("queue", seat.lane.queue().into()), ("error", error.to_string().into())];
                self.shared.log(Level::Error, "drain.not_taken", fields);
                Err(PAUSE_FAILED)
            }
        };
        (index, taken)
    }

    /// Begins what was taken. Answers when to look at the queue again.
    fn start(&mut self, index: usize, taken: Vec<Taken>) -> Duration {
        let Some(seat) = self.seats.get_mut(index) else { return LOOK_AGAIN };
        seat.allowance = seat.allowance.map(|left| left.saturating_sub(taken.len() as u64));
        let (shared, lane) = (&self.shared, &seat.lane);
        let taken_at = Instant::now();
        let run = |work: Run| {
            let (shared, lane, ended, freed) = (shared.clone(), lane.clone(), self.ended.clone(), self.freed.clone());
            let (place, cut) = (lane.place(), self.cut.subscribe());
            async move {
                let is_left = match work {
                    Run::Message(taken) => settle::handle(&shared, lane, taken, taken_at, &ended, cut).await,
                    Run::Batch(taken) => {
                        events::handle(&shared, &lane, taken, &ended).await;
                        false
                    }
                };
                drop(place);
                freed.notify_one();
                is_left
            }
        };
        match lane.work {
            Work::Functions => taken.into_iter().for_each(|one| drop(self.under_way.spawn(run(Run::Message(one))))),
            Work::Events => drop(self.under_way.spawn(run(Run::Batch(taken)))),
        }
        if seat.room() > 0 { Duration::ZERO } else { LOOK_AGAIN }
    }

    /// There is nothing to be taken from a queue for a while.
    fn rest(&mut self, index: usize, until: Duration) {
        if let Some(seat) = self.seats.get_mut(index) {
            seat.not_before = Instant::now() + until;
        }
    }

    /// Gives back what was taken while the server was told to stop.
    async fn release(&self, index: usize, taken: Vec<Taken>) {
        let Some(seat) = self.seats.get(index) else { return };
        let releases: Vec<_> = taken.iter().map(|taken| taken.lease).collect();
        let settle = Settle { releases, ..Settle::default() };
        let count = taken.len();
        let released = self.shared.own.settle(seat.lane.queue(), settle).await;
        let mut fields = vec![("queue", seat.lane.queue().into()), ("messages", count.into())];
        match released {
            Ok(_) => self.shared.log(Level::Info, "drain.released", fields),
            Err(error) => {
                fields.push(("error", error.to_string().into()));
                self.shared.log(Level::Error, "drain.not_released", fields);
            }
        }
    }

    /// Waits for what runs. What runs on past the grace is broken off: the messages of killed programs are given back,
    /// and the rest is left to its leases.
    async fn finish(mut self) {
        let grace = self.shared.options.grace;
        if self.ended_within(grace, &mut 0).await {
            return;
        }
        let (running, mut left) = (self.under_way.len(), 0);
        let _ = self.cut.send(true);
        if !self.ended_within(CUT_MAX, &mut left).await {
            left += self.under_way.len();
            self.under_way.abort_all();
        }
        let fields = |count: usize| vec![("running", count.into()), ("grace_ms", grace.as_millis().to_string().into())];
        if left > 0 {
            self.shared.log(Level::Warn, "drain.left_to_leases", fields(left));
        }
        if running > left {
            self.shared.log(Level::Warn, "drain.given_back", fields(running - left));
        }
    }

    /// Whether all that runs ends within a time, and how many of it are left to their leases.
    async fn ended_within(&mut self, time: Duration, left: &mut usize) -> bool {
        let all = async {
            while let Some(ended) = self.under_way.join_next().await {
                *left += usize::from(ended.unwrap_or(true));
            }
        };
        timeout(time, all).await.is_ok()
    }
}

fn clock(every: Duration) -> Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick of an interval is at once; a queue's comes when its time has passed.
    ticks.reset();
    ticks
}

async fn tick(ticks: Option<&mut Interval>) {
    match ticks {
        Some(ticks) => drop(ticks.tick().await),
        None => std::future::pending().await,
    }
}
