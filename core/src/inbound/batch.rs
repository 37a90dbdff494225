//! A request that enqueues a batch, in the form of Cloudflare's push API.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Inbound, Refusal};
use crate::broker::limits::{BATCH_COUNT_MAX, DELAY_MAX_S};
use crate::broker::{Content, NewBatch, NewMessage};

#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    #[serde(borrow, default)]
    delay_seconds: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default, deserialize_with = "also_null")]
    body: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delay_seconds: Option<&'a RawValue>,
}

/// `null` is a value, and a body that is `null` is there.
fn also_null<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}

/// The messages that a POST to a queue's batch address enqueues. A JSON body is kept as it is written, digit for
/// digit. Counts and sizes are the broker's to check.
///
/// # Errors
/// 400 if the request is not of this form, naming the message by its place from 0.
pub fn batch(inbound: &Inbound) -> Result<NewBatch, Refusal> {
    let written: Written<'_> = serde_json::from_slice(&inbound.body).map_err(|error| {
        let message = format!(
            "the body is no batch: {error}; send {{\"messages\": [{{\"body\": …}}]}} with at most {BATCH_COUNT_MAX} messages"
        );
        Refusal::new(400, "batch_invalid", message)
    })?;
    let messages = written.messages.iter().enumerate().map(|(index, message)| {
        one(message).map_err(|what| {
            Refusal::new(400, "message_invalid", format!("message {index}: {what}")).with("index", index)
        })
    });
    let delay_s = delay(written.delay_seconds).map_err(|what| Refusal::new(400, "delay_invalid", what))?;
    Ok(NewBatch { messages: messages.collect::<Result<_, _>>()?, delay_s })
}

fn one(message: &Message<'_>) -> Result<NewMessage, String> {
    let Some(body) = message.body else {
        return Err("it has no `body`".to_owned());
    };
    let content = match message.content_type {
        None => Content::Json,
        Some(name) => {
            let named: Option<String> = serde_json::from_str(name.get()).ok();
            let named = named.and_then(|name| Content::named(&name)).filter(|content| *content != Content::V8);
            named.ok_or("`content_type` is none of \"text\", \"json\" and \"bytes\"")?
        }
    };
    let text =
        || serde_json::from_str::<String>(body.get()).map_err(|_| "its `body` is no text, as `content_type` says");
    let body = match content {
        Content::Json | Content::V8 => body.get().as_bytes().to_vec(),
        Content::Text => text()?.into_bytes(),
        Content::Bytes => {
            BASE64.decode(text()?).map_err(|_| "its `body` is no base64, which \"bytes\" are sent as".to_owned())?
        }
    };
    Ok(NewMessage { content, body, delay_s: delay(message.delay_seconds)?, meta: None })
}

fn delay(written: Option<&RawValue>) -> Result<Option<u32>, String> {
    let Some(written) = written.filter(|written| written.get() != "null") else { return Ok(None) };
    match written.get().parse() {
        Ok(seconds) if seconds <= DELAY_MAX_S => Ok(Some(seconds)),
        _ => Err(format!("`delay_seconds` takes whole seconds from 0 to {DELAY_MAX_S}")),
    }
}
