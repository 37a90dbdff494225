//! A local queue whose messages become events: received in batches, and the new deliveries made at once.

use jadpo_core::broker::Taken;
use jadpo_core::deliver::deliver;
use jadpo_core::receive::receive;
use jadpo_core::trigger;
use tokio::sync::mpsc;

use super::super::Shared;
use super::lane::Lane;
use super::settle::{End, Ended};
use crate::host::now_ms;

/// How long new deliveries may take before the rest of them is left to the tick, in milliseconds.
const DELIVER_TIME_MAX_MS: i64 = 30_000;

/// Receives a batch. Its messages are settled by the answers; what is to be delivered goes on by itself.
pub(super) async fn handle(shared: &Shared, lane: &Lane, taken: Vec<Taken>, ended: &mpsc::Sender<Ended>) {
    let batch = trigger::batch(lane.queue(), &taken);
    let received = receive(&shared.host, &shared.app, batch).await;
    let end = End::Settle(trigger::settle(&taken, &received.answers));
    // The settler outlives whoever sends to it.
    let _ = ended.send(Ended { queue: lane.queue().to_owned(), end, run: None }).await;
    if received.claimed.is_empty() {
        return;
    }
    // A subscriber that hangs must not keep the next batch waiting, nor may its batches pile up: with no place for
    // them the deliveries are given back at once, for the tick.
    let (place, stop_at_ms) = match shared.delivering.clone().try_acquire_owned() {
        Ok(place) => (Some(place), now_ms() + DELIVER_TIME_MAX_MS),
        Err(_) => (None, 0),
    };
    let shared = shared.clone();
    tokio::spawn(async move {
        deliver(&shared.host, &shared.app, received.claimed, stop_at_ms).await;
        drop(place);
    });
}
