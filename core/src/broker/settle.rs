//! Settling: acks and retries, each counted for itself.

use std::collections::BTreeSet;

use super::error::BrokerError;
use super::lease::Lease;
use super::leave::{End, FORGET_DUE, place, shortened};
use super::limits::DELAY_MAX_S;
use super::send::due_at_ms;
use super::sql::{Arg, Sql};
use super::types::{Retry, Settle, Settled, Warning};
use super::{Broker, Moment, Place};

const COUNT_LEASED: &str = "SELECT count(*) FROM jadpo_queue_due \
    WHERE queue = ?1 AND due_at = ?2 AND seq BETWEEN ?3 AND ?4 AND leased = 1";
const ACK_DUE: &str = "DELETE FROM jadpo_queue_due WHERE queue = ?1 AND due_at = ?2 AND seq BETWEEN ?3 AND ?4";
const ACK_MESSAGES: &str = "DELETE FROM jadpo_queue_messages WHERE seq BETWEEN ?1 AND ?2";
/// A message whose lease ended stands where it stood, or among the ready ones if a sweep saw it.
const LATE: &str = "SELECT due_at, seq, bytes, leased FROM jadpo_queue_due \
    WHERE queue = ?1 AND due_at IN (0, ?2) AND seq = ?3";
const ACK_MESSAGE: &str = "DELETE FROM jadpo_queue_messages WHERE seq = ?1";
const STILL_LEASED: &str = "SELECT due_at, seq, bytes, leased FROM jadpo_queue_due \
    WHERE queue = ?1 AND due_at = ?2 AND seq = ?3 AND attempts = ?4 AND leased = 1";
const RETRY: &str = "UPDATE jadpo_queue_due SET due_at = ?1, leased = 0, error = coalesce(?2, error) \
    WHERE queue = ?3 AND due_at = ?4 AND seq = ?5";

impl Broker {
    /// Acknowledges and retries leased messages of one queue. A lease that is named twice counts once, as an ack if
    /// it is among them.
    ///
    /// An ack counts however late it comes, also after the message went to another consumer. A retry counts only
    /// while its lease lasts: later the message is to be taken again anyway, and whoever has it then is not disturbed.
    /// A retry of a message whose retries are spent sends it to the dead-letter queue at once.
    ///
    /// # Errors
    /// [`BrokerError::DelayTooLong`] for a retry's delay, by its place among the retries;
    /// [`BrokerError::QueueNotFound`], [`BrokerError::Store`].
    pub fn settle(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        settle: &Settle,
    ) -> Result<Settled, BrokerError> {
        for (index, retry) in settle.retries.iter().enumerate() {
            if let Some(actual) = retry.delay_s.filter(|delay| *delay > DELAY_MAX_S) {
                return Err(BrokerError::DelayTooLong { index, limit: DELAY_MAX_S, actual });
            }
        }
        let queue = self.queue(name)?.number;
        let mut settled = Settled::default();
        let mut named = BTreeSet::new();
        let mut first_time = |lease: &Lease, settled: &mut Settled| {
            let warning = if lease.queue != queue {
                Warning::Unknown
            } else if !named.insert(*lease) {
                Warning::Repeated
            } else {
                return true;
            };
            settled.warnings.push((*lease, warning));
            false
        };
        let mut acks = settle.acks.clone();
        acks.retain(|lease| first_time(lease, &mut settled));
        acks.sort_unstable();
        for run in acks.chunk_by(|one, next| one.until_ms == next.until_ms && one.seq + 1 == next.seq) {
            self.ack_run(sql, name, run, &mut settled)?;
        }
        for retry in &settle.retries {
            if first_time(&retry.lease, &mut settled) {
                self.retry(sql, moment, name, retry, &mut settled)?;
            }
        }
        Ok(settled)
    }

    /// Leases that end at one time, of messages that follow each other: the usual case, two statements for all.
    fn ack_run(
        &mut self,
        sql: &mut dyn Sql,
        name: &str,
        run: &[Lease],
        settled: &mut Settled,
    ) -> Result<(), BrokerError> {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
        let range: [Arg<'_>; 4] = [first.queue.into(), first.until_ms.into(), first.seq.into(), last.seq.into()];
        let leased = sql.run(COUNT_LEASED, &range)?.rows.first().and_then(|row| row.integer(0));
        if leased != i64::try_from(run.len()).ok() {
            return run.iter().try_for_each(|lease| self.ack_late(sql, name, lease, settled));
        }
        sql.run(ACK_DUE, &range)?;
        sql.run(ACK_MESSAGES, &[first.seq.into(), last.seq.into()])?;
        let tally = &mut self.queue_mut(name)?.tally;
        run.iter().for_each(|lease| tally.remove(&lease.place()));
        settled.acked += run.len();
        Ok(())
    }

    /// One lease that may have ended. If the message is with another consumer, only its body goes: the row stays
    /// until that one settles or its lease ends too, so that nobody has to look for it.
    fn ack_late(
        &mut self,
        sql: &mut dyn Sql,
        name: &str,
        lease: &Lease,
        settled: &mut Settled,
    ) -> Result<(), BrokerError> {
        let rows = sql.run(LATE, &[lease.queue.into(), lease.until_ms.into(), lease.seq.into()])?.rows;
        let found = rows.first().map(|row| place(lease.queue, row)).transpose()?;
        if let Some(place) = &found {
            sql.run(FORGET_DUE, &[place.queue.into(), place.due_at_ms.into(), place.seq.into()])?;
            self.queue_mut(name)?.tally.remove(place);
        }
        let was_there = sql.run(ACK_MESSAGE, &[lease.seq.into()])?.changes > 0;
        if found.is_some() || was_there {
            settled.acked += 1;
        } else {
            settled.warnings.push((*lease, Warning::Unknown));
        }
        Ok(())
    }

    fn retry(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        retry: &Retry,
        settled: &mut Settled,
    ) -> Result<(), BrokerError> {
        let (lease, now_ms) = (&retry.lease, self.clock.time_ms(moment));
        let at: [Arg<'_>; 4] = [lease.queue.into(), lease.until_ms.into(), lease.seq.into(), lease.attempt.into()];
        let held = !sql.run(STILL_LEASED, &at)?.rows.is_empty();
        if lease.until_ms <= now_ms || !held {
            let warning = if lease.until_ms <= now_ms { Warning::Late } else { Warning::Unknown };
            settled.warnings.push((*lease, warning));
            return Ok(());
        }
        settled.retried += 1;
        let consumer = &self.queue(name)?.info.settings.consumer;
        if lease.attempt > consumer.max_retries {
            let end = End { attempts: lease.attempt, reason: retry.reason, error: retry.error.as_deref() };
            settled.gone.extend(self.give_up(sql, moment, name, &lease.place(), &end)?);
            return Ok(());
        }
        let due_at_ms = due_at_ms(now_ms, retry.delay_s.unwrap_or(consumer.retry_delay_s));
        let error = retry.error.as_deref().map(shortened);
        let [queue, until, seq, _] = at;
        sql.run(RETRY, &[due_at_ms.into(), error.into(), queue, until, seq])?;
        let tally = &mut self.queue_mut(name)?.tally;
        tally.unhold(&lease.place());
        tally.delayed += u64::from(due_at_ms > 0);
        Ok(())
    }
}

impl Lease {
    fn place(&self) -> Place {
        let Self { queue, until_ms, seq, bytes, .. } = *self;
        Place { queue, due_at_ms: until_ms, seq, bytes, leased: true }
    }
}
