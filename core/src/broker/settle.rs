//! Settling: acks, retries and releases, each counted for itself.

use std::collections::BTreeSet;

use super::error::BrokerError;
use super::lease::{Lease, MessageRef};
use super::leave::{End, shortened};
use super::limits::{DELAY_MAX_S, PROGRESS_BYTES_MAX};
use super::send::due_at_ms;
use super::sql::{Arg, Sql};
use super::types::{Retry, Settle, Settled, Warning};
use super::{Broker, Moment, Place};
use crate::broken::{self, Variant};

const COUNT_LEASED: &str = "SELECT count(*) FROM jadpo_queue_due \
    WHERE queue = ?1 AND due_at = ?2 AND seq BETWEEN ?3 AND ?4 AND leased = 1";
const ACK_ONE: &str = "DELETE FROM jadpo_queue_due WHERE queue = ?1 AND due_at = ?2 AND seq = ?3 AND leased = 1";
const ACK_DUE: &str = "DELETE FROM jadpo_queue_due WHERE queue = ?1 AND due_at = ?2 AND seq BETWEEN ?3 AND ?4";
const ACK_MESSAGES: &str = "DELETE FROM jadpo_queue_messages WHERE seq BETWEEN ?1 AND ?2";
/// A message whose lease ended stands where it stood, or among the ready ones if a sweep saw it.
pub(super) const STOOD: &str = "SELECT due_at, seq, bytes, leased FROM jadpo_queue_due \
    WHERE queue = ?1 AND due_at IN (0, ?2) AND seq = ?3";
pub(super) const ACK_MESSAGE: &str = "DELETE FROM jadpo_queue_messages WHERE seq = ?1";
const STILL_LEASED: &str = "SELECT 1 FROM jadpo_queue_due \
    WHERE queue = ?1 AND due_at = ?2 AND seq = ?3 AND attempts = ?4 AND leased = 1";
const RETRY: &str = "UPDATE jadpo_queue_due SET due_at = ?1, leased = 0, error = coalesce(?2, error), \
    progress = coalesce(?3, progress) WHERE queue = ?4 AND due_at = ?5 AND seq = ?6 AND attempts = ?7 AND leased = 1";
/// [`ACK_ONE`] for [`Variant::AckTakesTheBatch`].
const ACK_BATCH: &str = "DELETE FROM jadpo_queue_due WHERE queue = ?1 AND due_at = ?2 AND ?3 > 0 AND leased = 1";
const RELEASE: &str = "UPDATE jadpo_queue_due SET due_at = 0, leased = 0, attempts = attempts - 1, \
    first_at = CASE WHEN attempts > 1 THEN first_at END, progress = coalesce(?5, progress) \
    WHERE queue = ?1 AND due_at = ?2 AND seq = ?3 AND attempts = ?4 AND leased = 1";

impl Broker {
    /// Acknowledges, retries and gives back leased messages of one queue. A lease that is named twice counts once, as
    /// an ack if it is among them, and else as a retry.
    ///
    /// An ack counts however late it comes, also after the message went to another consumer, but not after it died:
    /// then it is another queue's. A retry counts only while its lease lasts: later the message is to be taken again
    /// anyway, and whoever has it then is not disturbed. A retry of a message whose retries are spent sends it to the
    /// dead-letter queue at once, and so does a death.
    ///
    /// A release counts while its lease lasts, as a retry does. It is for what was taken and handed to nobody, or to some
    /// who are done with it while there was no room for the others: the message stands where it stood, and its attempts
    /// are what they were.
    ///
    /// # Errors
    /// [`BrokerError::DelayTooLong`] for a retry's delay, by its place among the retries; [`BrokerError::TooLong`]
    /// for progress; [`BrokerError::QueueNotFound`], [`BrokerError::Store`].
    pub fn settle(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        settle: &Settle,
    ) -> Result<Settled, BrokerError> {
        for (index, retry) in settle.retries.iter().chain(&settle.deaths).enumerate() {
            retry.check(index)?;
        }
        settle.progress.values().try_for_each(|progress| check_progress(progress))?;
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
        let retries = settle.retries.iter().map(|retry| (retry, false));
        for (retry, is_last) in retries.chain(settle.deaths.iter().map(|retry| (retry, true))) {
            if first_time(&retry.lease, &mut settled) {
                self.retry(sql, moment, name, (retry, is_last), &mut settled)?;
            }
        }
        for lease in &settle.releases {
            if first_time(lease, &mut settled) {
                let progress = settle.progress.get(lease).map(String::as_str);
                self.release(sql, moment, name, lease, progress, &mut settled)?;
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
        if run.len() == 1 {
            return self.ack_one(sql, name, first, settled);
        }
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

    /// One lease: two statements if it lasts.
    fn ack_one(
        &mut self,
        sql: &mut dyn Sql,
        name: &str,
        lease: &Lease,
        settled: &mut Settled,
    ) -> Result<(), BrokerError> {
        let place = lease.place();
        let ack = if broken::is(Variant::AckTakesTheBatch) { ACK_BATCH } else { ACK_ONE };
        if sql.run(ack, &[place.queue.into(), place.due_at_ms.into(), place.seq.into()])?.changes == 0 {
            return self.ack_late(sql, name, lease, settled);
        }
        sql.run(ACK_MESSAGE, &[place.seq.into()])?;
        self.queue_mut(name)?.tally.remove(&place);
        settled.acked += 1;
        Ok(())
    }

    /// One lease that may have ended.
    fn ack_late(
        &mut self,
        sql: &mut dyn Sql,
        name: &str,
        lease: &Lease,
        settled: &mut Settled,
    ) -> Result<(), BrokerError> {
        let Lease { queue, until_ms, seq, .. } = *lease;
        let was = self.remove_at(sql, name, &MessageRef { queue, due_at_ms: until_ms, seq })?;
        if was.had_row || was.had_body {
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
        (retry, is_last): (&Retry, bool),
        settled: &mut Settled,
    ) -> Result<(), BrokerError> {
        let (place, now_ms) = (retry.lease.place(), self.clock.time_ms(moment));
        let consumer = &self.queue(name)?.info.settings.consumer;
        let retries_max = consumer.max_retries + u32::from(broken::is(Variant::OneRetryTooMany));
        if is_last || retry.lease.attempt > retries_max {
            match self.lost(sql, moment, &retry.lease)? {
                Some(warning) => settled.warnings.push((retry.lease, warning)),
                None => {
                    settled.retried += 1;
                    settled.gone.extend(self.give_up(sql, moment, name, &place, &retry.end())?);
                }
            }
            return Ok(());
        }
        let delay_ms = retry.delay_ms.unwrap_or_else(|| consumer.retry_delay_s.saturating_mul(1_000));
        let delay_ms = if broken::is(Variant::RetryWithoutDelay) { 0 } else { delay_ms };
        let due_at_ms = due_at_ms(now_ms, delay_ms.into());
        if retry.lease.until_ms <= now_ms && !broken::is(Variant::LeaseNotChecked) {
            settled.warnings.push((retry.lease, Warning::Late));
            return Ok(());
        }
        if !self.move_place(sql, RETRY, due_at_ms, retry)? {
            settled.warnings.push((retry.lease, Warning::Unknown));
            return Ok(());
        }
        settled.retried += 1;
        let held = self.queue_mut(name)?;
        held.tally.unhold(&place);
        held.tally.delayed += u64::from(due_at_ms > 0);
        if due_at_ms == 0 {
            held.expires_at_age_ms = 0; // it may be older than what was the oldest
        } else {
            held.waits_until(due_at_ms);
        }
        Ok(())
    }

    fn release(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        lease: &Lease,
        progress: Option<&str>,
        settled: &mut Settled,
    ) -> Result<(), BrokerError> {
        if lease.until_ms <= self.clock.time_ms(moment) {
            settled.warnings.push((*lease, Warning::Late));
            return Ok(());
        }
        let place = lease.place();
        let Place { queue, due_at_ms, seq, .. } = place;
        let at = [queue.into(), due_at_ms.into(), seq.into(), lease.attempt.into(), progress.into()];
        if sql.run(RELEASE, &at)?.changes == 0 {
            settled.warnings.push((*lease, Warning::Unknown));
            return Ok(());
        }
        settled.released += 1;
        let held = self.queue_mut(name)?;
        held.tally.unhold(&place);
        held.expires_at_age_ms = 0;
        Ok(())
    }

    /// Why a lease no longer gives the right to more than an ack; `None` if it does.
    pub(super) fn lost(
        &self,
        sql: &mut dyn Sql,
        moment: Moment,
        lease: &Lease,
    ) -> Result<Option<Warning>, BrokerError> {
        if lease.until_ms <= self.clock.time_ms(moment) {
            return Ok(Some(Warning::Late));
        }
        let at: [Arg<'_>; 4] = [lease.queue.into(), lease.until_ms.into(), lease.seq.into(), lease.attempt.into()];
        let held = !sql.run(STILL_LEASED, &at)?.rows.is_empty();
        Ok(if held { None } else { Some(Warning::Unknown) })
    }

    /// Moves the row of a lease to another due time, with what the consumer said. `false` if it is not leased so.
    pub(super) fn move_place(
        &self,
        sql: &mut dyn Sql,
        statement: &'static str,
        due_at_ms: i64,
        retry: &Retry,
    ) -> Result<bool, BrokerError> {
        let Lease { queue, until_ms, seq, attempt, .. } = retry.lease;
        let values = [
            due_at_ms.into(),
            retry.error.as_deref().map(shortened).into(),
            retry.progress.as_deref().filter(|_| !broken::is(Variant::ProgressLost)).into(),
            queue.into(),
            until_ms.into(),
            seq.into(),
            attempt.into(),
        ];
        Ok(sql.run(statement, &values)?.changes > 0)
    }
}

fn check_progress(progress: &str) -> Result<(), BrokerError> {
    match progress.len() {
        actual if actual > PROGRESS_BYTES_MAX => {
            Err(BrokerError::TooLong { what: "bytes of progress", limit: PROGRESS_BYTES_MAX, actual })
        }
        _ => Ok(()),
    }
}

impl Retry {
    pub(super) fn check(&self, index: usize) -> Result<(), BrokerError> {
        if let Some(delay_ms) = self.delay_ms.filter(|delay| *delay > DELAY_MAX_S * 1_000) {
            return Err(BrokerError::DelayTooLong { index, limit: DELAY_MAX_S, actual: delay_ms.div_ceil(1_000) });
        }
        self.progress.as_deref().map_or(Ok(()), check_progress)
    }

    pub(super) fn end(&self) -> End<'_> {
        let (error, progress) = (self.error.as_deref(), self.progress.as_deref());
        End { attempts: self.lease.attempt, reason: self.reason, error, progress }
    }
}

impl Lease {
    pub(super) fn place(&self) -> Place {
        let Self { queue, until_ms, seq, bytes, .. } = *self;
        Place { queue, due_at_ms: until_ms, seq, bytes, leased: true }
    }
}
