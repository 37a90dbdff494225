//! A message as it was pulled: its body by its content type, and what is missing made good.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::Lent;
use crate::deliver::bounded;
use crate::queue::{Body, Message};

/// The largest time that is believed, in milliseconds since 1970: what every store and JSON carries exactly.
const TIME_MAX_MS: i64 = (1 << 53) - 1;
const CONTENT_TYPE: &str = "CF-Content-Type";

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    body: Option<&'a RawValue>,
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    lease_id: Option<Value>,
    #[serde(default)]
    attempts: Option<Value>,
    #[serde(default)]
    timestamp_ms: Option<Value>,
    #[serde(default)]
    metadata: Option<Value>,
}

/// Reads a message of an answer. `None` if it has no id or no lease: it could be neither told from others nor settled.
pub(super) fn lent(raw: &RawValue, now_ms: i64) -> Option<Lent> {
    let wire: Wire<'_> = serde_json::from_str(raw.get()).ok()?;
    let word = |value: Option<Value>| match value {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let attempts = wire.attempts.as_ref().and_then(number).unwrap_or(1);
    let sent_at_ms = wire.timestamp_ms.as_ref().and_then(number).unwrap_or(now_ms);
    let message = Message {
        id: word(wire.id)?,
        sent_at_ms: sent_at_ms.clamp(0, TIME_MAX_MS),
        attempts: u32::try_from(attempts.max(1)).unwrap_or(u32::MAX),
        body: body(wire.body, wire.metadata.as_ref()),
    };
    Some(Lent { lease_id: word(wire.lease_id)?, message })
}

/// A whole number, however it is written.
fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| {
            // A number beyond 64 bits, or with a fraction. The conversion stops at the ends.
            #[allow(clippy::cast_possible_truncation, reason = "it saturates")]
            number.as_f64().map(|float| float as i64)
        }),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// Reads the body. One that is not what its content type says is kept whole, for a person: nothing is guessed.
fn body(raw: Option<&RawValue>, metadata: Option<&Value>) -> Body {
    let Some(raw) = raw else { return unreadable(String::new(), "the message has no body") };
    let text: String = match serde_json::from_str(raw.get()) {
        Ok(text) => text,
        Err(_) => return unreadable(raw.get().to_owned(), "the body did not come as a text of Unicode characters"),
    };
    match content_type(metadata).as_deref() {
        // Nothing is lost of a body that is taken as it came.
        None | Some("text") => Body::Text(text),
        Some("json") => match BASE64.decode(&text) {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(json) => Body::Json(json),
                Err(error) => Body::Bytes(error.into_bytes()),
            },
            Err(error) => no_base64(text, "json", &error),
        },
        Some("bytes") => match BASE64.decode(&text) {
            Ok(bytes) => Body::Bytes(bytes),
            Err(error) => no_base64(text, "bytes", &error),
        },
        Some("v8") => unreadable(
            text,
            "the body, here in base64, was serialized by V8, and only a Worker can read that: send it with \
             `contentType: \"json\"`",
        ),
        Some(other) => {
            let why = format!("the body's content type is `{other}`, none of text, json, bytes and v8");
            unreadable(text, &bounded(&why))
        }
    }
}

fn no_base64(text: String, content_type: &str, error: &base64::DecodeError) -> Body {
    unreadable(text, &format!("the body's content type is {content_type}, and it is no base64: {error}"))
}

fn unreadable(shown: String, why: &str) -> Body {
    Body::Unreadable { shown, why: why.to_owned() }
}

/// What the body is, in lowercase. A server other than Cloudflare's may write the key in another case.
fn content_type(metadata: Option<&Value>) -> Option<String> {
    let fields = metadata?.as_object()?;
    let exact = fields.get(CONTENT_TYPE);
    let found = exact
        .or_else(|| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(CONTENT_TYPE)).map(|(_, value)| value))?;
    match found {
        Value::Null => None,
        Value::String(text) => Some(text.trim().to_ascii_lowercase()),
        other => Some(other.to_string()),
    }
}
