//! Everything that decides in jadpo.
//!
//! The core has no I/O, no clock and no randomness of its own: time, ids and the store reach it through
//! [`host::Host`], which each host implements and nobody else decides over.

pub mod admin;
#[cfg(feature = "compile")]
pub mod app;
pub mod bindings;
#[cfg(feature = "broker")]
pub mod broker;
pub mod deliver;
pub mod host;
pub mod program;
pub mod queue;
pub mod read;
pub mod receive;
pub mod start;
pub mod store;
pub mod tick;
#[cfg(feature = "compile")]
pub mod wrangler;
