//! Reading a message: which event it is, under which key, or why it is neither.
//!
//! Nothing here recurses over what a message holds, and no tree of it is built: a body is checked where it lies
//! and stored as it came, so that its numbers keep every digit.

mod json;
mod key;
mod types;

pub use json::NESTING_MAX;
pub use key::{KEY_BYTES_MAX, event_id, key_of};

use std::borrow::Cow;

use crate::program::{Program, Receiving, Type};
use crate::queue::{Body, Message};

/// Why a message is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It is not what every body of this event has to be: UTF-8, JSON, not nested too deeply.
    Unreadable,
    /// It can be read, and is not this event.
    Rejected,
    /// Cloudflare's retries for it were spent.
    DeadLettered,
}

impl Reason {
    /// The word in the store, in logs and in filters.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Rejected => "rejected",
            Self::DeadLettered => "dead_lettered",
        }
    }

    /// The reason of this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Unreadable, Self::Rejected, Self::DeadLettered].into_iter().find(|reason| reason.as_str() == word)
    }
}

/// What reading a message came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// It is the event, under this key.
    Event {
        /// The body's own idempotency key, or the message's id, as [`key_of`] writes it.
        key: String,
    },
    /// It is not.
    Unfit {
        /// [`Reason::Unreadable`] or [`Reason::Rejected`].
        reason: Reason,
        /// What is wrong, for an operator: `quantity: expected Int, found text`.
        detail: String,
        /// The key, when it could be told all the same.
        key: Option<String>,
    },
}

/// Reads a message as the event that its connection's messages become.
#[must_use]
pub fn read(program: &Program, receiving: &Receiving, message: &Message) -> Reading {
    let Some(kind) = program.events.get(&receiving.event) else {
        return unreadable(format!("the program has no event {}", receiving.event));
    };
    let message_key = || key_of(&message.id);
    if matches!(kind, Type::Bytes) && receiving.id.is_none() && !matches!(message.body, Body::Unreadable { .. }) {
        return Reading::Event { key: message_key() };
    }
    let text = match text_of(&message.body) {
        Ok(text) => text,
        Err(detail) => return unreadable(detail),
    };
    if matches!((kind, &message.body), (Type::Text, Body::Text(_) | Body::Bytes(_))) && receiving.id.is_none() {
        return Reading::Event { key: message_key() };
    }
    let read_text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let value = match json::parse(read_text) {
        Ok(value) => value,
        Err(detail) => return unreadable(detail),
    };
    let key = match &receiving.id {
        None => Ok(message_key()),
        Some(field) => key::in_body(value, field).map(|id| key_of(&id)),
    };
    let problems = types::problems(kind, value);
    match (problems, key) {
        (None, Ok(key)) => Reading::Event { key },
        (Some(detail), key) => Reading::Unfit { reason: Reason::Rejected, detail, key: key.ok() },
        (None, Err(detail)) => Reading::Unfit { reason: Reason::Rejected, detail, key: None },
    }
}

/// The body as text. Bytes that are not UTF-8 are no text.
fn text_of(body: &Body) -> Result<Cow<'_, str>, String> {
    match body {
        Body::Text(text) | Body::Json(text) => Ok(Cow::Borrowed(text)),
        Body::Bytes(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|error| {
            let offset = error.valid_up_to();
            let byte = bytes.get(offset).copied().unwrap_or_default();
            format!("the body is not UTF-8: byte 0x{byte:02X} at offset {offset}")
        }),
        Body::Unreadable { why, .. } => Err(why.clone()),
    }
}

/// The id under this top-level key of a JSON body, if it has one that is an id.
#[must_use]
pub fn id_in_body(text: &str, field: &str) -> Option<String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    key::in_body(json::parse(text).ok()?, field).ok()
}

fn unreadable(detail: String) -> Reading {
    Reading::Unfit { reason: Reason::Unreadable, detail, key: None }
}

#[cfg(test)]
mod tests;
