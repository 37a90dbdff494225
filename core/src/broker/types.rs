//! The broker's nouns. Nothing is decided here.

use std::collections::BTreeMap;
use std::fmt;

use super::lease::Lease;
use super::settings::Settings;

/// What a body is, as its sender said. The broker carries the bytes and reads none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// UTF-8 text.
    Text,
    /// JSON text.
    Json,
    /// Any bytes.
    Bytes,
    /// V8's serialization, which only a Worker can read.
    V8,
}

impl Content {
    pub(crate) const ALL: [Self; 4] = [Self::Text, Self::Json, Self::Bytes, Self::V8];

    /// Its name, as Cloudflare writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Bytes => "bytes",
            Self::V8 => "v8",
        }
    }

    /// The content type of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|content| content.name() == name)
    }
}

/// A message's id: the same on every delivery, and in the dead-letter queue. Written as 32 lowercase hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageId(pub u128);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A message to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// What the body is.
    pub content: Content,
    /// The body. It may be empty unless it is JSON.
    pub body: Vec<u8>,
    /// Seconds to wait before it may be taken; stands before the batch's and the queue's. 0 is none.
    pub delay_s: Option<u32>,
    /// Text that is kept with the message and handed over with it: a webhook's headers, for one.
    pub meta: Option<String>,
}

/// Messages to be sent at once: all of them are kept, or none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewBatch {
    /// The messages.
    pub messages: Vec<NewMessage>,
    /// Seconds to wait for those that do not say themselves; stands before the queue's.
    pub delay_s: Option<u32>,
}

/// What a send gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The messages' ids, in the batch's order.
    pub ids: Vec<MessageId>,
    /// What the queue held before.
    pub before: Backlog,
    /// When the oldest of that was sent, in milliseconds since 1970, as it was known within the last second.
    pub oldest_before_ms: Option<i64>,
}

/// How much a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Messages, in whatever state.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

/// How much to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Take {
    /// Messages, at most; 1 to 100.
    pub max: usize,
    /// How long they are leased, in milliseconds, if not as long as the consumer's settings say.
    pub visibility_ms: Option<u32>,
}

/// A message that was taken, with the lease on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// What it is settled by.
    pub lease: Lease,
    /// The message.
    pub message: Message,
}

/// A message as the queue holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// When it was sent, in milliseconds since 1970.
    pub sent_at_ms: i64,
    /// How often it was handed over, this time included.
    pub attempts: u32,
    /// What the body is.
    pub content: Content,
    /// The body, as it was sent.
    pub body: Vec<u8>,
    /// What was kept with it.
    pub meta: Option<String>,
    /// What a consumer said is done of it already, when it asked for a retry.
    pub progress: Option<String>,
    /// What it died of, if it is a dead letter.
    pub dead: Option<Dead>,
}

/// How a message came into a dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// The queue that it was in.
    pub queue: String,
    /// How often it was handed over there.
    pub attempts: u32,
    /// When it was first handed over there, in the broker's time.
    pub first_at_ms: i64,
    /// When it was given up, in the broker's time.
    pub last_at_ms: i64,
    /// What its last attempt ended with.
    pub reason: Reason,
    /// What a consumer last said was wrong, if one did.
    pub error: Option<String>,
}

/// What an attempt ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The consumer asked for a retry.
    Retried,
    /// The consumer failed: it threw, or answered with an error.
    Failed,
    /// Nobody settled it before its lease ended.
    LeaseEnded,
}

impl Reason {
    pub(super) const ALL: [Self; 3] = [Self::Retried, Self::Failed, Self::LeaseEnded];

    /// Its name in the store, in logs and for operators.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Retried => "retried",
            Self::Failed => "failed",
            Self::LeaseEnded => "lease_ended",
        }
    }
}

/// A message to be handed over again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// The lease on it.
    pub lease: Lease,
    /// Milliseconds to wait, if not as long as the consumer's settings say. 0 is none.
    pub delay_ms: Option<u32>,
    /// Whether the consumer asked for it or failed.
    pub reason: Reason,
    /// What went wrong, for the operator.
    pub error: Option<String>,
    /// What is done of it, for the next attempt: up to 4 KiB of any text. Without it, what was said before stands.
    pub progress: Option<String>,
}

/// What becomes of leased messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settle {
    /// These are done.
    pub acks: Vec<Lease>,
    /// These are not.
    pub retries: Vec<Retry>,
    /// These are not, and would never be: they are given up at once, whatever retries are left to them. Their delays say
    /// nothing.
    pub deaths: Vec<Retry>,
    /// These were handed to nobody: they can be taken again at once, and the attempt does not count.
    pub releases: Vec<Lease>,
    /// What is done of those that are released, as a retry's [`progress`](Retry::progress) tells it.
    pub progress: BTreeMap<Lease, String>,
}

impl Settle {
    /// Adds what becomes of others of the same queue.
    pub fn append(&mut self, other: Self) {
        let Self { acks, retries, deaths, releases, progress } = other;
        self.acks.extend(acks);
        self.retries.extend(retries);
        self.deaths.extend(deaths);
        self.releases.extend(releases);
        self.progress.extend(progress);
    }
}

/// What a settle gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settled {
    /// Messages that are done.
    pub acked: usize,
    /// Messages that come again, or whose retries are spent.
    pub retried: usize,
    /// Messages that were given back.
    pub released: usize,
    /// Leases that changed nothing, and why.
    pub warnings: Vec<(Lease, Warning)>,
    /// Messages that left the queue for another reason than an ack.
    pub gone: Vec<Gone>,
}

/// Why a lease changed nothing. What else was settled with it counts all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// No such message is leased from this queue: it is settled, gone, or never was.
    Unknown,
    /// The retry or the release came too late: the lease has ended, so the message is to be taken again already.
    Late,
    /// The lease was named in this call before.
    Repeated,
}

/// A message that left its queue without an ack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// The queue.
    pub queue: String,
    /// The message.
    pub id: MessageId,
    /// How often it was handed over.
    pub attempts: u32,
    /// Where it went.
    pub how: How,
}

/// How a message left its queue without an ack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// Its retries were spent; it is in the dead-letter queue of this name.
    DeadLettered(String),
    /// Its retries were spent, and there is no dead-letter queue.
    Dropped,
    /// It was kept as long as the queue keeps messages.
    Expired,
}

/// What a take gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// The messages, in the order they are to be handled.
    pub messages: Vec<Taken>,
    /// Messages that the take came upon and that left the queue in place of being taken.
    pub gone: Vec<Gone>,
}

/// A queue's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metrics {
    /// Messages, in whatever state.
    pub messages: u64,
    /// Those that are leased. One whose lease has ended counts until it is taken again or the next sweep.
    pub in_flight: u64,
    /// Those that wait for a time to come.
    pub delayed: u64,
    /// Bytes of all bodies.
    pub bytes: u64,
    /// When the oldest was sent, in milliseconds since 1970. Of messages that are in flight or delayed only the 1,000
    /// next due are looked at.
    pub oldest_sent_at_ms: Option<i64>,
}

/// When there is something to take. Nothing can be taken from a queue that is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wake {
    /// Messages that can be taken now. Of those whose lease or delay has just ended, 100 count at most.
    pub ready: u64,
    /// For how long there has been something to take, in milliseconds, as far as anybody asked; 0 if there is nothing.
    pub waiting_ms: u64,
    /// Milliseconds until the next one that is delayed or leased can be.
    pub next_in_ms: Option<u64>,
}

/// What keeps a message from being sent twice: whoever sends under the same key again, within a week, sends nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Once<'a> {
    /// Whose key it is: keys of two scopes have nothing to do with each other.
    pub scope: &'a str,
    /// The key, of any length: a provider's delivery id.
    pub key: &'a str,
}

/// What sending once gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentOnce {
    /// The message is sent.
    Sent(MessageId),
    /// One was sent under this key before, and this is its id.
    Repeat(MessageId),
}

/// What sending once, and taking at once, gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenOnce {
    /// The message is sent, and leased to its sender.
    Taken(Taken),
    /// One was sent under this key before, and this is its id.
    Repeat(MessageId),
}

/// A message of a batch that its sender waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// It is leased to its sender.
    Taken(Taken),
    /// It is delayed, and comes when it is due.
    Delayed(MessageId),
}

/// What became of a message whose attempt failed and which was to be tried again at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retaken {
    /// It is leased again.
    Taken(Taken),
    /// Its retries are spent.
    Gone(Gone),
    /// The lease on it was lost, so nothing was changed.
    Lost(Warning),
}

/// What one sweep did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Swept {
    /// Messages that left their queues.
    pub gone: Vec<Gone>,
    /// Whether there is more to do at once: a sweep does a slice.
    pub more: bool,
}

/// A queue, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueInfo {
    /// Its name.
    pub name: String,
    /// Its id, 32 lowercase hex digits, which stays the same while it exists.
    pub id: String,
    /// When it was made, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When its settings last changed, in milliseconds since 1970.
    pub modified_at_ms: i64,
    /// What is set for it.
    pub settings: Settings,
}
