//! Listing, showing, counting.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::wire::{Filter, Item, ItemId, Kind, LIMIT_DEFAULT, LIMIT_MAX, Listing, PREVIEW_CHARS, Status};
use super::{Refusal, invalid, not_found, run, sql};
use crate::host::Host;
use crate::program::Program;
use crate::read::Reason;
use crate::start::App;
use crate::store::schema::SCHEMA_VERSION;
use crate::store::{Row, Value};

/// The longest query string, in bytes.
const QUERY_BYTES_MAX: usize = 4_096;

/// A page of what is parked and has failed.
pub(super) async fn list<H: Host>(host: &H, app: &App, query: &str) -> Result<Listing, Refusal> {
    let Query { filter, limit, after } = parse_query(query)?;
    let (parked_before, failed_before) = match &after {
        None => (None, None),
        Some(ItemId::Parked(id)) => (Some(*id), None),
        Some(ItemId::Failed { seq, subscriber }) => (None, Some((*seq, subscriber.as_str()))),
    };
    let parked = sql::wants_parked(&filter) && failed_before.is_none();
    let failed = sql::wants_failed(&filter);
    let mut statements = Vec::new();
    // One row more than the page holds tells whether there is another page.
    statements.extend(parked.then(|| sql::parked(&filter, &app.program, parked_before, limit + 1)));
    statements.extend(failed.then(|| sql::failed(&filter, &app.program, failed_before, limit + 1)));
    let mut rows = run(host, statements).await?.into_iter();
    let parked_rows = if parked { rows.next().unwrap_or_default().rows } else { Vec::new() };
    let failed_rows = if failed { rows.next().unwrap_or_default().rows } else { Vec::new() };
    let mut items: Vec<Item> = parked_rows.into_iter().filter_map(parked_item).collect();
    items.extend(failed_rows.into_iter().filter_map(|row| failed_item(&app.program, row)));
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    for item in &mut items {
        item.preview = Some(preview(item));
        (item.body, item.body_base64) = (None, None);
    }
    let next = if more { items.last().map(|item| item.id.clone()) } else { None };
    Ok(Listing { items, next })
}

/// One item, whole.
pub(super) async fn show<H: Host>(host: &H, app: &App, id: &str) -> Result<Item, Refusal> {
    let parsed = ItemId::parse(id)
        .ok_or_else(|| not_found("an id is p and a number, or d, a number, a dot and a subscriber: p12, d34.ledger"))?;
    let rows = run(host, vec![sql::whole(&parsed)]).await?;
    let row = rows.into_iter().next().and_then(|rows| rows.rows.into_iter().next());
    let (item, what) = match &parsed {
        ItemId::Parked(_) => (row.and_then(parked_item), "parked message"),
        ItemId::Failed { .. } => (row.and_then(|row| failed_item(&app.program, row)), "failed delivery"),
    };
    item.ok_or_else(|| {
        not_found(format!("there is no {what} {parsed}; one that was retried is listed again only if it fails again"))
    })
}

/// What the store holds.
pub(super) async fn status<H: Host>(host: &H, app: &App) -> Result<Status, Refusal> {
    let mut statements = vec![sql::version()];
    statements.extend(sql::status(host.now_ms()));
    let rows = run(host, statements).await?;
    let count = |statement: usize, column: usize| {
        let row = rows.get(statement).and_then(|rows| rows.rows.first());
        row.and_then(|row| row.integer(column)).and_then(|count| u64::try_from(count).ok()).unwrap_or_default()
    };
    let mut status = Status {
        app: app.program.app.clone(),
        store_version: u32::try_from(count(0, 0)).unwrap_or_default(),
        store_version_needed: SCHEMA_VERSION,
        events: count(1, 0),
        running: count(2, 1),
        failed: count(2, 2),
        ..Status::default()
    };
    status.waiting = count(2, 0).saturating_sub(status.running + status.failed);
    status.oldest_due_ms = rows.get(2).and_then(|rows| rows.rows.first()?.integer(3));
    for row in rows.get(3).map_or(&[][..], |rows| &rows.rows) {
        let number = |column| row.integer(column).and_then(|count| u64::try_from(count).ok()).unwrap_or_default();
        status.parked.insert(row.text(0).unwrap_or_default().to_owned(), number(1));
        status.retrying += number(2);
    }
    Ok(status)
}

/// A listing's query string, read.
struct Query {
    filter: Filter,
    limit: u32,
    after: Option<ItemId>,
}

fn parse_query(query: &str) -> Result<Query, Refusal> {
    if query.len() > QUERY_BYTES_MAX {
        return Err(invalid(format!("the query is longer than {QUERY_BYTES_MAX} bytes")));
    }
    let mut parsed = Query { filter: Filter::default(), limit: LIMIT_DEFAULT, after: None };
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let text = Some(value.to_string());
        match &*name {
            "kind" => parsed.filter.kind = Some(kind_of(&value)?),
            "queue" => parsed.filter.queue = text,
            "connection" => parsed.filter.connection = text,
            "reason" => parsed.filter.reason = text,
            "subscriber" => parsed.filter.subscriber = text,
            "event" => parsed.filter.event = text,
            "after" => {
                let id = ItemId::parse(&value).ok_or_else(|| invalid("after: give the last answer's next"))?;
                parsed.after = Some(id);
            }
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
                parsed.limit = limit.ok_or_else(|| invalid(format!("limit: a number from 1 to {LIMIT_MAX}")))?;
            }
            _ => {
                let names = "kind, queue, connection, reason, subscriber, event, limit and after";
                return Err(invalid(format!("the query takes {names}, and not {}", bounded(&name))));
            }
        }
    }
    check_filter(&parsed.filter)?;
    Ok(parsed)
}

/// Refuses a filter that could fit nothing because of a slip of the pen.
pub(super) fn check_filter(filter: &Filter) -> Result<(), Refusal> {
    match filter.reason.as_deref() {
        Some(reason) if reason != "failed" && Reason::from_word(reason).is_none() => {
            Err(invalid("reason: one of unreadable, rejected, dead_lettered, failed"))
        }
        _ => Ok(()),
    }
}

fn kind_of(word: &str) -> Result<Kind, Refusal> {
    match word {
        "parked" => Ok(Kind::Parked),
        "failed" => Ok(Kind::Failed),
        _ => Err(invalid("kind: parked or failed")),
    }
}

/// The first characters of a text that somebody sent, for a message.
fn bounded(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The beginning of the body that a listing's row brought along, in whole characters.
fn preview(item: &Item) -> String {
    let text = match (&item.body, &item.body_base64) {
        (Some(text), _) => text.clone(),
        (None, Some(encoded)) => String::from_utf8_lossy(&BASE64.decode(encoded).unwrap_or_default()).into_owned(),
        (None, None) => String::new(),
    };
    text.chars().take(PREVIEW_CHARS as usize).collect()
}

/// The row's last column as `body` or `body_base64`.
fn body_of(row: &mut Row) -> Option<(Option<String>, Option<String>)> {
    match row.0.pop()? {
        Value::Text(text) => Some((Some(text), None)),
        Value::Blob(bytes) => Some((None, Some(BASE64.encode(bytes)))),
        Value::Null | Value::Integer(_) | Value::Real(_) => None,
    }
}

fn parked_item(mut row: Row) -> Option<Item> {
    let (body, body_base64) = body_of(&mut row)?;
    let text = |column: usize| row.text(column).map(str::to_owned);
    Some(Item {
        id: ItemId::Parked(row.integer(0)?).to_string(),
        kind: Kind::Parked,
        reason: text(1)?,
        detail: text(2)?,
        connection: text(3)?,
        queue: text(4),
        event: text(5),
        key: text(6),
        message_id: text(7)?,
        subscriber: None,
        attempts: u32::try_from(row.integer(8)?).ok()?,
        sent_at_ms: row.integer(9)?,
        since_ms: row.integer(10)?,
        retry_at_ms: row.integer(11),
        body_bytes: u64::try_from(row.integer(12)?).ok()?,
        preview: None,
        body,
        body_base64,
    })
}

fn failed_item(program: &Program, mut row: Row) -> Option<Item> {
    let (body, body_base64) = body_of(&mut row)?;
    let text = |column: usize| row.text(column).map(str::to_owned);
    let connection = text(3)?;
    Some(Item {
        id: ItemId::Failed { seq: row.integer(0)?, subscriber: text(1)? }.to_string(),
        kind: Kind::Failed,
        reason: "failed".to_owned(),
        detail: text(2)?,
        queue: sql::queue_of(program, &connection).map(str::to_owned),
        connection,
        event: text(4),
        key: text(5),
        message_id: text(6)?,
        subscriber: text(1),
        attempts: u32::try_from(row.integer(7)?).ok()?,
        sent_at_ms: row.integer(8)?,
        since_ms: row.integer(9)?,
        retry_at_ms: None,
        body_bytes: u64::try_from(row.integer(10)?).ok()?,
        preview: None,
        body,
        body_base64,
    })
}
