//! A request that enqueues a batch, in the form of Cloudflare's push API.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::enqueue::take_delay;
use super::{Inbound, Refusal};
use crate::broker::limits::{BATCH_COUNT_MAX, DELAY_MAX_S};
use crate::broker::{Content, NewBatch, NewMessage};

#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
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
/// digit. A delay in the query, as one message has it, is for those that have none of their own. Counts and sizes are
/// the broker's to check.
///
/// # Errors
/// 400 if the request is not of this form, naming the message by its place from 1, as the broker does.
pub fn batch(inbound: &Inbound) -> Result<NewBatch, Refusal> {
    let (query_delay_s, _) = take_delay(inbound.query.as_deref())?;
    let written: Written<'_> = object(&inbound.body).map_err(|what| no_batch(&what))?;
    let messages = written.messages.iter().map(|message| object::<Message<'_>>(message.get().as_bytes()));
    let messages: Vec<Message<'_>> = messages.collect::<Result<_, _>>().map_err(|what| no_batch(&what))?;
    let messages = messages.iter().enumerate().map(|(index, message)| {
        one(message).map_err(|what| {
            Refusal::new(400, "message_invalid", format!("message {}: {what}", index + 1)).with("index", index)
        })
    });
    let wrong = |what: String| Refusal::new(400, "delay_invalid", what);
    let delay_s = match (delay(written.delay_seconds).map_err(wrong)?, query_delay_s) {
        (Some(_), Some(_)) => {
            return Err(wrong("the delay is given twice, as `delay` and as `delay_seconds`; give it once".to_owned()));
        }
        (in_body, in_query) => in_body.or(in_query),
    };
    Ok(NewBatch { messages: messages.collect::<Result<_, _>>()?, delay_s })
}

/// Reads an object. A list of an object's values in their order, which serde would take for it, is none.
fn object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, String> {
    match json.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => Err("there is a list where an object belongs".to_owned()),
        _ => serde_json::from_slice(json).map_err(|error| error.to_string()),
    }
}

fn no_batch(what: &str) -> Refusal {
    let message = format!(
        "the body is no batch: {what}; send {{\"messages\": [{{\"body\": …}}]}} with at most {BATCH_COUNT_MAX} messages"
    );
    Refusal::new(400, "batch_invalid", message)
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
