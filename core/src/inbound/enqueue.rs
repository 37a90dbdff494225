//! A request that enqueues one message.

use super::meta::Meta;
use super::{Inbound, Refusal};
use crate::broker::limits::DELAY_MAX_S;
use crate::broker::{Content, NewMessage};

/// The query's key that says by how many seconds the message is delayed.
const DELAY: &str = "delay";

/// The message that a POST to a queue's address enqueues. Its token, if it has one, was checked before; it is not kept.
///
/// # Errors
/// 400 for a delay that is none; 431 if the headers are too long to be kept.
pub fn enqueue(inbound: Inbound) -> Result<NewMessage, Refusal> {
    let (delay_s, query) = take_delay(inbound.query.as_deref())?;
    let meta = Meta::of(&inbound, &inbound.path, query, &["authorization"]).encode()?;
    Ok(NewMessage { content: content_of(&inbound), body: inbound.body, delay_s, meta: Some(meta) })
}

/// Whether a pair of the query names the delay, however it is written: `Delay` and `del%61y` mean it too.
fn is_delay(pair: &str) -> bool {
    form_urlencoded::parse(pair.as_bytes()).next().is_some_and(|(name, _)| name.eq_ignore_ascii_case(DELAY))
}

/// The delay, and the query without it.
pub(super) fn take_delay(query: Option<&str>) -> Result<(Option<u32>, Option<String>), Refusal> {
    let Some(query) = query else { return Ok((None, None)) };
    let key = |pair: &&str| is_delay(pair);
    let mut written = query.split('&').filter(key);
    let Some(first) = written.next() else { return Ok((None, Some(query.to_owned()))) };
    let wrong = |message: String| Refusal::new(400, "delay_invalid", message).with("limit", DELAY_MAX_S);
    if written.next().is_some() {
        return Err(wrong("`delay` is given twice; give it once".to_owned()));
    }
    let text = form_urlencoded::parse(first.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        let message = format!("`delay` takes whole seconds from 0 to {DELAY_MAX_S}, as in `?delay=60`");
        return Err(wrong(message));
    }
    let seconds: u64 = text.parse().unwrap_or(u64::MAX); // only digits: what does not parse is too long
    let Some(seconds) = u32::try_from(seconds).ok().filter(|seconds| *seconds <= DELAY_MAX_S) else {
        return Err(wrong(format!("`delay` is longer than {DELAY_MAX_S} s, a day")).with("actual", seconds));
    };
    let rest: Vec<&str> = query.split('&').filter(|pair| !key(pair)).collect();
    Ok((Some(seconds), (!rest.is_empty()).then(|| rest.join("&"))))
}

/// What the body is kept as. Only what surely is text or JSON by its sender's own word is; nobody looks inside.
pub(super) fn content_of(inbound: &Inbound) -> Content {
    let written = inbound.text("content-type").unwrap_or_default().to_ascii_lowercase();
    let kind = written.split(';').next().unwrap_or_default().trim();
    let is_utf8 = || std::str::from_utf8(&inbound.body).is_ok();
    let is_json = kind == "application/json" || kind == "text/json" || kind.ends_with("+json");
    if is_json && !inbound.body.is_empty() && is_utf8() {
        Content::Json
    } else if kind.starts_with("text/") && kind != "text/json" && is_utf8() {
        Content::Text
    } else {
        Content::Bytes
    }
}
