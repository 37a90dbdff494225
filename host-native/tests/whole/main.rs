//! The whole server under what a machine can do to it: killed at any moment, and filled with a million messages.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::string_slice)]

mod backlog;
mod kills;
#[path = "../server/support.rs"]
#[allow(dead_code)] // shared with the server's own tests, which need all of it
mod support;
