//! Taking: what is due, under a lease.

use super::error::BrokerError;
use super::lease::Lease;
use super::leave::End;
use super::limits::BATCH_COUNT_MAX;
use super::load::{broken, integer, small};
use super::settings::check_visibility;
use super::sql::Sql;
use super::types::{Batch, Content, Dead, Gone, Message, MessageId, Reason, Take, Taken};
use super::{Broker, Moment, Place};
use crate::broken::{self, Variant};
use crate::store::{Row, StoreError, Value};

/// What a message and its row hold, in [`Found::read`]'s order.
macro_rules! found {
    ($rest:literal) => {
        $crate::broker::take::found!("LEFT", $rest)
    };
    ($join:literal, $rest:literal) => {
        concat!(
            "SELECT d.queue, d.due_at, d.seq, d.bytes, d.leased, d.attempts, m.kept_from, m.id, m.sent_at, m.content, \
             m.meta, m.dead_queue, m.dead_attempts, m.dead_first_at, m.dead_last_at, m.dead_reason, m.dead_error, \
             d.progress, m.body FROM jadpo_queue_due d ",
            $join,
            " JOIN jadpo_queue_messages m ON m.seq = d.seq WHERE d.queue = ?1 ",
            $rest
        )
    };
}
pub(super) use found;

pub(super) const OVERDUE: &str = found!("AND d.due_at > 0 AND d.due_at <= ?2 ORDER BY d.due_at, d.seq LIMIT ?3");
const READY: &str = found!("AND d.due_at = 0 ORDER BY d.seq LIMIT ?2");
const LEASE: &str = "UPDATE jadpo_queue_due SET due_at = ?1, attempts = attempts + 1, leased = 1, \
    first_at = coalesce(first_at, ?2) WHERE queue = ?3 AND due_at = ?4 AND seq BETWEEN ?5 AND ?6";

/// How often a take looks again after some of what it found could not be taken.
const LOOKS_MAX: usize = 4;

/// A row that is due, and its message.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) attempts: u32,
    /// `None` if the message was acknowledged late, under an older lease: only its row is left.
    pub(super) message: Option<Kept>,
}

/// A message, and the age from which it is kept.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) from_age_ms: i64,
    pub(super) message: Message,
}

impl Broker {
    /// Leases up to `take.max` messages that are due and counts the attempt. Overdue ones come first, so that a
    /// message that is retried is not held back by a long backlog, then those that are ready, in the order they were
    /// sent. An empty queue gives an empty batch at once.
    ///
    /// # Errors
    /// [`BrokerError::Paused`] if it is; a refusal of `take`; [`BrokerError::QueueNotFound`], [`BrokerError::Store`].
    pub fn take(&mut self, sql: &mut dyn Sql, moment: Moment, name: &str, take: Take) -> Result<Batch, BrokerError> {
        if take.max == 0 || take.max > BATCH_COUNT_MAX {
            return Err(BrokerError::BatchCount { limit: BATCH_COUNT_MAX, actual: take.max });
        }
        let settings = &self.queue(name)?.info.settings;
        let ignored = broken::is(Variant::PauseIgnored) && self.queue(name)?.tally.timed() > 0;
        if settings.paused && !ignored {
            return Err(BrokerError::Paused(name.to_owned()));
        }
        let visibility_ms = take.visibility_ms.unwrap_or(settings.consumer.visibility_ms);
        check_visibility(visibility_ms)?;
        let until_ms = self.clock.time_ms(moment) + i64::from(visibility_ms);
        let mut batch = Batch { messages: Vec::with_capacity(take.max), gone: Vec::new() };
        // A lease of no time is due again at once, but not for the same take.
        let looks = if visibility_ms == 0 { 1 } else { LOOKS_MAX };
        for _ in 0..looks {
            let room = take.max - batch.messages.len();
            let found = self.due(sql, moment, name, room)?;
            let full = found.len() == room;
            let fit = self.turn_out(sql, moment, name, found, &mut batch.gone)?;
            self.lease(sql, moment, name, until_ms, fit, &mut batch.messages)?;
            if batch.messages.len() == take.max || !full {
                break;
            }
        }
        // What is left begins to wait for its own batch.
        self.queue_mut(name)?.ready_since_ms = None;
        Ok(batch)
    }

    /// What is due, in the order it is to be taken.
    fn due(&self, sql: &mut dyn Sql, moment: Moment, name: &str, room: usize) -> Result<Vec<Found>, BrokerError> {
        let queue = self.queue(name)?;
        let mut found = Vec::new();
        let early_ms = if broken::is(Variant::LeaseEndsEarly) { 1_000 } else { 0 };
        let now_ms = self.clock.time_ms(moment) + early_ms;
        if queue.tally.timed() > 0 && queue.next_due_ms <= now_ms {
            let limit = i64::try_from(room).unwrap_or(i64::MAX);
            let overdue = [queue.number.into(), now_ms.into(), limit.into()];
            Found::read(sql.run(OVERDUE, &overdue)?.rows, &mut found)?;
        }
        let left = i64::try_from(room - found.len()).unwrap_or(i64::MAX);
        if left > 0 && queue.tally.ready() > 0 {
            Found::read(sql.run(READY, &[queue.number.into(), left.into()])?.rows, &mut found)?;
        }
        Ok(found)
    }

    /// Removes from the queue what cannot be delivered, and answers the rest.
    pub(super) fn turn_out(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        found: Vec<Found>,
        gone: &mut Vec<Gone>,
    ) -> Result<Vec<Found>, BrokerError> {
        let settings = &self.queue(name)?.info.settings;
        let oldest_age_ms = self.clock.age_ms(moment) - i64::from(settings.retention_s) * 1_000;
        let attempts_max = settings.consumer.max_retries + 1 + u32::from(broken::is(Variant::OneRetryTooMany));
        let mut fit = Vec::with_capacity(found.len());
        for found in found {
            match &found.message {
                None => self.forget(sql, name, &found.place)?,
                Some(kept) if kept.from_age_ms <= oldest_age_ms && !broken::is(Variant::NothingExpires) => {
                    let expired = self.expire(sql, name, &found.place, kept.message.id, found.attempts)?;
                    gone.extend((!broken::is(Variant::ExpiredUntold)).then_some(expired));
                }
                Some(_) if found.attempts >= attempts_max => {
                    let reason = if found.place.leased { Reason::LeaseEnded } else { Reason::Retried };
                    let end = End { attempts: found.attempts, reason, error: None, progress: None };
                    gone.extend(self.give_up(sql, moment, name, &found.place, &end)?);
                }
                Some(_) => fit.push(found),
            }
        }
        Ok(fit)
    }

    /// Leases rows that came from the front of what is due, in its order. Whatever stands between the first and the
    /// last of one due time is among them, so that one statement does for each due time.
    fn lease(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        until_ms: i64,
        found: Vec<Found>,
        taken: &mut Vec<Taken>,
    ) -> Result<(), BrokerError> {
        let now_ms = self.clock.time_ms(moment);
        // The last due first: with a lease of no time they stay where they are, and must not be joined by earlier ones
        // before they are counted.
        for group in found.chunk_by(|one, next| one.place.due_at_ms == next.place.due_at_ms).rev() {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            let Place { queue, due_at_ms, .. } = first.place;
            let (from, to) = (first.place.seq, last.place.seq);
            let values = [until_ms.into(), now_ms.into(), queue.into(), due_at_ms.into(), from.into(), to.into()];
            let changes = sql.run(LEASE, &values)?.changes;
            if changes != group.len() as u64 {
                return Err(broken("what is due changed while it was leased").into());
            }
        }
        let held = self.queue_mut(name)?;
        held.waits_until(until_ms);
        let tally = &mut held.tally;
        for Found { place, attempts, message } in found {
            tally.unhold(&place);
            tally.leased += 1;
            let Some(Kept { mut message, .. }) = message else { continue };
            message.attempts = attempts + 1;
            let Place { queue, seq, bytes, .. } = place;
            taken.push(Taken { lease: Lease { queue, until_ms, seq, attempt: attempts + 1, bytes }, message });
        }
        Ok(())
    }
}

impl Found {
    /// Reads the rows of a statement made by `found!`.
    pub(super) fn read(rows: Vec<Row>, found: &mut Vec<Self>) -> Result<(), StoreError> {
        for mut row in rows {
            let body = row.0.pop();
            let place = Place {
                queue: integer(&row, 0)?,
                due_at_ms: integer(&row, 1)?,
                seq: integer(&row, 2)?,
                bytes: small(&row, 3)?,
                leased: integer(&row, 4)? != 0,
            };
            let attempts = small(&row, 5)?;
            let message = match body {
                Some(Value::Blob(body)) => Some(Kept::read(&row, attempts, body)?),
                _ => None,
            };
            found.push(Self { place, attempts, message });
        }
        Ok(())
    }
}

impl Kept {
    fn read(row: &Row, attempts: u32, body: Vec<u8>) -> Result<Self, StoreError> {
        let content = Content::ALL.get(small(row, 9)? as usize).ok_or_else(|| broken("a content type is none"))?;
        let text = |column| row.text(column).map(str::to_owned);
        let dead = match text(11) {
            Some(queue) => Some(Dead {
                queue,
                attempts: small(row, 12)?,
                first_at_ms: integer(row, 13)?,
                last_at_ms: integer(row, 14)?,
                reason: Reason::ALL
                    .into_iter()
                    .find(|reason| Some(reason.name()) == row.text(15))
                    .ok_or_else(|| broken("a dead letter's reason is none"))?,
                error: text(16),
            }),
            None => None,
        };
        let (id, sent_at_ms) = (message_id(row, 7)?, integer(row, 8)?);
        let message =
            Message { id, sent_at_ms, attempts, content: *content, body, meta: text(10), progress: text(17), dead };
        Ok(Self { from_age_ms: integer(row, 6)?, message })
    }
}

pub(super) fn message_id(row: &Row, column: usize) -> Result<MessageId, StoreError> {
    let bytes = match row.0.get(column) {
        Some(Value::Blob(bytes)) => bytes.as_slice().try_into().ok(),
        _ => None,
    };
    bytes.map(|bytes| MessageId(u128::from_be_bytes(bytes))).ok_or_else(|| broken("a message's id is none"))
}
