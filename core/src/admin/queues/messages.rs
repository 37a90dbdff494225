//! Messages, as they are sent and looked at.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::admin::PREVIEW_CHARS;
use crate::broker::{self, Content, LeaseKey, MessageId, NewBatch, Peeked};
use crate::inbound::{Inbound, enqueue};

/// Longest MIME type, in bytes.
const MIME_BYTES_MAX: usize = 200;

/// Messages to be sent: all of them are kept, or none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The messages.
    pub messages: Vec<NewMessage>,
    /// Seconds to wait for those that do not say themselves; stands before the queue's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<u32>,
}

/// A message to be sent. Its body is one of `body` and `body_base64`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// The body, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body in base64, whatever it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// `json`, `text` or `bytes`, or a MIME type, which is kept with the message. Absent: `text` for `body`, `bytes`
    /// for `body_base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Seconds to wait. 0 is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<u32>,
}

/// What a send gave: the messages' ids in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sent {
    /// The ids.
    pub ids: Vec<String>,
}

/// A page of messages: those that are ready first, then the others by when they will be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Messages {
    /// The queue that holds them: of dead letters, the dead-letter queue.
    pub queue: String,
    /// The page.
    pub messages: Vec<PeekedMessage>,
    /// What to give as `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A message that was looked at and not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeekedMessage {
    /// Its id, the same on every delivery and as a dead letter.
    pub id: String,
    /// What names its place, for `messages/remove` and for the next page. It changes with every delivery.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Where it stands.
    pub state: State,
    /// How long it stays there, if it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// When it was sent.
    pub sent_at_ms: i64,
    /// How often it was handed over.
    pub attempts: u32,
    /// `json`, `text`, `bytes` or `v8`.
    pub content_type: String,
    /// Bytes of its body.
    pub bytes: u64,
    /// The body's beginning as text; bytes that are no text are replaced. Of a `v8` body, `hex ` and its first bytes.
    pub preview: String,
    /// The whole body in base64. Only when it is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// What was kept with it: of a request its method, path and headers, as JSON text. Only when bodies are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<String>,
    /// Functions that are done with it, while others are not, as the trigger keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// How it died, if it is a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<DeadLetter>,
}

/// Where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It can be taken.
    Ready,
    /// It is with a consumer.
    InFlight,
    /// It waits for a time to come.
    Delayed,
}

/// How a message came into a dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The queue that it was in.
    pub queue: String,
    /// How often it was handed over there.
    pub attempts: u32,
    /// When it was first handed over there.
    pub first_at_ms: i64,
    /// When it was given up.
    pub died_at_ms: i64,
    /// `retried`, `failed` or `lease_ended`.
    pub reason: String,
    /// What was last said to be wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Messages to be removed, whatever their state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remove {
    /// What named their places when they were looked at.
    pub refs: Vec<String>,
}

/// What a removal came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Removed {
    /// Messages that are gone.
    pub removed: u64,
    /// Places where there is no such message any more: it was taken, moved or removed since.
    #[serde(default)]
    pub unknown: Vec<String>,
}

impl Send {
    /// The batch for the broker, to be sent to this queue at this time.
    ///
    /// # Errors
    /// In words, with the message's place counted from 1: what a body is missing, or what its content type is not.
    pub fn into_batch(self, queue: &str, now_ms: i64) -> Result<NewBatch, String> {
        let mut messages = Vec::with_capacity(self.messages.len());
        for (index, message) in self.messages.into_iter().enumerate() {
            let message = message.into_message(queue, now_ms).map_err(|why| format!("message {}: {why}", index + 1))?;
            messages.push(message);
        }
        Ok(NewBatch { messages, delay_s: self.delay_seconds })
    }
}

impl NewMessage {
    fn into_message(self, queue: &str, now_ms: i64) -> Result<broker::NewMessage, String> {
        let (body, is_text) = match (self.body, self.body_base64) {
            (Some(text), None) => (text.into_bytes(), true),
            (None, Some(encoded)) => {
                (BASE64.decode(encoded).map_err(|error| format!("body_base64 is no base64: {error}"))?, false)
            }
            _ => return Err("give body, or body_base64".to_owned()),
        };
        let delay_s = self.delay_seconds;
        let content = match self.content_type.as_deref() {
            None if is_text => Content::Text,
            None => Content::Bytes,
            Some(word @ ("json" | "text")) if std::str::from_utf8(&body).is_err() => {
                return Err(format!("it is sent as {word}, and its body is not UTF-8 text"));
            }
            Some("json") => Content::Json,
            Some("text") => Content::Text,
            Some("bytes") => Content::Bytes,
            Some(mime) => return as_posted(queue, mime, body, delay_s, now_ms),
        };
        Ok(broker::NewMessage { content, body, delay_s, meta: None })
    }
}

/// A message with a MIME type is the one that a POST of its body with this type makes.
fn as_posted(
    queue: &str,
    mime: &str,
    body: Vec<u8>,
    delay_s: Option<u32>,
    now_ms: i64,
) -> Result<broker::NewMessage, String> {
    let is_one =
        mime.contains('/') && mime.len() <= MIME_BYTES_MAX && mime.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if !is_one {
        return Err("content_type: json, text, bytes or a MIME type".to_owned());
    }
    let inbound = Inbound {
        method: "POST".to_owned(),
        path: format!("/_queues/{queue}"),
        query: None,
        headers: vec![("Content-Type".to_owned(), mime.as_bytes().to_vec())],
        body,
        received_at_ms: now_ms,
    };
    let message = enqueue(inbound).map_err(|refusal| refusal.message)?;
    Ok(broker::NewMessage { delay_s, ..message })
}

/// The id that 32 hex digits stand for.
pub(super) fn message_id(text: &str) -> Option<MessageId> {
    let is_one = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| u128::from_str_radix(text, 16).ok().map(MessageId)).flatten()
}

impl PeekedMessage {
    /// A message that the broker showed; whole, or only its beginning.
    #[must_use]
    pub fn of(peeked: Peeked, key: &LeaseKey, full: bool) -> Self {
        let Peeked { message, state, reference } = peeked;
        let (state, for_ms) = match state {
            broker::State::Ready => (State::Ready, None),
            broker::State::Leased { for_ms } => (State::InFlight, Some(for_ms)),
            broker::State::Delayed { for_ms } => (State::Delayed, Some(for_ms)),
        };
        let chars = PREVIEW_CHARS as usize;
        Self {
            id: message.id.to_string(),
            reference: key.seal_ref(&reference),
            state,
            for_ms,
            sent_at_ms: message.sent_at_ms,
            attempts: message.attempts,
            content_type: message.content.name().to_owned(),
            bytes: message.body.len() as u64,
            preview: preview(message.content, &message.body, chars),
            body_base64: full.then(|| BASE64.encode(&message.body)),
            meta: message.meta.filter(|_| full),
            progress: message.progress,
            dead: message.dead.map(DeadLetter::from),
        }
    }
}

/// A body's beginning, in so many characters.
fn preview(content: Content, body: &[u8], chars: usize) -> String {
    // A character has four bytes at most, so no more need be looked at.
    let beginning = body.get(..chars * 4).unwrap_or(body);
    if content == Content::V8 {
        let digits = beginning.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).map(char::from);
        return "hex ".chars().chain(digits).take(chars).collect();
    }
    String::from_utf8_lossy(beginning).chars().take(chars).collect()
}

impl From<broker::Dead> for DeadLetter {
    fn from(dead: broker::Dead) -> Self {
        Self {
            queue: dead.queue,
            attempts: dead.attempts,
            first_at_ms: dead.first_at_ms,
            died_at_ms: dead.last_at_ms,
            reason: dead.reason.name().to_owned(),
            error: dead.error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(json: &str) -> Result<NewBatch, String> {
        serde_json::from_str::<Send>(json).map_err(|error| error.to_string())?.into_batch("jobs", 7)
    }

    #[test]
    fn a_preview_is_the_text_and_of_what_only_a_worker_reads_the_bytes() {
        assert_eq!(preview(Content::Text, "é".repeat(9).as_bytes(), 3), "ééé");
        assert_eq!(preview(Content::Bytes, b"\xffx", 3), "\u{fffd}x");
        assert_eq!(preview(Content::V8, b"\xff\x0fo\"\x01a", 20), "hex ff0f6f220161");
        assert_eq!(preview(Content::V8, b"\xff\x0fo\"\x01a", 6), "hex ff");
    }

    #[test]
    fn a_body_is_text_or_base64_and_its_type_is_what_is_said() {
        let batch = sent(
            r#"{"messages":[{"body":"é"},{"body_base64":"/wA="},{"body":"[1]","content_type":"json"},
            {"body_base64":"WzFd","content_type":"json"},{"body":"x","content_type":"bytes","delay_seconds":0}],
            "delay_seconds":60}"#,
        )
        .unwrap();
        let got: Vec<(Content, &[u8])> =
            batch.messages.iter().map(|message| (message.content, message.body.as_slice())).collect();
        let json = (Content::Json, b"[1]".as_slice());
        assert_eq!(
            got,
            [(Content::Text, "é".as_bytes()), (Content::Bytes, b"\xff\x00"), json, json, (Content::Bytes, b"x")]
        );
        assert_eq!((batch.delay_s, batch.messages[4].delay_s, batch.messages[0].delay_s), (Some(60), Some(0), None));
        assert!(batch.messages.iter().all(|message| message.meta.is_none()));
    }

    #[test]
    fn a_mime_type_makes_the_message_that_a_post_with_it_makes() {
        let batch = sent(
            r#"{"messages":[{"body":"{}","content_type":"application/cloudevents+json","delay_seconds":3},
            {"body_base64":"/w==","content_type":"text/plain"}]}"#,
        )
        .unwrap();
        let [json, broken] = batch.messages.as_slice() else { panic!() };
        assert_eq!((json.content, json.delay_s), (Content::Json, Some(3)));
        assert!(json.meta.as_ref().unwrap().contains(r#"["Content-Type","application/cloudevents+json"]"#));
        assert_eq!(broken.content, Content::Bytes, "what is no text is not kept as one");
    }

    #[test]
    fn what_is_no_message_is_named_by_its_place() {
        for (message, said) in [
            (r#"{}"#, "message 2: give body, or body_base64"),
            (r#"{"body":"a","body_base64":"YQ=="}"#, "message 2: give body, or body_base64"),
            (r#"{"body_base64":"?"}"#, "message 2: body_base64 is no base64"),
            (r#"{"body_base64":"/w==","content_type":"text"}"#, "message 2: it is sent as text"),
            (r#"{"body":"a","content_type":"yaml"}"#, "message 2: content_type: json, text, bytes or a MIME type"),
            (r#"{"body":"a","content_type":"a/b\r\nX: y"}"#, "message 2: content_type"),
        ] {
            let error = sent(&format!(r#"{{"messages":[{{"body":"fine"}},{message}]}}"#)).unwrap_err();
            assert!(error.starts_with(said), "{message}: {error}");
        }
    }

    #[test]
    fn an_id_is_32_hex_digits() {
        assert_eq!(message_id("000000000000000000000000000000ff"), Some(MessageId(255)));
        for none in ["ff", "", "+00000000000000000000000000000ff", "000000000000000000000000000000fg"] {
            assert_eq!(message_id(none), None, "{none}");
        }
    }
}
