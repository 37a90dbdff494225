//! Schedules: which occurrences are due, and the messages that they become. Times are UTC.
//!
//! The store remembers the last occurrence of each schedule, and an occurrence is recorded in the transaction that
//! sends its message. So each happens once, whatever restarts and whichever way the clock jumps: none is run that is
//! not later than the last. Of those that were missed while nothing ran, the latest is run and the others are counted.

use std::collections::BTreeMap;

use crate::broker::{Content, NewMessage, TriggerState, schedule_trigger};
use crate::cron::Cron;
use crate::inbound::rfc3339;
use crate::local;
use crate::program::{Function, Program, Target};
#[cfg(feature = "compile")]
use crate::push::cron_name;
use crate::trigger::written_body;
#[cfg(feature = "compile")]
use crate::workers::Worker;

/// Missed occurrences are counted up to here: a minute's schedule that was away for a year is counted in no time.
pub const MISSED_COUNTED_MAX: u32 = 1_000;

/// A schedule that was followed further ahead of now than this, in milliseconds, was so by a clock that was wrong: what
/// comes until then is not run, and somebody is to be told.
pub const AHEAD_MS: i64 = 60_000;

/// The schedules of a program.
#[derive(Debug, Clone)]
pub struct Schedules {
    schedules: BTreeMap<String, Schedule>,
}

#[derive(Debug, Clone)]
struct Schedule {
    cron: Cron,
    what: What,
}

/// What an occurrence is.
#[derive(Debug, Clone)]
enum What {
    /// A function is called, or a message is sent to where it says.
    Function(Function),
    /// A Worker's `scheduled` handler is called, with this expression.
    #[cfg(feature = "compile")]
    Scheduled { queue: String, cron: String },
}

/// What a tick does about schedules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Due {
    /// These happen now: each is recorded and its message sent in one transaction, by
    /// [`occur`](crate::broker::Broker::occur).
    pub occurrences: Vec<Occurrence>,
    /// These are recorded and nothing is sent, by [`pass`](crate::broker::Broker::pass): a schedule begins, or is
    /// disabled. Schedule and time.
    pub passed: Vec<(String, i64)>,
    /// Nothing happens for these though they are enabled: they were followed further than to now, by a clock that was
    /// ahead by more than [`AHEAD_MS`]. Schedule, and the time from which it goes on.
    pub ahead: Vec<(String, i64)>,
}

/// An occurrence that happens now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// The schedule: its function's name.
    pub schedule: String,
    /// When it was to be, in milliseconds since 1970.
    pub at_ms: i64,
    /// The queue that its message goes to.
    pub queue: String,
    /// Its message.
    pub message: NewMessage,
    /// Occurrences before it that were missed, counted up to [`MISSED_COUNTED_MAX`].
    pub missed: u32,
}

impl Schedules {
    /// The schedules of a program's functions. One that cannot be read, which no build writes, never happens.
    #[must_use]
    pub fn of(program: &Program) -> Self {
        let schedules = program.functions.iter().filter_map(|(name, function)| {
            let cron = Cron::parse(function.schedule.as_deref()?).ok()?;
            Some((name.clone(), Schedule { cron, what: What::Function(function.clone()) }))
        });
        Self { schedules: schedules.collect() }
    }

    /// The crons of Workers. One that cannot be read, which no Wrangler file that was read has, never happens.
    #[cfg(feature = "compile")]
    #[must_use]
    pub fn of_workers(workers: &[Worker]) -> Self {
        let schedules = workers.iter().flat_map(|worker| worker.crons.iter().map(move |cron| (worker, cron)));
        let schedules = schedules.filter_map(|(worker, text)| {
            let cron = Cron::parse_of_worker(text).ok()?;
            let what = What::Scheduled { queue: worker.cron_queue(), cron: text.clone() };
            Some((cron_name(&worker.name, text), Schedule { cron, what }))
        });
        Self { schedules: schedules.collect() }
    }

    /// The names of the functions that have one.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.schedules.keys().map(String::as_str)
    }

    /// What is due now, in milliseconds since 1970. `states` is what the store knows of triggers, by their names.
    #[must_use]
    pub fn due(&self, states: &BTreeMap<String, TriggerState>, now_ms: i64) -> Due {
        let mut due = Due::default();
        for (name, schedule) in &self.schedules {
            let state = states.get(&schedule_trigger(name));
            let enabled = state.is_none_or(|state| state.enabled);
            let Some(last_ms) = state.and_then(|state| state.last_occurrence_ms) else {
                // What was to be before anybody knew of the schedule is not missed.
                due.passed.push((name.clone(), now_ms));
                continue;
            };
            if enabled && let Some(next_ms) = silent_until(&schedule.cron, last_ms, now_ms) {
                due.ahead.push((name.clone(), next_ms));
            }
            let Some(at_ms) = schedule.cron.last_at(now_ms).filter(|at_ms| *at_ms > last_ms) else { continue };
            if enabled {
                due.occurrences.push(schedule.occurrence(name, at_ms, last_ms));
            } else {
                due.passed.push((name.clone(), at_ms));
            }
        }
        due
    }

    /// When the next occurrence of a schedule is, after a time; both in milliseconds since 1970.
    #[must_use]
    pub fn next_after(&self, schedule: &str, after_ms: i64) -> Option<i64> {
        self.schedules.get(schedule)?.cron.next_after(after_ms)
    }
}

/// When a schedule goes on that was followed up to `last_ms`, if it is passed over until then: that is ahead of now, and
/// a time of the schedule comes before. All in milliseconds since 1970.
#[must_use]
pub(crate) fn silent_until(cron: &Cron, last_ms: i64, now_ms: i64) -> Option<i64> {
    let passes_over = last_ms > now_ms + AHEAD_MS && cron.next_after(now_ms).is_some_and(|at_ms| at_ms <= last_ms);
    if passes_over { cron.next_after(last_ms) } else { None }
}

impl Schedule {
    fn occurrence(&self, name: &str, at_ms: i64, last_ms: i64) -> Occurrence {
        let (queue, (content, body)) = match &self.what {
            What::Function(function) => {
                let queue = match &function.target {
                    Target::Send(queue) => queue.clone(),
                    _ => local::queue_of_schedule(name),
                };
                let written = function.body.clone();
                (queue, written.map_or_else(|| (Content::Json, body(name, at_ms)), written_body))
            }
            #[cfg(feature = "compile")]
            What::Scheduled { queue, cron } => {
                let body = serde_json::json!({"cron": cron, "scheduledTime": at_ms}).to_string();
                (queue.clone(), (Content::Json, body.into_bytes()))
            }
        };
        let message = NewMessage { content, body, delay_s: None, meta: None };
        Occurrence { schedule: name.to_owned(), at_ms, queue, message, missed: self.between(last_ms, at_ms) }
    }

    /// How many occurrences there are between two times, without either.
    fn between(&self, after_ms: i64, before_ms: i64) -> u32 {
        let mut count = 0;
        let mut at_ms = after_ms;
        while count < MISSED_COUNTED_MAX {
            match self.cron.next_after(at_ms) {
                Some(next_ms) if next_ms < before_ms => (at_ms, count) = (next_ms, count + 1),
                _ => break,
            }
        }
        count
    }
}

fn body(name: &str, at_ms: i64) -> Vec<u8> {
    serde_json::json!({"schedule": name, "scheduled_at": rfc3339(at_ms)}).to_string().into_bytes()
}
