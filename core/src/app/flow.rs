//! `receiving:` and `webhooks:` — what becomes of what comes in.

use std::collections::{BTreeMap, BTreeSet};

use super::code::{Area, Code};
use super::fields::{Fields, optional, required};
use super::names::Names;
use super::problem::quote;
use super::syntax::{Block, Entry, Value, What};
use super::values::{Key, Reading, Text};
use crate::program::{Connection, Receiving, Setting, Type, Verify, Webhook};

const ID_LEN_MAX: usize = 256;

pub(super) fn receiving(
    reading: &mut Reading<'_>,
    block: &Block,
    names: &Names<'_>,
    connections: &BTreeMap<String, Connection>,
    events: &BTreeMap<String, Type>,
) -> BTreeMap<String, Receiving> {
    let mut all = BTreeMap::new();
    for entry in &block.entries {
        let connection = Text { text: &entry.key, span: entry.key_span };
        let is_known = names.has(Area::Connection, connection.text);
        if !is_known {
            let declare = || "declare it under `connections:`".to_owned();
            reading.unknown(Area::Receiving, connection, "connection", names.of(Area::Connection), declare);
        }
        if let Some(Connection::LocalQueue { functions, .. }) = connections.get(&entry.key)
            && !functions.is_empty()
        {
            let message = format!("the messages of {} already go to its functions", quote(&entry.key));
            let help = "remove `functions:` from the connection, or this entry";
            reading.findings.problem(Code::ReceivingValueInvalid, entry.key_span, message).help(help);
        }
        let read = one(reading, entry, names, events);
        if let Some(read) = read.filter(|_| is_known) {
            all.insert(entry.key.clone(), read);
        }
    }
    all
}

fn one(
    reading: &mut Reading<'_>,
    entry: &Entry,
    names: &Names<'_>,
    events: &BTreeMap<String, Type>,
) -> Option<Receiving> {
    let fields = Fields::of(reading, Area::Receiving, entry, "{ event: StockMoved }")?;
    fields.check(reading, &[required("event", "StockMoved"), optional("id")], &[]);
    let event = fields.entry("event").and_then(|entry| {
        let name = reading.name(fields.key("event"), &entry.value, "an event")?;
        if !names.has(Area::Event, name.text) {
            let declare = || format!("declare it: `events: {{ {}: Json }}`", name.text);
            reading.unknown(Area::Receiving, name, "event", names.of(Area::Event), declare);
            return None;
        }
        Some(name.text.to_owned())
    });
    let id = match fields.entry("id") {
        Some(entry) => {
            let kind = event.as_ref().and_then(|event| events.get(event));
            Some(id(reading, fields, &entry.value, kind)?)
        }
        None => None,
    };
    Some(Receiving { event: event?, id })
}

/// The body's key that holds its idempotency key, checked against the event's type when there is one.
fn id(reading: &mut Reading<'_>, fields: Fields<'_>, value: &Value, kind: Option<&Type>) -> Option<String> {
    let text = reading.text(fields.key("id"), value)?;
    let wrong = if text.text.is_empty() || text.text.len() > ID_LEN_MAX {
        Some((
            "`id` names no key of the body".to_owned(),
            "write the name of a key at the body's top: `id: \"movement_id\"`",
        ))
    } else {
        match kind {
            Some(Type::Record(fields)) => {
                let field = fields.iter().find(|field| field.name == text.text);
                field.filter(|field| !may_be_id(&field.kind)).map(|_| {
                    (
                        format!("{} cannot be an idempotency key", quote(text.text)),
                        "name a field of type Text, Int or Uuid",
                    )
                })
            }
            Some(Type::Json) | None => None,
            Some(_) => Some((
                "this event's body has no keys, so none of them can be its id".to_owned(),
                "remove `id:`; the message's own id is used then",
            )),
        }
    };
    if let Some((message, help)) = wrong {
        reading.findings.problem(Code::ReceivingValueInvalid, text.span, message).help(help);
        return None;
    }
    Some(text.text.to_owned())
}

fn may_be_id(kind: &Type) -> bool {
    match kind {
        Type::Text | Type::Int | Type::Uuid | Type::Instant | Type::Json => true,
        Type::Optional(inner) => may_be_id(inner),
        _ => false,
    }
}

pub(super) fn webhooks(
    reading: &mut Reading<'_>,
    block: &Block,
    names: &Names<'_>,
    connections: &BTreeMap<String, Connection>,
) -> BTreeMap<String, Webhook> {
    let queues = LocalQueues::of(names, connections);
    let mut webhooks = BTreeMap::new();
    for entry in &block.entries {
        if let Some(webhook) = webhook(reading, entry, &queues) {
            webhooks.insert(entry.key.clone(), webhook);
        }
    }
    webhooks
}

/// The local queues that something may write to.
pub(super) struct LocalQueues<'a> {
    queues: BTreeSet<&'a str>,
    /// A connection that could not be read may be the one that has a queue.
    all_read: bool,
}

impl<'a> LocalQueues<'a> {
    pub(super) fn of(names: &Names<'_>, connections: &'a BTreeMap<String, Connection>) -> Self {
        let local = |connection: &'a Connection| match connection {
            Connection::LocalQueue { queue, .. } => Some(queue.as_str()),
            _ => None,
        };
        let all_read = names.of(Area::Connection).all(|name| connections.contains_key(name));
        Self { queues: connections.values().filter_map(local).collect(), all_read }
    }

    /// The name of a declared one; says so when it is none. `who` writes to it.
    pub(super) fn named(&self, reading: &mut Reading<'_>, key: Key<'_>, value: &Value, who: &str) -> Option<String> {
        let queue = reading.text(key, value)?;
        if self.all_read && !self.queues.contains(queue.text) {
            let declare = || format!("{who} the queue of a Driver.local_queue connection: declare one");
            reading.unknown(key.area, queue, "local queue", self.queues.iter().copied(), declare);
            return None;
        }
        Some(queue.text.to_owned())
    }
}

fn webhook(reading: &mut Reading<'_>, entry: &Entry, queues: &LocalQueues<'_>) -> Option<Webhook> {
    let fields = Fields::of(reading, Area::Webhook, entry, "{ queue: \"jobs\" }")?;
    fields.check(reading, &[required("queue", "\"jobs\""), optional("verify")], &[]);
    let queue = fields.entry("queue");
    let queue = queue.and_then(|entry| queues.named(reading, fields.key("queue"), &entry.value, "a webhook writes to"));
    let verify = match fields.entry("verify") {
        Some(entry) => Some(verify(reading, fields, &entry.value)?),
        None => None,
    };
    Some(Webhook { queue: queue?, verify })
}

/// Makes a verification of its secret.
type Scheme = fn(Setting) -> Verify;

const SCHEMES: [(&str, Scheme); 4] = [
    ("stripe", Verify::Stripe),
    ("github", Verify::Github),
    ("shopify", Verify::Shopify),
    ("standard", Verify::Standard),
];

fn verify(reading: &mut Reading<'_>, fields: Fields<'_>, value: &Value) -> Option<Verify> {
    let example = format!("{}_SECRET", fields.name.to_ascii_uppercase());
    let key = fields.key("verify");
    let What::Call(name, given) = &value.what else {
        let help = format!("write `verify: Verify.standard(env(\"{example}\"))`, or Verify.stripe, .github, .shopify");
        reading.wrong_kind(key, value, "a Verify", help);
        return None;
    };
    let scheme = Value { what: What::Name(name.clone()), span: value.span };
    let scheme = reading.choice(key, &scheme, "Verify", &SCHEMES)?;
    let [secret] = given.as_slice() else {
        let message = format!("a Verify takes one secret, and this has {}", given.len());
        let help = format!("write `verify: {}(env(\"{example}\"))`", name.join("."));
        reading.findings.problem(Code::WebhookValueInvalid, value.span, message).help(help);
        return None;
    };
    reading.secret(key, secret, &example).map(scheme)
}
