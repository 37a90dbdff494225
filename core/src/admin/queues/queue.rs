//! Queues, as they are listed and made.

use serde::{Deserialize, Serialize};

use crate::broker::{Backlog, Settings};

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Its id, which stays the same while it exists.
    pub id: String,
    /// When it was made.
    pub created_at_ms: i64,
    /// When its settings last changed.
    pub modified_at_ms: i64,
    /// Messages, in whatever state.
    pub messages: u64,
    /// Those that are with a consumer.
    pub in_flight: u64,
    /// Those that wait for a time to come.
    pub delayed: u64,
    /// Bytes of all bodies.
    pub bytes: u64,
    /// When the oldest was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_sent_at_ms: Option<i64>,
    /// Whether nothing is taken from it.
    pub paused: bool,
    /// Where its messages go when their retries are spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter_queue: Option<String>,
    /// Messages in that queue. It may be shared with others.
    #[serde(default)]
    pub dead_letters: u64,
    /// The queues whose dead letters come here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dead_letters_of: Vec<String>,
    /// Who consumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<Consumer>,
    /// What is set for it.
    pub settings: QueueSettings,
}

/// Who consumes a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumer {
    /// The functions that each get every message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// The event that every message becomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Whether it is pulled over HTTP.
    #[serde(default)]
    pub http_pull: bool,
    /// The Worker that consumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Whether that Worker runs on this store now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_runs: Option<bool>,
    /// Whether its trigger is on.
    pub enabled: bool,
}

/// What is set for a queue, as the broker holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSettings {
    /// Seconds by which a message is delayed that is sent without a delay.
    pub delivery_delay_s: u32,
    /// Seconds for which a message is kept.
    pub retention_s: u32,
    /// Messages handed over at once, at most.
    pub batch_size: u32,
    /// How long to wait for a batch to fill.
    pub batch_wait_ms: u32,
    /// Deliveries after the first.
    pub max_retries: u32,
    /// Seconds that a retry waits.
    pub retry_delay_s: u32,
    /// How long a message is leased.
    pub visibility_ms: u32,
    /// Batches handed over side by side, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
}

/// A page of queues, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Queues {
    /// The page.
    pub queues: Vec<Queue>,
    /// What to give as `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A queue to be made. What is absent is the broker's default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewQueue {
    /// Its name.
    pub name: String,
    /// Seconds by which a message is delayed that is sent without a delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_delay_s: Option<u32>,
    /// Seconds for which a message is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_s: Option<u32>,
    /// Messages handed over at once, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u32>,
    /// How long to wait for a batch to fill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_wait_ms: Option<u32>,
    /// Deliveries after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Seconds that a retry waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_delay_s: Option<u32>,
    /// How long a message is leased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility_ms: Option<u32>,
    /// Batches handed over side by side, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// Where its messages go when their retries are spent. Without one they are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter_queue: Option<String>,
    /// Whether nothing is taken from it yet.
    #[serde(default)]
    pub paused: bool,
    /// Whether it is pulled over HTTP.
    #[serde(default)]
    pub http_pull: bool,
}

/// What a purge or a deletion removed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Emptied {
    /// Messages, in whatever state.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Of a deletion: whether the app declares the queue, so that it is made again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declared: bool,
    /// Of a deletion: a Worker that runs here and sends to the queue, so that it is made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

impl From<&Settings> for QueueSettings {
    fn from(settings: &Settings) -> Self {
        let consumer = &settings.consumer;
        Self {
            delivery_delay_s: settings.delivery_delay_s,
            retention_s: settings.retention_s,
            batch_size: consumer.batch_size,
            batch_wait_ms: consumer.batch_wait_ms,
            max_retries: consumer.max_retries,
            retry_delay_s: consumer.retry_delay_s,
            visibility_ms: consumer.visibility_ms,
            max_concurrency: consumer.max_concurrency,
        }
    }
}

impl NewQueue {
    /// Its settings, the broker's defaults where it names none.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.settings_over(Settings::default())
    }

    /// Its settings over those that an app declares for a queue of its name. What the declaration leaves to the
    /// operator may be anything.
    ///
    /// # Errors
    /// The first setting that the declaration says otherwise.
    pub fn settings_as_declared(&self, declared: Settings) -> Result<Settings, &'static str> {
        let wanted = self.settings_over(declared.clone());
        let (consumer, other) = (&declared.consumer, &wanted.consumer);
        let differs = [
            ("max receives", consumer.max_retries != other.max_retries),
            ("dead-letter queue", consumer.dead_letter_queue != other.dead_letter_queue),
            ("visibility", consumer.visibility_ms != other.visibility_ms),
            ("concurrency", consumer.max_concurrency != other.max_concurrency),
            ("retry delay", consumer.retry_delay_s != other.retry_delay_s),
            ("batch size", consumer.batch_size != other.batch_size),
            ("batch wait", consumer.batch_wait_ms != other.batch_wait_ms),
        ];
        differs.into_iter().find(|(_, differs)| *differs).map_or(Ok(wanted), |(what, _)| Err(what))
    }

    /// Its settings, others where it names none.
    #[must_use]
    pub fn settings_over(&self, mut settings: Settings) -> Settings {
        let set = |to: &mut u32, from: Option<u32>| *to = from.unwrap_or(*to);
        set(&mut settings.delivery_delay_s, self.delivery_delay_s);
        set(&mut settings.retention_s, self.retention_s);
        let consumer = &mut settings.consumer;
        set(&mut consumer.batch_size, self.batch_size);
        set(&mut consumer.batch_wait_ms, self.batch_wait_ms);
        set(&mut consumer.max_retries, self.max_retries);
        set(&mut consumer.retry_delay_s, self.retry_delay_s);
        set(&mut consumer.visibility_ms, self.visibility_ms);
        consumer.max_concurrency = self.max_concurrency.or(consumer.max_concurrency);
        if self.dead_letter_queue.is_some() {
            consumer.dead_letter_queue.clone_from(&self.dead_letter_queue);
        }
        settings.paused = self.paused;
        settings
    }
}

impl From<Backlog> for Emptied {
    fn from(backlog: Backlog) -> Self {
        Self { messages: backlog.messages, bytes: backlog.bytes, declared: false, worker: None }
    }
}
