//! Deliveries: each kept event brought to each of its subscribers.
//!
//! A delivery runs under a claim that ends by itself, so that what a dead host held is taken up by another. Its
//! attempts are counted when it is claimed, so a delivery that kills its host cannot run for ever.

use std::sync::Arc;

/// How long a call may take, in milliseconds.
pub const CALL_TIMEOUT_MS: u32 = 15_000;
/// How long a claim holds, in milliseconds: a delivery that was claimed and neither settled nor released within it
/// is due again.
pub const CLAIM_MS: i64 = 60_000;

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
    /// Something is due that this run had no time for.
    pub more_due: bool,
}

impl Delivered {
    /// Adds what another run did; `more_due` is the later run's.
    pub fn add(&mut self, later: Self) {
        self.done += later.done;
        self.waiting += later.waiting;
        self.failed += later.failed;
        self.released += later.released;
        self.unsettled += later.unsettled;
        self.more_due = later.more_due;
    }
}
