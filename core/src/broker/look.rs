//! Looking without taking.

use super::error::BrokerError;
use super::lease::MessageRef;
use super::limits::BATCH_COUNT_MAX;
use super::settings::ConsumerSettings;
use super::sql::Sql;
use super::take::{Found, found};
use super::triggers::queue_trigger;
use super::types::{Message, Metrics, Taken, Wake};
use super::{Broker, Moment};
use crate::broken::{self, Variant};

/// CROSS: the rows stay in their order, whatever the planner thinks of it.
const PEEK: &str = found!("CROSS", "AND (d.due_at, d.seq) > (?2, ?3) ORDER BY d.due_at, d.seq LIMIT ?4");
const OLDEST_READY: &str = "SELECT m.sent_at FROM jadpo_queue_due d JOIN jadpo_queue_messages m ON m.seq = d.seq \
    WHERE d.queue = ?1 AND d.due_at = 0 ORDER BY d.seq LIMIT 1";
const OLDEST_TIMED: &str = "SELECT min(m.sent_at) FROM (SELECT seq FROM jadpo_queue_due \
    WHERE queue = ?1 AND due_at > 0 ORDER BY due_at, seq LIMIT 1000) d JOIN jadpo_queue_messages m ON m.seq = d.seq";
const OLDEST_DELAYED: &str = "SELECT min(m.sent_at) FROM (SELECT seq FROM jadpo_queue_due \
    WHERE queue = ?1 AND due_at > 0 AND leased = 0 ORDER BY due_at, seq LIMIT 1000) d \
    JOIN jadpo_queue_messages m ON m.seq = d.seq";
const NEXT: &str = "SELECT due_at FROM jadpo_queue_due WHERE queue = ?1 AND due_at > ?2 ORDER BY due_at, seq LIMIT 1";
const OVERDUE: &str = "SELECT count(*) FROM \
    (SELECT 1 FROM jadpo_queue_due WHERE queue = ?1 AND due_at > 0 AND due_at <= ?2 LIMIT 100)";

/// What to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peek {
    /// Messages, at most; 1 to 100.
    pub max: usize,
    /// Only those that stand behind this one. It need not be there any more.
    pub after: Option<MessageRef>,
}

/// A message that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    /// The message; its attempts are those that were made.
    pub message: Message,
    /// Where it stands.
    pub state: State,
    /// What it is removed by, and where looking goes on.
    pub reference: MessageRef,
}

/// Where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It can be taken.
    Ready,
    /// It is with a consumer.
    Leased {
        /// Milliseconds until the lease ends.
        for_ms: u64,
    },
    /// It waits.
    Delayed {
        /// Milliseconds until it can be taken.
        for_ms: u64,
    },
}

impl Broker {
    /// Messages in their order: those that are ready first, then the others by when they will be. What moves meanwhile
    /// may be seen twice or not at all; what stands still is seen once.
    ///
    /// # Errors
    /// [`BrokerError::BatchCount`], [`BrokerError::QueueNotFound`], [`BrokerError::Store`].
    pub fn peek(&self, sql: &mut dyn Sql, moment: Moment, name: &str, peek: Peek) -> Result<Vec<Peeked>, BrokerError> {
        if peek.max == 0 || peek.max > BATCH_COUNT_MAX {
            return Err(BrokerError::BatchCount { limit: BATCH_COUNT_MAX, actual: peek.max });
        }
        let limit = i64::try_from(peek.max).unwrap_or(i64::MAX);
        let (due_at_ms, seq) = peek.after.map_or((-1, 0), |after| (after.due_at_ms, after.seq));
        let values = [self.queue(name)?.number.into(), due_at_ms.into(), seq.into(), limit.into()];
        let mut rows = Vec::new();
        Found::read(sql.run(PEEK, &values)?.rows, &mut rows)?;
        let now_ms = self.clock.time_ms(moment);
        let peeked = |Found { place, message, .. }: Found| {
            let for_ms = u64::try_from(place.due_at_ms - now_ms).unwrap_or_default();
            let state = match (for_ms, place.leased) {
                (0, _) => State::Ready,
                (_, true) => State::Leased { for_ms },
                (_, false) => State::Delayed { for_ms },
            };
            let reference = MessageRef { queue: place.queue, due_at_ms: place.due_at_ms, seq: place.seq };
            message.map(|kept| Peeked { message: kept.message, state, reference })
        };
        Ok(rows.into_iter().filter_map(peeked).collect())
    }

    /// A queue's figures. Their cost does not depend on how much waits.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`] or [`BrokerError::Store`].
    pub fn metrics(&self, sql: &mut dyn Sql, name: &str) -> Result<Metrics, BrokerError> {
        let queue = self.queue(name)?;
        let tally = queue.tally;
        let mut oldest = |statement, there_are| -> Result<Option<i64>, BrokerError> {
            if there_are == 0 {
                return Ok(None);
            }
            Ok(sql.run(statement, &[queue.number.into()])?.rows.first().and_then(|row| row.integer(0)))
        };
        let ready = oldest(OLDEST_READY, tally.ready())?;
        let timed = oldest(OLDEST_TIMED, tally.timed())?;
        Ok(Metrics {
            messages: tally.messages,
            in_flight: tally.leased,
            delayed: tally.delayed,
            bytes: tally.bytes,
            oldest_sent_at_ms: [ready, timed].into_iter().flatten().min(),
        })
    }

    /// A queue's figures without these messages, which were just taken. Of what is in flight nothing is looked up.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`] or [`BrokerError::Store`].
    pub fn metrics_beside(&self, sql: &mut dyn Sql, name: &str, taken: &[Taken]) -> Result<Metrics, BrokerError> {
        let queue = self.queue(name)?;
        let tally = queue.tally;
        let bytes: usize = taken.iter().map(|taken| taken.message.body.len()).sum();
        let statement = if tally.ready() > 0 { OLDEST_READY } else { OLDEST_DELAYED };
        let oldest = if tally.ready() + tally.delayed > 0 {
            sql.run(statement, &[queue.number.into()])?.rows.first().and_then(|row| row.integer(0))
        } else {
            None
        };
        Ok(Metrics {
            messages: tally.messages.saturating_sub(taken.len() as u64),
            in_flight: tally.leased.saturating_sub(taken.len() as u64),
            delayed: tally.delayed,
            bytes: tally.bytes.saturating_sub(bytes as u64),
            oldest_sent_at_ms: oldest,
        })
    }

    /// When there is something to take from a queue.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`] or [`BrokerError::Store`].
    pub fn wake(&mut self, sql: &mut dyn Sql, moment: Moment, name: &str) -> Result<Wake, BrokerError> {
        let now_ms = self.clock.time_ms(moment);
        let queue = self.queue_mut(name)?;
        if queue.info.settings.paused {
            return Ok(Wake::default());
        }
        let mut wake = Wake { ready: queue.tally.ready(), waiting_ms: 0, next_in_ms: None };
        if queue.tally.timed() > 0 {
            let mut ask = |statement| -> Result<Option<i64>, BrokerError> {
                let rows = sql.run(statement, &[queue.number.into(), now_ms.into()])?.rows;
                Ok(rows.first().and_then(|row| row.integer(0)))
            };
            if queue.next_due_ms <= now_ms {
                wake.ready += ask(OVERDUE)?.unwrap_or_default().unsigned_abs();
            }
            wake.next_in_ms = ask(NEXT)?.map(|due_at_ms| u64::try_from(due_at_ms - now_ms).unwrap_or_default());
        }
        if wake.ready == 0 {
            queue.ready_since_ms = None;
        } else {
            let since_ms = *queue.ready_since_ms.get_or_insert(now_ms);
            wake.waiting_ms = u64::try_from(now_ms - since_ms).unwrap_or_default();
        }
        Ok(wake)
    }

    /// When there is something to take from each of these queues, for whoever hands their messages on. A queue that is
    /// not there is left out. Of one whose trigger is disabled nothing is to be taken: its messages wait.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub fn wakes(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        names: &[impl AsRef<str>],
    ) -> Result<Vec<(String, Wake)>, BrokerError> {
        let there: Vec<&str> = names.iter().map(AsRef::as_ref).filter(|name| self.queues.contains_key(*name)).collect();
        there
            .into_iter()
            .map(|name| {
                let waits =
                    self.disabled.contains(&queue_trigger(name)) && !broken::is(Variant::DisabledTriggerIgnored);
                let wake = if waits { Wake::default() } else { self.wake(sql, moment, name)? };
                Ok((name.to_owned(), wake))
            })
            .collect()
    }
}

impl Wake {
    /// In how many milliseconds the next batch is to be taken: at once when there is a full one or nothing is to be
    /// waited for, else when the wait for more is over. `None` while there is nothing to take. More may become ready
    /// before then, which is to be asked for again.
    ///
    /// As Cloudflare forms batches: full, or as old as `max_batch_timeout`, whichever comes first.
    #[must_use]
    pub fn batch_in_ms(&self, consumer: &ConsumerSettings) -> Option<u64> {
        match self.ready {
            0 => None,
            ready if ready >= consumer.batch_size.into() => Some(0),
            _ => Some(u64::from(consumer.batch_wait_ms).saturating_sub(self.waiting_ms)),
        }
    }
}
