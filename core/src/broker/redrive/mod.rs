//! Putting dead letters back: a task in the store, done a slice at a time.
//!
//! A letter is gone from the dead-letter queue in the transaction that puts it back, so it is in one place at any
//! moment, and a task that is killed goes on where its last slice ended. Whatever died after the task began is not
//! moved, or a task could run for ever.

mod filter;
mod look;
mod step;
mod tasks;

use super::error::BrokerError;
use super::limits::{REDRIVE_IDS_MAX, REDRIVE_RATE_MAX, REDRIVE_TEXT_BYTES_MAX};
use super::types::{MessageId, Reason};
use super::{Broker, Queue};

pub use look::{RedriveLook, RedrivePreview};

/// How far apart slices are, at least, where the rate alone would make them small, in microseconds.
const PACE_US: i64 = 100_000;

/// What to put back, and where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Redrive {
    /// The queue whose dead letters they are, or the dead-letter queue itself: see
    /// [`Broker::dead_letter_queue_of`].
    pub source: String,
    /// The queue that they go to, if not each to the one that it died in.
    pub to: Option<String>,
    /// Which of them.
    pub filter: RedriveFilter,
    /// How many a second, if not as many as can be; 1 to 10,000.
    pub rate_per_s: Option<u32>,
}

/// Which letters to put back: those that everything holds for that is set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RedriveFilter {
    /// The queue that it died in.
    pub origin: Option<String>,
    /// What its last attempt ended with.
    pub reason: Option<Reason>,
    /// A text that is in what was said to be wrong, as it is written.
    pub error_contains: Option<String>,
    /// Its id is one of these; empty for any.
    pub ids: Vec<MessageId>,
    /// It died at this time or later, in milliseconds since 1970 by the broker's time.
    pub died_from_ms: Option<i64>,
    /// It died before this time.
    pub died_before_ms: Option<i64>,
    /// How many to put back, at most.
    pub limit: Option<u64>,
}

/// A redrive, running or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedriveTask {
    /// Its number.
    pub id: u64,
    /// What it is to do. The source is the queue of dead letters itself.
    pub redrive: Redrive,
    /// Whether it runs.
    pub state: RedriveState,
    /// When it was begun, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When it ended, in milliseconds since 1970.
    pub ended_at_ms: Option<i64>,
    /// How many messages the source held when it began.
    pub letters: u64,
    /// Letters put back.
    pub moved: u64,
    /// Letters that the filter holds for and that a consumer held when the task came by. They stay.
    pub skipped: u64,
    /// Letters that the filter holds for and that have nowhere to go: the queue that they died in is gone, or they
    /// never died. They stay.
    pub without_origin: u64,
    /// In how many milliseconds the next slice may be done; `None` when it has ended.
    pub next_in_ms: Option<u64>,
}

/// Whether a redrive runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedriveState {
    /// It is not done yet.
    Running,
    /// It has come to its end.
    Done,
    /// Somebody stopped it. What was put back stays there.
    Cancelled,
}

impl RedriveState {
    const ALL: [Self; 3] = [Self::Running, Self::Done, Self::Cancelled];

    /// Its name in the store and for operators.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Broker {
    /// The queue that holds a queue's dead letters: the one that its settings name. A queue that is another's
    /// dead-letter queue is meant itself, also if it has one of its own; so is a queue that has none.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`], naming the queue that is not there: one that nothing died into yet is none.
    pub fn dead_letter_queue_of(&self, name: &str) -> Result<String, BrokerError> {
        let own = |queue: &Queue| queue.info.settings.consumer.dead_letter_queue.clone();
        let is_one = self.queues.values().any(|queue| own(queue).as_deref() == Some(name));
        let dead = if is_one { None } else { self.queues.get(name).and_then(own) };
        let dead = dead.unwrap_or_else(|| name.to_owned());
        self.queue(&dead)?;
        Ok(dead)
    }

    /// Refuses what cannot be done, and answers it with its source's own name.
    fn checked(&self, redrive: &Redrive) -> Result<Redrive, BrokerError> {
        let too_long = |what, limit, actual| {
            if actual > limit { Err(BrokerError::TooLong { what, limit, actual }) } else { Ok(()) }
        };
        let filter = &redrive.filter;
        too_long("ids of letters", REDRIVE_IDS_MAX, filter.ids.len())?;
        for text in [&filter.error_contains, &filter.origin].into_iter().flatten() {
            too_long("bytes of a filter's text", REDRIVE_TEXT_BYTES_MAX, text.len())?;
        }
        if let Some(actual) = redrive.rate_per_s.filter(|rate| !(1..=REDRIVE_RATE_MAX).contains(rate)) {
            let (greatest, actual) = (REDRIVE_RATE_MAX.into(), actual.into());
            return Err(BrokerError::SettingInvalid { setting: "rate_per_s", least: 1, greatest, actual });
        }
        let source = self.dead_letter_queue_of(&redrive.source)?;
        if let Some(to) = &redrive.to {
            self.queue(to)?;
            if *to == source {
                return Err(BrokerError::RedriveOntoItself(source));
            }
        }
        Ok(Redrive { source, ..redrive.clone() })
    }
}
