//! What comes in over HTTP and goes onto a queue: which requests do, what is kept of them, and how a webhook's sender
//! proves who it is.
//!
//! A host reads the body once and hands over the whole request; nothing here parses the body in order to keep it.

mod batch;
mod enqueue;
mod handshake;
mod meta;
mod methods;
mod refusal;
mod verify;
mod webhook;

pub use batch::batch;
pub use enqueue::enqueue;
pub use handshake::{Handshake, handshake};
pub use meta::{Meta, rfc3339};
pub use methods::{MethodAnswer, Surface, answer_to};
pub use refusal::Refusal;
pub use verify::TOLERANCE_S;
pub use webhook::{Hook, webhook};

/// A request as it was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbound {
    /// `POST`, in most cases.
    pub method: String,
    /// The path without its query, as it was sent.
    pub path: String,
    /// What stands behind the `?`, as it was sent.
    pub query: Option<String>,
    /// The headers in their order, two of one name as two. A value's bytes need not be text.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The whole body.
    pub body: Vec<u8>,
    /// When it was received, in milliseconds since 1970.
    pub received_at_ms: i64,
}

impl Inbound {
    /// Every value of a header, whatever its case.
    fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let same = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.as_slice()).collect::<Vec<_>>().into_iter()
    }

    /// The first value of a header, if it is text and not empty.
    fn text(&self, name: &str) -> Option<&str> {
        let value = std::str::from_utf8(self.values(name).next()?).ok()?.trim();
        (!value.is_empty()).then_some(value)
    }
}
