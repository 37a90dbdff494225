//! What is set for a queue, its ranges and its defaults. A value of 0 is a value: what is not set is absent.

use super::error::BrokerError;
use super::limits::{
    BATCH_COUNT_MAX, BATCH_WAIT_MAX_MS, CONCURRENCY_MAX, DELAY_MAX_S, NAME_LEN_MAX, RETENTION_S, RETRIES_MAX,
    VISIBILITY_MAX_MS,
};

/// What is set for a queue. The defaults are Cloudflare's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Seconds by which a message is delayed that is sent without a delay.
    pub delivery_delay_s: u32,
    /// Seconds for which a message is kept, from when it was sent.
    pub retention_s: u32,
    /// Whether nothing is taken from it. It can be sent to, and what it holds grows old, all the same.
    pub paused: bool,
    /// How it is consumed.
    pub consumer: ConsumerSettings,
}

/// How a queue is consumed, by push or by pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerSettings {
    /// Messages that are handed over at once, at most.
    pub batch_size: u32,
    /// How long to wait for a batch to fill, in milliseconds.
    pub batch_wait_ms: u32,
    /// How often a message is delivered again: one more than this is the number of its deliveries.
    pub max_retries: u32,
    /// Seconds that a retry waits that names no delay.
    pub retry_delay_s: u32,
    /// How long a message is leased to who takes it, in milliseconds.
    pub visibility_ms: u32,
    /// Where messages go whose retries are spent; made when it is first needed. Without one they are dropped.
    pub dead_letter_queue: Option<String>,
    /// Batches handed over side by side, at most. Absent: as many as there may be.
    pub max_concurrency: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { delivery_delay_s: 0, retention_s: 345_600, paused: false, consumer: ConsumerSettings::default() }
    }
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        Self {
            batch_size: 10,
            batch_wait_ms: 5_000,
            max_retries: 3,
            retry_delay_s: 0,
            visibility_ms: 30_000,
            dead_letter_queue: None,
            max_concurrency: None,
        }
    }
}

impl Settings {
    /// Refuses what is out of range, and a queue that is its own dead-letter queue.
    pub(crate) fn check(&self, name: &str) -> Result<(), BrokerError> {
        let consumer = &self.consumer;
        within("delivery_delay", 0, DELAY_MAX_S, self.delivery_delay_s)?;
        within("message_retention_period", RETENTION_S.0, RETENTION_S.1, self.retention_s)?;
        within("batch_size", 1, u32::try_from(BATCH_COUNT_MAX).unwrap_or(u32::MAX), consumer.batch_size)?;
        within("max_wait_time_ms", 0, BATCH_WAIT_MAX_MS, consumer.batch_wait_ms)?;
        within("max_retries", 0, RETRIES_MAX, consumer.max_retries)?;
        within("retry_delay", 0, DELAY_MAX_S, consumer.retry_delay_s)?;
        check_visibility(consumer.visibility_ms)?;
        if let Some(most) = consumer.max_concurrency {
            within("max_concurrency", 1, CONCURRENCY_MAX, most)?;
        }
        match &consumer.dead_letter_queue {
            Some(dead) if dead == name => Err(BrokerError::OwnDeadLetterQueue(name.to_owned())),
            Some(dead) => check_name(dead),
            None => Ok(()),
        }
    }
}

pub(super) fn check_visibility(visibility_ms: u32) -> Result<(), BrokerError> {
    within("visibility_timeout_ms", 0, VISIBILITY_MAX_MS, visibility_ms)
}

fn within(setting: &'static str, least: u32, greatest: u32, actual: u32) -> Result<(), BrokerError> {
    if (least..=greatest).contains(&actual) {
        return Ok(());
    }
    let (least, greatest, actual) = (least.into(), greatest.into(), actual.into());
    Err(BrokerError::SettingInvalid { setting, least, greatest, actual })
}

/// Queue names, as Cloudflare has them: letters, digits and dashes, a letter or digit at both ends, 63 at most. Of
/// letters only small ones, as in an app file, so that two queues never differ by case alone.
pub(crate) fn check_name(name: &str) -> Result<(), BrokerError> {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let why = if bytes.is_empty() {
        "it is empty"
    } else if !bytes.iter().all(|byte| is_end(byte) || *byte == b'-') {
        "it may hold lowercase letters, digits and dashes"
    } else if bytes.len() > NAME_LEN_MAX {
        "it is longer than 63 characters"
    } else if !bytes.first().is_some_and(is_end) || !bytes.last().is_some_and(is_end) {
        "it must start and end with a letter or a digit"
    } else {
        return Ok(());
    };
    Err(BrokerError::NameInvalid { name: name.to_owned(), why })
}
