//! A local queue whose messages become events: received in batches, and the new deliveries made at once.

use jadpo_core::broker::Taken;
use jadpo_core::receive::receive;
use jadpo_core::trigger;
use tokio::sync::mpsc;

use super::super::{Shared, deliveries};
use super::lane::Lane;
use super::settle::{End, Ended};

/// Receives a batch. Its messages are settled by the answers; what is to be delivered goes on by itself.
pub(super) async fn handle(shared: &Shared, lane: &Lane, taken: Vec<Taken>, ended: &mpsc::Sender<Ended>) {
    let batch = trigger::batch(lane.queue(), &taken);
    let received = receive(&shared.host, &shared.app, batch).await;
    let end = End::Settle(trigger::settle(&taken, &received.answers));
    // The settler outlives whoever sends to it.
    let _ = ended.send(Ended { queue: lane.queue().to_owned(), end, run: None }).await;
    deliveries::begin(shared, received.claimed);
}
