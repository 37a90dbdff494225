//! One slice of a redrive.

use super::filter::{Letter, Way};
use super::tasks::{Kept, kept};
use super::{RedriveState, RedriveTask};
use crate::broken::{self, Variant};
use crate::broker::error::BrokerError;
use crate::broker::limits::BATCH_COUNT_MAX;
use crate::broker::sql::Sql;
use crate::broker::{Broker, Moment, send};

/// The letter as a message that was just sent, but with the id and the time that it has always had.
const PUT_BACK: &str = "INSERT INTO jadpo_queue_messages (seq, id, sent_at, kept_from, content, meta, body) \
    SELECT ?1, id, sent_at, ?2, content, meta, body FROM jadpo_queue_messages WHERE seq = ?3";
/// What a deliberate mistake does in its place.
const PUT_BACK_BARE: &str = "INSERT INTO jadpo_queue_messages (seq, id, sent_at, kept_from, content, meta, body) \
    SELECT ?1, id, sent_at, ?2, 0, NULL, body FROM jadpo_queue_messages WHERE seq = ?3";
/// What was done of it counts where it was done.
const PUT_BACK_DUE: &str = "INSERT INTO jadpo_queue_due (queue, due_at, seq, attempts, leased, bytes, progress) \
    SELECT ?1, 0, ?2, 0, 0, ?3, CASE WHEN ?4 THEN dead_progress END FROM jadpo_queue_messages WHERE seq = ?5";

/// Time that was not used for moving lets so much be moved at once, at most: a task that was away does not make up for
/// it.
const BURST_US: i64 = 1_000_000;

impl Broker {
    /// Does a slice of a redrive: looks at up to 500 letters, moves up to `max` of them (1 to 100) and no more than its
    /// rate allows now, and answers how far it is and in how many milliseconds to come again. One that has ended is
    /// left as it is.
    ///
    /// # Errors
    /// [`BrokerError::BatchCount`] for `max`; [`BrokerError::RedriveNotFound`]; [`BrokerError::Store`].
    pub fn redrive_step(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        id: u64,
        max: usize,
    ) -> Result<RedriveTask, BrokerError> {
        if max == 0 || max > BATCH_COUNT_MAX {
            return Err(BrokerError::BatchCount { limit: BATCH_COUNT_MAX, actual: max });
        }
        let mut kept = kept(sql, id)?;
        if kept.task.state == RedriveState::Running {
            self.slice(sql, moment, &mut kept, max as u64)?;
            kept.keep(sql)?;
        }
        Ok(self.told(kept, moment))
    }

    fn slice(&mut self, sql: &mut dyn Sql, moment: Moment, kept: &mut Kept, max: u64) -> Result<(), BrokerError> {
        let now_ms = self.clock.time_ms(moment);
        let redrive = kept.task.redrive.clone();
        if !self.queues.contains_key(&redrive.source) {
            // With the queue its letters are gone.
            kept.end(RedriveState::Done, moment);
            return Ok(());
        }
        let mut allowed = kept.allowed(now_ms).min(max);
        let (letters, more) = self.letters(sql, &redrive.source, &kept.cursor)?;
        let mut over = !more;
        for letter in letters {
            let matches = redrive.filter.holds_for(&letter);
            let way = if matches { self.way(&redrive, &letter, now_ms) } else { Way::Nowhere };
            match way {
                _ if !matches => {}
                Way::Held => kept.task.skipped += 1,
                Way::Nowhere => kept.task.without_origin += 1,
                Way::To(_) if redrive.filter.limit.is_some_and(|limit| kept.task.moved >= limit) => {
                    over = true;
                    break;
                }
                Way::To(_) if allowed == 0 => {
                    over = false;
                    break;
                }
                Way::To(name) => {
                    self.put_back(sql, moment, &redrive.source, &letter, &name)?;
                    kept.task.moved += 1;
                    kept.moved_one();
                    allowed -= 1;
                }
            }
            kept.cursor.pass(&letter);
        }
        if over {
            kept.end(RedriveState::Done, moment);
        }
        Ok(())
    }

    /// Moves one letter. Past the limit of what a queue may hold as well: it was held before, elsewhere.
    fn put_back(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        source: &str,
        letter: &Letter,
        target: &str,
    ) -> Result<(), BrokerError> {
        let (old, bytes) = (letter.place.seq, letter.place.bytes);
        // A new number, so that it stands in the order of arrival and no lease of the dead-letter queue reaches it.
        let seq = self.seqs(sql, 1)?;
        let put_back = if broken::is(Variant::RedriveForgetsWhatItIs) { PUT_BACK_BARE } else { PUT_BACK };
        sql.run(put_back, &[seq.into(), self.clock.age_ms(moment).into(), old.into()])?;
        let queue = self.queue_mut(target)?;
        queue.tally.add(bytes);
        let values = [queue.number.into(), seq.into(), bytes.into(), letter.is_from(target).into(), old.into()];
        if broken::is(Variant::RedriveInTwoSteps) {
            let place = [queue.number.into(), 0_i64.into(), seq.into(), bytes.into()];
            self.run_or_put_off(Variant::RedriveInTwoSteps, sql, send::DUE, &place)?;
        } else {
            sql.run(PUT_BACK_DUE, &values)?;
        }
        self.take_out(sql, source, &letter.place)?;
        Ok(())
    }
}

impl Kept {
    /// Microseconds that each letter takes, at its rate.
    fn each_us(&self) -> Option<i64> {
        self.task.redrive.rate_per_s.map(|rate| 1_000_000 / i64::from(rate.max(1)))
    }

    /// How many letters may move now.
    fn allowed(&mut self, now_ms: i64) -> u64 {
        let Some(each_us) = self.each_us() else { return u64::MAX };
        let now_us = now_ms.saturating_mul(1_000);
        // However far off the time is that was written down, it is never waited for longer than for one pace.
        self.free_at_us = self.free_at_us.clamp(now_us - BURST_US, now_us + each_us.max(super::PACE_US));
        if self.free_at_us > now_us { 0 } else { ((now_us - self.free_at_us) / each_us).unsigned_abs() + 1 }
    }

    fn moved_one(&mut self) {
        self.free_at_us += self.each_us().unwrap_or_default();
    }
}
