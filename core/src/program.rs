//! The program: an app file after it was parsed and checked, as `program.json` carries it to a host.
//!
//! Hosts load this and never see `app.jadpo`. Everything here is a wire type; nothing is decided here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The form of `program.json` that this build writes and reads. A host refuses any other.
pub const PROGRAM_FORMAT: u32 = 1;

/// A checked app. Maps are ordered by name, so the same app file always gives the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Always [`PROGRAM_FORMAT`].
    pub format: u32,
    /// The app's name: lowercase letters, digits and dashes.
    pub app: String,
    /// What messages come from, by the connection's name.
    #[serde(default)]
    pub connections: BTreeMap<String, Connection>,
    /// Functions that local queues and schedules call, by name.
    #[serde(default)]
    pub functions: BTreeMap<String, Function>,
    /// Inbound webhooks, by name.
    #[serde(default)]
    pub webhooks: BTreeMap<String, Webhook>,
    /// What a message becomes, by the event's name.
    #[serde(default)]
    pub events: BTreeMap<String, Type>,
    /// Which event a connection's messages become, by the connection's name.
    #[serde(default)]
    pub receiving: BTreeMap<String, Receiving>,
    /// Who gets an event, by the subscriber's name.
    #[serde(default)]
    pub subscribers: BTreeMap<String, Subscriber>,
    /// What is deployed, by the deployable's name.
    #[serde(default)]
    pub deployables: BTreeMap<String, Deployable>,
}

/// Where messages come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "driver", rename_all = "snake_case", deny_unknown_fields)]
pub enum Connection {
    /// Cloudflare pushes the queue's batches to a Worker.
    CloudflareQueues {
        /// The queue's name at Cloudflare.
        queue: String,
        /// Where Cloudflare moves a message once its retries are spent.
        dead_letter_queue: String,
    },
    /// A native server reads a Cloudflare queue over HTTP pull.
    CloudflarePull {
        /// The account that owns the queue.
        account: Setting,
        /// The queue's id, or its name, which is looked up at start.
        queue: PullQueue,
        /// The API token, always from the environment.
        token: Setting,
        /// The hosts that the connection may reach.
        domains: Vec<String>,
        /// Another server's address in place of Cloudflare's, ending in `/client/v4`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base_url: Option<String>,
        /// Messages asked for in one pull, 1 to 100.
        batch_size: u32,
        /// How long pulled messages stay hidden from others, in milliseconds.
        visibility_ms: u64,
    },
    /// A durable queue in this server's own store.
    LocalQueue {
        /// The queue's name.
        queue: String,
        /// Functions that each get every message.
        #[serde(default)]
        functions: Vec<String>,
        /// Deliveries before a message is dead-lettered.
        max_receives: u32,
        /// How long a failed delivery stays hidden, in milliseconds.
        visibility_ms: u64,
        /// Messages handled side by side, at most: 1 to 250.
        #[serde(default = "concurrency", skip_serializing_if = "is_usual_concurrency")]
        concurrency: u32,
    },
}

/// Messages of a local queue that are handled side by side where the app does not say.
pub const CONCURRENCY: u32 = 8;

fn concurrency() -> u32 {
    CONCURRENCY
}

// Written only where it says something, so that a build of before this key reads the programs that it could write.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_usual_concurrency(concurrency: &u32) -> bool {
    *concurrency == CONCURRENCY
}

/// How a pulled queue is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PullQueue {
    /// Its id: 32 hex digits.
    Id(String),
    /// Its name.
    Name(String),
}

/// A value that is written out, or read from the environment when a host starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Written in the app file.
    Text(String),
    /// The name of an environment variable (on Workers: of a secret or a variable).
    Env(String),
}

/// A function that a queue or a schedule calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// How it is reached.
    pub target: Target,
    /// A cron expression of five fields, in UTC: when to call it without a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// What is sent in place of the message's own body (to a queue), or of the schedule's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Written>,
}

/// A body that the app file writes out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Written {
    /// This text.
    Text(String),
    /// This JSON text.
    Json(String),
}

/// How a subscriber or a function is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// An HTTP POST to this address.
    Call(String),
    /// On Workers: a service binding to the Worker of this name.
    Service(String),
    /// A Rust function linked into the host under this name.
    Run(String),
    /// Natively: a program and its arguments; the body comes on its standard input.
    Exec(Vec<String>),
    /// Natively: a message to the local queue of this name.
    Send(String),
}

/// An inbound webhook: what is posted to it goes onto a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// The local queue that it writes to.
    pub queue: String,
    /// How a request proves who sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

/// A provider's signature scheme and its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// `Stripe-Signature`.
    Stripe(Setting),
    /// `X-Hub-Signature-256`.
    Github(Setting),
    /// `X-Shopify-Hmac-Sha256`.
    Shopify(Setting),
    /// The Standard Webhooks headers.
    Standard(Setting),
}

/// What a value must be. An event is one of these too: most are a [`Type::Record`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// A JSON string; as a whole body: any text.
    Text,
    /// A whole number of 64 bits.
    Int,
    /// Any JSON number.
    Float,
    /// `true` or `false`.
    Bool,
    /// RFC 3339, as `2026-11-30T12:00:00Z`.
    Instant,
    /// A UUID in its hyphenated or plain form.
    Uuid,
    /// Any JSON value.
    Json,
    /// As a whole body only: any bytes, read by nobody.
    Bytes,
    /// May be absent or `null`.
    Optional(Box<Type>),
    /// A JSON array of these.
    List(Box<Type>),
    /// A JSON object with these fields, in the app file's order; others are allowed.
    Record(Vec<Field>),
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Its key in the JSON object.
    pub name: String,
    /// What its value must be.
    #[serde(rename = "type")]
    pub kind: Type,
}

/// What a connection's messages become.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receiving {
    /// The event's name.
    pub event: String,
    /// The body's top-level key that holds its own idempotency key; without it, the message's id is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Who gets an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscriber {
    /// The event's name.
    pub on: String,
    /// How it is reached.
    pub target: Target,
    /// Signs each delivery by the Standard Webhooks scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Setting>,
}

/// What is deployed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployable {
    /// Where it runs.
    pub target: Platform,
    /// What it does there, in the app file's order without repeats.
    pub triggers: Vec<Trigger>,
}

/// Where a deployable runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Platform {
    /// Cloudflare Workers.
    Workers,
    /// The native server.
    Native,
}

/// What makes a deployable act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// It answers HTTP: the operator's endpoint, webhooks, health.
    Http,
    /// It receives queues and runs subscribers.
    Subscribers,
    /// It runs the tick.
    Tick,
}
