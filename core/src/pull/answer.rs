//! What was done, and how it is answered.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::body;
use super::refusal::Refusal;
use super::route::Listing;
use super::run;
use super::wire::{Acked, Envelope, MessageMetadata, Metadata, Pulled, PulledMessage, QueueMetrics, ResultInfo};
use crate::admin::Response;
use crate::broker::{Gone, LeaseKey, Metrics, Peeked, Taken};

/// Who is said to have sent a message: its sender is not kept.
const SOURCE: &str = "http";

/// What a request did.
#[derive(Debug, Clone, PartialEq)]
pub enum Done {
    /// Messages were taken.
    Pulled {
        /// They.
        messages: Vec<Taken>,
        /// The queue's figures.
        metrics: Metrics,
        /// What else there is to say.
        notes: Vec<String>,
        /// Messages that left the queue meanwhile.
        gone: Vec<Gone>,
    },
    /// Messages were settled.
    Settled {
        /// Those that are done.
        acked: usize,
        /// Those that come again.
        retried: usize,
        /// Why others are neither, by their lease ids.
        warnings: BTreeMap<String, String>,
        /// Messages that left the queue without an ack.
        gone: Vec<Gone>,
    },
    /// Messages were sent; the queue's figures.
    Sent(Metrics),
    /// Messages were looked at.
    Peeked(Vec<Peeked>),
    /// Messages were removed.
    Removed {
        /// Why others were not, by their references.
        warnings: BTreeMap<String, String>,
    },
    /// A queue's figures.
    Metrics(Metrics),
    /// A thing.
    Value(Value),
    /// A thing, and what there is to say of it.
    Noted(Value, Vec<String>),
    /// A part of a list.
    List(Vec<Value>, ResultInfo),
    /// It is done, and there is nothing to say.
    Nothing,
}

impl Done {
    pub(super) fn list(page: Vec<Value>, listing: &Listing, total: usize) -> Self {
        let (per_page, total_count) = (listing.per_page as u64, total as u64);
        let info = ResultInfo {
            page: listing.page as u64,
            per_page,
            count: page.len() as u64,
            total_count,
            total_pages: total_count.div_ceil(per_page.max(1)),
        };
        Self::List(page, info)
    }

    pub(super) fn whole_list(list: Vec<Value>, total: usize) -> Self {
        let listing = Listing { page: 1, per_page: total.max(100), names: Vec::new() };
        Self::list(list, &listing, total)
    }

    /// Messages that left a queue without an ack, which are reported.
    #[must_use]
    pub fn gone(&self) -> &[Gone] {
        match self {
            Self::Pulled { gone, .. } | Self::Settled { gone, .. } => gone,
            _ => &[],
        }
    }

    /// This and what a later part of the same request did.
    #[must_use]
    pub fn and(self, later: Self) -> Self {
        match (self, later) {
            (
                Self::Settled { acked, retried, mut warnings, mut gone },
                Self::Settled { acked: more, retried: again, warnings: others, gone: left },
            ) => {
                warnings.extend(others);
                gone.extend(left);
                Self::Settled { acked: acked + more, retried: retried + again, warnings, gone }
            }
            (Self::Removed { mut warnings }, Self::Removed { warnings: others }) => {
                warnings.extend(others);
                Self::Removed { warnings }
            }
            (_, later) => later,
        }
    }

    /// The answer.
    #[must_use]
    pub fn answer(self, key: &LeaseKey) -> Response {
        match self {
            Self::Pulled { messages, metrics, notes, .. } => {
                let messages = messages.into_iter().map(|taken| pulled(taken, key)).collect();
                let backlog = metrics.messages;
                let metadata = Metadata { metrics: figures(&metrics) };
                success(Pulled { message_backlog_count: backlog, messages, metadata }, notes, None)
            }
            Self::Settled { acked, retried, warnings, .. } => {
                success(Acked { ack_count: acked as u64, retry_count: retried as u64, warnings }, Vec::new(), None)
            }
            Self::Sent(metrics) => {
                success(json!({ "metadata": Metadata { metrics: figures(&metrics) } }), Vec::new(), None)
            }
            Self::Peeked(messages) => {
                let messages: Vec<Value> = messages.into_iter().map(|message| peeked(message, key)).collect();
                success(json!({ "messages": messages }), Vec::new(), None)
            }
            Self::Removed { warnings } => success(json!({ "errors": [], "warnings": warnings }), Vec::new(), None),
            Self::Metrics(metrics) => success(figures(&metrics), Vec::new(), None),
            Self::Value(value) => success(value, Vec::new(), None),
            Self::Noted(value, notes) => success(value, notes, None),
            Self::List(list, info) => success(list, Vec::new(), Some(info)),
            Self::Nothing => success(Value::Null, Vec::new(), None),
        }
    }
}

impl Refusal {
    /// The answer.
    #[must_use]
    pub fn answer(&self) -> Response {
        let envelope: Envelope<Value> = Envelope {
            success: false,
            errors: vec![(*self.error).clone()],
            messages: Vec::new(),
            result: None,
            result_info: None,
        };
        Response::json(self.status, &envelope)
    }
}

fn success(result: impl Serialize, notes: Vec<String>, result_info: Option<ResultInfo>) -> Response {
    let messages = notes.into_iter().map(Value::from).collect();
    let envelope = Envelope { success: true, errors: Vec::new(), messages, result: Some(result), result_info };
    Response::json(200, &envelope)
}

fn figures(metrics: &Metrics) -> QueueMetrics {
    QueueMetrics {
        backlog_bytes: metrics.bytes,
        backlog_count: metrics.messages,
        oldest_message_timestamp_ms: metrics.oldest_sent_at_ms.unwrap_or_default(),
    }
}

fn metadata(content: &'static str) -> MessageMetadata {
    MessageMetadata { source: Some(SOURCE.to_owned()), content_type: Some(content.to_owned()) }
}

fn pulled(taken: Taken, key: &LeaseKey) -> PulledMessage {
    let lease_id = key.seal(&taken.lease);
    let (id, timestamp_ms, attempts) = (taken.message.id.to_string(), taken.message.sent_at_ms, taken.message.attempts);
    let (body, content) = body::encode(taken.message);
    PulledMessage { body, id, timestamp_ms, attempts, metadata: metadata(content.name()), lease_id }
}

fn peeked(peeked: Peeked, key: &LeaseKey) -> Value {
    let reference = key.seal_ref(&peeked.reference);
    let state = run::state(peeked.state);
    let (id, timestamp_ms, attempts) =
        (peeked.message.id.to_string(), peeked.message.sent_at_ms, peeked.message.attempts);
    let (body, content) = body::encode(peeked.message);
    let mut metadata = json!(metadata(content.name()));
    if let Some(fields) = metadata.as_object_mut() {
        fields.insert("state".to_owned(), state.into());
    }
    json!({
        "body": body,
        "id": id,
        "timestamp_ms": timestamp_ms,
        "attempts": attempts,
        "metadata": metadata,
        "ref": reference,
    })
}
