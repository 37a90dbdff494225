//! Redrives: dead letters on their way back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::messages::message_id;
use crate::broker::{self, Reason, RedriveTask};

/// A redrive to be started, or only to be counted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRedrive {
    /// The dead-letter queue, or a queue whose dead-letter queue is meant.
    pub queue: String,
    /// The queue that they go to. Absent: each to the one that it died in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Which of them.
    #[serde(default)]
    pub filter: RedriveFilter,
    /// Messages a second, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<u32>,
    /// Only count what would be moved.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which dead letters are meant: those that fit every field given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedriveFilter {
    /// The queue that they died in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// `retried`, `failed` or `lease_ended`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Text in their error, as it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_contains: Option<String>,
    /// Their ids, at most [`REDRIVE_IDS_MAX`](crate::broker::limits::REDRIVE_IDS_MAX).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// They died at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died_from_ms: Option<i64>,
    /// They died before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died_before_ms: Option<i64>,
    /// So many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// A redrive. It moves slice by slice until all that had died when it started was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redrive {
    /// Its number.
    pub id: u64,
    /// The dead-letter queue.
    pub queue: String,
    /// The queue that they go to. Absent: each to the one that it died in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Which of them.
    #[serde(default)]
    pub filter: RedriveFilter,
    /// Messages a second, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<u32>,
    /// Where it stands.
    pub state: RedriveState,
    /// Messages in the dead-letter queue when it started.
    pub letters: u64,
    /// Messages that it put back.
    pub moved: u64,
    /// Messages that fit the filter and stay because a consumer of the dead-letter queue held them.
    pub held: u64,
    /// Messages that fit the filter and stay because they have nowhere to go: the queue that they died in is gone, or
    /// they were sent to the dead-letter queue itself.
    pub without_origin: u64,
    /// When it started.
    pub started_at_ms: i64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
}

/// Where a redrive stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedriveState {
    /// There is more to do.
    Running,
    /// All is done.
    Done,
    /// An operator ended it. What was moved stays moved.
    Cancelled,
}

/// What a redrive would do now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RedrivePreview {
    /// The dead-letter queue.
    pub queue: String,
    /// Messages that fit the filter.
    pub matched: u64,
    /// How many of them would go to which queue.
    pub by_target: BTreeMap<String, u64>,
    /// How many would stay because a consumer of the dead-letter queue holds them.
    pub held: u64,
    /// How many would stay because they have nowhere to go.
    pub without_origin: u64,
}

/// All redrives that run, and the last that have ended, in the order they were started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Redrives {
    /// The redrives.
    pub redrives: Vec<Redrive>,
}

impl NewRedrive {
    /// The same for the broker.
    ///
    /// # Errors
    /// In words: a reason or an id that is none.
    pub fn to_broker(&self) -> Result<broker::Redrive, String> {
        let filter = &self.filter;
        let reason = filter.reason.as_deref().map(|name| {
            let known = [Reason::Retried, Reason::Failed, Reason::LeaseEnded];
            let named = known.into_iter().find(|reason| reason.name() == name);
            named.ok_or_else(|| "reason: one of retried, failed and lease_ended".to_owned())
        });
        let ids = filter.ids.iter().map(|id| {
            let shown: String = id.chars().take(40).collect();
            message_id(id).ok_or_else(|| format!("`{shown}` is no message's id: those are 32 hex digits"))
        });
        Ok(broker::Redrive {
            source: self.queue.clone(),
            to: self.to.clone(),
            filter: broker::RedriveFilter {
                origin: filter.origin.clone(),
                reason: reason.transpose()?,
                error_contains: filter.error_contains.clone(),
                ids: ids.collect::<Result<_, _>>()?,
                died_from_ms: filter.died_from_ms,
                died_before_ms: filter.died_before_ms,
                limit: filter.limit,
            },
            rate_per_s: self.rate_per_s,
        })
    }
}

impl From<RedriveTask> for Redrive {
    fn from(task: RedriveTask) -> Self {
        let filter = task.redrive.filter;
        Self {
            id: task.id,
            queue: task.redrive.source,
            to: task.redrive.to,
            filter: RedriveFilter {
                origin: filter.origin,
                reason: filter.reason.map(|reason| reason.name().to_owned()),
                error_contains: filter.error_contains,
                ids: filter.ids.iter().map(ToString::to_string).collect(),
                died_from_ms: filter.died_from_ms,
                died_before_ms: filter.died_before_ms,
                limit: filter.limit,
            },
            rate_per_s: task.redrive.rate_per_s,
            state: match task.state {
                broker::RedriveState::Running => RedriveState::Running,
                broker::RedriveState::Done => RedriveState::Done,
                broker::RedriveState::Cancelled => RedriveState::Cancelled,
            },
            letters: task.letters,
            moved: task.moved,
            held: task.skipped,
            without_origin: task.without_origin,
            started_at_ms: task.created_at_ms,
            ended_at_ms: task.ended_at_ms,
        }
    }
}

impl RedrivePreview {
    /// The broker's, of this dead-letter queue.
    #[must_use]
    pub fn of(queue: String, preview: broker::RedrivePreview) -> Self {
        let broker::RedrivePreview { matched, by_target, held, without_origin } = preview;
        Self { queue, matched, by_target, held, without_origin }
    }
}
