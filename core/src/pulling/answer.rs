//! Answers, read: messages and their leases, what became of acknowledgements, a queue's id. A server that answers
//! oddly is read as far as it makes sense, and no answer makes a panic.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::message;
use super::trouble::{Kind, Trouble};
use crate::deliver::{bounded, retry_after_s};
use crate::pull::wire::{Acked, ResultInfo};
use crate::queue::Message;

/// Characters that are shown of what a server says.
const SAID_CHARS_MAX: usize = 200;
/// Pages of a list of queues that are looked at; an account has 10,000 queues at most.
const PAGES_MAX: u64 = 500;

/// An answer as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Its status.
    pub status: u16,
    /// Its `Retry-After` header.
    pub retry_after: Option<&'a str>,
    /// Its whole body.
    pub body: &'a [u8],
}

/// A message that was pulled, and what it is settled by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lent {
    /// The lease's id.
    pub lease_id: String,
    /// The message.
    pub message: Message,
}

/// What a pull gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pulled {
    /// The messages.
    pub lent: Vec<Lent>,
    /// Messages that cannot be told or settled, since they have no id or no lease. They stay the server's.
    pub odd: usize,
}

/// What a page of an account's queues says of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Its id.
    Id(String),
    /// It is not on this page, and there are more.
    More,
    /// It is on no page.
    Nowhere,
}

/// What every answer is put into. What is asked for is read only when it is there.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    success: Option<bool>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    result_info: Option<Value>,
}

#[derive(Deserialize)]
struct Messages<'a> {
    #[serde(borrow, default)]
    messages: Option<Vec<&'a RawValue>>,
}

/// Reads the answer to a pull. `now_ms` is the time, in milliseconds since 1970.
///
/// # Errors
/// What keeps the messages from coming.
pub fn pulled(answer: &Answer<'_>, now_ms: i64) -> Result<Pulled, Trouble> {
    let envelope = envelope(answer, now_ms)?;
    let result = envelope.result.ok_or_else(|| garbage(answer, "it has no `result`"))?;
    let listed: Messages<'_> = parse(answer, result.get())?;
    let all = listed.messages.unwrap_or_default();
    let lent: Vec<Lent> = all.iter().filter_map(|one| message::lent(one, now_ms)).collect();
    Ok(Pulled { odd: all.len() - lent.len(), lent })
}

/// Reads the answer to a settle.
///
/// # Errors
/// Why nothing is settled, as far as anybody knows.
pub fn settled(answer: &Answer<'_>, now_ms: i64) -> Result<Acked, Trouble> {
    let envelope = envelope(answer, now_ms)?;
    // That it succeeded is all that matters; counts and warnings are for people.
    Ok(envelope.result.and_then(|result| serde_json::from_str(result.get()).ok()).unwrap_or_default())
}

/// Looks for a queue on a page of the account's queues.
///
/// # Errors
/// What keeps the list from coming.
pub fn found(answer: &Answer<'_>, name: &str, page: u64, now_ms: i64) -> Result<Found, Trouble> {
    let envelope = envelope(answer, now_ms)?;
    let result = envelope.result.ok_or_else(|| garbage(answer, "it has no `result`"))?;
    let queues: Vec<Value> = parse(answer, result.get())?;
    let text = |queue: &Value, key: &str| queue.get(key).and_then(Value::as_str).map(str::to_owned);
    let same = queues.iter().find(|queue| text(queue, "queue_name").as_deref() == Some(name));
    if let Some(queue) = same {
        let id = text(queue, "queue_id").filter(|id| is_plain(id));
        return id.map(Found::Id).ok_or_else(|| garbage(answer, "the queue has no id"));
    }
    let info = envelope.result_info.and_then(|info| serde_json::from_value::<ResultInfo>(info).ok());
    let more =
        info.is_some_and(|info| page < info.total_pages || page.saturating_mul(info.per_page) < info.total_count);
    Ok(if more && !queues.is_empty() && page < PAGES_MAX { Found::More } else { Found::Nowhere })
}

/// Whether an id may stand in an address as it is.
fn is_plain(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

fn envelope<'a>(answer: &Answer<'a>, now_ms: i64) -> Result<Envelope<'a>, Trouble> {
    if !(200..=299).contains(&answer.status) {
        return Err(refused(answer, now_ms));
    }
    let text = std::str::from_utf8(answer.body).map_err(|_| garbage(answer, "it is not UTF-8"))?;
    let envelope: Envelope<'_> =
        serde_json::from_str(text).map_err(|error| garbage(answer, &format!("it is not the API's JSON: {error}")))?;
    if envelope.success == Some(false) {
        return Err(Trouble::new(Kind::Refused, said(answer)));
    }
    Ok(envelope)
}

fn parse<'a, T: Deserialize<'a>>(answer: &Answer<'_>, text: &'a str) -> Result<T, Trouble> {
    serde_json::from_str(text).map_err(|error| garbage(answer, &format!("it is not the API's JSON: {error}")))
}

/// An answer that says it is good and is not: a proxy's page, or one that was cut off.
fn garbage(answer: &Answer<'_>, why: &str) -> Trouble {
    Trouble::failed(bounded(&format!("the answer {} cannot be read: {why}", answer.status)))
}

fn refused(answer: &Answer<'_>, now_ms: i64) -> Trouble {
    let asked = answer.retry_after.and_then(|text| retry_after_s(text, now_ms));
    let after_s = asked.and_then(|seconds| u32::try_from(seconds).ok());
    let kind = match answer.status {
        300..=399 => Kind::Redirected,
        401 | 403 => Kind::Token,
        404 => Kind::NoQueue,
        409 => Kind::Paused,
        429 => Kind::Busy,
        503 if after_s.is_some() => Kind::Busy,
        408 | 425 | 500.. => Kind::Failed,
        _ => Kind::Refused,
    };
    Trouble { kind, words: said(answer), after_s }
}

/// The status and what the server says of it.
fn said(answer: &Answer<'_>) -> String {
    #[derive(Deserialize)]
    struct Errors {
        #[serde(default)]
        errors: Vec<Value>,
    }
    let errors = lenient::<Errors>(answer.body).map(|body| body.errors).unwrap_or_default();
    let one = |error: &Value| {
        let message = error.get("message").and_then(Value::as_str).or(error.as_str())?;
        let code = error.get("code").and_then(Value::as_i64).filter(|code| *code != 0);
        Some(code.map_or_else(|| message.to_owned(), |code| format!("{message} [{code}]")))
    };
    let said: Vec<String> = errors.iter().filter_map(one).collect();
    let said: String = said.join("; ").chars().take(SAID_CHARS_MAX).collect();
    let more = match answer.status {
        300..=399 => ": redirects are not followed".to_owned(),
        _ if said.is_empty() => String::new(),
        _ => format!(": {said}"),
    };
    bounded(&format!("answered {}{more}", answer.status))
}

fn lenient<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}
