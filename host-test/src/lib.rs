//! The host for tests: time, crashes and the store's failures are the test's to command.
//!
//! A first test of an app:
//!
//! ```
//! use jadpo_host_test::{TestApp, text};
//!
//! let app = TestApp::load("apps/warehouse/app.jadpo");
//! app.host.set_env("LEDGER_SECRET", "whsec_bm90LWEtcmVhbC1zZWNyZXQ=");
//! app.host.subscriber("ledger").answers([500, 200]).takes_ms(40);
//!
//! app.send("warehouse-events", text(r#"{"movement_id":"m1","sku":"A-1","quantity":3,"moved_at":"2026-11-30T12:00:00Z"}"#));
//! app.send("warehouse-events", text("not a stock movement"));
//! app.run_until_idle();
//!
//! assert_eq!(app.events().len(), 1);
//! assert_eq!(app.parked()[0].reason, "unreadable");
//! assert_eq!(app.host.calls_to("ledger").len(), 2); // one failed, and was made again
//! assert!(app.deliveries().is_empty());
//! ```
//!
//! [`TestApp`] is an app as it runs on Workers, with Cloudflare's queues in front of it. [`TestHost`] is the seam
//! below it, for tests of the core: a virtual clock, seeded randomness, subscribers that do as told ([`Subscriber`]), and a
//! store that is `SQLite` held to D1's rules. Nothing here waits in real time, and the same seed gives the same run.
//!
//! Faults go by name: [`TestHost::store_fails`] with a [`StoreFault`], [`TestHost::store_refuses`],
//! [`TestHost::migrate_to`] and [`TestHost::meddle`] for a store that is behind, [`TestHost::crash_at_step`],
//! [`TestHost::skew_ms`], [`TestApp::lose_acks`], [`TestApp::shuffle`], [`TestApp::cut_batches_at`].
#![allow(clippy::panic, clippy::expect_used, reason = "a test host stops a test that is itself wrong")]

mod app;
mod clock;
mod cloudflare;
mod fault;
mod host;
mod names;
mod queues;
mod run;
pub mod scenario;
mod seed;
mod store;
mod subscriber;
mod view;

pub use app::{Answered, TestApp, bytes, json, text};
pub use fault::StoreFault;
pub use host::TestHost;
pub use queues::{Held, Posted, Request, TestServer};
pub use run::{run, run_until_crash};
pub use seed::with_seeds;
pub use subscriber::{RecordedCall, Reply, Subscriber};
pub use view::{Delivery, DeliveryState, Event, Parked};
