//! Deliveries of events that were kept just now.

use jadpo_core::deliver::{Claimed, deliver};

use super::Shared;
use crate::host::now_ms;

/// How long new deliveries may take before the rest of them is left to the tick, in milliseconds.
const DELIVER_TIME_MAX_MS: i64 = 30_000;

/// Begins deliveries that this host holds the claims of; they go on by themselves.
///
/// A subscriber that hangs must not keep the next batch waiting, nor may its batches pile up: with no place for them
/// the deliveries are given back at once, for the tick.
pub(super) fn begin(shared: &Shared, claimed: Vec<Claimed>) {
    if claimed.is_empty() {
        return;
    }
    let (place, stop_at_ms) = match shared.delivering.clone().try_acquire_owned() {
        Ok(place) => (Some(place), now_ms() + DELIVER_TIME_MAX_MS),
        Err(_) => (None, 0),
    };
    let shared = shared.clone();
    tokio::spawn(async move {
        deliver(&shared.host, &shared.app, claimed, stop_at_ms).await;
        drop(place);
    });
}
