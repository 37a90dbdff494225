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
//! [`TestApp`] is an app as it runs on Workers, with Cloudflare's queues in front of it. [`TestServer`] is an app with
//! queues of its own, as the queue server runs it. [`TestHost`] is the seam below both, for tests of the core: a virtual
//! clock, seeded randomness, subscribers that do as told ([`Subscriber`]), and a store that is `SQLite` held to D1's
//! rules. Nothing here waits in real time, and the same seed gives the same run.
//!
//! A subscriber is told what it answers, by status or as a real server once did ([`Recording`]), or is a Rust closure
//! ([`Subscriber::answers_by`]); a function that the app file names with `run:` is one too ([`TestHost::link`]).
//!
//! | fault | how |
//! | --- | --- |
//! | the store is down, fails before or after its commit, is slow | [`TestHost::store_fails`], [`TestHost::store_fails_until_lifted`], [`TestHost::store_fails_by`] with a [`StoreFault`] |
//! | the store refuses one message | [`TestHost::store_refuses`] |
//! | the store is behind by a migration, or has no tables | [`TestHost::store_is_behind`], [`TestHost::unmigrated`] |
//! | the isolate, or the server, dies at step k | [`TestHost::crash_at_step`] |
//! | a message comes again, as delivery number n, in another order, in other batches | [`TestApp::lose_acks`], [`TestApp::send_at_attempt`], [`TestApp::shuffle`], [`TestApp::cut_batches_at`] |
//! | the clock jumps | [`TestHost::skew_ms`] |
//! | a subscriber fails, hangs, closes, asks for time | [`Subscriber::answers`], [`Subscriber::hangs`], [`Subscriber::closes`], [`Subscriber::answers_429`] |
//!
//! What a test itself does wrong stops it, with words that point at its line: a name that the app has not, a status that
//! no server answers, a message that Cloudflare does not take, a secret or a linked function that was forgotten
//! ([`TestHost::unset_env`] where it is to be missing). A fault that is left in force ([`TestHost::lift_faults`]), a crash
//! that never came ([`TestHost::lift_crash`]) and a message that is lost ([`TestApp::may_lose`]) are such mistakes too,
//! since a test that only looks for emptiness would pass.
//!
//! In `Cargo.toml`: `[dev-dependencies] jadpo-host-test = { path = "…/host-test" }`. The path of an app is relative to
//! the package whose test it is.
//!
//! The store of a [`TestApp`] holds every statement to D1's rules: at most 100 parameters, 100,000 bytes of SQL, 5 terms of
//! a compound `SELECT`, 2,000,000 bytes in a value; numbers bound and handed back as JavaScript's, so that whole ones are
//! exact to 2^53 only; no transaction, `ATTACH` or `PRAGMA` of a statement's own; D1's error texts, and its bill
//! ([`TestHost::rows_written`]). All statements are jadpo's, so an app's author has nothing to do about them; a test that
//! wants to run one hands [`Statement`]s to `jadpo_core::host::Host::batch`, which a [`TestHost`] is.
//!
//! Chance follows a seed: 0, or what [`TestApp::seed`] or the variable `JADPO_SEED` says. A test that fails prints it.
//! [`with_seeds`] runs a test under many. The examples of this crate are tests as an app's author writes them.
//!
//! [`scenario`] is the behaviour suite, which every host must pass.
#![allow(clippy::panic, clippy::expect_used, reason = "a test host stops a test that is itself wrong")]

mod app;
mod clock;
mod cloudflare;
mod fault;
mod host;
mod known;
mod load;
mod names;
mod queues;
mod recording;
mod run;
pub mod scenario;
mod seed;
mod sending;
mod store;
mod subscriber;
#[cfg(feature = "torture")]
pub mod torture;
mod view;

pub use app::{Answered, TestApp};
pub use fault::StoreFault;
pub use host::TestHost;
pub use queues::{Held, Posted, Request, TestServer};
pub use recording::Recording;
pub use run::{run, run_until_crash};
pub use seed::with_seeds;
pub use sending::{bytes, json, text, unreadable};
pub use subscriber::{RecordedCall, Reply, Subscriber};
pub use view::{Delivery, DeliveryState, Event, Parked};

// The core's words that a test meets here.
pub use jadpo_core::admin;
pub use jadpo_core::host::{Call, Level, LogEntry};
pub use jadpo_core::program::Target;
pub use jadpo_core::queue::{Answer, Batch, Body, Message};
pub use jadpo_core::store::{Row, Statement, Value};
