//! The statements that keep and park messages.
//!
//! A chunk of up to [`CHUNK_MAX`] messages of one connection is kept by five statements whatever its size. Each
//! message is told by its place in the chunk: its event's number is the chunk's first plus that place, and a row in
//! `jadpo_received` with that number was inserted by this very batch, since numbers are handed out once.

use crate::broken::{self, Variant};
use crate::store::{Statement, Value};

/// Messages that one set of statements keeps: each body is a parameter of its own, and the text is static.
pub(super) const CHUNK_MAX: usize = 10;

/// Hands out event numbers, and is the guard: it changes nothing, and returns nothing, in a store that is behind.
pub(super) fn reserve(count: usize, version: u32) -> Statement {
    Statement::new(
        "UPDATE jadpo_schema SET next_seq = next_seq + ?1 WHERE version >= ?2 RETURNING next_seq",
        vec![number(count), version.into()],
    )
}

/// A chunk's place in the numbers that [`reserve`] handed out.
pub(super) struct Place {
    /// How many of the reserved numbers lie at or behind the chunk's first: its first number is `next_seq - behind`.
    pub(super) behind: usize,
    /// The version that the store must have.
    pub(super) version: u32,
}

/// Marks what is new as received. Returns `key` and `seq` of each message that was not received before.
pub(super) fn received(connection: &str, keys_json: String, place: &Place) -> Statement {
    Statement::new(
        "INSERT INTO jadpo_received (connection, key, seq) \
         SELECT ?1, c.value ->> 0, s.next_seq - ?3 + c.key \
         FROM jadpo_schema AS s CROSS JOIN json_each(?2) AS c \
         WHERE s.version >= ?4 \
         ON CONFLICT (connection, key) DO NOTHING \
         RETURNING seq",
        vec![connection.into(), keys_json.into(), number(place.behind), place.version.into()],
    )
}

/// A claim that new deliveries are inserted with.
pub(super) struct Claim {
    pub(super) token: String,
    pub(super) ends_ms: i64,
    pub(super) now_ms: i64,
    pub(super) attempt_max: u32,
}

/// One delivery per new event and subscriber, already claimed by this host.
pub(super) fn deliveries(
    connection: &str,
    keys_json: String,
    subscribers_json: String,
    claim: &Claim,
    place: &Place,
) -> Statement {
    Statement::new(
        "INSERT INTO jadpo_deliveries (due_at, seq, subscriber, attempt, attempt_max, claim, changed_at) \
         SELECT ?1, r.seq, d.value, 1, ?2, ?3, ?4 \
         FROM jadpo_schema AS s CROSS JOIN json_each(?5) AS c CROSS JOIN jadpo_received AS r \
         CROSS JOIN json_each(?6) AS d \
         WHERE r.connection = ?7 AND r.key = c.value ->> 0 AND r.seq = s.next_seq - ?8 + c.key",
        vec![
            claim.ends_ms.into(),
            claim.attempt_max.into(),
            claim.token.as_str().into(),
            claim.now_ms.into(),
            keys_json.into(),
            subscribers_json.into(),
            connection.into(),
            number(place.behind),
        ],
    )
}

/// The new events themselves. `bodies` has at most [`CHUNK_MAX`] values, in the chunk's order.
pub(super) fn events(
    connection: &str,
    event: &str,
    keys_json: String,
    now_ms: i64,
    place: &Place,
    bodies: impl Iterator<Item = Value>,
) -> Statement {
    let mut params: Vec<Value> =
        vec![event.into(), now_ms.into(), keys_json.into(), connection.into(), number(place.behind)];
    params.extend(bodies);
    params.resize(5 + CHUNK_MAX, Value::Null);
    Statement::new(
        "INSERT INTO jadpo_events (seq, connection, key, event, message_id, sent_at, received_at, body) \
         SELECT r.seq, r.connection, r.key, ?1, c.value ->> 1, c.value ->> 2, ?2, \
         CASE c.key WHEN 0 THEN ?6 WHEN 1 THEN ?7 WHEN 2 THEN ?8 WHEN 3 THEN ?9 WHEN 4 THEN ?10 \
         WHEN 5 THEN ?11 WHEN 6 THEN ?12 WHEN 7 THEN ?13 WHEN 8 THEN ?14 WHEN 9 THEN ?15 END \
         FROM jadpo_schema AS s CROSS JOIN json_each(?3) AS c CROSS JOIN jadpo_received AS r \
         WHERE r.connection = ?4 AND r.key = c.value ->> 0 AND r.seq = s.next_seq - ?5 + c.key",
        params,
    )
}

/// Takes away the parked copies of messages that were kept, or are repeats: a message is in one place.
pub(super) fn unpark(connection: &str, keys_json: String, version: u32) -> Statement {
    Statement::new(
        "DELETE FROM jadpo_parked_messages \
         WHERE connection = ?1 AND message_id IN (SELECT c.value ->> 1 FROM json_each(?2) AS c) \
         AND EXISTS (SELECT 1 FROM jadpo_schema WHERE version >= ?3)",
        vec![connection.into(), keys_json.into(), version.into()],
    )
}

/// A message that is parked.
pub(super) struct Park<'a> {
    pub(super) connection: &'a str,
    pub(super) queue: &'a str,
    pub(super) message_id: &'a str,
    pub(super) reason: &'static str,
    pub(super) detail: &'a str,
    pub(super) event: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) attempts: u32,
    pub(super) sent_at_ms: i64,
    pub(super) now_ms: i64,
    pub(super) kind: &'static str,
    pub(super) body: Value,
    /// The key under which this very message may have been kept before, by a build that could read it; then it is a
    /// repeat and is not parked. Another message under the same key is parked.
    pub(super) kept_as: Option<&'a str>,
    pub(super) version: u32,
}

macro_rules! park {
    ($the_same_message:literal) => {
        concat!(
            "INSERT INTO jadpo_parked_messages ",
            "(connection, queue, message_id, reason, detail, event, key, attempts, sent_at, parked_at, kind, body) ",
            "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 ",
            "FROM jadpo_schema AS s WHERE s.version >= ?13 ",
            "AND NOT EXISTS (SELECT 1 FROM jadpo_received AS r JOIN jadpo_events AS e ON e.seq = r.seq ",
            "WHERE r.connection = ?1 AND r.key = ?14",
            $the_same_message,
            ") ON CONFLICT (connection, message_id) DO NOTHING",
        )
    };
}

/// Parks a message, once: changes nothing if it is parked already, or was itself kept under `kept_as`.
pub(super) fn park(message: Park<'_>) -> Statement {
    let sql = if broken::is(Variant::UnfitTakenForARepeat) { park!("") } else { park!(" AND e.message_id = ?3") };
    Statement::new(
        sql,
        vec![
            message.connection.into(),
            message.queue.into(),
            message.message_id.into(),
            message.reason.into(),
            message.detail.into(),
            message.event.into(),
            message.key.into(),
            message.attempts.into(),
            message.sent_at_ms.into(),
            message.now_ms.into(),
            message.kind.into(),
            message.body,
            message.version.into(),
            message.kept_as.into(),
        ],
    )
}

/// What reading a parked message again came to, when it still cannot be kept. It waits for an operator once more.
///
/// A retry that the operator asked for since the message was read, at another time than `retry_at_ms`, stands.
pub(super) fn still_parked(
    (id, retry_at_ms): (i64, i64),
    reason: &'static str,
    detail: &str,
    event: Option<&str>,
    key: Option<&str>,
    version: u32,
) -> Statement {
    Statement::new(
        "UPDATE jadpo_parked_messages SET reason = ?2, detail = ?3, event = ?4, key = ?5, \
         retry_at = CASE WHEN retry_at = ?7 THEN NULL ELSE retry_at END \
         WHERE id = ?1 AND EXISTS (SELECT 1 FROM jadpo_schema WHERE version >= ?6)",
        vec![id.into(), reason.into(), detail.into(), event.into(), key.into(), version.into(), retry_at_ms.into()],
    )
}

#[expect(clippy::cast_possible_wrap, reason = "counts of messages in a batch")]
fn number(count: usize) -> Value {
    Value::Integer(count as i64)
}
