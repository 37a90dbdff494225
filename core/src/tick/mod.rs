//! The tick: what is done once a minute, whatever arrives.
//!
//! It reads again what an operator retried, runs what is due, and clears away what is past its keep time.

mod prune;
mod reread;

pub use prune::KEEP_MS;

use crate::deliver::{self, Delivered};
use crate::host::Host;
use crate::start::App;

/// What a tick did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ticked {
    /// Parked messages that became events.
    pub kept: u32,
    /// Parked messages that had been kept before.
    pub repeats: u32,
    /// Parked messages that still cannot be kept.
    pub still_parked: u32,
    /// Parked messages that the store did not take; the next tick reads them again.
    pub put_off: u32,
    /// Deliveries.
    pub delivered: Delivered,
    /// Events that were cleared away.
    pub pruned: u64,
}

/// Runs a tick. No call starts that could not end by `stop_at_ms` (milliseconds since 1970). Never fails: what the
/// store does not take now is left for the next tick. Two ticks may overlap.
pub async fn tick<H: Host>(host: &H, app: &App, stop_at_ms: i64) -> Ticked {
    let mut ticked = Ticked::default();
    let claimed = reread::reread_retried(host, app, stop_at_ms, &mut ticked).await;
    ticked.delivered = deliver::deliver_with_due(host, app, claimed, stop_at_ms).await;
    ticked.pruned = prune::prune(host, stop_at_ms).await;
    ticked
}
