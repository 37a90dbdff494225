//! Looking without taking.

use super::error::BrokerError;
use super::limits::BATCH_COUNT_MAX;
use super::sql::Sql;
use super::take::{Found, found};
use super::types::{Message, Metrics, Wake};
use super::{Broker, Moment};

const PEEK: &str = found!("ORDER BY d.due_at, d.seq LIMIT ?2");
const OLDEST_READY: &str = "SELECT m.sent_at FROM jadpo_queue_due d JOIN jadpo_queue_messages m ON m.seq = d.seq \
    WHERE d.queue = ?1 AND d.due_at = 0 ORDER BY d.seq LIMIT 1";
const OLDEST_TIMED: &str = "SELECT min(m.sent_at) FROM (SELECT seq FROM jadpo_queue_due \
    WHERE queue = ?1 AND due_at > 0 ORDER BY due_at, seq LIMIT 1000) d JOIN jadpo_queue_messages m ON m.seq = d.seq";
const NEXT: &str = "SELECT due_at FROM jadpo_queue_due WHERE queue = ?1 AND due_at > 0 ORDER BY due_at, seq LIMIT 1";

/// A message that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peeked {
    /// The message; its attempts are those that were made.
    pub message: Message,
    /// Where it stands.
    pub state: State,
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
    /// The first `max` messages, 1 to 100: those that are ready first, then the others by when they will be.
    ///
    /// # Errors
    /// [`BrokerError::BatchCount`], [`BrokerError::QueueNotFound`], [`BrokerError::Store`].
    pub fn peek(&self, sql: &mut dyn Sql, moment: Moment, name: &str, max: usize) -> Result<Vec<Peeked>, BrokerError> {
        if max == 0 || max > BATCH_COUNT_MAX {
            return Err(BrokerError::BatchCount { limit: BATCH_COUNT_MAX, actual: max });
        }
        let limit = i64::try_from(max).unwrap_or(i64::MAX);
        let mut rows = Vec::new();
        Found::read(sql.run(PEEK, &[self.queue(name)?.number.into(), limit.into()])?.rows, &mut rows)?;
        let now_ms = self.clock.time_ms(moment);
        let peeked = |found: Found| {
            let for_ms = u64::try_from(found.place.due_at_ms - now_ms).unwrap_or_default();
            let state = match (for_ms, found.place.leased) {
                (0, _) => State::Ready,
                (_, true) => State::Leased { for_ms },
                (_, false) => State::Delayed { for_ms },
            };
            found.message.map(|kept| Peeked { message: kept.message, state })
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

    /// When there is something to take from a queue, paused or not.
    ///
    /// # Errors
    /// [`BrokerError::QueueNotFound`] or [`BrokerError::Store`].
    pub fn wake(&self, sql: &mut dyn Sql, moment: Moment, name: &str) -> Result<Wake, BrokerError> {
        let queue = self.queue(name)?;
        let next = if queue.tally.timed() > 0 { sql.run(NEXT, &[queue.number.into()])?.rows } else { Vec::new() };
        let due_at_ms = next.first().and_then(|row| row.integer(0));
        let next_in_ms = due_at_ms.map(|due| u64::try_from(due - self.clock.time_ms(moment)).unwrap_or_default());
        Ok(Wake { ready: queue.tally.ready(), next_in_ms })
    }
}
