//! Redrives as the store keeps them: begun, listed, cancelled.

use super::filter::Cursor;
use super::{Redrive, RedriveFilter, RedriveState, RedriveTask};
use crate::broker::error::BrokerError;
use crate::broker::limits::REDRIVES_KEPT;
use crate::broker::load::{broken, integer, text};
use crate::broker::sql::{Arg, Sql};
use crate::broker::types::{MessageId, Reason};
use crate::broker::{Broker, Moment};
use crate::store::{Row, StoreError};

macro_rules! tasks {
    ($rest:literal) => {
        concat!(
            "SELECT id, source, target, origin, reason, error_contains, ids, died_from, died_until, most, rate_per_s, \
             state, created_at, ended_at, end_seq, letters, at_due, at_seq, free_at_us, moved, skipped, without_origin \
             FROM jadpo_redrives ",
            $rest
        )
    };
}
const ALL: &str = tasks!("ORDER BY id");
const ONE: &str = tasks!("WHERE id = ?1");
const RUNNING: &str = "SELECT id FROM jadpo_redrives WHERE source = ?1 AND state = 'running'";
const BEGIN: &str = "INSERT INTO jadpo_redrives (source, target, origin, reason, error_contains, ids, died_from, \
    died_until, most, rate_per_s, state, created_at, end_seq, letters, at_due, at_seq, free_at_us, moved, skipped, \
    without_origin) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'running', ?11, ?12, ?13, 0, 0, ?14, 0, 0, 0) \
    RETURNING id";
const FORGET: &str = "DELETE FROM jadpo_redrives WHERE state <> 'running' AND id NOT IN \
    (SELECT id FROM jadpo_redrives WHERE state <> 'running' ORDER BY id DESC LIMIT ?1)";
const KEEP: &str = "UPDATE jadpo_redrives SET state = ?2, ended_at = ?3, at_due = ?4, at_seq = ?5, free_at_us = ?6, \
    moved = ?7, skipped = ?8, without_origin = ?9 WHERE id = ?1";

/// A task, with what nobody outside needs to know.
pub(super) struct Kept {
    pub(super) task: RedriveTask,
    pub(super) cursor: Cursor,
    /// When the next letter may move, in microseconds of the broker's time.
    pub(super) free_at_us: i64,
}

impl Broker {
    /// Begins a redrive, which moves nothing yet: [`redrive_step`](Self::redrive_step) does, until it has ended.
    ///
    /// # Errors
    /// [`BrokerError::RedriveRunning`] if one of the same source runs; [`BrokerError::RedriveOntoItself`];
    /// [`BrokerError::QueueNotFound`] for the source or the target; [`BrokerError::SettingInvalid`] for the rate;
    /// [`BrokerError::TooLong`] for the filter; [`BrokerError::Store`].
    pub fn redrive(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        redrive: &Redrive,
    ) -> Result<RedriveTask, BrokerError> {
        let redrive = self.checked(redrive)?;
        let source = redrive.source.as_str();
        if let Some(row) = sql.run(RUNNING, &[source.into()])?.rows.first() {
            return Err(BrokerError::RedriveRunning { source: source.to_owned(), id: integer(row, 0)?.unsigned_abs() });
        }
        sql.run(FORGET, &[i64::try_from(REDRIVES_KEPT).unwrap_or(i64::MAX).into()])?;
        let filter = &redrive.filter;
        let ids = filter.ids.iter().map(MessageId::to_string).collect::<Vec<_>>().join(",");
        let letters = i64::try_from(self.queue(source)?.tally.messages).unwrap_or(i64::MAX);
        let most = filter.limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let values: [Arg<'_>; 14] = [
            source.into(),
            redrive.to.as_deref().into(),
            filter.origin.as_deref().into(),
            filter.reason.map(Reason::name).into(),
            filter.error_contains.as_deref().into(),
            ids.as_str().into(),
            filter.died_from_ms.into(),
            filter.died_before_ms.into(),
            most.into(),
            redrive.rate_per_s.into(),
            moment.wall_ms.into(),
            self.next_seq.into(),
            letters.into(),
            self.clock.time_ms(moment).saturating_mul(1_000).into(),
        ];
        let rows = sql.run(BEGIN, &values)?.rows;
        let id = rows.first().and_then(|row| row.integer(0)).ok_or_else(|| broken("a redrive has no number"))?;
        self.redrive_task(sql, moment, id.unsigned_abs())
    }

    /// Every redrive that runs, and the last hundred that have ended, in the order they were begun.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub fn redrives(&self, sql: &mut dyn Sql, moment: Moment) -> Result<Vec<RedriveTask>, BrokerError> {
        let rows = sql.run(ALL, &[])?.rows;
        rows.iter().map(|row| Ok(self.told(Kept::read(row)?, moment))).collect()
    }

    /// One redrive.
    ///
    /// # Errors
    /// [`BrokerError::RedriveNotFound`] or [`BrokerError::Store`].
    pub fn redrive_task(&self, sql: &mut dyn Sql, moment: Moment, id: u64) -> Result<RedriveTask, BrokerError> {
        Ok(self.told(kept(sql, id)?, moment))
    }

    /// Stops a redrive. What was put back stays there. One that has ended is left as it is.
    ///
    /// # Errors
    /// [`BrokerError::RedriveNotFound`] or [`BrokerError::Store`].
    pub fn cancel_redrive(&mut self, sql: &mut dyn Sql, moment: Moment, id: u64) -> Result<RedriveTask, BrokerError> {
        let mut kept = kept(sql, id)?;
        if kept.task.state == RedriveState::Running {
            kept.end(RedriveState::Cancelled, moment);
            kept.keep(sql)?;
        }
        Ok(self.told(kept, moment))
    }

    /// With the time until its next slice.
    pub(super) fn told(&self, kept: Kept, moment: Moment) -> RedriveTask {
        let mut task = kept.task;
        let wait_us = kept.free_at_us - self.clock.time_ms(moment).saturating_mul(1_000);
        let next_in_ms = match task.redrive.rate_per_s {
            Some(_) if wait_us > 0 => wait_us.max(super::PACE_US).unsigned_abs().div_ceil(1_000),
            _ => 0,
        };
        task.next_in_ms = (task.state == RedriveState::Running).then_some(next_in_ms);
        task
    }
}

pub(super) fn kept(sql: &mut dyn Sql, id: u64) -> Result<Kept, BrokerError> {
    let number = i64::try_from(id).map_err(|_| BrokerError::RedriveNotFound(id))?;
    let rows = sql.run(ONE, &[number.into()])?.rows;
    Ok(Kept::read(rows.first().ok_or(BrokerError::RedriveNotFound(id))?)?)
}

impl Kept {
    pub(super) fn end(&mut self, state: RedriveState, moment: Moment) {
        (self.task.state, self.task.ended_at_ms) = (state, Some(moment.wall_ms));
    }

    /// Writes down how far it has come.
    pub(super) fn keep(&self, sql: &mut dyn Sql) -> Result<(), StoreError> {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let task = &self.task;
        let values: [Arg<'_>; 9] = [
            number(task.id).into(),
            task.state.name().into(),
            task.ended_at_ms.into(),
            self.cursor.due_at_ms.into(),
            self.cursor.seq.into(),
            self.free_at_us.into(),
            number(task.moved).into(),
            number(task.skipped).into(),
            number(task.without_origin).into(),
        ];
        sql.run(KEEP, &values)?;
        Ok(())
    }

    fn read(row: &Row) -> Result<Self, StoreError> {
        let words = |column| row.text(column).map(str::to_owned);
        let count = |column| Ok::<_, StoreError>(integer(row, column)?.unsigned_abs());
        let ids = text(row, 6)?;
        let ids = ids.split(',').filter(|id| !id.is_empty()).map(|id| u128::from_str_radix(id, 16).map(MessageId));
        let state = RedriveState::ALL.into_iter().find(|state| Some(state.name()) == row.text(11));
        let filter = RedriveFilter {
            origin: words(3),
            reason: Reason::ALL.into_iter().find(|reason| Some(reason.name()) == row.text(4)),
            error_contains: words(5),
            ids: ids.collect::<Result<_, _>>().map_err(|_| broken("a redrive's ids are none"))?,
            died_from_ms: row.integer(7),
            died_before_ms: row.integer(8),
            limit: row.integer(9).map(i64::unsigned_abs),
        };
        let rate_per_s = row.integer(10).and_then(|rate| u32::try_from(rate).ok());
        let task = RedriveTask {
            id: count(0)?,
            redrive: Redrive { source: text(row, 1)?, to: words(2), filter, rate_per_s },
            state: state.ok_or_else(|| broken("a redrive's state is none"))?,
            created_at_ms: integer(row, 12)?,
            ended_at_ms: row.integer(13),
            letters: count(15)?,
            moved: count(19)?,
            skipped: count(20)?,
            without_origin: count(21)?,
            next_in_ms: None,
        };
        let cursor = Cursor { due_at_ms: integer(row, 16)?, seq: integer(row, 17)?, end_seq: integer(row, 14)? };
        Ok(Self { task, cursor, free_at_us: integer(row, 18)? })
    }
}
