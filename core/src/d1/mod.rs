//! D1's rules: what a database takes and refuses, how a Worker's binding asks it and what it is answered. Nothing here
//! opens a file.
//!
//! Sources: D1's documentation (limits, Workers API, errors) and the behaviour of workerd's own engine and binding,
//! which `host-native/e2e/workers/d1.test.mjs` compares with what is said here.

mod answer;
mod error;
mod fence;
pub mod limits;
pub mod migrations;
mod pieces;
mod request;

pub use answer::{Answer, Cell, Meta, TooLarge, failure};
pub use error::{OVERLOADED, QUEUED_TOO_LONG, TIMED_OUT, TOO_LARGE, UNHOLDABLE, text};
pub use fence::{Refusal, TRANSACTION_REFUSED, Wish, refusal};
pub use pieces::{Piece, pieces};
pub use request::{Form, Request, Statement, Unread, Value};

#[cfg(test)]
mod tests;
