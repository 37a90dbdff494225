//! Plan and conclude: messages that were read become one atomic batch of statements, and the rows that come back
//! become each message's fate.

use super::statements::{self, CHUNK_MAX, Claim, Park, Place};
use crate::broken::{self, Variant};
use crate::deliver::CLAIM_MS;
use crate::queue::{ATTEMPTS_MAX, Body, Message};
use crate::read::Reason;
use crate::start::App;
use crate::store::schema::SCHEMA_VERSION;
use crate::store::{Rows, Statement, Value};

/// A message that was read, on its way into the store.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) connection: String,
    /// The queue that handed it over.
    pub(super) queue: String,
    /// The message, its id as [`crate::read::key_of`] writes it.
    pub(super) message: Message,
    pub(super) verdict: Verdict,
    /// The parked message that is read again: its number, and when the operator asked for it.
    pub(super) reread_of: Option<(i64, i64)>,
}

/// What is to happen to a message.
#[derive(Debug, Clone)]
pub(super) enum Verdict {
    /// It becomes this event, under this key.
    Keep { event: String, key: String },
    /// It is parked.
    Park { reason: Reason, detail: String, event: Option<String>, key: Option<String>, kept_as: Option<String> },
}

/// What happened to a message once its batch committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is the event of this number.
    Kept { seq: i64 },
    /// It was kept or parked before.
    Repeat,
    /// It is parked.
    Parked,
}

/// The time and the claim that a plan writes.
#[derive(Debug, Clone)]
pub(super) struct Stamp {
    pub(super) now_ms: i64,
    /// The token under which this host claims the new deliveries.
    pub(super) claim: String,
}

impl Stamp {
    pub(super) fn claim_ends_ms(&self) -> i64 {
        self.now_ms.saturating_add(CLAIM_MS)
    }
}

/// Statements, and which of their rows answer for which item.
pub(super) struct Plan {
    pub(super) statements: Vec<Statement>,
    chunks: Vec<PlannedChunk>,
    /// Item and statement of each message to be parked.
    parks: Vec<(usize, usize)>,
}

struct PlannedChunk {
    /// The items, each by its place in the plan's input.
    items: Vec<usize>,
    /// The statement that returns the numbers of the new ones.
    received: usize,
    behind: usize,
}

/// Plans one atomic batch for all items.
pub(super) fn plan(app: &App, items: &[&Item], stamp: &Stamp) -> Plan {
    let chunks = chunks(items);
    let kept_count = chunks.iter().map(Vec::len).sum();
    let mut plan = Plan {
        statements: vec![statements::reserve(kept_count, SCHEMA_VERSION)],
        chunks: Vec::with_capacity(chunks.len()),
        parks: Vec::new(),
    };
    let mut behind = kept_count;
    for chunk in chunks {
        let count = chunk.len();
        plan_chunk(&mut plan, app, items, chunk, behind, stamp);
        behind -= count;
    }
    for (place, item) in items.iter().enumerate() {
        if let Some(statement) = park(item, stamp) {
            plan.parks.push((place, plan.statements.len()));
            plan.statements.push(statement);
        }
    }
    plan
}

/// Items to be kept, in chunks of one connection and event.
fn chunks(items: &[&Item]) -> Vec<Vec<usize>> {
    let mut chunks: Vec<Vec<usize>> = Vec::new();
    let mut last: Option<(&str, &str)> = None;
    for (place, item) in items.iter().enumerate() {
        let Verdict::Keep { event, .. } = &item.verdict else { continue };
        let kind = (item.connection.as_str(), event.as_str());
        match chunks.last_mut() {
            Some(chunk) if last == Some(kind) && chunk.len() < CHUNK_MAX => chunk.push(place),
            _ => chunks.push(vec![place]),
        }
        last = Some(kind);
    }
    chunks
}

fn plan_chunk(plan: &mut Plan, app: &App, items: &[&Item], chunk: Vec<usize>, behind: usize, stamp: &Stamp) {
    let members: Vec<&Item> = chunk.iter().filter_map(|place| items.get(*place).copied()).collect();
    let Some(Item { connection, verdict: Verdict::Keep { event, .. }, .. }) = members.first() else { return };
    let keys = keys_json(&members);
    let place = Place { behind, version: SCHEMA_VERSION };
    let received = plan.statements.len();
    plan.statements.push(statements::received(connection, keys.clone(), &place));
    let subscribers = app.subscribers_of(event);
    let comes_again = members.iter().any(|item| item.message.attempts > 1);
    let forgotten = broken::is(Variant::DeliveryForgottenOnRepeat) && comes_again;
    if !subscribers.is_empty() && !forgotten {
        let claim = Claim {
            token: stamp.claim.clone(),
            ends_ms: stamp.claim_ends_ms(),
            now_ms: stamp.now_ms,
            attempt_max: ATTEMPTS_MAX,
        };
        let subscribers = serde_json::Value::from(subscribers).to_string();
        plan.statements.push(statements::deliveries(connection, keys.clone(), subscribers, &claim, &place));
    }
    let bodies = members.iter().map(|item| stored_body(&item.message.body));
    plan.statements.push(statements::events(connection, event, keys.clone(), stamp.now_ms, &place, bodies));
    // What was parked was acknowledged, so it comes again only as a redelivery, or because an operator wants it read.
    let may_be_parked = comes_again || members.iter().any(|item| item.reread_of.is_some());
    if may_be_parked && !broken::is(Variant::ParkedCopyKept) {
        plan.statements.push(statements::unpark(connection, keys, SCHEMA_VERSION));
    }
    plan.chunks.push(PlannedChunk { items: chunk, received, behind });
}

/// `[[key, message id, sent at], …]`, which every statement of a chunk is driven by.
fn keys_json(members: &[&Item]) -> String {
    let rows = members.iter().filter_map(|item| match &item.verdict {
        Verdict::Keep { key, .. } => Some(serde_json::json!([key, item.message.id, item.message.sent_at_ms])),
        Verdict::Park { .. } => None,
    });
    serde_json::Value::Array(rows.collect()).to_string()
}

fn park(item: &Item, stamp: &Stamp) -> Option<Statement> {
    let Verdict::Park { reason, detail, event, key, kept_as } = &item.verdict else { return None };
    if broken::is(Variant::UnfitNotParked) && *reason == Reason::Rejected {
        return None;
    }
    let (event, key) = (event.as_deref(), key.as_deref());
    if let Some(parked) = item.reread_of {
        return Some(statements::still_parked(parked, reason.as_str(), detail, event, key, SCHEMA_VERSION));
    }
    Some(statements::park(Park {
        connection: &item.connection,
        queue: &item.queue,
        message_id: &item.message.id,
        reason: reason.as_str(),
        detail,
        event,
        key,
        attempts: item.message.attempts,
        sent_at_ms: item.message.sent_at_ms,
        now_ms: stamp.now_ms,
        kind: body_kind(&item.message.body),
        body: stored_body(&item.message.body),
        kept_as: kept_as.as_deref(),
        version: SCHEMA_VERSION,
    }))
}

/// The word under which a parked body's kind is stored.
pub(super) fn body_kind(body: &Body) -> &'static str {
    match body {
        Body::Text(_) => "text",
        Body::Bytes(_) => "bytes",
        Body::Json(_) => "json",
        Body::Unreadable { .. } => "unreadable",
    }
}

/// A body as it is stored: TEXT wherever it is UTF-8, which D1 carries far cheaper than a BLOB.
fn stored_body(body: &Body) -> Value {
    match body {
        Body::Text(text) | Body::Json(text) | Body::Unreadable { shown: text, .. } => Value::Text(text.clone()),
        Body::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Blob(bytes.clone()),
        },
    }
}

impl Plan {
    /// What became of each item, in the input's order; `None` if the store is behind this build and took nothing.
    pub(super) fn conclude(&self, item_count: usize, rows: &[Rows]) -> Option<Vec<Fate>> {
        let next_seq = rows.first()?.rows.first()?.integer(0)?;
        let first_seq = |behind: usize| next_seq.checked_sub(i64::try_from(behind).ok()?);
        let mut fates = vec![Fate::Repeat; item_count];
        for chunk in &self.chunks {
            let first = first_seq(chunk.behind)?;
            for row in &rows.get(chunk.received)?.rows {
                let seq = row.integer(0)?;
                let place = usize::try_from(seq.checked_sub(first)?).ok()?;
                let item = *chunk.items.get(place)?;
                *fates.get_mut(item)? = Fate::Kept { seq };
            }
        }
        for (item, statement) in &self.parks {
            if rows.get(*statement)?.changes > 0 {
                *fates.get_mut(*item)? = Fate::Parked;
            }
        }
        Some(fates)
    }
}
