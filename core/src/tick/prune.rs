//! Clearing away events past their keep time, and the memory of their keys, in slices.
//!
//! An event with a delivery left, a failed one included, stays however old it is; so do parked messages, and an event
//! whose message is parked too (it was kept, and handed over as a dead letter later), so that no retry of it makes a
//! second event. The store
//! remembers how far it is cleared, so events that stay are not looked at again every minute. Once a day it starts
//! over, for those whose deliveries have ended since.

use crate::host::{Host, Level, LogEntry};
use crate::store::schema::SCHEMA_VERSION;
use crate::store::{Row, Statement, StoreError};

/// How long an event and its key are kept, in milliseconds: 30 days. Cloudflare keeps a message for 14 days at most,
/// and as long again in a dead-letter queue, so no repeat of an event comes later.
pub const KEEP_MS: i64 = 30 * 24 * 3_600_000;

/// Events of one slice.
const SLICE_ROWS: u32 = 500;
/// Slices of one tick.
const SLICES_MAX: u32 = 10;
const MINUTE_MS: i64 = 60_000;
const DAY_MINUTES: i64 = 24 * 60;

/// The next slice's beginning and end, if there is one: up to the last old event of the next few. When the very
/// next one is young, no other is looked at.
const SLICE: &str = "WITH place (start_seq) AS \
    (SELECT CASE ?1 WHEN 1 THEN 0 ELSE pruned_seq END FROM jadpo_schema WHERE version >= ?2) \
    SELECT start_seq, (SELECT max(seq) FROM \
        (SELECT seq, received_at FROM jadpo_events WHERE seq > start_seq ORDER BY seq LIMIT ?3) \
        WHERE received_at < ?4) AS end_seq FROM place \
    WHERE (SELECT received_at FROM jadpo_events WHERE seq > start_seq ORDER BY seq LIMIT 1) < ?4";

/// Forgets the keys of the slice's events that go.
const PRUNE_RECEIVED: &str = "DELETE FROM jadpo_received WHERE (connection, key) IN \
    (SELECT connection, key FROM jadpo_events AS e WHERE seq > ?1 AND seq <= ?2 AND received_at < ?3 \
    AND seq NOT IN (SELECT seq FROM jadpo_deliveries) \
    AND NOT EXISTS (SELECT 1 FROM jadpo_parked_messages AS p \
        WHERE p.connection = e.connection AND p.message_id = e.message_id))";

/// Takes the slice's events away.
const PRUNE_EVENTS: &str = "DELETE FROM jadpo_events AS e WHERE seq > ?1 AND seq <= ?2 AND received_at < ?3 \
    AND seq NOT IN (SELECT seq FROM jadpo_deliveries) \
    AND NOT EXISTS (SELECT 1 FROM jadpo_parked_messages AS p \
        WHERE p.connection = e.connection AND p.message_id = e.message_id)";

const PRUNED: &str = "UPDATE jadpo_schema SET pruned_seq = ?1";

/// Clears away what is past its keep time: one slice in any case, more while there is time. Gives how many events.
pub(super) async fn prune<H: Host>(host: &H, stop_at_ms: i64) -> u64 {
    let mut pruned = 0;
    let mut starts_over = host.now_ms().div_euclid(MINUTE_MS) % DAY_MINUTES == 0;
    for _ in 0..SLICES_MAX {
        match prune_slice(host, starts_over).await {
            Ok(Some(events)) => pruned += events,
            Ok(None) => break,
            Err(error) => {
                let fields = vec![("error", error.to_string().into())];
                host.log(LogEntry { level: Level::Warn, event: "tick.not_pruned", fields });
                break;
            }
        }
        starts_over = false;
        if host.now_ms() >= stop_at_ms {
            break;
        }
    }
    pruned
}

/// Clears one slice; `None` when there is none.
async fn prune_slice<H: Host>(host: &H, starts_over: bool) -> Result<Option<u64>, StoreError> {
    let cutoff_ms = host.now_ms().saturating_sub(KEEP_MS);
    let params = vec![u32::from(starts_over).into(), SCHEMA_VERSION.into(), SLICE_ROWS.into(), cutoff_ms.into()];
    let rows = host.batch(vec![Statement::new(SLICE, params)]).await?;
    let slice = rows.first().and_then(|rows| rows.rows.first());
    let Some((start_seq, end_seq)) = slice.and_then(|row: &Row| Some((row.integer(0)?, row.integer(1)?))) else {
        return Ok(None);
    };
    let bounds = || vec![start_seq.into(), end_seq.into(), cutoff_ms.into()];
    let statements = vec![
        Statement::new(PRUNE_RECEIVED, bounds()),
        Statement::new(PRUNE_EVENTS, bounds()),
        Statement::new(PRUNED, vec![end_seq.into()]),
    ];
    let rows = host.batch(statements).await?;
    Ok(Some(rows.get(1).map_or(0, |rows| rows.changes)))
}
