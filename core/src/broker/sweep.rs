//! The sweep: what time does to queues that nobody takes from, a slice at a time.

use std::ops::Bound;

use super::error::BrokerError;
use super::load::integer;
use super::sql::Sql;
use super::take::{Found, OVERDUE, found};
use super::types::Swept;
use super::{Broker, Moment};
use crate::store::StoreError;

/// Rows that one sweep looks at, and queues, at most. It holds up whoever waits for the store meanwhile, some milliseconds.
const SLICE: usize = 500;

const NEXT: &str = "SELECT due_at FROM jadpo_queue_due WHERE queue = ?1 AND due_at > 0 ORDER BY due_at, seq LIMIT 1";
const CLOCKS: &str = "UPDATE jadpo_broker SET clock_ms = ?1, age_ms = ?2, steady_ms = ?3";
const PROMOTE: &str = "UPDATE jadpo_queue_due SET due_at = 0, leased = 0 WHERE queue = ?1 AND due_at = ?2 AND seq = ?3";
const OLDEST: &str = "SELECT m.kept_from FROM jadpo_queue_due d JOIN jadpo_queue_messages m ON m.seq = d.seq \
    WHERE d.queue = ?1 AND d.due_at = 0 ORDER BY d.seq LIMIT 1";
const OLDEST_READY: &str = found!("AND d.due_at = 0 ORDER BY d.seq LIMIT ?2");
const SLICE_END: &str =
    "SELECT due_at, seq FROM jadpo_queue_due WHERE queue = ?1 ORDER BY due_at, seq LIMIT 1 OFFSET ?2";
const CLEAR_MESSAGES: &str = "DELETE FROM jadpo_queue_messages WHERE seq IN \
    (SELECT seq FROM jadpo_queue_due WHERE queue = ?1 AND (due_at, seq) <= (?2, ?3))";
const CLEAR_DUE: &str = "DELETE FROM jadpo_queue_due WHERE queue = ?1 AND (due_at, seq) <= (?2, ?3)";
const CLEARED: &str = "DELETE FROM jadpo_queue_garbage WHERE queue = ?1";

impl Broker {
    /// Does a slice of what falls due by itself: writes the clocks down, gives back the space of what was purged,
    /// makes ready what a lease or a delay no longer holds, gives up what has no retries left, and removes what was
    /// kept long enough, whether or not its queue is paused. Messages that are leased or delayed are left until that
    /// ends.
    ///
    /// To be called about once a second, and again at once if there is more.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub fn sweep(&mut self, sql: &mut dyn Sql, moment: Moment) -> Result<Swept, BrokerError> {
        if self.clock.is_to_be_written(moment) {
            let (time_ms, age_ms) = (self.clock.time_ms(moment), self.clock.age_ms(moment));
            sql.run(CLOCKS, &[time_ms.into(), age_ms.into(), moment.steady_ms.into()])?;
            self.clock.written(moment);
        }
        self.run_put_off(sql)?;
        self.forget_sent_once(sql, moment, SLICE)?;
        let mut swept = Swept::default();
        let mut left = SLICE;
        if let Some(queue) = self.garbage.first().copied() {
            left = left.saturating_sub(self.clear(sql, queue)?);
        }
        // Ten thousand queues are not asked in one slice either.
        let names = self.names_to_sweep(moment);
        let more_queues = names.len() > SLICE;
        for name in names.into_iter().take(SLICE) {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(self.wake_overdue(sql, moment, &name, left, &mut swept)?);
            left = left.saturating_sub(self.expire_ready(sql, moment, &name, left, &mut swept)?);
            self.swept_last = name;
        }
        swept.more = left == 0 || more_queues || !self.garbage.is_empty();
        Ok(swept)
    }

    /// The queues that may have something to do, from where the last sweep stopped: one of them that never ends must
    /// not keep the others waiting.
    fn names_to_sweep(&self, moment: Moment) -> Vec<String> {
        let (now_ms, age_ms) = (self.clock.time_ms(moment), self.clock.age_ms(moment));
        let after = (Bound::Excluded(self.swept_last.as_str()), Bound::Unbounded);
        let before = (Bound::Unbounded, Bound::Included(self.swept_last.as_str()));
        let round = self.queues.range::<str, _>(after).chain(self.queues.range::<str, _>(before));
        round.filter(|(_, queue)| queue.may_have_work(now_ms, age_ms)).map(|(name, _)| name.clone()).collect()
    }

    /// Clears away a slice of contents that no queue has any more.
    fn clear(&mut self, sql: &mut dyn Sql, queue: i64) -> Result<usize, StoreError> {
        let offset = i64::try_from(SLICE - 1).unwrap_or(i64::MAX);
        let end = sql.run(SLICE_END, &[queue.into(), offset.into()])?.rows;
        let (due_at_ms, seq) = match end.first() {
            Some(row) => (integer(row, 0)?, integer(row, 1)?),
            None => (i64::MAX, i64::MAX),
        };
        let range = [queue.into(), due_at_ms.into(), seq.into()];
        sql.run(CLEAR_MESSAGES, &range)?;
        let cleared = sql.run(CLEAR_DUE, &range)?.changes;
        if end.is_empty() {
            sql.run(CLEARED, &[queue.into()])?;
            self.garbage.remove(&queue);
        }
        Ok(usize::try_from(cleared).unwrap_or(SLICE))
    }

    /// Messages whose lease or delay has ended, which nobody took.
    fn wake_overdue(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        room: usize,
        swept: &mut Swept,
    ) -> Result<usize, BrokerError> {
        let (queue, now_ms) = (self.queue(name)?, self.clock.time_ms(moment));
        if queue.tally.timed() == 0 || queue.next_due_ms > now_ms {
            return Ok(0);
        }
        let number = queue.number;
        let limit = i64::try_from(room).unwrap_or(i64::MAX);
        let mut overdue = Vec::new();
        let rows = sql.run(OVERDUE, &[number.into(), now_ms.into(), limit.into()])?.rows;
        Found::read(rows, &mut overdue)?;
        let looked_at = overdue.len();
        for found in self.turn_out(sql, moment, name, overdue, &mut swept.gone)? {
            let place = found.place;
            sql.run(PROMOTE, &[place.queue.into(), place.due_at_ms.into(), place.seq.into()])?;
            let held = self.queue_mut(name)?;
            held.tally.unhold(&place);
            // It may be older than what was the oldest.
            held.expires_at_age_ms = 0;
        }
        let next = sql.run(NEXT, &[number.into()])?.rows;
        self.queue_mut(name)?.next_due_ms = next.first().map_or(Ok(i64::MAX), |row| integer(row, 0))?;
        Ok(looked_at)
    }

    /// Ready messages that were kept long enough. They stand in the order they came in, so only the front is looked
    /// at, and not again before it can have changed.
    fn expire_ready(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        name: &str,
        room: usize,
        swept: &mut Swept,
    ) -> Result<usize, BrokerError> {
        let age_ms = self.clock.age_ms(moment);
        let held = self.queue_mut(name)?;
        let retention_ms = i64::from(held.info.settings.retention_s) * 1_000;
        if held.expires_at_age_ms > age_ms || room == 0 {
            return Ok(0);
        }
        let number = held.number;
        let oldest = sql.run(OLDEST, &[number.into()])?.rows;
        let from_age_ms = oldest.first().map_or(Ok(age_ms), |row| integer(row, 0))?;
        held.expires_at_age_ms = from_age_ms + retention_ms;
        if held.expires_at_age_ms > age_ms {
            return Ok(0);
        }
        let limit = i64::try_from(room).unwrap_or(i64::MAX);
        let mut front = Vec::new();
        Found::read(sql.run(OLDEST_READY, &[number.into(), limit.into()])?.rows, &mut front)?;
        let looked_at = front.len();
        self.turn_out(sql, moment, name, front, &mut swept.gone)?;
        Ok(looked_at)
    }
}

impl super::Queue {
    fn may_have_work(&self, now_ms: i64, age_ms: i64) -> bool {
        (self.tally.timed() > 0 && self.next_due_ms <= now_ms)
            || (self.tally.messages > 0 && self.expires_at_age_ms <= age_ms)
    }
}
