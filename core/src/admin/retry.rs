//! Retrying: parked messages are marked for the tick, failed deliveries fall due and get as many attempts again.

use std::collections::BTreeSet;

use super::read::check_filter;
use super::sql::{self, RETRY_ROWS_MAX};
use super::wire::{BODY_BYTES_MAX, Filter, ItemId, RETRY_IDS_MAX, Retried, RetryRequest};
use super::{Refusal, invalid, run};
use crate::host::Host;
use crate::start::App;

/// Round trips that one request for everything makes at most.
const ROUNDS_MAX: u32 = 20;

/// Carries out a retry that came as JSON.
pub(super) async fn retry<H: Host>(host: &H, app: &App, body: &[u8]) -> Result<Retried, Refusal> {
    if body.len() > BODY_BYTES_MAX {
        let message = format!("the body is longer than {BODY_BYTES_MAX} bytes");
        return Err(Refusal { status: 413, code: "request_too_large", message });
    }
    let request: RetryRequest = serde_json::from_slice(body)
        .map_err(|error| invalid(format!("the body is not {{\"ids\": […]}} or {{\"all\": true}}: {error}")))?;
    let (ids, all, filter) = request.into_parts();
    match (ids.is_empty(), all) {
        (false, true) => Err(invalid("give ids or all, not both")),
        (true, false) => Err(invalid("give ids, or all: true for everything that fits the filter")),
        (false, false) if filter != Filter::default() => Err(invalid("a filter goes with all: true, not with ids")),
        (false, false) if ids.len() > RETRY_IDS_MAX => {
            Err(invalid(format!("{} ids at once, and at most {RETRY_IDS_MAX} are taken", ids.len())))
        }
        (false, false) => retry_ids(host, ids).await,
        (true, true) => {
            check_filter(&filter)?;
            retry_all(host, app, &filter).await
        }
    }
}

async fn retry_ids<H: Host>(host: &H, ids: Vec<String>) -> Result<Retried, Refusal> {
    let mut parked = Vec::new();
    let mut failed = Vec::new();
    for id in &ids {
        match ItemId::parse(id) {
            Some(ItemId::Parked(id)) => parked.push(id),
            Some(ItemId::Failed { seq, subscriber }) => failed.push((seq, subscriber)),
            None => {}
        }
    }
    let now_ms = host.now_ms();
    let statements = vec![sql::retry_parked_ids(&parked, now_ms), sql::retry_failed_ids(&failed, now_ms)];
    let mut rows = run(host, statements).await?.into_iter();
    let parked_rows = rows.next().unwrap_or_default().rows;
    let failed_rows = rows.next().unwrap_or_default().rows;
    let mut done: BTreeSet<String> = BTreeSet::new();
    done.extend(parked_rows.iter().filter_map(|row| Some(ItemId::Parked(row.integer(0)?).to_string())));
    done.extend(failed_rows.iter().filter_map(|row| {
        Some(ItemId::Failed { seq: row.integer(0)?, subscriber: row.text(1)?.to_owned() }.to_string())
    }));
    let is_unknown = |id: &String| ItemId::parse(id).is_none_or(|parsed| !done.contains(&parsed.to_string()));
    let unknown = ids.into_iter().filter(is_unknown).collect();
    Ok(Retried { retried: done.len() as u64, unknown, more: false })
}

async fn retry_all<H: Host>(host: &H, app: &App, filter: &Filter) -> Result<Retried, Refusal> {
    let (mut parked, mut failed) = (sql::wants_parked(filter), sql::wants_failed(filter));
    let mut retried = Retried::default();
    for _ in 0..ROUNDS_MAX {
        if !parked && !failed {
            break;
        }
        let now_ms = host.now_ms();
        let mut statements = Vec::new();
        statements.extend(parked.then(|| sql::retry_parked_all(filter, &app.program, now_ms)));
        statements.extend(failed.then(|| sql::retry_failed_all(filter, &app.program, now_ms)));
        let mut rows = run(host, statements).await?.into_iter();
        for wanted in [&mut parked, &mut failed] {
            if *wanted {
                let changed = rows.next().unwrap_or_default().rows.len();
                retried.retried += changed as u64;
                *wanted = changed >= RETRY_ROWS_MAX as usize;
            }
        }
    }
    retried.more = parked || failed;
    Ok(retried)
}
