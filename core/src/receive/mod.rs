//! Receiving: a batch becomes events, repeats and parked messages in one round trip to the store, and each message
//! gets its answer only after that has committed.

mod plan;
mod reread;
mod statements;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use reread::{Parked, Reread, reread};

use crate::broken::{self, Variant};
use crate::deliver::{Claimed, Event};
use crate::host::{Host, Level, LogEntry};
use crate::program::Receiving;
use crate::queue::{ATTEMPTS_MAX, Answer, Batch, Body, Message, retry_delay_s};
use crate::read::{Reading, Reason, key_of, read};
use crate::start::{App, Route};
use crate::store::StoreError;
use plan::{Fate, Item, Stamp, Verdict, plan};

/// What a host does next about a batch: answer each message, then run the deliveries it holds the claims of.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// One answer per message, in the batch's order.
    pub answers: Vec<Answer>,
    /// New deliveries, claimed by this host.
    pub claimed: Vec<Claimed>,
    /// What happened, counted.
    pub tally: Tally,
}

/// A batch's messages by what became of them, and what that cost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Became events.
    pub kept: u32,
    /// Were kept or parked before.
    pub repeats: u32,
    /// Were parked, by reason.
    pub parked: BTreeMap<&'static str, u32>,
    /// Go back to the queue.
    pub retried: u32,
    /// Round trips to the store.
    pub store_batches: u32,
    /// Rows written, index entries included, where the store says.
    pub rows_written: u64,
}

/// Why a message goes back to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RetryCode {
    NotStarted,
    NotReceived,
    StoreUnavailable,
}

impl RetryCode {
    fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted => "not_started",
            Self::NotReceived => "not_received",
            Self::StoreUnavailable => "store_unavailable",
        }
    }
}

/// Receives a batch that Cloudflare pushed. Never fails: what the store cannot take now is retried.
pub async fn receive<H: Host>(host: &H, app: &App, batch: Batch) -> Received {
    match app.route(&batch.queue) {
        Some(route) => receive_on(host, app, route, batch).await,
        None => all_retried(host, &batch, RetryCode::NotReceived, "the program does not receive this queue"),
    }
}

/// Receives a batch that was pulled for this connection; otherwise as [`receive`]. Its queue may have the name of
/// another one, of another account or here.
pub async fn receive_pulled<H: Host>(host: &H, app: &App, connection: &str, batch: Batch) -> Received {
    let Some(receiving) = app.program.receiving.get(connection) else {
        return all_retried(host, &batch, RetryCode::NotReceived, "the program does not receive this connection");
    };
    let route = Route { connection: connection.to_owned(), receiving: Some(receiving.clone()), dead_letters: false };
    receive_on(host, app, &route, batch).await
}

async fn receive_on<H: Host>(host: &H, app: &App, route: &Route, batch: Batch) -> Received {
    let items: Vec<Item> =
        batch.messages.into_iter().map(|message| take_in(app, route, &batch.queue, message)).collect();
    let stamp = Stamp { now_ms: host.now_ms(), claim: format!("{:032x}", host.random()) };
    let mut intake = Intake { host, app, stamp: &stamp, tally: Tally::default() };
    let fates = intake.keep(&items).await;
    intake.finish(&batch.queue, items, fates)
}

/// Answers a batch for a host that could not start: every message is retried, nothing is kept.
pub fn not_started<H: Host>(host: &H, batch: &Batch, why: &str) -> Received {
    all_retried(host, batch, RetryCode::NotStarted, why)
}

fn all_retried<H: Host>(host: &H, batch: &Batch, code: RetryCode, why: &str) -> Received {
    let answers: Vec<Answer> = batch.messages.iter().map(|message| retry(message.attempts)).collect();
    let count = u32::try_from(answers.len()).unwrap_or(u32::MAX);
    log_retried(host, &batch.queue, count, code, why);
    Received { answers, claimed: Vec::new(), tally: Tally { retried: count, ..Tally::default() } }
}

fn retry(attempts: u32) -> Answer {
    Answer::Retry { delay_s: retry_delay_s(attempts) }
}

fn log_retried<H: Host>(host: &H, queue: &str, count: u32, code: RetryCode, why: &str) {
    host.log(LogEntry {
        level: Level::Warn,
        event: "queue.retried",
        fields: vec![
            ("queue", queue.into()),
            ("count", count.into()),
            ("code", code.as_str().into()),
            ("why", why.into()),
        ],
    });
}

/// Reads a message and says what is to happen to it.
fn take_in(app: &App, route: &Route, queue: &str, mut message: Message) -> Item {
    let verdict = match &route.receiving {
        Some(receiving) => {
            let reading = read(&app.program, receiving, &message);
            if route.dead_letters {
                dead_letter(reading, receiving)
            } else {
                verdict(reading, receiving, key_of(&message.id))
            }
        }
        None => dead_letter_of_nobody(),
    };
    message.id = key_of(&message.id);
    Item { connection: route.connection.clone(), queue: queue.to_owned(), message, verdict, reread_of: None }
}

fn verdict(reading: Reading, receiving: &Receiving, message_key: String) -> Verdict {
    let event = receiving.event.clone();
    match reading {
        Reading::Event { key } => Verdict::Keep { event, key },
        Reading::Unfit { reason, detail, key } => {
            let kept_as = key.clone().or_else(|| receiving.id.is_none().then_some(message_key));
            Verdict::Park { reason, detail, event: key.is_some().then_some(event), key, kept_as }
        }
    }
}

/// A dead letter is parked whatever it holds: its retries were spent, so a person decides.
fn dead_letter(reading: Reading, receiving: &Receiving) -> Verdict {
    let (what, key) = match reading {
        Reading::Event { key } => ("the message itself can be read".to_owned(), Some(key)),
        Reading::Unfit { detail, key, .. } => (detail, key),
    };
    let event = key.is_some().then(|| receiving.event.clone());
    dead_lettered(&what, event, key)
}

fn dead_letter_of_nobody() -> Verdict {
    dead_lettered("the program receives nothing from this connection", None, None)
}

fn dead_lettered(what: &str, event: Option<String>, key: Option<String>) -> Verdict {
    let detail = format!("Cloudflare's retries were spent; {what}");
    Verdict::Park { reason: Reason::DeadLettered, detail, event, key, kept_as: None }
}

/// Whether a message is in the store, or why it is not.
type Kept = Result<Fate, RetryCode>;

/// Carries messages into the store.
struct Intake<'a, H> {
    host: &'a H,
    app: &'a App,
    stamp: &'a Stamp,
    tally: Tally,
}

impl<H: Host> Intake<'_, H> {
    /// One batch for all items; if the store refuses it for what one of them holds, one batch for each.
    async fn keep(&mut self, items: &[Item]) -> Vec<Kept> {
        let all: Vec<&Item> = items.iter().collect();
        match self.attempt(&all).await {
            Ok(fates) => fates.into_iter().map(Ok).collect(),
            Err(StoreError::Refused(_)) if items.len() > 1 => self.keep_one_by_one(items).await,
            Err(error) => vec![Err(self.put_off(&error, items)); items.len()],
        }
    }

    async fn keep_one_by_one(&mut self, items: &[Item]) -> Vec<Kept> {
        let mut kept = Vec::with_capacity(items.len());
        for item in items {
            match self.attempt(&[item]).await {
                Ok(fates) => kept.extend(fates.into_iter().map(Ok)),
                Err(error @ StoreError::Refused(_)) => kept.push(Err(self.put_off(&error, std::slice::from_ref(item)))),
                Err(error) => {
                    // The store went away meanwhile: what is left waits for it.
                    let code = self.put_off(&error, std::slice::from_ref(item));
                    kept.resize(items.len(), Err(code));
                    break;
                }
            }
        }
        kept
    }

    async fn attempt(&mut self, items: &[&Item]) -> Result<Vec<Fate>, StoreError> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let mut plan = plan(self.app, items, self.stamp);
        self.tally.store_batches += 1;
        let mut statements = std::mem::take(&mut plan.statements);
        let mut rows = Vec::new();
        if broken::is(Variant::DedupeOutsideTheTransaction) && statements.len() > 2 {
            let rest = statements.split_off(2);
            rows = self.host.batch(std::mem::replace(&mut statements, rest)).await?;
        }
        rows.extend(self.host.batch(statements).await?);
        self.tally.rows_written += rows.iter().map(|rows| rows.rows_written).sum::<u64>();
        plan.conclude(items.len(), &rows)
            .ok_or_else(|| StoreError::NotCurrent("its schema has an older version".to_owned()))
    }

    fn put_off(&self, error: &StoreError, items: &[Item]) -> RetryCode {
        let mut fields = vec![("error", error.to_string().into())];
        if let [item] = items {
            fields.push(("queue", item.queue.as_str().into()));
            fields.push(("message_id", item.message.id.as_str().into()));
        }
        self.host.log(LogEntry { level: Level::Error, event: "store.failed", fields });
        match error {
            StoreError::NotCurrent(_) => RetryCode::NotStarted,
            StoreError::Unavailable(_) | StoreError::Refused(_) => RetryCode::StoreUnavailable,
        }
    }

    /// Turns fates into answers and claims, and tells the log.
    fn finish(mut self, queue: &str, items: Vec<Item>, kept: Vec<Kept>) -> Received {
        let mut answers = Vec::with_capacity(items.len());
        let mut claimed = Vec::new();
        let mut retried: BTreeMap<RetryCode, u32> = BTreeMap::new();
        for (item, kept) in items.into_iter().zip(kept) {
            answers.push(match &kept {
                Ok(_) => Answer::Ack,
                Err(_) if broken::is(Variant::AckBeforeCommit) => Answer::Ack,
                Err(_) => retry(item.message.attempts),
            });
            match kept {
                Ok(fate) => self.settle(item, fate, &mut claimed),
                Err(code) => *retried.entry(code).or_default() += 1,
            }
        }
        for (code, count) in retried {
            self.tally.retried += count;
            log_retried(self.host, queue, count, code, "the messages stay in the queue");
        }
        log_received(self.host, queue, answers.len(), &self.tally);
        Received { answers, claimed, tally: self.tally }
    }

    fn settle(&mut self, item: Item, fate: Fate, claimed: &mut Vec<Claimed>) {
        match (fate, item.verdict) {
            (Fate::Kept { seq }, Verdict::Keep { event, key }) => {
                self.tally.kept += 1;
                let event = Event {
                    seq,
                    connection: item.connection,
                    key,
                    name: event,
                    sent_at_ms: item.message.sent_at_ms,
                    body: into_bytes(item.message.body),
                };
                claim(self.app, self.stamp, event, claimed);
            }
            (Fate::Parked, Verdict::Park { reason, .. }) => {
                *self.tally.parked.entry(reason.as_str()).or_default() += 1;
                self.host.log(LogEntry {
                    level: Level::Warn,
                    event: "queue.parked",
                    fields: vec![
                        ("queue", item.queue.into()),
                        ("message_id", item.message.id.into()),
                        // What is wrong with it may name keys of the body, and the log never holds any of it.
                        ("reason", reason.as_str().into()),
                    ],
                });
            }
            _ => self.tally.repeats += 1,
        }
    }
}

/// The deliveries of a new event, which were inserted with this host's claim.
fn claim(app: &App, stamp: &Stamp, event: Event, claimed: &mut Vec<Claimed>) {
    let event = Arc::new(event);
    claimed.extend(app.subscribers_of(&event.name).iter().map(|subscriber| Claimed {
        due_at_ms: stamp.claim_ends_ms(),
        claim: stamp.claim.clone(),
        subscriber: subscriber.clone(),
        attempt: 1,
        attempt_max: ATTEMPTS_MAX,
        event: Arc::clone(&event),
    }));
}

fn into_bytes(body: Body) -> Vec<u8> {
    match body {
        Body::Text(text) | Body::Json(text) | Body::Unreadable { shown: text, .. } => text.into_bytes(),
        Body::Bytes(bytes) => bytes,
    }
}

fn log_received<H: Host>(host: &H, queue: &str, messages: usize, tally: &Tally) {
    host.log(LogEntry {
        level: Level::Info,
        event: "queue.received",
        fields: vec![
            ("queue", queue.into()),
            ("messages", messages.into()),
            ("kept", tally.kept.into()),
            ("repeats", tally.repeats.into()),
            ("parked", serde_json::json!(tally.parked)),
            ("retried", tally.retried.into()),
            ("store_batches", tally.store_batches.into()),
            ("rows_written", tally.rows_written.into()),
        ],
    });
}
