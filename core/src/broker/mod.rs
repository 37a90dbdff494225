//! The queue engine: send, take, settle, dead-letter, expire. Native only, behind the feature `broker`.
//!
//! A [`Broker`] decides; the host opens a transaction, hands over its [`Sql`] and commits. What an operation answers
//! is true once that commit is on disk, and not before.
//!
//! The store is two tables. Messages are appended and never changed. Beside them, `jadpo_queue_due` holds one small
//! row for each, keyed by queue, due time and number, so that the table is the order in which messages are taken:
//! first what is ready (due time 0) in the order it was sent, then what waits for a time, be it the end of a lease or
//! of a delay. A lease moves the small row and leaves the body alone; an ack deletes both. That makes four small
//! writes and one big one for a message sent, taken and done, and none of them depends on how many others wait.
//!
//! What is asked often and derived from the store is kept in memory as well: settings, and how much each queue holds.
//! After any failure of the store that memory may be wrong, so the host makes it anew ([`Broker::reload`]).

mod clock;
mod consumers;
mod error;
mod immediate;
mod later;
mod lease;
mod leave;
pub mod limits;
mod load;
mod look;
mod once;
mod queues;
mod reclaim;
mod redrive;
mod remove;
pub mod schema;
mod send;
mod serving;
mod settings;
mod settle;
mod size;
mod sql;
mod sweep;
mod take;
mod tokens;
mod triggers;
mod types;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};

use crate::store::StoreError;

use clock::Clock;
pub use clock::Moment;
pub use consumers::{Consumer, ConsumerKind};
pub use error::BrokerError;
pub use lease::{Lease, LeaseKey, MessageRef};
pub use look::{Peek, Peeked, State};
pub use redrive::{Redrive, RedriveFilter, RedriveLook, RedrivePreview, RedriveState, RedriveTask};
pub use remove::Removed;
#[cfg(feature = "compile")]
pub(crate) use settings::check_name;
pub use settings::{ConsumerSettings, Settings};
pub use sql::{Arg, Sql};
pub use tokens::{ApiToken, NewApiToken};
pub use triggers::{Run, RunOutcome, TriggerState, queue_trigger, schedule_trigger};
pub use types::{
    Backlog, Batch, Content, Dead, Gone, How, Kept, Message, MessageId, Metrics, NewBatch, NewMessage, Once, QueueInfo,
    Reason, Retaken, Retry, Sent, SentOnce, Settle, Settled, Swept, Take, Taken, TakenOnce, Wake, Warning,
};

/// The queues of one store.
#[derive(Debug)]
pub struct Broker {
    queues: BTreeMap<String, Queue>,
    /// Their names, by their ids.
    names: BTreeMap<String, String>,
    account: String,
    /// Tokens of the API, by their ids.
    tokens: BTreeMap<String, tokens::Known>,
    /// Contents to be cleared away.
    garbage: BTreeSet<i64>,
    key: LeaseKey,
    clock: Clock,
    /// The next message's number, and the first that the store does not know to be given out.
    next_seq: i64,
    reserved_seq: i64,
    next_queue: i64,
    /// The queue that the last sweep looked at last.
    swept_last: String,
    /// Triggers that are disabled.
    disabled: BTreeSet<String>,
    /// What a broken broker has put off; else nothing.
    later: later::Later,
}

/// A queue and what is known of its contents.
#[derive(Debug)]
struct Queue {
    info: QueueInfo,
    consumer: Option<Consumer>,
    /// When it was last purged, in milliseconds since 1970.
    purged_at_ms: Option<i64>,
    /// The number of its present contents.
    number: i64,
    tally: Tally,
    /// The age at which its oldest ready message may have to go.
    expires_at_age_ms: i64,
    /// Nothing that waits for a time is due before this, in the broker's time.
    next_due_ms: i64,
    /// When the oldest of its messages was sent, as far as a sender was told, and when that was looked up in the
    /// broker's time.
    oldest: Option<Oldest>,
    /// Since when somebody who asked has known that there is something to take, in the broker's time.
    ready_since_ms: Option<i64>,
}

/// When a queue's oldest message was sent, and when that was looked up.
#[derive(Debug, Clone, Copy)]
struct Oldest {
    sent_at_ms: Option<i64>,
    looked_at_ms: i64,
}

/// How many rows of each kind a queue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Tally {
    messages: u64,
    /// Of bodies.
    bytes: u64,
    /// Bytes of metadata, which no figure shows and the limit counts.
    meta: u64,
    leased: u64,
    delayed: u64,
}

/// A message's row among what is due.
#[derive(Debug, Clone, Copy)]
struct Place {
    queue: i64,
    due_at_ms: i64,
    seq: i64,
    /// How much it takes, as `size` packs it.
    bytes: u32,
    leased: bool,
}

/// Numbers are reserved in the store this many at a time, so that few sends pay for it. None is given twice, since a
/// lease names its message by number.
const SEQS_RESERVED: i64 = 10_000;

impl Broker {
    /// What lease ids are signed with.
    #[must_use]
    pub fn lease_key(&self) -> LeaseKey {
        self.key.clone()
    }

    /// The account that the store's queues belong to, for clients of the API: 32 lowercase hex digits.
    #[must_use]
    pub fn account(&self) -> &str {
        &self.account
    }

    /// The name of the queue of this id.
    #[must_use]
    pub fn name_of(&self, id: &str) -> Option<&str> {
        self.names.get(id).map(String::as_str)
    }

    fn queue(&self, name: &str) -> Result<&Queue, BrokerError> {
        self.queues.get(name).ok_or_else(|| BrokerError::QueueNotFound(name.to_owned()))
    }

    fn queue_mut(&mut self, name: &str) -> Result<&mut Queue, BrokerError> {
        self.queues.get_mut(name).ok_or_else(|| BrokerError::QueueNotFound(name.to_owned()))
    }

    /// Gives out `count` message numbers in a row and answers the first.
    fn seqs(&mut self, sql: &mut dyn Sql, count: usize) -> Result<i64, StoreError> {
        const RESERVE: &str = "UPDATE jadpo_broker SET next_seq = ?1";
        let first = self.next_seq;
        self.next_seq += i64::try_from(count).unwrap_or(i64::MAX);
        if self.next_seq > self.reserved_seq {
            self.reserved_seq = self.next_seq + SEQS_RESERVED;
            sql.run(RESERVE, &[self.reserved_seq.into()])?;
        }
        Ok(first)
    }
}

impl Queue {
    fn new(info: QueueInfo, number: i64, tally: Tally) -> Self {
        // Unknown, if there is anything.
        let next_due_ms = if tally.timed() == 0 { i64::MAX } else { 0 };
        let (consumer, purged_at_ms) = (None, None);
        let (oldest, ready_since_ms) = (None, None);
        Self { info, consumer, purged_at_ms, number, tally, expires_at_age_ms: 0, next_due_ms, oldest, ready_since_ms }
    }

    /// Something in it waits for a time now.
    fn waits_until(&mut self, due_at_ms: i64) {
        self.next_due_ms = self.next_due_ms.min(due_at_ms);
    }
}

impl Tally {
    fn ready(&self) -> u64 {
        self.messages.saturating_sub(self.timed())
    }

    /// Rows that wait for a time.
    fn timed(&self) -> u64 {
        self.leased + self.delayed
    }

    fn add(&mut self, packed: u32) {
        self.messages += 1;
        self.bytes += size::body(packed);
        self.meta += size::meta(packed);
    }

    fn remove(&mut self, place: &Place) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size::body(place.bytes));
        self.meta = self.meta.saturating_sub(size::meta(place.bytes));
        self.unhold(place);
    }

    /// The row no longer waits for its time.
    fn unhold(&mut self, place: &Place) {
        if place.leased {
            self.leased = self.leased.saturating_sub(1);
        } else if place.due_at_ms > 0 {
            self.delayed = self.delayed.saturating_sub(1);
        }
    }
}
