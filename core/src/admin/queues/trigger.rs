//! Triggers and webhooks, as they are listed.

use serde::{Deserialize, Serialize};

use crate::cron::Cron;
use crate::schedule::silent_until;

/// What makes functions run: a queue's messages, or a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// `queue:NAME` or `schedule:FUNCTION`.
    pub name: String,
    /// Which of the two.
    pub kind: TriggerKind,
    /// The queue whose messages the functions get.
    pub queue: String,
    /// The cron expression, in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The Worker whose `scheduled` handler is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The functions. Empty if the queue's messages become events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// The event that the queue's messages become.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Whether it runs. While it does not, messages wait.
    pub enabled: bool,
    /// Its last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<Run>,
    /// The last time of the schedule that was taken up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_occurrence_ms: Option<i64>,
    /// The next time of the schedule; none while it is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at_ms: Option<i64>,
}

impl Trigger {
    /// Its next time, if it is passed over until then though times of its schedule come before: it was followed further
    /// than to now, by a clock that was ahead.
    #[must_use]
    pub fn waits_until_ms(&self, now_ms: i64) -> Option<i64> {
        if !self.enabled {
            return None;
        }
        let schedule = self.schedule.as_deref()?;
        let cron = if self.worker.is_some() { Cron::parse_of_worker(schedule) } else { Cron::parse(schedule) };
        silent_until(&cron.ok()?, self.last_occurrence_ms?, now_ms)
    }
}

/// What a trigger waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerKind {
    /// A queue's messages.
    Queue,
    /// A time.
    Schedule,
}

/// A run of a trigger: one message, handed to all its functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// When it ended.
    pub at_ms: i64,
    /// How.
    pub outcome: Outcome,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every function is done.
    Done,
    /// One failed, or more.
    Failed,
}

/// All triggers, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Triggers {
    /// The triggers.
    pub triggers: Vec<Trigger>,
}

/// An inbound webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// Its name.
    pub name: String,
    /// The queue that it writes to.
    pub queue: String,
    /// How a request proves who sent it: `stripe`, `github`, `shopify` or `standard`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// Where it is, below the server's address. Whoever knows it may send, so it is a secret where it holds a token.
    pub path: String,
}

/// All webhooks, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Webhooks {
    /// The webhooks.
    pub webhooks: Vec<Webhook>,
    /// The address that the server on this store last answered at, if it is known and not the one that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}
