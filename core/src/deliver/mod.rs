//! Deliveries: each kept event brought to each of its subscribers.
//!
//! A delivery runs under a claim that ends by itself, so that what a dead host held is taken up by another. Its
//! attempts are counted when it is claimed, so a delivery that kills its host cannot run for ever.

mod call;
mod run;
mod sql;
mod verdict;

use std::sync::Arc;

use crate::host::Host;
use crate::start::App;
use run::Run;
pub(crate) use verdict::{bounded, retry_after_s};

/// How long a call may take, in milliseconds.
pub const CALL_TIMEOUT_MS: u32 = 15_000;
/// How long a claim holds, in milliseconds: a delivery that was claimed and neither settled nor released within it
/// is due again.
pub const CLAIM_MS: i64 = 60_000;

/// Calls made side by side. A Worker has six open connections; the sixth is the store's.
pub const CALLS_MAX: usize = 5;
/// How long a result may wait for others that share its write, in milliseconds.
const SETTLE_WINDOW_MS: u32 = 100;
/// The time left between the end of the last call and the end of a run, for the last write, in milliseconds.
const SETTLE_MARGIN_MS: i64 = 2_000;

/// Bytes of bodies that a host with little memory holds for deliveries under way. Past it, it gives new claims back at
/// once ([`deliver`] with no time left) and leaves them to the tick: a subscriber that hangs must not fill the memory
/// that receiving needs. One batch of the largest messages is below it.
pub const HELD_BYTES_MAX: usize = 16_000_000;

/// Bytes of bodies that these deliveries hold. An event's body is held once, however many subscribers it has.
#[must_use]
pub fn held_bytes(claimed: &[Claimed]) -> usize {
    let mut last = None;
    let first_of_event = |claimed: &&Claimed| last.replace(claimed.event.seq) != Some(claimed.event.seq);
    claimed.iter().filter(first_of_event).map(|claimed| claimed.event.body.len()).sum()
}

/// An event as it was kept, shared by its deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number in the store.
    pub seq: i64,
    /// The connection that its message came from.
    pub connection: String,
    /// What makes it the same event again: the body's own key, or the message's id.
    pub key: String,
    /// The event's name.
    pub name: String,
    /// When its message was sent, in milliseconds since 1970.
    pub sent_at_ms: i64,
    /// The body, byte for byte as it was stored.
    pub body: Vec<u8>,
}

/// A delivery that this host holds the claim of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// When the claim ends, in milliseconds since 1970; with `event.seq` and `subscriber` the row's key.
    pub due_at_ms: i64,
    /// The claim's token, which fences everything that is written about the delivery.
    pub claim: String,
    /// Who gets the event.
    pub subscriber: String,
    /// Which attempt this is; starts at 1.
    pub attempt: u32,
    /// The attempt that is the last.
    pub attempt_max: u32,
    /// What is delivered.
    pub event: Arc<Event>,
}

/// What became of deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delivered {
    /// The subscriber answered 2xx.
    pub done: u32,
    /// To be tried again later.
    pub waiting: u32,
    /// Attempts are spent; an operator sees them.
    pub failed: u32,
    /// Claimed and not started, given back for the next to take.
    pub released: u32,
    /// Ended, but the store did not take the result: they run again once their claim ends.
    pub unsettled: u32,
    /// Something is due that this run had no time for, and another run would get on with it.
    pub more_due: bool,
    /// Round trips to the store.
    pub store_batches: u32,
    /// Rows written, index entries included, where the store says.
    pub rows_written: u64,
}

impl Delivered {
    /// Adds what another run did; `more_due` is the later run's.
    pub fn add(&mut self, later: Self) {
        self.done += later.done;
        self.waiting += later.waiting;
        self.failed += later.failed;
        self.released += later.released;
        self.unsettled += later.unsettled;
        self.store_batches += later.store_batches;
        self.rows_written += later.rows_written;
        self.more_due = later.more_due;
    }
}

/// Makes deliveries that this host holds the claims of, and writes down how each ended.
///
/// No call starts that could not have ended, and been written down, by `stop_at_ms` (milliseconds since 1970); what
/// is not started is released, for whoever claims next. Never fails: what the store does not take is logged as
/// `delivery.unsettled` and runs again once its claim ends.
pub async fn deliver<H: Host>(host: &H, app: &App, claimed: Vec<Claimed>, stop_at_ms: i64) -> Delivered {
    Run::new(host, &app.program, claimed, false, stop_at_ms).until_done().await
}

/// Claims what is due and makes it, until nothing is due or a call could not end by `stop_at_ms`; otherwise as
/// [`deliver`]. A store that is behind this build gives nothing.
pub async fn deliver_due<H: Host>(host: &H, app: &App, stop_at_ms: i64) -> Delivered {
    deliver_with_due(host, app, Vec::new(), stop_at_ms).await
}

/// As [`deliver_due`], beginning with deliveries that are claimed already.
pub(crate) async fn deliver_with_due<H: Host>(
    host: &H,
    app: &App,
    claimed: Vec<Claimed>,
    stop_at_ms: i64,
) -> Delivered {
    Run::new(host, &app.program, claimed, true, stop_at_ms).until_done().await
}
