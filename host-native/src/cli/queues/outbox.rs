//! Messages on their way to a queue, in batches as large as they may be.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jadpo_core::admin::queues::{NewMessage, Send};
use jadpo_core::broker::limits::{BATCH_BYTES_MAX, BATCH_COUNT_MAX, MESSAGE_BYTES_MAX};
use serde_json::value::RawValue;

use super::super::output;
use super::super::words::number;
use crate::operator::{Operator, OperatorError};

/// How often a batch is offered to a server that has too much to do, and the first pause, doubled each time.
const OFFERS_MAX: u32 = 10;
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What a body is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ContentType {
    /// JSON text.
    Json,
    /// Any UTF-8 text.
    Text,
    /// Any bytes.
    Bytes,
    /// Any bytes, with the MIME type that functions are told.
    Mime(String),
}

impl ContentType {
    /// As it is typed.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            "bytes" => Ok(Self::Bytes),
            mime if mime.contains('/') => Ok(Self::Mime(mime.to_owned())),
            _ => Err("write json, text, bytes or a MIME type, as application/xml".to_owned()),
        }
    }

    /// JSON if it is JSON, else text if it is text.
    pub(super) fn of(body: &[u8]) -> Self {
        match std::str::from_utf8(body) {
            Ok(text) if is_json(text).is_ok() => Self::Json,
            Ok(_) => Self::Text,
            Err(_) => Self::Bytes,
        }
    }

    /// Refuses a body that is something else.
    pub(super) fn check(&self, body: &[u8]) -> Result<(), String> {
        if body.len() > MESSAGE_BYTES_MAX {
            let (bytes, most) = (number(body.len() as u64), number(MESSAGE_BYTES_MAX as u64));
            return Err(format!("it has {bytes} bytes; a message has at most {most}"));
        }
        match (self, std::str::from_utf8(body)) {
            (Self::Bytes | Self::Mime(_), _) => Ok(()),
            (_, Err(error)) => Err(format!("it is not UTF-8 text: {error}")),
            (Self::Text, Ok(_)) => Ok(()),
            (Self::Json, Ok(text)) => is_json(text).map_err(|error| format!("it is not JSON: {error}")),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Json => "json",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Mime(mime) => mime,
        }
    }
}

/// Walks it without recursion, however deep it is.
fn is_json(text: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<&RawValue>(text).map(|_| ())
}

/// Gathers messages and sends them.
pub(super) struct Outbox<'a> {
    operator: &'a Operator,
    queue: &'a str,
    waiting: Send,
    waiting_bytes: usize,
    /// Ids of what was accepted, if they are wanted.
    pub(super) ids: Option<Vec<String>>,
    /// Messages that the queue is known to have kept.
    pub(super) accepted: u64,
}

impl<'a> Outbox<'a> {
    pub(super) fn new(operator: &'a Operator, queue: &'a str, delay_seconds: Option<u32>, keep_ids: bool) -> Self {
        let waiting = Send { messages: Vec::new(), delay_seconds };
        Self { operator, queue, waiting, waiting_bytes: 0, ids: keep_ids.then(Vec::new), accepted: 0 }
    }

    /// Adds a message that was checked, and sends what has come together if that makes a batch.
    pub(super) async fn put(&mut self, content: &ContentType, body: &[u8]) -> Result<(), OperatorError> {
        let is_full = self.waiting.messages.len() >= BATCH_COUNT_MAX;
        if is_full || self.waiting_bytes + body.len() > BATCH_BYTES_MAX {
            self.flush().await?;
        }
        self.waiting_bytes += body.len();
        // In base64 a body of whatever bytes stays within what a request may have.
        let body_base64 = Some(BASE64.encode(body));
        let content_type = Some(content.name().to_owned());
        self.waiting.messages.push(NewMessage { body: None, body_base64, content_type, delay_seconds: None });
        Ok(())
    }

    /// Whether anything has come together.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.messages.is_empty()
    }

    /// Sends what has come together.
    pub(super) async fn flush(&mut self) -> Result<(), OperatorError> {
        if self.waiting.messages.is_empty() {
            return Ok(());
        }
        let ids = self.offer().await?;
        self.accepted += ids.len() as u64;
        if let Some(all) = &mut self.ids {
            all.extend(ids);
        }
        self.waiting.messages.clear();
        self.waiting_bytes = 0;
        Ok(())
    }

    /// A server that says that it has too much to do has kept nothing of the batch, so it is offered again.
    async fn offer(&self) -> Result<Vec<String>, OperatorError> {
        let mut pause = PAUSE_MIN;
        for _ in 1..OFFERS_MAX {
            match self.operator.send(self.queue, &self.waiting).await {
                Err(error) if error.is_overload() => {
                    output::note("the server has too much to do; trying again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                answer => return answer.map(|sent| sent.ids),
            }
        }
        self.operator.send(self.queue, &self.waiting).await.map(|sent| sent.ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_taken_for_what_it_is() {
        assert_eq!(ContentType::of(b"{\"a\": 1}"), ContentType::Json);
        assert_eq!(ContentType::of(b"hello"), ContentType::Text);
        assert_eq!(ContentType::of(b""), ContentType::Text);
        assert_eq!(ContentType::of(&[0xff, 0x00]), ContentType::Bytes);
        let deep = format!("{}{}", "[".repeat(60_000), "]".repeat(60_000));
        assert_eq!(ContentType::of(deep.as_bytes()), ContentType::Json);
    }

    #[test]
    fn what_a_body_is_not_is_said() {
        let told = |content: ContentType, body: &[u8]| content.check(body).unwrap_err();
        assert!(told(ContentType::Json, b"{").starts_with("it is not JSON: EOF"));
        assert!(told(ContentType::Text, &[0xff]).starts_with("it is not UTF-8 text"));
        assert_eq!(told(ContentType::Bytes, &[0; 128_001]), "it has 128,001 bytes; a message has at most 128,000");
        assert_eq!(ContentType::Bytes.check(&[0xff; 128_000]), Ok(()));
    }
}
