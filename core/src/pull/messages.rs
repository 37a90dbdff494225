//! What a request wants of a queue's messages.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::json::{Field, Object};
use super::refusal::{Refusal, code};
use crate::broker::limits::{BATCH_COUNT_MAX, DELAY_MAX_S, VISIBILITY_MAX_MS};
use crate::broker::{BrokerError, Content, Lease, LeaseKey, MessageRef, NewBatch, NewMessage, Reason, Retry, Settle};

/// Lease ids in each of the two lists of a request, and references of messages to be removed.
pub const IDS_MAX: usize = 10_000;
/// Leases that are settled in one transaction. What a request names beyond that follows in others, so that nobody waits
/// long behind it; each is settled whether or not the rest is.
const SETTLED_AT_ONCE: usize = 500;
/// Messages at most that a look takes if it does not say.
const PEEK_SIZE: usize = 5;

/// A pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pull {
    /// Messages at most, if not as many as the consumer's settings say.
    pub(super) max: Option<usize>,
    pub(super) visibility_ms: Option<u32>,
    /// Whether the lease was named as it was in older documentation.
    pub(super) old_name: bool,
}

/// Settling, in parts that are settled one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Ack {
    pub(super) parts: Vec<Settle>,
    /// What is known of lease ids without asking the broker.
    pub(super) warnings: BTreeMap<String, String>,
}

/// Removing messages that were looked at, in parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Remove {
    pub(super) parts: Vec<Vec<MessageRef>>,
    pub(super) warnings: BTreeMap<String, String>,
}

fn batch_size(object: &Object<'_>) -> Result<Option<usize>, Refusal> {
    let most = u32::try_from(BATCH_COUNT_MAX).unwrap_or(u32::MAX);
    Ok(object.number("batch_size", (1, most), code::SCHEMA)?.map(|size| size as usize))
}

pub(super) fn pull(body: &[u8]) -> Result<Pull, Refusal> {
    let object = Object::of(body, true)?;
    let timeout = |name| object.number(name, (0, VISIBILITY_MAX_MS), code::SCHEMA);
    let (named, old) = (timeout("visibility_timeout_ms")?, timeout("visibility_timeout")?);
    Ok(Pull { max: batch_size(&object)?, visibility_ms: named.or(old), old_name: old.is_some() })
}

pub(super) fn peek(body: &[u8]) -> Result<usize, Refusal> {
    Ok(batch_size(&Object::of(body, true)?)?.unwrap_or(PEEK_SIZE))
}

pub(super) fn ack(body: &[u8], key: &LeaseKey) -> Result<Ack, Refusal> {
    let object = Object::of(body, true)?;
    let mut ack = Ack::default();
    let mut named = BTreeSet::new();
    let mut acks = Vec::new();
    for field in object.list("acks", IDS_MAX)? {
        let entry = field.object().and_then(|item| lease(&item, key, &mut named, &mut ack.warnings));
        acks.extend(unless_unreadable(&field, entry, &mut ack.warnings));
    }
    let mut retries = Vec::new();
    for field in object.list("retries", IDS_MAX)? {
        let entry = field.object().and_then(|item| retry(&item, key, &mut named, &mut ack.warnings));
        retries.extend(unless_unreadable(&field, entry, &mut ack.warnings));
    }
    // In their order, neighbours are settled together at less cost.
    acks.sort_unstable();
    let part = |acks, retries| Settle { acks, retries, ..Settle::default() };
    ack.parts.extend(acks.chunks(SETTLED_AT_ONCE).map(|acks| part(acks.to_vec(), Vec::new())));
    ack.parts.extend(retries.chunks(SETTLED_AT_ONCE).map(|retries| part(Vec::new(), retries.to_vec())));
    Ok(ack)
}

/// An entry that cannot be read is a warning under its place in the request. It must not keep the others from counting:
/// what was handled and is not acknowledged is handed over again.
fn unless_unreadable<T>(
    field: &Field<'_>,
    entry: Result<Option<T>, Refusal>,
    warnings: &mut BTreeMap<String, String>,
) -> Option<T> {
    entry
        .inspect_err(|refusal| {
            drop(warnings.insert(field.at.clone(), format!("{}; it changes nothing", refusal.error.message)))
        })
        .ok()
        .flatten()
}

/// The retry that an entry asks for. One whose delay cannot be is none: the message comes again when its lease ends.
fn retry(
    item: &Object<'_>,
    key: &LeaseKey,
    named: &mut BTreeSet<Lease>,
    warnings: &mut BTreeMap<String, String>,
) -> Result<Option<Retry>, Refusal> {
    let delay_s = item.number("delay_seconds", (0, DELAY_MAX_S), code::MESSAGE_METADATA)?;
    let delay_ms = delay_s.map(|seconds| seconds.saturating_mul(1_000));
    let lease = lease(item, key, named, warnings)?;
    Ok(lease.map(|lease| Retry { lease, delay_ms, reason: Reason::Retried, error: None, progress: None }))
}

/// The lease that an entry names, if it is to be settled.
fn lease(
    item: &Object<'_>,
    key: &LeaseKey,
    named: &mut BTreeSet<Lease>,
    warnings: &mut BTreeMap<String, String>,
) -> Result<Option<Lease>, Refusal> {
    let id = item.required("lease_id")?.text()?;
    let Some(lease) = key.open(&id) else {
        warnings.insert(shortened(&id), "this is no lease id of this server's; it changes nothing".to_owned());
        return Ok(None);
    };
    if named.insert(lease) {
        return Ok(Some(lease));
    }
    // Acks are read first. Whoever says both has handled the message, or it could not say that it did.
    let what = "this lease id is named twice; it counts once, as an ack if it is among the acks".to_owned();
    warnings.insert(id, what);
    Ok(None)
}

pub(super) fn remove(body: &[u8], key: &LeaseKey) -> Result<Remove, Refusal> {
    let object = Object::of(body, false)?;
    object.required("refs")?;
    let mut remove = Remove::default();
    let mut references = BTreeSet::new();
    for field in object.list("refs", IDS_MAX)? {
        let text = field.object()?.required("ref")?.text()?;
        match key.open_ref(&text) {
            Some(reference) => drop(references.insert(reference)),
            None => drop(remove.warnings.insert(shortened(&text), "this is no reference of this server's".to_owned())),
        }
    }
    let references: Vec<MessageRef> = references.into_iter().collect();
    remove.parts = references.chunks(BATCH_COUNT_MAX).map(<[MessageRef]>::to_vec).collect();
    Ok(remove)
}

/// Somebody's text is not given back at any length.
fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

pub(super) fn push(body: &[u8]) -> Result<NewBatch, Refusal> {
    let batch = NewBatch { messages: vec![message(&Object::of(body, false)?)?], delay_s: None };
    checked(batch)
}

pub(super) fn push_batch(body: &[u8]) -> Result<NewBatch, Refusal> {
    let object = Object::of(body, false)?;
    object.required("messages")?;
    let fields = object.list("messages", usize::MAX)?;
    if fields.is_empty() || fields.len() > BATCH_COUNT_MAX {
        return Err(BrokerError::BatchCount { limit: BATCH_COUNT_MAX, actual: fields.len() }.into());
    }
    let delay_s = object.number("delay_seconds", (0, DELAY_MAX_S), code::BATCH_DELAY)?;
    let messages = fields.iter().map(|field| message(&field.object()?)).collect::<Result<_, _>>()?;
    checked(NewBatch { messages, delay_s })
}

/// The limits that need no queue are kept before anything waits for the store.
fn checked(batch: NewBatch) -> Result<NewBatch, Refusal> {
    batch.check()?;
    Ok(batch)
}

/// A message. `null` is a value, and what is sent as JSON is kept as it is written, digit for digit.
fn message(object: &Object<'_>) -> Result<NewMessage, Refusal> {
    let content = match object.text("content_type")? {
        None => Content::Json,
        // A Worker's `v8` is no JSON. `bytes` are in base64, as they are pulled; Cloudflare documents text and json only.
        Some(name) => Content::named(&name).filter(|content| *content != Content::V8).ok_or_else(|| {
            let name: String = name.chars().take(40).collect();
            let message = format!("content_type takes text, json or bytes, not `{name}`");
            Refusal::new(400, code::MESSAGE_METADATA, message).at(&format!("{}/content_type", object.at()))
        })?,
    };
    let body =
        object.written("body").ok_or_else(|| Refusal::schema(&format!("{}/body", object.at()), "`body` is missing"))?;
    let body = match content {
        Content::Json | Content::V8 => body.raw.get().as_bytes().to_vec(),
        Content::Text => text(&body, "text")?.into_bytes(),
        Content::Bytes => BASE64.decode(text(&body, "bytes")?).map_err(|_| {
            let what = "`body` must be base64, as `content_type` is bytes";
            Refusal::new(400, code::MESSAGE_METADATA, what).at(&body.at)
        })?,
    };
    let delay_s = object.number("delay_seconds", (0, DELAY_MAX_S), code::MESSAGE_METADATA)?;
    Ok(NewMessage { content, body, delay_s, meta: None })
}

fn text(body: &Field<'_>, content: &str) -> Result<String, Refusal> {
    body.text().map_err(|_| {
        let what = format!("`body` must be a text, as `content_type` is {content}");
        Refusal::new(400, code::MESSAGE_METADATA, what).at(&body.at)
    })
}
