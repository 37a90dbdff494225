//! What the operator's endpoint takes and gives, for it and for `jadpo deliveries` alike.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Items of a page when the request names no limit.
pub const LIMIT_DEFAULT: u32 = 100;
/// Most items of a page.
pub const LIMIT_MAX: u32 = 1_000;
/// Most ids in one retry.
pub const RETRY_IDS_MAX: usize = 1_000;
/// Most bytes of a request's body. A host need not read more: one byte more is refused as too large.
pub const BODY_BYTES_MAX: usize = 256 * 1024;
/// Characters of a body that a listing shows.
pub const PREVIEW_CHARS: u32 = 200;

/// Which of the two lists an item stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A message that could not become an event.
    Parked,
    /// A delivery whose attempts are spent.
    Failed,
}

/// An item's public id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemId {
    /// `p12`: the parked message of this number.
    Parked(i64),
    /// `d34.ledger`: the delivery of event 34 to the subscriber `ledger`.
    Failed {
        /// The event's number.
        seq: i64,
        /// The subscriber's name.
        subscriber: String,
    },
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parked(id) => write!(f, "p{id}"),
            Self::Failed { seq, subscriber } => write!(f, "d{seq}.{subscriber}"),
        }
    }
}

impl ItemId {
    /// Reads an id, or gives `None` for what cannot be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // 15 digits: a number that JavaScript, and so D1, holds exactly.
        let number = |digits: &str| {
            let plain = (1..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten()
        };
        if let Some(id) = text.strip_prefix('p') {
            return number(id).map(Self::Parked);
        }
        let (seq, subscriber) = text.strip_prefix('d')?.split_once('.')?;
        let subscriber = (!subscriber.is_empty() && subscriber.len() <= 256).then(|| subscriber.to_owned())?;
        number(seq).map(|seq| Self::Failed { seq, subscriber })
    }
}

/// A parked message or a failed delivery. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// `p12` or `d34.ledger`.
    pub id: String,
    /// Which of the two.
    pub kind: Kind,
    /// `unreadable`, `rejected` or `dead_lettered`; `failed` for a delivery.
    pub reason: String,
    /// What went wrong, in words.
    pub detail: String,
    /// The connection that the message came from.
    pub connection: String,
    /// The queue that handed it over; of a delivery, the connection's queue as the program names it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The event, when it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The event's key, when it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The message's id in its queue.
    pub message_id: String,
    /// Who did not get the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscriber: Option<String>,
    /// Times that the message was handed over, or the delivery attempted.
    pub attempts: u32,
    /// When the message was sent.
    pub sent_at_ms: i64,
    /// When it was parked, or failed.
    pub since_ms: i64,
    /// When an operator asked for it to be read again, if the tick has not come to it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at_ms: Option<i64>,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// The body's beginning, at most [`PREVIEW_CHARS`] characters; bytes that are no text are replaced. Only in a
    /// listing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// The whole body, if it is text. Only when one item is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The whole body in base64, if it is no text. Only when one item is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
}

/// A page of a listing: parked messages first, then failed deliveries, each newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Listing {
    /// The page.
    pub items: Vec<Item>,
    /// What to give as `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Which items are meant: all that fit every field given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// One list only.
    pub kind: Option<Kind>,
    /// The queue. A connection's queue stands for its dead-letter queue too.
    pub queue: Option<String>,
    /// The connection.
    pub connection: Option<String>,
    /// `unreadable`, `rejected`, `dead_lettered` or `failed`.
    pub reason: Option<String>,
    /// The subscriber; no parked message has one.
    pub subscriber: Option<String>,
    /// The event.
    pub event: Option<String>,
}

/// What to retry: either `ids`, or with `all` everything that fits the other fields, which are [`Filter`]'s.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    /// The items' ids, at most [`RETRY_IDS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Everything that fits the filter, which may be empty.
    #[serde(default)]
    pub all: bool,
    /// One list only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// The queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The subscriber.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscriber: Option<String>,
    /// The event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
}

impl RetryRequest {
    /// A request for these ids.
    #[must_use]
    pub fn ids(ids: Vec<String>) -> Self {
        Self { ids, ..Self::default() }
    }

    /// A request for everything that fits the filter.
    #[must_use]
    pub fn all(filter: Filter) -> Self {
        let Filter { kind, queue, connection, reason, subscriber, event } = filter;
        Self { ids: Vec::new(), all: true, kind, queue, connection, reason, subscriber, event }
    }

    /// The ids, and the rest as a filter.
    pub(super) fn into_parts(self) -> (Vec<String>, bool, Filter) {
        let Self { ids, all, kind, queue, connection, reason, subscriber, event } = self;
        (ids, all, Filter { kind, queue, connection, reason, subscriber, event })
    }
}

/// What a retry came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Retried {
    /// Items that the next tick takes up.
    pub retried: u64,
    /// Ids that name no parked message and no failed delivery.
    #[serde(default)]
    pub unknown: Vec<String>,
    /// There was more than one request does: send it again.
    #[serde(default)]
    pub more: bool,
}

/// What the store holds. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Status {
    /// The app's name.
    pub app: String,
    /// The store's version.
    pub store_version: u32,
    /// The version that this build needs.
    pub store_version_needed: u32,
    /// Events that are kept, counted to a million at most.
    pub events: u64,
    /// Deliveries that wait for their next attempt.
    pub waiting: u64,
    /// Deliveries that a host holds the claim of.
    pub running: u64,
    /// Deliveries whose attempts are spent.
    pub failed: u64,
    /// Parked messages by reason.
    pub parked: BTreeMap<String, u64>,
    /// Parked messages that an operator retried and the tick has not come to.
    pub retrying: u64,
    /// When the waiting or running delivery that is first in line is, or was, due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_due_ms: Option<i64>,
}

/// What is answered instead when a request is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What went wrong.
    pub error: ProblemDetail,
}

/// A problem's code, for programs, and its words, for people.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProblemDetail {
    /// What happened, in a word that never changes: `unauthorized`, `not_found`, `method_not_allowed`,
    /// `request_invalid`, `request_too_large`, `store_unavailable`, `store_not_current`; of queues also those of
    /// `queues::problem`.
    pub code: String,
    /// What happened, and what to do.
    pub message: String,
    /// What to do, where there is more to say about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// The most that there may be of what there was too much of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How much there was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<u64>,
    /// Cloudflare's code for it, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloudflare_code: Option<u32>,
}

impl ProblemDetail {
    /// A problem of this code, in these words.
    #[must_use]
    pub fn new(code: &str, message: String) -> Self {
        Self { code: code.to_owned(), message, ..Self::default() }
    }
}
