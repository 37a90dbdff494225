//! Everything that decides in jadpo.
//!
//! The core has no I/O, no clock and no randomness of its own: time, ids and the store reach it through
//! [`host::Host`], which each host implements and nobody else decides over.

pub mod admin;
#[cfg(feature = "compile")]
pub mod app;
pub mod bindings;
pub mod broken;
#[cfg(feature = "broker")]
pub mod broker;
#[cfg(any(feature = "broker", feature = "compile"))]
pub mod cron;
#[cfg(feature = "broker")]
pub mod d1;
pub mod deliver;
pub mod host;
#[cfg(feature = "broker")]
pub mod inbound;
#[cfg(any(feature = "broker", feature = "compile"))]
pub mod local;
pub mod program;
pub mod pull;
pub mod pulling;
#[cfg(feature = "broker")]
pub mod push;
pub mod queue;
pub mod read;
pub mod receive;
#[cfg(feature = "broker")]
pub mod schedule;
pub mod start;
pub mod store;
pub mod tick;
#[cfg(feature = "broker")]
pub mod trigger;
#[cfg(feature = "compile")]
pub mod workers;
#[cfg(feature = "compile")]
pub mod wrangler;
