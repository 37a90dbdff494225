//! Parked messages that an operator retried, read again in rounds.

use super::Ticked;
use crate::deliver::Claimed;
use crate::host::{Host, Level, LogEntry};
use crate::queue::{Body, Message};
use crate::receive::{Parked, reread};
use crate::start::App;
use crate::store::schema::SCHEMA_VERSION;
use crate::store::{Row, Statement, StoreError, Value};

/// Messages read again in one round: their bodies are in memory at once.
const ROUND_ROWS: usize = 10;
/// Rounds of one tick; the claims of what the first one keeps must last until it is delivered.
const ROUNDS_MAX: usize = 10;

/// The next round of messages, if the store is current: those marked longest ago, behind the last round's last one,
/// so that a message the store does not take keeps no other from its turn.
const RETRIED: &str = "SELECT id, connection, queue, message_id, attempts, sent_at, kind, detail, retry_at, body \
    FROM jadpo_parked_messages \
    WHERE retry_at IS NOT NULL AND retry_at <= ?1 AND (retry_at > ?4 OR (retry_at = ?4 AND id > ?5)) \
    AND (SELECT version FROM jadpo_schema) >= ?2 ORDER BY retry_at, id LIMIT ?3";

/// Reads again what is marked for it and gives the deliveries of what could be kept.
pub(super) async fn reread_retried<H: Host>(host: &H, app: &App, stop_at_ms: i64, ticked: &mut Ticked) -> Vec<Claimed> {
    let mut claimed = Vec::new();
    let mut last = (0, 0);
    for _ in 0..ROUNDS_MAX {
        if host.now_ms() >= stop_at_ms {
            break;
        }
        let rows = match retried(host, last).await {
            Ok(rows) => rows,
            Err(error) => {
                let fields = vec![("error", error.to_string().into())];
                host.log(LogEntry { level: Level::Error, event: "tick.not_read_again", fields });
                break;
            }
        };
        let Some(end) = rows.last().and_then(|row| Some((row.integer(8)?, row.integer(0)?))) else { break };
        last = end;
        let is_last = rows.len() < ROUND_ROWS;
        let outcome = reread(host, app, rows.into_iter().filter_map(parked).collect()).await;
        ticked.kept += outcome.kept;
        ticked.repeats += outcome.repeats;
        ticked.still_parked += outcome.still_parked;
        ticked.put_off += outcome.put_off;
        claimed.extend(outcome.claimed);
        if is_last {
            break;
        }
    }
    claimed
}

/// The next round's rows, behind the one that was marked at `last.0` under the id `last.1`.
async fn retried<H: Host>(host: &H, last: (i64, i64)) -> Result<Vec<Row>, StoreError> {
    let limit = Value::Integer(ROUND_ROWS as i64);
    let params = vec![host.now_ms().into(), SCHEMA_VERSION.into(), limit, last.0.into(), last.1.into()];
    let rows = host.batch(vec![Statement::new(RETRIED, params)]).await?;
    Ok(rows.into_iter().flat_map(|rows| rows.rows).collect())
}

/// A row as the message that was parked, its body of the kind it was received as.
fn parked(mut row: Row) -> Option<Parked> {
    let stored = row.0.pop()?;
    let body = match (row.text(6)?, stored) {
        ("text", Value::Text(text)) => Body::Text(text),
        ("json", Value::Text(text)) => Body::Json(text),
        ("unreadable", Value::Text(shown)) => Body::Unreadable { shown, why: row.text(7)?.to_owned() },
        (_, Value::Text(text)) => Body::Bytes(text.into_bytes()),
        (_, Value::Blob(bytes)) => Body::Bytes(bytes),
        _ => return None,
    };
    let message = Message {
        id: row.text(3)?.to_owned(),
        sent_at_ms: row.integer(5)?,
        attempts: u32::try_from(row.integer(4)?).ok()?,
        body,
    };
    Some(Parked {
        id: row.integer(0)?,
        connection: row.text(1)?.to_owned(),
        queue: row.text(2)?.to_owned(),
        retry_at_ms: row.integer(8)?,
        message,
    })
}
