//! What a request wants to be set for a queue or its consumer. A value of 0 is a value; what is absent is left alone, or
//! where the whole is replaced, Cloudflare's default.

use super::json::Object;
use super::refusal::{Refusal, code};
use crate::broker::limits::{
    BATCH_COUNT_MAX, BATCH_WAIT_MAX_MS, CONCURRENCY_MAX, DELAY_MAX_S, RETENTION_S, RETRIES_MAX, VISIBILITY_MAX_MS,
};
use crate::broker::{ConsumerKind, ConsumerSettings, Settings};

/// Where Cloudflare may be told to keep a queue.
const JURISDICTIONS: [&str; 3] = ["eu", "us", "fedramp"];

/// What is said of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct QueueBody {
    pub(super) name: Option<String>,
    pub(super) delivery_delay_s: Option<u32>,
    pub(super) retention_s: Option<u32>,
    pub(super) paused: Option<bool>,
    pub(super) jurisdiction: Option<String>,
}

impl QueueBody {
    pub(super) fn read(body: &[u8]) -> Result<Self, Refusal> {
        let object = Object::of(body, false)?;
        let jurisdiction = object.text("jurisdiction")?;
        if let Some(other) = jurisdiction.as_deref().filter(|name| !JURISDICTIONS.contains(name)) {
            let other: String = other.chars().take(40).collect();
            let message = format!("jurisdiction takes {}, not `{other}`", JURISDICTIONS.join(", "));
            return Err(Refusal::schema("/jurisdiction", message));
        }
        let mut read = Self { name: object.text("queue_name")?, jurisdiction, ..Self::default() };
        if let Some(settings) = object.object("settings")? {
            let number = |name, range| settings.number(name, range, code::QUEUE_SETTINGS);
            read.delivery_delay_s = number("delivery_delay", (0, DELAY_MAX_S))?;
            read.retention_s = number("message_retention_period", RETENTION_S)?;
            read.paused = settings.truth("delivery_paused")?;
        }
        Ok(read)
    }

    /// These settings with what is said.
    pub(super) fn over(&self, present: &Settings) -> Settings {
        Settings {
            delivery_delay_s: self.delivery_delay_s.unwrap_or(present.delivery_delay_s),
            retention_s: self.retention_s.unwrap_or(present.retention_s),
            paused: self.paused.unwrap_or(present.paused),
            consumer: present.consumer.clone(),
        }
    }

    /// What is said, and Cloudflare's defaults for the rest; a queue's consumer is not the queue's to replace.
    pub(super) fn in_place_of(&self, present: &Settings) -> Settings {
        self.over(&Settings { consumer: present.consumer.clone(), ..Settings::default() })
    }
}

/// What is said of a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConsumerBody {
    pub(super) kind: ConsumerKind,
    batch_size: Option<u32>,
    batch_wait_ms: Option<u32>,
    max_retries: Option<u32>,
    retry_delay_s: Option<u32>,
    visibility_ms: Option<u32>,
    /// `Some(None)` for as many as there may be.
    max_concurrency: Option<Option<u32>>,
    /// `Some(None)` for none.
    dead_letter_queue: Option<Option<String>>,
}

impl ConsumerBody {
    /// Where the dead letters are to go, if it says.
    pub(super) fn dead_letters(&self) -> Option<&str> {
        self.dead_letter_queue.as_ref()?.as_deref()
    }

    pub(super) fn read(body: &[u8]) -> Result<Self, Refusal> {
        let object = Object::of(body, false)?;
        let kind = kind(&object)?;
        let dead_letter_queue = match object.written("dead_letter_queue") {
            None => None,
            Some(_) => Some(object.text("dead_letter_queue")?.filter(|name| !name.is_empty())),
        };
        let mut read = Self {
            kind,
            batch_size: None,
            batch_wait_ms: None,
            max_retries: None,
            retry_delay_s: None,
            visibility_ms: None,
            max_concurrency: None,
            dead_letter_queue,
        };
        if let Some(settings) = object.object("settings")? {
            let number = |name, range| settings.number(name, range, code::CONSUMER_SETTINGS);
            read.batch_size = number("batch_size", (1, u32::try_from(BATCH_COUNT_MAX).unwrap_or(u32::MAX)))?;
            read.batch_wait_ms = number("max_wait_time_ms", (0, BATCH_WAIT_MAX_MS))?;
            read.max_retries = number("max_retries", (0, RETRIES_MAX))?;
            read.retry_delay_s = number("retry_delay", (0, DELAY_MAX_S))?;
            read.visibility_ms = number("visibility_timeout_ms", (0, VISIBILITY_MAX_MS))?;
            let concurrency = number("max_concurrency", (1, CONCURRENCY_MAX))?;
            read.max_concurrency = settings.written("max_concurrency").map(|_| concurrency);
        }
        Ok(read)
    }

    /// What is set for a consumer that is added: what is said, then what somebody set for the queue before it had one,
    /// then the default.
    pub(super) fn over(&self, present: &ConsumerSettings) -> ConsumerSettings {
        let default = self.kind.default_settings();
        let nobody_said = present.batch_size == ConsumerSettings::default().batch_size;
        let batch_size = if nobody_said { default.batch_size } else { present.batch_size };
        self.apply(ConsumerSettings { batch_size, ..present.clone() })
    }

    /// What is set for a consumer in place of whatever was.
    pub(super) fn in_place(&self) -> ConsumerSettings {
        self.apply(self.kind.default_settings())
    }

    fn apply(&self, base: ConsumerSettings) -> ConsumerSettings {
        ConsumerSettings {
            batch_size: self.batch_size.unwrap_or(base.batch_size),
            batch_wait_ms: self.batch_wait_ms.unwrap_or(base.batch_wait_ms),
            max_retries: self.max_retries.unwrap_or(base.max_retries),
            retry_delay_s: self.retry_delay_s.unwrap_or(base.retry_delay_s),
            visibility_ms: self.visibility_ms.unwrap_or(base.visibility_ms),
            dead_letter_queue: self.dead_letter_queue.clone().unwrap_or(base.dead_letter_queue),
            max_concurrency: self.max_concurrency.unwrap_or(base.max_concurrency),
        }
    }
}

/// Who the consumer is. The name of a Worker is `script_name`; `script`, as it is answered, is taken as well.
fn kind(object: &Object<'_>) -> Result<ConsumerKind, Refusal> {
    let script = object.text("script_name")?.or(object.text("script")?);
    match (object.text("type")?.as_deref(), script) {
        (Some("http_pull"), _) => Ok(ConsumerKind::HttpPull),
        (Some("worker") | None, Some(script)) => {
            let environment = object.text("environment_name")?.or(object.text("environment")?);
            Ok(ConsumerKind::Worker { script, environment: environment.filter(|name| !name.is_empty()) })
        }
        (Some("worker"), None) => Err(Refusal::schema("/script_name", "a worker consumer needs a `script_name`")),
        (None, None) => Err(Refusal::schema("/type", "`type` is missing: \"http_pull\" or \"worker\"")),
        (Some(other), _) => {
            let other: String = other.chars().take(40).collect();
            Err(Refusal::schema("/type", format!("type takes \"http_pull\" or \"worker\", not `{other}`")))
        }
    }
}
