//! The host for tests: time, crashes and the store's failures are the test's to command.
//!
//! [`TestHost`] is the seam that the core decides over, with a virtual clock, seeded randomness, subscribers that
//! follow a script, and a store that is `SQLite` held to D1's rules. Nothing here waits in real time, and the same
//! seed gives the same run.
#![allow(clippy::panic, clippy::expect_used, reason = "a test host stops a test that is itself wrong")]

mod app;
mod clock;
mod cloudflare;
mod fault;
mod host;
mod run;
mod store;
mod subscriber;
mod view;

pub use app::{Answered, TestApp, bytes, json, text};
pub use fault::StoreFault;
pub use host::TestHost;
pub use run::{run, run_until_crash};
pub use subscriber::{RecordedCall, Reply, Script};
pub use view::{Delivery, DeliveryState, Event, Parked};
