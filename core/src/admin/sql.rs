//! The statements of the operator's endpoint. Filters are parameters that are NULL when they are not given.

use serde_json::json;

use super::wire::{Filter, ItemId, Kind, PREVIEW_CHARS};
use crate::program::{Connection, Program};
use crate::queue::ATTEMPTS_MAX;
use crate::store::schema::{NEVER_MS, SCHEMA_VERSION};
use crate::store::{Statement, Value};

/// Rows that one statement of a retry changes at most.
pub(super) const RETRY_ROWS_MAX: u32 = 500;

/// The store's version, with which every batch of the endpoint begins.
pub(super) fn version() -> Statement {
    Statement::new("SELECT version FROM jadpo_schema", Vec::new())
}

/// Parked messages that fit, newest first, those before `before` only.
pub(super) fn parked(filter: &Filter, program: &Program, before: Option<i64>, limit: u32) -> Statement {
    Statement::new(
        "SELECT id, reason, detail, connection, queue, event, key, message_id, attempts, sent_at, parked_at, \
         retry_at, length(CAST(body AS BLOB)) AS body_bytes, substr(body, 1, ?7) AS preview \
         FROM jadpo_parked_messages \
         WHERE (?1 IS NULL OR queue = ?1 OR connection IN (SELECT value FROM json_each(?2))) \
         AND (?3 IS NULL OR connection = ?3) AND (?4 IS NULL OR reason = ?4) AND (?5 IS NULL OR event = ?5) \
         AND (?6 IS NULL OR id < ?6) ORDER BY id DESC LIMIT ?8",
        vec![
            filter.queue.clone().into(),
            connections_of(program, filter.queue.as_deref()),
            filter.connection.clone().into(),
            filter.reason.clone().into(),
            filter.event.clone().into(),
            before.into(),
            PREVIEW_CHARS.into(),
            limit.into(),
        ],
    )
}

/// Failed deliveries that fit, newest event first, those before `before` only.
pub(super) fn failed(filter: &Filter, program: &Program, before: Option<(i64, &str)>, limit: u32) -> Statement {
    Statement::new(
        "SELECT d.seq AS seq, d.subscriber AS subscriber, coalesce(d.error, '') AS error, e.connection AS connection, \
         e.event AS event, e.key AS key, e.message_id AS message_id, d.attempt AS attempt, e.sent_at AS sent_at, \
         d.changed_at AS changed_at, length(CAST(e.body AS BLOB)) AS body_bytes, substr(e.body, 1, ?8) AS preview \
         FROM jadpo_deliveries AS d JOIN jadpo_events AS e ON e.seq = d.seq \
         WHERE d.due_at = ?1 AND (?2 IS NULL OR e.connection IN (SELECT value FROM json_each(?3))) \
         AND (?4 IS NULL OR e.connection = ?4) AND (?5 IS NULL OR d.subscriber = ?5) AND (?6 IS NULL OR e.event = ?6) \
         AND (?7 IS NULL OR d.seq < ?7 OR (d.seq = ?7 AND d.subscriber < ?9)) \
         ORDER BY d.seq DESC, d.subscriber DESC LIMIT ?10",
        vec![
            NEVER_MS.into(),
            filter.queue.clone().into(),
            connections_of(program, filter.queue.as_deref()),
            filter.connection.clone().into(),
            filter.subscriber.clone().into(),
            filter.event.clone().into(),
            before.map(|(seq, _)| seq).into(),
            PREVIEW_CHARS.into(),
            before.map(|(_, subscriber)| subscriber).into(),
            limit.into(),
        ],
    )
}

/// One item with its whole body, in the columns of [`parked`] or [`failed`].
pub(super) fn whole(id: &ItemId) -> Statement {
    match id {
        ItemId::Parked(id) => Statement::new(
            "SELECT id, reason, detail, connection, queue, event, key, message_id, attempts, sent_at, parked_at, \
             retry_at, length(CAST(body AS BLOB)) AS body_bytes, body FROM jadpo_parked_messages WHERE id = ?1",
            vec![(*id).into()],
        ),
        ItemId::Failed { seq, subscriber } => Statement::new(
            "SELECT d.seq AS seq, d.subscriber AS subscriber, coalesce(d.error, '') AS error, \
             e.connection AS connection, e.event AS event, e.key AS key, e.message_id AS message_id, \
             d.attempt AS attempt, e.sent_at AS sent_at, d.changed_at AS changed_at, \
             length(CAST(e.body AS BLOB)) AS body_bytes, e.body AS body \
             FROM jadpo_deliveries AS d JOIN jadpo_events AS e ON e.seq = d.seq \
             WHERE d.due_at = ?1 AND d.seq = ?2 AND d.subscriber = ?3",
            vec![NEVER_MS.into(), (*seq).into(), subscriber.as_str().into()],
        ),
    }
}

/// Marks parked messages for the next tick; returns the `id` of each.
pub(super) fn retry_parked_ids(ids: &[i64], now_ms: i64) -> Statement {
    Statement::new(
        "UPDATE jadpo_parked_messages SET retry_at = ?1 WHERE id IN (SELECT value FROM json_each(?2)) \
         AND (SELECT version FROM jadpo_schema) >= ?3 RETURNING id",
        vec![now_ms.into(), json!(ids).to_string().into(), SCHEMA_VERSION.into()],
    )
}

/// Makes failed deliveries due again; returns `seq` and `subscriber` of each.
pub(super) fn retry_failed_ids(ids: &[(i64, String)], now_ms: i64) -> Statement {
    Statement::new(
        "UPDATE jadpo_deliveries SET due_at = ?1, attempt_max = attempt + ?2, claim = NULL, changed_at = ?1 \
         WHERE due_at = ?3 AND (seq, subscriber) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?4)) \
         AND (SELECT version FROM jadpo_schema) >= ?5 RETURNING seq, subscriber",
        vec![now_ms.into(), ATTEMPTS_MAX.into(), NEVER_MS.into(), json!(ids).to_string().into(), SCHEMA_VERSION.into()],
    )
}

/// Marks parked messages that fit and are not marked yet, the oldest [`RETRY_ROWS_MAX`]; returns their `id`s.
pub(super) fn retry_parked_all(filter: &Filter, program: &Program, now_ms: i64) -> Statement {
    Statement::new(
        "UPDATE jadpo_parked_messages SET retry_at = ?6 WHERE id IN (SELECT id FROM jadpo_parked_messages \
         WHERE retry_at IS NULL AND (?1 IS NULL OR queue = ?1 OR connection IN (SELECT value FROM json_each(?2))) \
         AND (?3 IS NULL OR connection = ?3) AND (?4 IS NULL OR reason = ?4) AND (?5 IS NULL OR event = ?5) \
         ORDER BY id LIMIT ?7) AND (SELECT version FROM jadpo_schema) >= ?8 RETURNING id",
        vec![
            filter.queue.clone().into(),
            connections_of(program, filter.queue.as_deref()),
            filter.connection.clone().into(),
            filter.reason.clone().into(),
            filter.event.clone().into(),
            now_ms.into(),
            RETRY_ROWS_MAX.into(),
            SCHEMA_VERSION.into(),
        ],
    )
}

/// Makes failed deliveries that fit due again, the oldest [`RETRY_ROWS_MAX`]; returns `seq` of each.
pub(super) fn retry_failed_all(filter: &Filter, program: &Program, now_ms: i64) -> Statement {
    Statement::new(
        "UPDATE jadpo_deliveries SET due_at = ?7, attempt_max = attempt + ?8, claim = NULL, changed_at = ?7 \
         WHERE due_at = ?1 AND (seq, subscriber) IN (SELECT d.seq, d.subscriber \
         FROM jadpo_deliveries AS d JOIN jadpo_events AS e ON e.seq = d.seq \
         WHERE d.due_at = ?1 AND (?2 IS NULL OR e.connection IN (SELECT value FROM json_each(?3))) \
         AND (?4 IS NULL OR e.connection = ?4) AND (?5 IS NULL OR d.subscriber = ?5) AND (?6 IS NULL OR e.event = ?6) \
         ORDER BY d.seq, d.subscriber LIMIT ?9) AND (SELECT version FROM jadpo_schema) >= ?10 RETURNING seq",
        vec![
            NEVER_MS.into(),
            filter.queue.clone().into(),
            connections_of(program, filter.queue.as_deref()),
            filter.connection.clone().into(),
            filter.subscriber.clone().into(),
            filter.event.clone().into(),
            now_ms.into(),
            ATTEMPTS_MAX.into(),
            RETRY_ROWS_MAX.into(),
            SCHEMA_VERSION.into(),
        ],
    )
}

/// What the store holds: counts of events, of deliveries, and of parked messages by reason.
pub(super) fn status(now_ms: i64) -> [Statement; 3] {
    [
        Statement::new("SELECT count(*) AS events FROM (SELECT 1 AS one FROM jadpo_events LIMIT 1000000)", Vec::new()),
        Statement::new(
            "SELECT count(*) AS total, total(claim IS NOT NULL AND due_at > ?1) AS running, \
             total(due_at = ?2) AS failed, min(CASE WHEN due_at < ?2 THEN due_at END) AS oldest FROM jadpo_deliveries",
            vec![now_ms.into(), NEVER_MS.into()],
        ),
        Statement::new(
            "SELECT reason, count(*) AS parked, count(retry_at) AS retrying FROM jadpo_parked_messages \
             GROUP BY reason ORDER BY reason",
            Vec::new(),
        ),
    ]
}

/// Whether parked messages can fit the filter at all.
pub(super) fn wants_parked(filter: &Filter) -> bool {
    filter.kind != Some(Kind::Failed) && filter.subscriber.is_none() && filter.reason.as_deref() != Some("failed")
}

/// Whether failed deliveries can fit the filter at all.
pub(super) fn wants_failed(filter: &Filter) -> bool {
    filter.kind != Some(Kind::Parked) && filter.reason.as_deref().is_none_or(|reason| reason == "failed")
}

/// The queue that a connection reads, as the program says.
pub(super) fn queue_of<'a>(program: &'a Program, connection: &str) -> Option<&'a str> {
    match program.connections.get(connection)? {
        Connection::CloudflareQueues { queue, .. } | Connection::LocalQueue { queue, .. } => Some(queue),
        Connection::CloudflarePull { queue, .. } => Some(queue.text()),
    }
}

/// The connections that read this queue, as JSON: the store knows a delivery by its connection only.
fn connections_of(program: &Program, queue: Option<&str>) -> Value {
    let names = program.connections.keys().filter(|name| queue.is_some() && queue_of(program, name) == queue);
    json!(names.collect::<Vec<_>>()).to_string().into()
}
