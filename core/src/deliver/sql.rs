//! The statements of deliveries, and what comes back from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::{CLAIM_MS, Claimed, Event};
use crate::broken::{self, Variant};
use crate::store::schema::{NEVER_MS, SCHEMA_VERSION};
use crate::store::{Row, Rows, Statement, Value};

/// Most deliveries claimed at once: their bodies come along and stay in memory.
pub(super) const CLAIM_ROWS_MAX: u32 = 25;

/// Takes what is due longest, if the store is current. A delivery whose attempts are spent, so that its last one
/// was never settled, fails here instead of running once more.
const CLAIM: &str = "UPDATE jadpo_deliveries SET \
    due_at = CASE WHEN attempt < attempt_max THEN ?2 ELSE ?5 END, \
    claim = CASE WHEN attempt < attempt_max THEN ?3 END, \
    error = CASE WHEN attempt < attempt_max THEN error ELSE ?7 END, \
    attempt = min(attempt + 1, attempt_max), changed_at = ?1 \
    WHERE (due_at, seq, subscriber) IN \
        (SELECT due_at, seq, subscriber FROM jadpo_deliveries WHERE due_at <= ?1 ORDER BY due_at, seq, subscriber LIMIT ?4) \
    AND (SELECT version FROM jadpo_schema) >= ?6 \
    RETURNING due_at, seq, subscriber, attempt, attempt_max";

/// The events of the claim, each once.
const CLAIMED_EVENTS: &str = "SELECT seq, connection, key, event, sent_at, body FROM jadpo_events \
    WHERE seq IN (SELECT seq FROM jadpo_deliveries WHERE due_at = ?1 AND claim = ?2)";

/// Takes away what is done, as far as the claims still hold.
const DONE: &str = "DELETE FROM jadpo_deliveries WHERE (due_at, seq, subscriber, claim) IN \
    (SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?1))";

/// Gives claims up, as far as they still hold: a new time, the attempt back where none was made, the error.
const MOVED: &str = "UPDATE jadpo_deliveries SET due_at = moved.value ->> 4, claim = NULL, changed_at = ?2, \
    attempt = attempt - (moved.value ->> 5), error = coalesce(moved.value ->> 6, error) \
    FROM json_each(?1) AS moved \
    WHERE due_at = moved.value ->> 0 AND seq = moved.value ->> 1 AND subscriber = moved.value ->> 2 \
    AND claim = moved.value ->> 3";

/// [`DONE`] for [`Variant::ClaimNotFenced`].
const DONE_UNFENCED: &str = "DELETE FROM jadpo_deliveries WHERE (seq, subscriber) IN \
    (SELECT value ->> 1, value ->> 2 FROM json_each(?1))";

/// [`MOVED`] for [`Variant::ClaimNotFenced`].
const MOVED_UNFENCED: &str = "UPDATE jadpo_deliveries SET due_at = moved.value ->> 4, claim = NULL, changed_at = ?2, \
    attempt = attempt - (moved.value ->> 5), error = coalesce(moved.value ->> 6, error) \
    FROM json_each(?1) AS moved WHERE seq = moved.value ->> 1 AND subscriber = moved.value ->> 2";

/// The error of a delivery whose last attempt was never settled.
const NEVER_SETTLED: &str = "the last attempt was started, and how it ended was never written down";

/// What is written about a claimed delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settlement {
    /// Which one.
    pub(super) claimed: Claimed,
    /// What became of it.
    pub(super) how: How,
}

/// What became of a claimed delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum How {
    /// The subscriber has it.
    Done,
    /// It waits until then, in milliseconds since 1970.
    Waiting(i64, String),
    /// It has failed.
    Failed(String),
    /// It was not started: due at once, its attempt not used.
    Released,
}

/// The statements that write the settlements: none for none, never more than two.
pub(super) fn settle(settlements: &[Settlement], now_ms: i64) -> Vec<Statement> {
    let mut done = Vec::new();
    let mut moved = Vec::new();
    for Settlement { claimed, how } in settlements {
        let (due_at_ms, attempt_back, error) = match how {
            How::Done => {
                done.push(json!([claimed.due_at_ms, claimed.event.seq, claimed.subscriber, claimed.claim]));
                continue;
            }
            How::Waiting(due_at_ms, error) => {
                (*due_at_ms, u32::from(broken::is(Variant::AttemptsFallBack)), Some(error))
            }
            How::Failed(error) => (NEVER_MS, 0, Some(error)),
            How::Released => (now_ms, 1, None),
        };
        let Claimed { due_at_ms: held_until_ms, claim, subscriber, event, .. } = claimed;
        moved.push(json!([held_until_ms, event.seq, subscriber, claim, due_at_ms, attempt_back, error]));
    }
    let unfenced = broken::is(Variant::ClaimNotFenced);
    let (done_sql, moved_sql) = if unfenced { (DONE_UNFENCED, MOVED_UNFENCED) } else { (DONE, MOVED) };
    let mut statements = Vec::new();
    if !done.is_empty() {
        statements.push(Statement::new(done_sql, vec![serde_json::Value::from(done).to_string().into()]));
    }
    if !moved.is_empty() {
        let moved = serde_json::Value::from(moved).to_string();
        statements.push(Statement::new(moved_sql, vec![moved.into(), now_ms.into()]));
    }
    statements
}

/// The two statements that claim what is due under the token `claim`.
pub(super) fn claim(claim: &str, now_ms: i64) -> [Statement; 2] {
    let held_until_ms = now_ms.saturating_add(CLAIM_MS);
    [
        Statement::new(
            CLAIM,
            vec![
                now_ms.into(),
                held_until_ms.into(),
                claim.into(),
                CLAIM_ROWS_MAX.into(),
                NEVER_MS.into(),
                SCHEMA_VERSION.into(),
                NEVER_SETTLED.into(),
            ],
        ),
        Statement::new(CLAIMED_EVENTS, vec![held_until_ms.into(), claim.into()]),
    ]
}

/// What a claim took.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// What is to run, due longest first.
    pub(super) claimed: Vec<Claimed>,
    /// Deliveries that failed by being claimed: event number, subscriber, attempts, error.
    pub(super) failed: Vec<(i64, String, u32, &'static str)>,
    /// Whether there may be more: the claim was full.
    pub(super) full: bool,
}

/// Reads what the two statements of [`claim`] gave back.
pub(super) fn taken(claim: &str, deliveries: Rows, events: Rows) -> Taken {
    let events: BTreeMap<i64, Arc<Event>> =
        events.rows.into_iter().filter_map(event).map(|event| (event.seq, Arc::new(event))).collect();
    let mut taken = Taken { full: deliveries.rows.len() >= CLAIM_ROWS_MAX as usize, ..Taken::default() };
    for row in &deliveries.rows {
        let Some((due_at_ms, seq, subscriber, attempt, attempt_max)) = delivery(row) else { continue };
        if due_at_ms == NEVER_MS {
            taken.failed.push((seq, subscriber, attempt, NEVER_SETTLED));
        } else if let Some(event) = events.get(&seq) {
            let (claim, event) = (claim.to_owned(), Arc::clone(event));
            taken.claimed.push(Claimed { due_at_ms, claim, subscriber, attempt, attempt_max, event });
        }
    }
    taken.claimed.sort_by(|a, b| (a.event.seq, &a.subscriber).cmp(&(b.event.seq, &b.subscriber)));
    taken
}

fn delivery(row: &Row) -> Option<(i64, i64, String, u32, u32)> {
    let attempts = |index| row.integer(index).and_then(|number| u32::try_from(number).ok());
    Some((row.integer(0)?, row.integer(1)?, row.text(2)?.to_owned(), attempts(3)?, attempts(4)?))
}

fn event(mut row: Row) -> Option<Event> {
    let body = match row.0.pop()? {
        Value::Text(text) => text.into_bytes(),
        Value::Blob(bytes) => bytes,
        Value::Null | Value::Integer(_) | Value::Real(_) => return None,
    };
    Some(Event {
        seq: row.integer(0)?,
        connection: row.text(1)?.to_owned(),
        key: row.text(2)?.to_owned(),
        name: row.text(3)?.to_owned(),
        sent_at_ms: row.integer(4)?,
        body,
    })
}
