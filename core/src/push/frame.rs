//! A batch on its way to a handler: one frame, which the dispatcher inside workerd takes apart.
//!
//! The length of the head (4 bytes, the greatest first), the head in JSON, and the bodies, one after another, as they
//! are: nothing is encoded and nothing read here.

use serde::Serialize;

use crate::broker::{Metrics, Taken};

#[derive(Serialize)]
struct Head<'a> {
    queue: &'a str,
    metrics: Figures,
    /// Id, when it was sent, attempts, content type, bytes of the body.
    messages: Vec<(String, i64, u32, &'static str, usize)>,
}

/// A queue's figures, as Workers see them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    backlog_count: u64,
    backlog_bytes: u64,
    /// 0 if nothing waits.
    oldest_message_timestamp: i64,
}

impl Figures {
    pub(super) fn of(messages: u64, bytes: u64, oldest_sent_at_ms: Option<i64>) -> Self {
        let oldest_message_timestamp = oldest_sent_at_ms.unwrap_or_default();
        Self { backlog_count: messages, backlog_bytes: bytes, oldest_message_timestamp }
    }
}

impl From<&Metrics> for Figures {
    fn from(metrics: &Metrics) -> Self {
        Self::of(metrics.messages, metrics.bytes, metrics.oldest_sent_at_ms)
    }
}

/// Attempts travel in 16 bits.
const ATTEMPTS_MAX: u32 = 65_535;

/// The frame of a batch. `metrics` are the figures of what waits beside it.
#[must_use]
pub fn frame(queue: &str, taken: &[Taken], metrics: &Metrics) -> Vec<u8> {
    let message = |Taken { message, .. }: &Taken| {
        let attempts = message.attempts.min(ATTEMPTS_MAX);
        (message.id.to_string(), message.sent_at_ms, attempts, message.content.name(), message.body.len())
    };
    let head = Head { queue, metrics: metrics.into(), messages: taken.iter().map(message).collect() };
    let head = serde_json::to_vec(&head).unwrap_or_default(); // texts and numbers are always JSON
    let bodies: usize = taken.iter().map(|taken| taken.message.body.len()).sum();
    let mut frame = Vec::with_capacity(4 + head.len() + bodies);
    frame.extend(u32::try_from(head.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend(head);
    taken.iter().for_each(|taken| frame.extend_from_slice(&taken.message.body));
    frame
}
