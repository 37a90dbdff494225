//! What must be true of the queues: a model that is too simple to be wrong, told of each operation once it has
//! committed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jadpo_core::broker::{
    Batch, Content, Gone, How, Lease, Message, MessageId, NewMessage, Retaken, Retry, Settle, Settled, Taken, Wake,
};
use jadpo_core::trigger::Conclusion;

use super::place::Place;
use super::store::Database;
use super::trace::{self, Short};

/// The broker's time and age at an operation, in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    pub(super) now_ms: i64,
    pub(super) age_ms: i64,
}

/// What is known of a message.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) queue: String,
    body: Vec<u8>,
    content: Content,
    meta: Option<String>,
    attempts: u32,
    /// Leases given in this queue, the last one last, with the time at which they end.
    leases: Vec<(Lease, i64)>,
    /// It is not handed over before.
    visible_ms: i64,
    progress: Option<String>,
    dead_progress: Option<String>,
    /// The queue that it died in.
    died_in: Option<String>,
    from_age_ms: i64,
    gone: bool,
    /// Gone under a lease that was not the last: whoever holds the last may still settle it.
    late: bool,
}

/// The model.
#[derive(Default)]
pub(super) struct Model {
    pub(super) messages: BTreeMap<MessageId, Known>,
    /// What was sent under which key.
    pub(super) once: BTreeMap<String, MessageId>,
    pub(super) occurrences: BTreeMap<String, i64>,
    /// Retries that each queue allows, its dead-letter queue, and whether either was ever different.
    pub(super) settings: BTreeMap<String, (u32, Option<String>)>,
    pub(super) changed: BTreeSet<String>,
    /// Queues that are paused, and those whose triggers are disabled.
    pub(super) paused: BTreeSet<String>,
    pub(super) disabled: BTreeSet<String>,
    functions_done: BTreeMap<MessageId, BTreeSet<String>>,
    pub(super) retention_ms: i64,
    /// The latest time that any broker told. A server that follows one that was killed may be behind it by as long as
    /// clocks are not written down; what has passed by then has passed.
    pub(super) latest_ms: i64,
    /// What was sent and acknowledged since somebody looked last: queue, id, body.
    pub(super) fresh: Vec<(String, MessageId, Vec<u8>)>,
    pub(super) acked: Vec<(String, MessageId)>,
    pub(super) count: Count,
    problem: Option<String>,
}

/// What happened how often.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) sent: u64,
    pub(super) acked: u64,
    pub(super) dead: u64,
    pub(super) expired: u64,
    pub(super) put_back: u64,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, body, attempts, leases, visible_ms, progress, died_in, gone, .. } = self;
        let until_ms = leases.last().map(|(_, until_ms)| until_ms);
        write!(f, "{} in {queue}, {attempts} attempts", String::from_utf8_lossy(body))?;
        write!(f, ", leased until {until_ms:?}, hidden until {visible_ms}, done of it {progress:?}")?;
        write!(f, ", died in {died_in:?}{}", if *gone { ", gone" } else { "" })
    }
}

impl Known {
    fn new(queue: &str, message: &NewMessage, visible_ms: i64, from_age_ms: i64) -> Self {
        Self {
            queue: queue.to_owned(),
            body: message.body.clone(),
            content: message.content,
            meta: message.meta.clone(),
            attempts: 0,
            leases: Vec::new(),
            visible_ms,
            progress: None,
            dead_progress: None,
            died_in: None,
            from_age_ms,
            gone: false,
            late: false,
        }
    }

    /// The same message where it begins anew.
    fn anew(&self, queue: &str, from_age_ms: i64) -> Self {
        let (content, body, meta) = (self.content, self.body.clone(), self.meta.clone());
        Self::new(queue, &NewMessage { content, body, delay_s: None, meta }, 0, from_age_ms)
    }

    fn is_held(&self, now_ms: i64) -> bool {
        self.leases.last().is_some_and(|(_, until_ms)| *until_ms > now_ms)
    }

    fn holds(&self, lease: &Lease, now_ms: i64) -> bool {
        self.is_held(now_ms) && self.leases.last().is_some_and(|(last, _)| last == lease)
    }

    fn had(&self, lease: &Lease) -> bool {
        self.leases.iter().any(|(had, _)| had == lease)
    }

    pub(super) fn is_there(&self) -> bool {
        !self.gone
    }
}

impl Model {
    pub(super) fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.problem.is_none() {
            self.problem = Some(what());
        }
    }

    /// The first thing that was not as it must be.
    pub(super) fn problem(&mut self) -> Option<String> {
        self.problem.take()
    }

    pub(super) fn sent(&mut self, queue: &str, id: MessageId, message: &NewMessage, delay_s: u32, times: Times) {
        self.count.sent += 1;
        trace::note(|| {
            let after = if delay_s > 0 { format!(", after {delay_s} s") } else { String::new() };
            format!("sent to {queue}: {} {}{after}", Short(&id), String::from_utf8_lossy(&message.body))
        });
        let visible_ms = if delay_s == 0 { 0 } else { times.now_ms + i64::from(delay_s) * 1_000 };
        self.fresh.push((queue.to_owned(), id, message.body.clone()));
        let known = Known::new(queue, message, visible_ms, times.age_ms);
        let before = self.messages.insert(id, known);
        self.must(before.is_none(), || format!("the id {id} was given twice"));
    }

    /// A key was sent under: `sent` says whether that made a message.
    pub(super) fn sent_once(&mut self, key: &str, id: MessageId, sent: bool) {
        trace::note(|| format!("key {key}: {} {}", if sent { "sent as" } else { "is known as" }, Short(&id)));
        match self.once.get(key).copied() {
            Some(first) => self.must(!sent && first == id, || format!("key {key}: {id} after {first}")),
            None => {
                self.must(sent, || format!("key {key} is a repeat, and nothing was sent under it"));
                self.once.insert(key.to_owned(), id);
            }
        }
    }

    pub(super) fn occurred(&mut self, schedule: &str, at_ms: i64, happened: bool) {
        trace::note(|| format!("{schedule} at {at_ms}: {}", if happened { "occurs" } else { "has occurred" }));
        let last = self.occurrences.get(schedule).copied();
        self.must(happened == (last < Some(at_ms)), || format!("{schedule} at {at_ms}: {happened} after {last:?}"));
        if happened {
            self.occurrences.insert(schedule.to_owned(), at_ms);
        }
    }

    pub(super) fn took(&mut self, queue: &str, batch: &Batch, lease_ms: i64, times: Times) {
        self.must(!self.paused.contains(queue), || format!("{queue} is taken from, and it is paused"));
        self.left(&batch.gone, times);
        for taken in &batch.messages {
            let from_age_ms = self.messages.get(&taken.message.id).map_or(times.age_ms, |known| known.from_age_ms);
            let kept_ms = times.age_ms - from_age_ms;
            self.must(kept_ms < self.retention_ms, || {
                format!("{} is taken from {queue} after {kept_ms} ms, and should have expired", taken.message.id)
            });
            self.took_one(queue, taken, lease_ms, times);
        }
    }

    pub(super) fn took_one(&mut self, queue: &str, taken: &Taken, lease_ms: i64, times: Times) {
        let message = &taken.message;
        let id = message.id;
        trace::note(|| format!("taken from {queue}: {} (attempt {}) for {lease_ms} ms", Short(&id), message.attempts));
        let retries = self.settings.get(queue).map_or(u32::MAX, |(retries, _)| *retries);
        let latest_ms = self.latest_ms.max(times.now_ms);
        let changed = self.changed.contains(queue);
        let Some(known) = self.messages.get_mut(&id) else {
            return self.must(false, || format!("{id} was taken from {queue}, and nobody sent it"));
        };
        let before = known.clone();
        known.attempts = message.attempts;
        known.leases.push((taken.lease, times.now_ms + lease_ms));
        self.must(!before.gone, || format!("{id} was done and is taken again"));
        self.must(before.queue == queue, || format!("{id} is taken from {queue}, and was in {}", before.queue));
        let attempts = before.attempts + 1;
        self.must(message.attempts == attempts, || {
            format!("{id}: attempt {} after {}", message.attempts, before.attempts)
        });
        self.must(changed || attempts <= retries.saturating_add(1), || {
            format!("{id}: attempt {attempts}, and {queue} allows {retries} retries")
        });
        self.must(!before.is_held(latest_ms), || format!("{id} is taken from {queue} and has a holder"));
        self.must(before.visible_ms <= latest_ms, || format!("{id} is taken before its delay has passed"));
        self.must(message.progress == before.progress, || {
            format!("{id}: done of it is {:?}, and not {:?}", before.progress, message.progress)
        });
        self.must((message.content, &message.meta) == (before.content, &before.meta), || {
            let sent = (before.content, &before.meta);
            format!("{id} was sent as {sent:?} and is taken as {:?}", (message.content, &message.meta))
        });
        self.must(message.body == before.body, || {
            let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
            format!("{id} was sent as {} and is taken as {}", text(&before.body), text(&message.body))
        });
    }

    /// Which message a lease was given for.
    fn of(&self, lease: &Lease) -> Option<MessageId> {
        self.messages.iter().find(|(_, known)| known.had(lease)).map(|(id, _)| *id)
    }

    pub(super) fn settled(&mut self, queue: &str, settle: &Settle, settled: &Settled, delay_s: u32, times: Times) {
        trace::note(|| {
            let of = |leases: &mut dyn Iterator<Item = &Lease>| trace::all(leases.filter_map(|lease| self.of(lease)));
            let acks = of(&mut settle.acks.iter());
            let retries = of(&mut settle.retries.iter().map(|retry| &retry.lease));
            format!(
                "settled in {queue}: done [{acks}], again [{retries}], released [{}]",
                of(&mut settle.releases.iter())
            )
        });
        let (mut acked, mut retried, mut released) = (0, 0, 0);
        // Two leases of one message may each take away a part of what there is of it.
        let leases = settle.acks.iter().chain(settle.retries.iter().map(|retry| &retry.lease)).chain(&settle.releases);
        let named: Vec<MessageId> = leases.filter_map(|lease| self.of(lease)).collect();
        let mut unclear = named.iter().collect::<BTreeSet<_>>().len() < named.len();
        for lease in &settle.acks {
            let Some(id) = self.of(lease) else { continue };
            let Some(known) = self.messages.get_mut(&id) else { continue };
            unclear |= known.late;
            if !known.gone {
                let held = known.holds(lease, times.now_ms);
                (known.gone, known.late) = (true, !held);
                acked += 1;
                self.count.acked += 1;
                self.acked.push((queue.to_owned(), id));
            }
        }
        for retry in &settle.retries {
            let Some(id) = self.of(&retry.lease) else { continue };
            let Some(known) = self.messages.get_mut(&id) else { continue };
            unclear |= known.late;
            if !known.gone && known.holds(&retry.lease, times.now_ms) {
                let delay_ms = retry.delay_ms.map_or(i64::from(delay_s) * 1_000, i64::from);
                known.retried(retry, times.now_ms, delay_ms);
                retried += 1;
            }
        }
        for lease in &settle.releases {
            let Some(id) = self.of(lease) else { continue };
            let Some(known) = self.messages.get_mut(&id) else { continue };
            unclear |= known.late;
            if !known.gone && known.holds(lease, times.now_ms) {
                // It is over, and an ack that names it later counts all the same.
                if let Some((_, until_ms)) = known.leases.last_mut() {
                    *until_ms = times.now_ms;
                }
                known.attempts -= 1;
                known.visible_ms = 0;
                released += 1;
            }
        }
        let counts = (settled.acked, settled.retried, settled.released);
        self.must(unclear || counts == (acked, retried, released), || {
            format!("{queue}: {counts:?} settled, in place of {:?}: {settle:?}", (acked, retried, released))
        });
        self.left(&settled.gone, times);
    }

    pub(super) fn retook(&mut self, queue: &str, retry: &Retry, retaken: &Retaken, lease_ms: i64, times: Times) {
        let Some(id) = self.of(&retry.lease) else { return };
        let Some(known) = self.messages.get_mut(&id) else { return };
        let held = !known.gone && known.holds(&retry.lease, times.now_ms);
        let unclear = known.late;
        if held {
            known.retried(retry, times.now_ms, 0);
        }
        self.must(unclear || held != matches!(retaken, Retaken::Lost(_)), || {
            let what = if held { "was refused, and its lease holds" } else { "counted, and its lease has ended" };
            format!("{id}: a retry at once {what}")
        });
        match retaken {
            Retaken::Lost(_) => {}
            Retaken::Gone(gone) => self.left(std::slice::from_ref(gone), times),
            Retaken::Taken(taken) => self.took_one(queue, taken, lease_ms, times),
        }
    }

    pub(super) fn left(&mut self, gone: &[Gone], times: Times) {
        let latest_ms = self.latest_ms.max(times.now_ms);
        for one in gone {
            trace::note(|| format!("{} left {}: {:?}", Short(&one.id), one.queue, one.how));
            let settings = self.settings.get(&one.queue).cloned();
            let changed = self.changed.contains(&one.queue);
            let retention_ms = self.retention_ms;
            let Some(known) = self.messages.get_mut(&one.id) else {
                return self.must(false, || format!("{one:?} left, and nobody sent it"));
            };
            let before = known.clone();
            match &one.how {
                How::DeadLettered(to) => {
                    known.die(to, times.age_ms);
                    self.count.dead += 1;
                    let (retries, dead) = settings.unwrap_or_default();
                    self.must(dead.as_ref() == Some(to), || format!("{one:?}, and its letters go to {dead:?}"));
                    self.must(changed || before.attempts == retries + 1, || {
                        format!("{one:?}, and it may have {} attempts", retries + 1)
                    });
                }
                How::Dropped => {
                    known.gone = true;
                    self.must(settings.is_none_or(|(_, dead)| dead.is_none()), || format!("{one:?}"));
                }
                How::Expired => {
                    known.gone = true;
                    self.count.expired += 1;
                    let age_ms = times.age_ms - before.from_age_ms;
                    self.must(age_ms >= retention_ms, || format!("{one:?} after {age_ms} ms"));
                }
            }
            self.must(!before.gone && before.queue == one.queue, || format!("{one:?}, and it is {before:?}"));
            self.must(before.attempts == one.attempts, || format!("{one:?}, and it is {before:?}"));
            self.must(!before.is_held(latest_ms), || format!("{one:?}, and it has a holder"));
        }
    }

    /// An operator took out what was pointed at, wherever it stood, or it was there no more.
    pub(super) fn removed(&mut self, queue: &str, id: MessageId, removed: usize) {
        trace::note(|| format!("{} is removed from {queue}: {removed}", Short(&id)));
        if removed == 0 {
            return;
        }
        let Some(known) = self.messages.get_mut(&id) else {
            return self.must(false, || format!("{id} was removed from {queue}, and nobody sent it"));
        };
        let right = removed == 1 && !known.gone && known.queue == queue;
        (known.gone, known.late) = (true, true);
        self.must(right, || format!("{removed} of {id} were removed from {queue}"));
    }

    /// What a queue's drain is told of what there is to take.
    pub(super) fn woke(&mut self, queue: &str, wake: Wake) {
        let stopped = self.disabled.contains(queue) || self.paused.contains(queue);
        self.must(!stopped || wake.ready == 0, || format!("{queue} is stopped, and {wake:?} is to be taken"));
    }

    /// A function has done its part of a message.
    pub(super) fn function_done(&mut self, id: MessageId, function: &str) {
        self.functions_done.entry(id).or_default().insert(function.to_owned());
    }

    /// An attempt has been concluded: what is done is known, and a message is done when each of its functions is.
    pub(super) fn concluded(&mut self, message: &Message, functions: &[String], conclusion: &Conclusion) {
        let id = message.id;
        let progress = match conclusion {
            Conclusion::Done => {
                let done = self.functions_done.get(&id);
                let left = functions.iter().find(|name| !done.is_some_and(|done| done.contains(*name))).cloned();
                return self.must(left.is_none(), || format!("{id} is done, and {left:?} did not do it"));
            }
            Conclusion::Again { progress, .. } | Conclusion::NotStarted { progress, .. } => progress,
        };
        let known: BTreeSet<&str> = progress.iter().flat_map(|text| text.lines()).collect();
        let forgotten = message.progress.iter().flat_map(|text| text.lines()).find(|line| !known.contains(line));
        self.must(forgotten.is_none(), || format!("{id}: {forgotten:?} was done, and now only {known:?}"));
    }

    /// Everything in a queue is gone.
    pub(super) fn purged(&mut self, queue: &str) {
        trace::note(|| format!("{queue} is purged"));
        self.messages.values_mut().filter(|known| known.queue == queue).for_each(|known| known.gone = true);
    }

    /// A redrive did a slice of a queue: what is elsewhere now was put back. Answers how many.
    pub(super) fn redriven(&mut self, source: &str, database: &Database, times: Times) -> u64 {
        let mut moved = 0;
        let latest_ms = self.latest_ms.max(times.now_ms);
        for place in Place::all(database) {
            let Some(queue) = place.queue else { continue };
            let Some(known) = self.messages.get_mut(&place.id) else { continue };
            if known.queue == source && queue != source && !known.gone {
                let held = known.is_held(latest_ms);
                let home = known.died_in.as_deref() == Some(queue.as_str());
                let fresh = known.anew(&queue, times.age_ms);
                let progress = known.dead_progress.take().filter(|_| home);
                *known = Known { progress, ..fresh };
                moved += 1;
                trace::note(|| format!("{} is put back from {source} into {queue}", Short(&place.id)));
                self.must(!held, || format!("{} was put back, and it has a holder", place.id));
            }
        }
        self.count.put_back += moved;
        moved
    }

    /// Sent is waiting, leased, done, expired or dead, and nothing is in two of these.
    pub(super) fn check(&mut self, database: &Database) {
        let mut seen = BTreeSet::new();
        for place in Place::all(database) {
            let id = place.id;
            let Some(queue) = place.queue else {
                self.must(place.is_garbage, || {
                    format!("{id} is in contents that no queue has, and nobody clears away")
                });
                continue;
            };
            self.must(seen.insert(id), || format!("{id} is in two places"));
            let Some(known) = self.messages.get(&id) else {
                return self.must(false, || format!("{id} is in {queue}, and nobody sent it"));
            };
            let known = known.clone();
            self.must(!known.gone, || format!("{id} is done and in {queue} still"));
            self.must(known.queue == queue, || format!("{id} is in {queue}, and should be in {}", known.queue));
            self.must(known.attempts == place.attempts, || {
                format!("{id} has had {} attempts, and the store says {}", known.attempts, place.attempts)
            });
            self.must(!place.leased || !known.leases.is_empty(), || format!("{id} is leased, and nobody took it"));
        }
        let lost = self.messages.iter().find(|(id, known)| !known.gone && !seen.contains(id));
        if let Some((id, known)) = lost.map(|(id, known)| (*id, known.clone())) {
            self.must(false, || format!("{id} is lost: it was {known:?}"));
        }
        for (schedule, at_ms) in self.occurrences.clone() {
            let last = "SELECT last_occurrence FROM jadpo_triggers WHERE name = 'schedule:' || ?1";
            let last_ms = database.number(last, &[schedule.as_str().into()]);
            self.must(last_ms == Some(at_ms), || {
                format!("{schedule} occurred at {at_ms}, and {last_ms:?} is recorded")
            });
        }
        let alone = database.number(
            "SELECT count(*) FROM jadpo_queue_messages WHERE seq NOT IN (SELECT seq FROM jadpo_queue_due)",
            &[],
        );
        self.must(alone == Some(0), || "a body is there that nobody can take".to_owned());
    }
}

impl Known {
    fn retried(&mut self, retry: &Retry, now_ms: i64, delay_ms: i64) {
        if let Some((_, until_ms)) = self.leases.last_mut() {
            *until_ms = now_ms;
        }
        self.visible_ms = if delay_ms == 0 { 0 } else { now_ms + delay_ms };
        if retry.progress.is_some() {
            self.progress.clone_from(&retry.progress);
        }
    }

    fn die(&mut self, to: &str, age_ms: i64) {
        let from_age_ms = if self.died_in.is_none() { age_ms } else { self.from_age_ms };
        let fresh = self.anew(to, from_age_ms);
        *self = Self { died_in: Some(self.queue.clone()), dead_progress: self.progress.take(), ..fresh };
    }
}
