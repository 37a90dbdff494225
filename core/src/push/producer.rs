//! A producer: what workerd's `queue` binding asks of the service behind it, and how that is answered.
//!
//! As workerd's `src/workerd/api/queue.c++` has it: `POST /message` with the body as it is, `POST /batch` with JSON and
//! bodies in base64, `GET /metrics`. Exactly 200 is success. What a Worker is told of a failure is in two headers, or,
//! on old compatibility dates, in the status line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::frame::Figures;
use crate::admin::queues::status;
use crate::broker::limits::{BATCH_BYTES_MAX, BATCH_COUNT_MAX, DELAY_MAX_S, MESSAGE_BYTES_MAX};
use crate::broker::{BrokerError, Content, Metrics, NewBatch, NewMessage, Sent};

/// Bytes of a batch's request: its bodies in base64, and room for what stands around each of them.
const BATCH_REQUEST_BYTES_MAX: usize = BATCH_BYTES_MAX.div_ceil(3) * 4 + BATCH_COUNT_MAX * 256;

/// The code of what no other fits.
const UNKNOWN: u32 = 15_000;
/// A message's metadata are not right: its content type, its delay.
const METADATA_INVALID: u32 = 10_203;
const BATCH_DELAY_INVALID: u32 = 10_202;
const JSON_UNFIT: u32 = 10_207;
const NO_JSON: u32 = 10_208;

/// What a binding asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// To keep one message.
    Send {
        /// What its body is.
        content: Content,
        /// Its own delay, in seconds.
        delay_s: Option<u32>,
    },
    /// To keep many messages, all or none.
    SendBatch {
        /// The delay of those that say none, in seconds.
        delay_s: Option<u32>,
    },
    /// The queue's figures.
    Metrics,
}

/// Why a call is refused, as its Worker is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The HTTP status.
    pub status: u16,
    /// Cloudflare's code, for the header `CF-Queues-Error-Code`.
    pub code: u32,
    /// The words, for the header `CF-Queues-Error-Cause` and the status line: printable ASCII.
    pub cause: String,
}

#[derive(Deserialize)]
struct Batch {
    messages: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    body: String,
    content_type: Option<String>,
    delay_secs: Option<serde_json::Number>,
}

impl Call {
    /// Reads a request's head. What it says of its own size is believed if that is too much, so that nothing is read in
    /// vain.
    ///
    /// # Errors
    /// [`Refused`] if no binding asks so, or its size, content type or delay are out of range.
    pub fn read<'a>(
        method: &str,
        path: &str,
        header: impl Fn(&'static str) -> Option<&'a str>,
    ) -> Result<Self, Refused> {
        let number = |name| header(name).and_then(|value| value.parse::<usize>().ok()).unwrap_or_default();
        match (method, path) {
            ("POST", "/message") => {
                let content = content(header("x-msg-fmt"))?;
                let bytes = number("content-length");
                if bytes > MESSAGE_BYTES_MAX {
                    let (limit, actual) = (MESSAGE_BYTES_MAX, bytes);
                    return Err(BrokerError::MessageTooBig { index: 0, limit, actual }.into());
                }
                Ok(Self::Send { content, delay_s: delay(header("x-msg-delay-secs"), METADATA_INVALID)? })
            }
            ("POST", "/batch") => {
                let count = number("cf-queue-batch-count");
                if count > BATCH_COUNT_MAX {
                    return Err(BrokerError::BatchCount { limit: BATCH_COUNT_MAX, actual: count }.into());
                }
                let largest = number("cf-queue-largest-msg");
                if largest > MESSAGE_BYTES_MAX {
                    let why = format!("a message has {largest} bytes; a message has at most {MESSAGE_BYTES_MAX}");
                    return Err(Refused { status: 413, ..Refused::new(10_204, &why) });
                }
                let bytes = number("cf-queue-batch-bytes");
                if bytes > BATCH_BYTES_MAX {
                    return Err(BrokerError::BatchTooBig { limit: BATCH_BYTES_MAX, actual: bytes }.into());
                }
                Ok(Self::SendBatch { delay_s: delay(header("x-msg-delay-secs"), BATCH_DELAY_INVALID)? })
            }
            ("GET", "/metrics") => Ok(Self::Metrics),
            _ => {
                let why = format!("a queue does not answer {method} {path}");
                Err(Refused { status: 404, ..Refused::new(UNKNOWN, &why) })
            }
        }
    }

    /// Bytes that its body may have.
    #[must_use]
    pub fn body_bytes_max(&self) -> usize {
        match self {
            Self::Send { .. } => MESSAGE_BYTES_MAX,
            Self::SendBatch { .. } => BATCH_REQUEST_BYTES_MAX,
            Self::Metrics => 0,
        }
    }

    /// The messages to be kept; `None` if it asks for figures. `binding_delay_s` is the binding's `delivery_delay`, which
    /// holds for what has no delay of its own or its batch's.
    ///
    /// # Errors
    /// [`Refused`] for a body that cannot be read, and for every limit that it breaks.
    pub fn messages(&self, body: Vec<u8>, binding_delay_s: Option<u32>) -> Result<Option<NewBatch>, Refused> {
        let batch = match self {
            Self::Metrics => return Ok(None),
            Self::Send { content, delay_s } => {
                let message = NewMessage { content: *content, body, delay_s: *delay_s, meta: None };
                NewBatch { messages: vec![message], delay_s: binding_delay_s }
            }
            Self::SendBatch { delay_s } => {
                let batch: Batch = serde_json::from_slice(&body).map_err(|error| {
                    Refused::new(if error.is_data() { JSON_UNFIT } else { NO_JSON }, &format!("the batch: {error}"))
                })?;
                let messages = batch.messages.into_iter().enumerate().map(|(index, entry)| entry.message(index));
                NewBatch { messages: messages.collect::<Result<_, _>>()?, delay_s: delay_s.or(binding_delay_s) }
            }
        };
        batch.check()?;
        Ok(Some(batch))
    }
}

impl Entry {
    fn message(self, index: usize) -> Result<NewMessage, Refused> {
        let of_message =
            |refused: Refused| Refused { cause: format!("message {}: {}", index + 1, refused.cause), ..refused };
        let content = content(self.content_type.as_deref()).map_err(of_message)?;
        let delay_s = self.delay_secs.map(|delay| delay.to_string());
        let delay_s = delay(delay_s.as_deref(), METADATA_INVALID).map_err(of_message)?;
        let body =
            STANDARD.decode(self.body).map_err(|_| of_message(Refused::new(JSON_UNFIT, "its body is no base64")))?;
        Ok(NewMessage { content, body, delay_s, meta: None })
    }
}

impl Refused {
    /// The request ended before it was whole.
    #[must_use]
    pub fn broken_off() -> Self {
        Self::new(10_201, "the request did not arrive whole; nothing is kept of it")
    }

    /// A body is longer than it may be and its head did not say so.
    #[must_use]
    pub fn body_too_large(limit: usize, actual: usize) -> Self {
        let code = if limit == MESSAGE_BYTES_MAX { 10_204 } else { 10_205 };
        Self { status: 413, ..Self::new(code, &format!("the request has {actual} bytes; it may have {limit}")) }
    }

    /// A refusal of the client's request.
    fn new(code: u32, cause: &str) -> Self {
        // It becomes a header and a status line.
        let printable = |char: char| if char.is_ascii_graphic() || char == ' ' { char } else { '?' };
        Self { status: 400, code, cause: cause.chars().map(printable).collect() }
    }
}

impl From<BrokerError> for Refused {
    fn from(error: BrokerError) -> Self {
        Self { status: status(&error), ..Self::new(error.code().unwrap_or(UNKNOWN), &error.to_string()) }
    }
}

/// Without a content type a body is V8's own: so it was before there were others.
fn content(name: Option<&str>) -> Result<Content, Refused> {
    let Some(name) = name else { return Ok(Content::V8) };
    Content::named(name).ok_or_else(|| {
        Refused::new(METADATA_INVALID, &format!("the content type {name} is none: there are text, bytes, json and v8"))
    })
}

/// A delay in whole seconds. The runtime passes any number on.
fn delay(text: Option<&str>, code: u32) -> Result<Option<u32>, Refused> {
    let Some(text) = text else { return Ok(None) };
    match text.parse::<u32>() {
        Ok(seconds) if seconds <= DELAY_MAX_S => Ok(Some(seconds)),
        _ => Err(Refused::new(code, &format!("the delay is {text} s; a delay is 0 to {DELAY_MAX_S} s"))),
    }
}

/// The answer to a send: the figures of the queue as it was before.
#[must_use]
pub fn sent(sent: &Sent) -> String {
    let Sent { before, oldest_before_ms, .. } = sent;
    let figures = Figures::of(before.messages, before.bytes, *oldest_before_ms);
    serde_json::json!({"metadata": {"metrics": figures}}).to_string()
}

/// The answer to a question for figures.
#[must_use]
pub fn metrics(metrics: &Metrics) -> String {
    serde_json::to_string(&Figures::from(metrics)).unwrap_or_default() // three numbers are always JSON
}
