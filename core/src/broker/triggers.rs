//! Triggers: what is known of the links between queues or schedules and what they run.
//!
//! The app says which there are. The store knows whether one is disabled, how its last run ended, and up to when its
//! schedule has been followed.

use std::collections::BTreeMap;

use super::error::BrokerError;
use super::leave::shortened;
use super::limits::TRIGGER_NAME_BYTES_MAX;
use super::load::{integer, text};
use super::sql::Sql;
use super::take::message_id;
use super::types::{MessageId, NewMessage};
use super::{Broker, Moment};
use crate::broken::Variant;
use crate::store::{Row, StoreError, Value};

const ALL: &str = "SELECT name, enabled, run_at, run_done, run_error, run_message, last_occurrence FROM jadpo_triggers";
const ENABLE: &str = "INSERT INTO jadpo_triggers (name, enabled) VALUES (?1, ?2) \
    ON CONFLICT (name) DO UPDATE SET enabled = excluded.enabled";
const RAN: &str = "INSERT INTO jadpo_triggers (name, run_at, run_done, run_error, run_message) \
    VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (name) DO UPDATE SET run_at = excluded.run_at, \
    run_done = excluded.run_done, run_error = excluded.run_error, run_message = excluded.run_message";
const LAST: &str = "SELECT last_occurrence FROM jadpo_triggers WHERE name = ?1";
const OCCURRED: &str = "INSERT INTO jadpo_triggers (name, last_occurrence, run_at, run_done, run_error, run_message) \
    VALUES (?1, ?2, ?3, 1, NULL, ?4) ON CONFLICT (name) DO UPDATE SET last_occurrence = excluded.last_occurrence, \
    run_at = excluded.run_at, run_done = excluded.run_done, run_error = excluded.run_error, \
    run_message = excluded.run_message";

const PASSED: &str = "INSERT INTO jadpo_triggers (name, last_occurrence) VALUES (?1, ?2) \
    ON CONFLICT (name) DO UPDATE SET last_occurrence = max(coalesce(last_occurrence, ?2), ?2)";

/// The name of a queue's trigger: `queue:NAME`.
#[must_use]
pub fn queue_trigger(queue: &str) -> String {
    format!("queue:{queue}")
}

/// The name of a schedule's trigger: `schedule:NAME`.
#[must_use]
pub fn schedule_trigger(schedule: &str) -> String {
    format!("schedule:{schedule}")
}

/// What is known of a trigger. One that nothing is known of is enabled and never ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerState {
    /// Whether it runs. Messages of a queue whose trigger does not wait.
    pub enabled: bool,
    /// Its last run.
    pub last_run: Option<Run>,
    /// The time of the last occurrence that was recorded, in milliseconds since 1970, if it is a schedule's.
    pub last_occurrence_ms: Option<i64>,
}

impl Default for TriggerState {
    fn default() -> Self {
        Self { enabled: true, last_run: None, last_occurrence_ms: None }
    }
}

/// One run of a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// When it ended, in milliseconds since 1970.
    pub at_ms: i64,
    /// How it ended.
    pub outcome: RunOutcome,
    /// What went wrong; its beginning is kept.
    pub error: Option<String>,
    /// The message that it was for.
    pub message: Option<MessageId>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// Everything that it runs succeeded.
    Done,
    /// Something did not.
    Failed,
}

impl RunOutcome {
    /// Its name, for operators.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

impl Broker {
    /// What is known of triggers, by name. Those that nothing is known of are not among them.
    ///
    /// # Errors
    /// [`BrokerError::Store`].
    pub fn triggers(&self, sql: &mut dyn Sql) -> Result<BTreeMap<String, TriggerState>, BrokerError> {
        let rows = sql.run(ALL, &[])?.rows;
        rows.iter().map(|row| Ok((text(row, 0)?, TriggerState::read(row)?))).collect()
    }

    /// Enables a trigger or disables it.
    ///
    /// # Errors
    /// [`BrokerError::TooLong`] for a name that no trigger has; [`BrokerError::Store`].
    pub fn enable_trigger(&mut self, sql: &mut dyn Sql, name: &str, enabled: bool) -> Result<(), BrokerError> {
        check_trigger(name)?;
        sql.run(ENABLE, &[name.into(), enabled.into()])?;
        if enabled {
            self.disabled.remove(name);
        } else {
            self.disabled.insert(name.to_owned());
        }
        Ok(())
    }

    /// Keeps how triggers' last runs ended. Of several runs of one, the last in the list is its last.
    ///
    /// # Errors
    /// [`BrokerError::TooLong`] for a name that no trigger has; [`BrokerError::Store`].
    pub fn record_runs(&mut self, sql: &mut dyn Sql, runs: &[(String, Run)]) -> Result<(), BrokerError> {
        runs.iter().try_for_each(|(name, _)| check_trigger(name))?;
        let last: BTreeMap<&str, &Run> = runs.iter().map(|(name, run)| (name.as_str(), run)).collect();
        for (name, run) in last {
            let message = run.message.map(|id| id.0.to_be_bytes());
            let values = [
                name.into(),
                run.at_ms.into(),
                (run.outcome == RunOutcome::Done).into(),
                run.error.as_deref().map(shortened).into(),
                message.as_ref().map(<[u8; 16]>::as_slice).into(),
            ];
            sql.run(RAN, &values)?;
        }
        Ok(())
    }

    /// Records one occurrence of a schedule and sends its message, in one transaction, unless it or a later one is
    /// recorded already: then it is `None`, and nothing is sent. So each occurrence happens once, and time that is set
    /// back repeats none. That it was sent is the trigger's last run.
    ///
    /// `schedule` is the schedule's name; its trigger is [`schedule_trigger`] of that.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn occur(
        &mut self,
        sql: &mut dyn Sql,
        moment: Moment,
        schedule: &str,
        occurrence_ms: i64,
        queue: &str,
        message: &NewMessage,
    ) -> Result<Option<MessageId>, BrokerError> {
        let trigger = schedule_trigger(schedule);
        check_trigger(&trigger)?;
        message.check(0)?;
        let rows = sql.run(LAST, &[trigger.as_str().into()])?.rows;
        let last_ms = rows.first().and_then(|row| row.integer(0));
        if last_ms.is_some_and(|last_ms| occurrence_ms <= last_ms) {
            return Ok(None);
        }
        let id = self.send_one(sql, moment, queue, message)?;
        let message = id.0.to_be_bytes();
        let values = [trigger.as_str().into(), occurrence_ms.into(), moment.wall_ms.into(), message.as_slice().into()];
        self.run_or_put_off(Variant::OccurrenceRecordedLater, sql, OCCURRED, &values)?;
        Ok(Some(id))
    }

    /// Records that a schedule is followed up to a time and that nothing was sent for it: it begins, or its trigger is
    /// disabled. A later time that is recorded stays.
    ///
    /// # Errors
    /// [`BrokerError::TooLong`] for a name that no schedule has; [`BrokerError::Store`].
    pub fn pass(&mut self, sql: &mut dyn Sql, schedule: &str, until_ms: i64) -> Result<(), BrokerError> {
        let trigger = schedule_trigger(schedule);
        check_trigger(&trigger)?;
        sql.run(PASSED, &[trigger.as_str().into(), until_ms.into()])?;
        Ok(())
    }
}

impl TriggerState {
    fn read(row: &Row) -> Result<Self, StoreError> {
        let last_run = match row.integer(2) {
            Some(at_ms) => Some(Run {
                at_ms,
                outcome: if integer(row, 3)? != 0 { RunOutcome::Done } else { RunOutcome::Failed },
                error: row.text(4).map(str::to_owned),
                message: match row.0.get(5) {
                    Some(Value::Blob(_)) => Some(message_id(row, 5)?),
                    _ => None,
                },
            }),
            None => None,
        };
        Ok(Self { enabled: integer(row, 1)? != 0, last_run, last_occurrence_ms: row.integer(6) })
    }
}

/// Names come from the app, which has checked them; here they only must not grow without end.
pub(super) fn check_trigger(name: &str) -> Result<(), BrokerError> {
    if name.len() <= TRIGGER_NAME_BYTES_MAX {
        return Ok(());
    }
    Err(BrokerError::TooLong { what: "bytes of a name", limit: TRIGGER_NAME_BYTES_MAX, actual: name.len() })
}
