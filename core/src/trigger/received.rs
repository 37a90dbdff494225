//! A local queue that is named in `receiving:`: its messages as [`receive`](crate::receive::receive()) takes them, and
//! what the answers mean for the queue.

use crate::broker::{self, Content, Reason, Retry, Settle, Taken};
use crate::queue::{Answer, Batch, Body, Message};

/// What was taken from the queue, as a batch to be received.
#[must_use]
pub fn batch(queue: &str, taken: &[Taken]) -> Batch {
    Batch { queue: queue.to_owned(), messages: taken.iter().map(|taken| message(&taken.message)).collect() }
}

/// A queue's message, as it is received.
///
/// The content type is known here, so nothing is guessed: the JSON text of a string is a string, and a text that looks
/// like JSON is a text. What V8 serialized only a Worker can read; its bytes are parked as they are.
#[must_use]
pub fn message(message: &broker::Message) -> Message {
    let body = match message.content {
        Content::Text => text(&message.body, Body::Text),
        Content::Json => text(&message.body, Body::Json),
        Content::Bytes | Content::V8 => Body::Bytes(message.body.clone()),
    };
    Message { id: message.id.to_string(), sent_at_ms: message.sent_at_ms, attempts: message.attempts, body }
}

/// Bytes that were sent as text and are none stay bytes, so that they are parked whole.
fn text(body: &[u8], of: fn(String) -> Body) -> Body {
    match std::str::from_utf8(body) {
        Ok(text) => of(text.to_owned()),
        Err(_) => Body::Bytes(body.to_vec()),
    }
}

/// Carries the answers, which stand in the order of what was taken, to the queue. What got no answer is left to its
/// lease.
#[must_use]
pub fn settle(taken: &[Taken], answers: &[Answer]) -> Settle {
    let mut settle = Settle::default();
    for (taken, answer) in taken.iter().zip(answers) {
        match answer {
            Answer::Ack => settle.acks.push(taken.lease),
            Answer::Retry { delay_s } => settle.retries.push(Retry {
                lease: taken.lease,
                delay_ms: Some(delay_s.saturating_mul(1_000)),
                reason: Reason::Retried,
                error: Some("the store could not take it".to_owned()),
                progress: None,
            }),
        }
    }
    settle
}
