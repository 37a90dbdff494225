//! What a test sees in the store.

use std::fmt;

use jadpo_core::store::schema::NEVER_MS;
use jadpo_core::store::{Row, Value};

use crate::TestHost;

/// An event that was kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number.
    pub seq: i64,
    /// The connection that it came over.
    pub connection: String,
    /// What makes it the same event again.
    pub key: String,
    /// Its name.
    pub name: String,
    /// The id of the message it was.
    pub message_id: String,
    /// When the message was sent, in milliseconds since 1970.
    pub sent_at_ms: i64,
    /// When it was kept.
    pub received_at_ms: i64,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// Whether the body is stored as text.
    pub is_text: bool,
}

/// A delivery that is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The event's number.
    pub seq: i64,
    /// Who is to get it.
    pub subscriber: String,
    /// Attempts begun.
    pub attempt: u32,
    /// The attempt that is the last.
    pub attempt_max: u32,
    /// How it stands.
    pub state: DeliveryState,
    /// What went wrong last.
    pub error: Option<String>,
}

/// How a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryState {
    /// Claimed until then, in milliseconds since 1970.
    Running {
        /// The claim's end.
        until_ms: i64,
    },
    /// To be tried then.
    Waiting {
        /// The next attempt, in milliseconds since 1970.
        due_at_ms: i64,
    },
    /// Its attempts are spent.
    Failed,
}

/// A message that was parked.
#[derive(Clone, PartialEq, Eq)]
pub struct Parked {
    /// Its number, `p12` without the p.
    pub id: i64,
    /// The queue that it came from.
    pub queue: String,
    /// The message's id.
    pub message_id: String,
    /// The class of reason.
    pub reason: String,
    /// The reason in words.
    pub detail: String,
    /// The event it may be, if that could be told.
    pub event: Option<String>,
    /// Its key, if that could be told.
    pub key: Option<String>,
    /// Deliveries until it was parked.
    pub attempts: u32,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// Whether an operator has it read again at the next tick.
    pub marked: bool,
}

// Both print their bodies as text, which a person can read.
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seq, connection, key, name, message_id, sent_at_ms, received_at_ms, body: _, is_text } = self;
        let mut all = f.debug_struct("Event");
        all.field("seq", seq).field("connection", connection).field("key", key).field("name", name);
        all.field("message_id", message_id).field("sent_at_ms", sent_at_ms).field("received_at_ms", received_at_ms);
        all.field("body", &self.body_text()).field("is_text", is_text).finish()
    }
}

impl fmt::Debug for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, queue, message_id, reason, detail, event, key, attempts, body: _, marked } = self;
        let mut all = f.debug_struct("Parked");
        all.field("id", id).field("queue", queue).field("message_id", message_id).field("reason", reason);
        all.field("detail", detail).field("event", event).field("key", key).field("attempts", attempts);
        all.field("body", &self.body_text()).field("marked", marked).finish()
    }
}

impl Event {
    /// The body as text, invalid UTF-8 replaced.
    #[must_use]
    pub fn body_text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Parked {
    /// The body as text, invalid UTF-8 replaced.
    #[must_use]
    pub fn body_text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The events in the store, oldest first.
pub(crate) fn events(host: &TestHost) -> Vec<Event> {
    let rows = host.look_if_there(
        "jadpo_events",
        "SELECT seq, connection, key, event, message_id, sent_at, received_at, body FROM jadpo_events ORDER BY seq",
    );
    rows.iter()
        .map(|row| Event {
            seq: number(row, 0),
            connection: text(row, 1),
            key: text(row, 2),
            name: text(row, 3),
            message_id: text(row, 4),
            sent_at_ms: number(row, 5),
            received_at_ms: number(row, 6),
            body: bytes(row, 7),
            is_text: row.text(7).is_some(),
        })
        .collect()
}

/// The deliveries in the store by event and subscriber; done ones are not there.
pub(crate) fn deliveries(host: &TestHost) -> Vec<Delivery> {
    let rows = host.look_if_there(
        "jadpo_deliveries",
        "SELECT seq, subscriber, attempt, attempt_max, due_at, claim IS NOT NULL, error FROM jadpo_deliveries
         ORDER BY seq, subscriber",
    );
    rows.iter()
        .map(|row| {
            let due_at_ms = number(row, 4);
            Delivery {
                seq: number(row, 0),
                subscriber: text(row, 1),
                attempt: small(row, 2),
                attempt_max: small(row, 3),
                state: match (due_at_ms, number(row, 5)) {
                    (NEVER_MS, _) => DeliveryState::Failed,
                    (until_ms, 1) => DeliveryState::Running { until_ms },
                    (due_at_ms, _) => DeliveryState::Waiting { due_at_ms },
                },
                error: row.text(6).map(str::to_owned),
            }
        })
        .collect()
}

/// The parked messages, oldest first.
pub(crate) fn parked(host: &TestHost) -> Vec<Parked> {
    let rows = host.look_if_there(
        "jadpo_parked_messages",
        "SELECT id, queue, message_id, reason, detail, event, key, attempts, body, retry_at IS NOT NULL
         FROM jadpo_parked_messages ORDER BY id",
    );
    rows.iter()
        .map(|row| Parked {
            id: number(row, 0),
            queue: text(row, 1),
            message_id: text(row, 2),
            reason: text(row, 3),
            detail: text(row, 4),
            event: row.text(5).map(str::to_owned),
            key: row.text(6).map(str::to_owned),
            attempts: small(row, 7),
            body: bytes(row, 8),
            marked: number(row, 9) == 1,
        })
        .collect()
}

/// When the next tick finds something to do: a delivery that is due, or a message that an operator retried.
pub(crate) fn next_due_ms(host: &TestHost) -> Option<i64> {
    let due = host.look_if_there("jadpo_deliveries", "SELECT min(due_at) FROM jadpo_deliveries");
    let marked = host.look_if_there(
        "jadpo_parked_messages",
        "SELECT min(retry_at) FROM jadpo_parked_messages WHERE retry_at IS NOT NULL",
    );
    let first_of = |rows: &[Row]| rows.first().and_then(|row| row.integer(0));
    let due_ms = first_of(&due).filter(|due_ms| *due_ms < NEVER_MS);
    due_ms.into_iter().chain(first_of(&marked)).min()
}

fn number(row: &Row, at: usize) -> i64 {
    row.integer(at).unwrap_or_else(|| panic!("column {at} is no whole number: {row:?}"))
}

fn small(row: &Row, at: usize) -> u32 {
    u32::try_from(number(row, at)).unwrap_or_else(|_| panic!("column {at} is no small number: {row:?}"))
}

fn text(row: &Row, at: usize) -> String {
    row.text(at).unwrap_or_else(|| panic!("column {at} is no text: {row:?}")).to_owned()
}

fn bytes(row: &Row, at: usize) -> Vec<u8> {
    match row.0.get(at) {
        Some(Value::Text(text)) => text.clone().into_bytes(),
        Some(Value::Blob(bytes)) => bytes.clone(),
        other => panic!("column {at} is no body: {other:?}"),
    }
}
