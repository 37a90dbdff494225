//! Leaving a queue without an ack: dead-lettered, dropped, expired.

use super::error::BrokerError;
use super::limits::ERROR_BYTES_MAX;
use super::load::{integer, small};
use super::settings::Settings;
use super::sql::{Arg, Sql};
use super::take::message_id;
use super::types::{Gone, How, MessageId, Reason};
use super::{Broker, Moment, Place, send};
use crate::store::StoreError;

pub(super) const FORGET_DUE: &str = "DELETE FROM jadpo_queue_due WHERE queue = ?1 AND due_at = ?2 AND seq = ?3";
const FORGET_MESSAGE: &str = "DELETE FROM jadpo_queue_messages WHERE seq = ?1 RETURNING id";
/// The time from which a dead letter is kept begins anew, once: a message that goes round in a circle of dead-letter
/// queues is not kept for ever.
const MOVE: &str = "INSERT INTO jadpo_queue_messages (seq, id, sent_at, kept_from, content, meta, dead_queue, \
    dead_attempts, dead_first_at, dead_last_at, dead_reason, dead_error, body, dead_progress) \
    SELECT ?1, m.id, m.sent_at, CASE WHEN m.dead_queue IS NULL THEN ?2 ELSE m.kept_from END, m.content, m.meta, ?3, \
    ?4, coalesce(d.first_at, ?5), ?5, ?6, coalesce(?7, d.error), m.body, coalesce(?11, d.progress) \
    FROM jadpo_queue_due d JOIN jadpo_queue_messages m ON m.seq = d.seq \
    WHERE d.queue = ?8 AND d.due_at = ?9 AND d.seq = ?10 RETURNING id";

/// How a message's last attempt in a queue ended.
pub(super) struct End<'a> {
    pub(super) attempts: u32,
    pub(super) reason: Reason,
    pub(super) error: Option<&'a str>,
    pub(super) progress: Option<&'a str>,
}

impl Broker {
    /// Moves a message whose retries are spent to the dead-letter queue, under a new number, so that it stands there
    /// in the order of arrival and no older lease reaches it. Without a dead-letter queue it goes. `None` if an older
    /// lease acknowledged it meanwhile.
    pub(super) fn give_up(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        place: &Place,
        end: &End<'_>,
    ) -> Result<Option<Gone>, BrokerError> {
        let consumer = &self.queue(name)?.info.settings.consumer;
        let Some(dead) = consumer.dead_letter_queue.clone() else {
            let id = self.take_out(sql, name, place)?;
            return Ok(id.map(|id| gone(name, id, end.attempts, How::Dropped)));
        };
        if !self.queues.contains_key(&dead) {
            // Past the limit of queues as well: a message is worth more than the limit.
            self.make(sql, moment, &dead, Settings::default())?;
        }
        let seq = self.seqs(sql, 1)?;
        let values: [Arg<'_>; 11] = [
            seq.into(),
            self.clock.age_ms(moment).into(),
            name.into(),
            end.attempts.into(),
            self.clock.time_ms(moment).into(),
            end.reason.name().into(),
            end.error.map(shortened).into(),
            place.queue.into(),
            place.due_at_ms.into(),
            place.seq.into(),
            end.progress.into(),
        ];
        let moved = sql.run(MOVE, &values)?.rows;
        self.take_out(sql, name, place)?;
        let Some(row) = moved.first() else { return Ok(None) };
        let id = message_id(row, 0)?;
        let queue = self.queue_mut(&dead)?;
        let due = [queue.number.into(), 0_i64.into(), seq.into(), place.bytes.into()];
        queue.tally.add(place.bytes);
        sql.run(send::DUE, &due)?;
        Ok(Some(gone(name, id, end.attempts, How::DeadLettered(dead))))
    }

    /// Removes a message that was kept long enough.
    pub(super) fn expire(
        &mut self,
        sql: &mut dyn Sql,
        name: &str,
        place: &Place,
        id: MessageId,
        attempts: u32,
    ) -> Result<Gone, BrokerError> {
        self.take_out(sql, name, place)?;
        Ok(gone(name, id, attempts, How::Expired))
    }

    /// Removes a message and its row. `None` if only the row was left.
    pub(super) fn take_out(
        &mut self,
        sql: &mut dyn Sql,
        name: &str,
        place: &Place,
    ) -> Result<Option<MessageId>, BrokerError> {
        self.forget(sql, name, place)?;
        let rows = sql.run(FORGET_MESSAGE, &[place.seq.into()])?.rows;
        Ok(rows.first().map(|row| message_id(row, 0)).transpose()?)
    }

    /// Removes a row among what is due.
    pub(super) fn forget(&mut self, sql: &mut dyn Sql, name: &str, place: &Place) -> Result<(), BrokerError> {
        sql.run(FORGET_DUE, &[place.queue.into(), place.due_at_ms.into(), place.seq.into()])?;
        self.queue_mut(name)?.tally.remove(place);
        Ok(())
    }
}

/// What is kept of an error's text: its beginning, cut between two characters.
pub(super) fn shortened(error: &str) -> &str {
    let end = (0..=ERROR_BYTES_MAX.min(error.len())).rev().find(|end| error.is_char_boundary(*end));
    end.and_then(|end| error.get(..end)).unwrap_or_default()
}

fn gone(queue: &str, id: MessageId, attempts: u32, how: How) -> Gone {
    Gone { queue: queue.to_owned(), id, attempts, how }
}

/// Reads a row that names a place: due time, number, bytes, leased.
pub(super) fn place(queue: i64, row: &crate::store::Row) -> Result<Place, StoreError> {
    let (due_at_ms, seq) = (integer(row, 0)?, integer(row, 1)?);
    Ok(Place { queue, due_at_ms, seq, bytes: small(row, 2)?, leased: integer(row, 3)? != 0 })
}
