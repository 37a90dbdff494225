//! Redrives: dead letters on their way back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    /// Text in their error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Their ids, at most [`REDRIVE_IDS_MAX`](super::REDRIVE_IDS_MAX).
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
    /// Its id.
    pub id: String,
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
    /// Why it ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Messages that it moved.
    pub moved: u64,
    /// Messages that it looked at and left.
    pub skipped: u64,
    /// Messages in the queue when it started.
    pub total: u64,
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
    /// It could not go on.
    Failed,
}

/// What a redrive would move.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RedrivePreview {
    /// The dead-letter queue.
    pub queue: String,
    /// Messages that fit the filter.
    pub matched: u64,
    /// How many would go where.
    pub by_target: BTreeMap<String, u64>,
    /// Those that fit and were sent to the dead-letter queue itself: they have no queue to go back to.
    pub without_origin: u64,
}

/// All redrives that are known, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Redrives {
    /// The redrives.
    pub redrives: Vec<Redrive>,
}
