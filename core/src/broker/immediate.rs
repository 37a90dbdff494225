//! Messages whose sender waits for what becomes of them: leased as they are sent, and again as they fail.

use super::error::BrokerError;
use super::lease::Lease;
use super::load::broken;
use super::settings::check_visibility;
use super::size;
use super::sql::Sql;
use super::take::{Found, found};
use super::types::{Kept, Message, NewBatch, NewMessage, Retaken, Retry, Taken, Warning};
use super::{Broker, Moment};

const LEASED: &str = "INSERT INTO jadpo_queue_due (queue, due_at, seq, attempts, leased, bytes, first_at) \
    VALUES (?1, ?2, ?3, 1, 1, ?4, ?5)";
const LEASE_AGAIN: &str = "UPDATE jadpo_queue_due SET due_at = ?1, leased = 1, attempts = attempts + 1, \
    error = coalesce(?2, error), progress = coalesce(?3, progress) WHERE queue = ?4 AND due_at = ?5 AND seq = ?6 \
    AND attempts = ?7 AND leased = 1";
const AT: &str = found!("AND d.due_at = ?2 AND d.seq = ?3");

impl Broker {
    /// Keeps a message and leases it at once to its sender, past all that waits. No delay holds it back.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`take`](Self::take): of a queue that is paused nothing is taken, so nothing is kept.
    pub fn send_taken(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        message: &NewMessage,
        visibility_ms: u32,
    ) -> Result<Taken, BrokerError> {
        message.check(0)?;
        check_visibility(visibility_ms)?;
        let queue = self.queue(name)?;
        if queue.info.settings.paused {
            return Err(BrokerError::Paused(name.to_owned()));
        }
        let number = queue.number;
        self.room(name, message.size())?;
        let (seq, bytes, now_ms) = (self.seqs(sql, 1)?, size::packed(message), self.clock.time_ms(moment));
        let until_ms = now_ms + i64::from(visibility_ms);
        let id = self.insert_message(sql, moment, seq, message)?;
        sql.run(LEASED, &[number.into(), until_ms.into(), seq.into(), bytes.into(), now_ms.into()])?;
        let held = self.queue_mut(name)?;
        held.waits_until(until_ms);
        held.tally.add(bytes);
        held.tally.leased += 1;
        let message = Message {
            id,
            sent_at_ms: moment.wall_ms,
            attempts: 1,
            content: message.content,
            body: message.body.clone(),
            meta: message.meta.clone(),
            progress: None,
            dead: None,
        };
        Ok(Taken { lease: Lease { queue: number, until_ms, seq, attempt: 1, bytes }, message })
    }

    /// Keeps a batch's messages, all of them or none, and leases each at once to its sender that is not delayed: for
    /// `visibility_ms` of its place in the batch, since who handles one after the other begins the last one late.
    ///
    /// # Errors
    /// As [`send_taken`](Self::send_taken), for the first message that is refused.
    pub fn send_batch_taken(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        batch: &NewBatch,
        visibility_ms: impl Fn(usize) -> u32,
    ) -> Result<Vec<Kept>, BrokerError> {
        // Whatever could refuse one of them is asked before the first is kept.
        batch.check()?;
        self.room(name, batch.size())?;
        if self.queue(name)?.info.settings.paused {
            return Err(BrokerError::Paused(name.to_owned()));
        }
        (0..batch.messages.len()).try_for_each(|place| check_visibility(visibility_ms(place)))?;
        let mut kept = Vec::with_capacity(batch.messages.len());
        for (place, message) in batch.messages.iter().enumerate() {
            kept.push(match message.delay_s.or(batch.delay_s).filter(|delay_s| *delay_s > 0) {
                None => Kept::Taken(self.send_taken(sql, moment, name, message, visibility_ms(place))?),
                delay_s => {
                    let message = NewMessage { delay_s, ..message.clone() };
                    Kept::Delayed(self.send_one(sql, moment, name, &message)?)
                }
            });
        }
        Ok(kept)
    }

    /// Ends an attempt that failed and leases the message again at once, without any delay; or, if its retries are
    /// spent, gives it up as a retry does.
    ///
    /// # Errors
    /// As [`settle`](Self::settle); a refusal of `visibility_ms`.
    pub fn retry_taken(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        retry: &Retry,
        visibility_ms: u32,
    ) -> Result<Retaken, BrokerError> {
        retry.check(0)?;
        check_visibility(visibility_ms)?;
        let queue = self.queue(name)?;
        let (number, max_retries) = (queue.number, queue.info.settings.consumer.max_retries);
        let lease = &retry.lease;
        if lease.queue != number {
            return Ok(Retaken::Lost(Warning::Unknown));
        }
        if let Some(warning) = self.lost(sql, moment, lease)? {
            return Ok(Retaken::Lost(warning));
        }
        let place = lease.place();
        let at = [place.queue.into(), place.due_at_ms.into(), place.seq.into()];
        let mut found = Vec::new();
        Found::read(sql.run(AT, &at)?.rows, &mut found)?;
        let Some(Found { message: Some(kept), .. }) = found.pop() else {
            // It was acknowledged under an older lease, so there is nothing left to try.
            self.forget(sql, name, &place)?;
            return Ok(Retaken::Lost(Warning::Unknown));
        };
        if lease.attempt > max_retries {
            let gone = self.give_up(sql, moment, name, &place, &retry.end())?;
            return gone.map(Retaken::Gone).ok_or_else(|| broken("a message went while it was looked at").into());
        }
        let until_ms = self.clock.time_ms(moment) + i64::from(visibility_ms);
        self.move_place(sql, LEASE_AGAIN, until_ms, retry)?;
        self.queue_mut(name)?.waits_until(until_ms);
        let mut message = kept.message;
        message.attempts = lease.attempt + 1;
        if retry.progress.is_some() {
            message.progress.clone_from(&retry.progress);
        }
        Ok(Retaken::Taken(Taken { lease: Lease { until_ms, attempt: message.attempts, ..*lease }, message }))
    }
}
