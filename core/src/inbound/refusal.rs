//! Why a request is not taken.

use serde_json::Value;

/// A refusal, as the caller is told of it. It never holds a secret, a signature or anything of a body.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// A stable code, like `signature_wrong`.
    pub code: &'static str,
    /// What happened, to what, and what to do.
    pub message: String,
    /// What a program may want to know of it, like `limit` and `actual`.
    pub fields: Vec<(&'static str, Value)>,
}

impl Refusal {
    pub(super) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), fields: Vec::new() }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((name, value.into()));
        self
    }
}
