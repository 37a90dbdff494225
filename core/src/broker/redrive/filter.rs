//! The letters of a queue, a slice at a time, and which of them a filter holds for.

use super::{Redrive, RedriveFilter};
use crate::broker::error::BrokerError;
use crate::broker::leave::place;
use crate::broker::sql::Sql;
use crate::broker::take::message_id;
use crate::broker::types::MessageId;
use crate::broker::{Broker, Place};
use crate::store::{Row, StoreError};

/// Letters that one slice looks at, at most. Their bodies are not read.
pub(super) const LOOKED_AT_MAX: usize = 500;

macro_rules! letters {
    ($rest:literal) => {
        concat!(
            "SELECT d.due_at, d.seq, d.bytes, d.leased, m.id, m.dead_queue, m.dead_reason, m.dead_error, \
             m.dead_last_at FROM jadpo_queue_due d CROSS JOIN jadpo_queue_messages m ON m.seq = d.seq \
             WHERE d.queue = ?1 ",
            $rest
        )
    };
}
const READY: &str = letters!("AND d.due_at = 0 AND d.seq > ?2 AND d.seq < ?3 ORDER BY d.seq LIMIT ?4");
const TIMED: &str =
    letters!("AND d.due_at > 0 AND (d.due_at, d.seq) > (?2, ?3) AND d.seq < ?4 ORDER BY d.due_at, d.seq LIMIT ?5");

/// How far somebody has looked through a queue: first at what is ready, in the order it died, then at what waits for a
/// time. Letters that move meanwhile may be passed over; those that stand still are looked at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) due_at_ms: i64,
    pub(super) seq: i64,
    /// The first number that is not looked at.
    pub(super) end_seq: i64,
}

/// A letter, as far as a filter asks for it.
pub(super) struct Letter {
    pub(super) place: Place,
    id: MessageId,
    /// `None` if it did not die, but was sent to where it is.
    origin: Option<String>,
    reason: Option<String>,
    error: Option<String>,
    died_at_ms: Option<i64>,
}

/// Where a letter would go.
pub(super) enum Way {
    /// To this queue.
    To(String),
    /// A consumer has it.
    Held,
    /// Nowhere.
    Nowhere,
}

impl Cursor {
    pub(super) fn start(end_seq: i64) -> Self {
        Self { due_at_ms: 0, seq: 0, end_seq }
    }

    pub(super) fn pass(&mut self, letter: &Letter) {
        (self.due_at_ms, self.seq) = (letter.place.due_at_ms, letter.place.seq);
    }
}

impl Broker {
    /// The next letters, and whether there may be more behind them.
    pub(super) fn letters(
        &self,
        sql: &mut dyn Sql,
        source: &str,
        cursor: &Cursor,
    ) -> Result<(Vec<Letter>, bool), BrokerError> {
        let queue = self.queue(source)?.number;
        let mut rows = Vec::new();
        let limit = |rows: &Vec<Row>| i64::try_from(LOOKED_AT_MAX.saturating_sub(rows.len())).unwrap_or_default();
        if cursor.due_at_ms == 0 {
            let values = [queue.into(), cursor.seq.into(), cursor.end_seq.into(), limit(&rows).into()];
            rows = sql.run(READY, &values)?.rows;
        }
        let left = limit(&rows);
        if left > 0 {
            let seq = if cursor.due_at_ms == 0 { i64::MAX } else { cursor.seq };
            let values = [queue.into(), cursor.due_at_ms.into(), seq.into(), cursor.end_seq.into(), left.into()];
            rows.extend(sql.run(TIMED, &values)?.rows);
        }
        let more = rows.len() >= LOOKED_AT_MAX;
        Ok((rows.iter().map(|row| Letter::read(queue, row)).collect::<Result<_, _>>()?, more))
    }

    /// Where a letter goes that the filter holds for.
    pub(super) fn way(&self, redrive: &Redrive, letter: &Letter, now_ms: i64) -> Way {
        let target = redrive.to.as_ref().or(letter.origin.as_ref()).filter(|name| self.queues.contains_key(*name));
        match target {
            _ if letter.place.leased && letter.place.due_at_ms > now_ms => Way::Held,
            Some(name) => Way::To(name.clone()),
            None => Way::Nowhere,
        }
    }
}

impl Letter {
    fn read(queue: i64, row: &Row) -> Result<Self, StoreError> {
        let text = |column| row.text(column).map(str::to_owned);
        Ok(Self {
            place: place(queue, row)?,
            id: message_id(row, 4)?,
            origin: text(5),
            reason: text(6),
            error: text(7),
            died_at_ms: row.integer(8),
        })
    }

    /// Whether it died in this queue.
    pub(super) fn is_from(&self, queue: &str) -> bool {
        self.origin.as_deref() == Some(queue)
    }
}

impl RedriveFilter {
    pub(super) fn holds_for(&self, letter: &Letter) -> bool {
        let reason = self.reason.map(|reason| reason.name());
        let contains = |part: &str| letter.error.as_deref().is_some_and(|error| error.contains(part));
        self.origin.as_deref().is_none_or(|origin| letter.is_from(origin))
            && reason.is_none_or(|reason| letter.reason.as_deref() == Some(reason))
            && self.error_contains.as_deref().is_none_or(contains)
            && (self.ids.is_empty() || self.ids.contains(&letter.id))
            && self.died_from_ms.is_none_or(|from_ms| letter.died_at_ms.is_some_and(|at_ms| at_ms >= from_ms))
            && self.died_before_ms.is_none_or(|end_ms| letter.died_at_ms.is_some_and(|at_ms| at_ms < end_ms))
    }
}
