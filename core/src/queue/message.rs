//! A batch as a queue hands it over, before anything is decided about it.

/// What a message carries, as the host found it.
///
/// Content types are gone by the time Cloudflare hands a message to a Worker; what is left is the kind of value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Text, exactly as sent.
    Text(String),
    /// Bytes, exactly as sent. They may or may not be UTF-8.
    Bytes(Vec<u8>),
    /// Any other value, as its JSON text.
    Json(String),
    /// A value that JSON cannot carry.
    Unreadable {
        /// As much of the value as can be shown, for the operator.
        shown: String,
        /// Why it cannot be read.
        why: String,
    },
}

impl Body {
    /// Bytes that the body takes in the store.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Text(text) | Self::Json(text) | Self::Unreadable { shown: text, .. } => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether the body is empty, which is valid for text and bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One message of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The queue's id for it, the same on every delivery.
    pub id: String,
    /// When it was sent, in milliseconds since 1970.
    pub sent_at_ms: i64,
    /// How often it was handed over, this time included; starts at 1.
    pub attempts: u32,
    /// What it carries.
    pub body: Body,
}

/// What a queue hands over at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The queue's name.
    pub queue: String,
    /// The messages, in the order they are to be answered.
    pub messages: Vec<Message>,
}

/// What the queue is told about one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is in the store: an event, a repeat of one, or parked.
    Ack,
    /// It is not: hand it over again after this delay.
    Retry {
        /// Seconds to wait.
        delay_s: u32,
    },
}
