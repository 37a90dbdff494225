//! The seam to the store: one statement at a time, inside a transaction that the host opens and commits.
//!
//! The rest of the core hands over whole batches, because D1 takes nothing else. The broker is native only, where a
//! statement costs no round trip, so it may look at what one gave back before it decides on the next.

use crate::store::{Rows, StoreError};

/// What a host does for the broker.
pub trait Sql {
    /// Runs one statement with its parameters, the first for `?1`.
    ///
    /// # Errors
    /// Any [`StoreError`]. The broker then gives up; the host rolls back what the operation wrote and makes the
    /// broker anew with [`Broker::load`](super::Broker::load), as it does when a commit fails.
    fn run(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<Rows, StoreError>;
}

/// A parameter, borrowed from whoever has it: a body is not copied on its way into the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arg<'a> {
    /// NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

impl From<i64> for Arg<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}
impl From<u32> for Arg<'_> {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}
impl From<bool> for Arg<'_> {
    fn from(truth: bool) -> Self {
        Self::Integer(truth.into())
    }
}
impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}
impl<'a> From<&'a [u8]> for Arg<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Blob(bytes)
    }
}
impl<'a, T: Into<Arg<'a>>> From<Option<T>> for Arg<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
