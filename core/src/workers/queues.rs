//! `queues`: what a Worker sends to and what it consumes.
//!
//! Wrangler checks only types here; Cloudflare refuses the rest at deploy. Here there is nothing after this.

use std::collections::BTreeMap;

use super::at::{At, Limits, Table};
use super::note::Found;
use super::{Consumer, Producer, quote};

const DELAY_S: Limits = Limits { least: 0, most: 86_400, unit: " seconds" };
const BATCH_SIZE: Limits = Limits { least: 1, most: 100, unit: " messages" };
const BATCH_TIMEOUT_S: Limits = Limits { least: 0, most: 60, unit: " seconds" };
const RETRIES: Limits = Limits { least: 0, most: 100, unit: " retries" };
const CONCURRENCY: Limits = Limits { least: 1, most: 250, unit: " batches side by side" };
/// Characters of a queue's name, at most.
const NAME_LEN_MAX: usize = 63;

const PRODUCER: [&str; 4] = ["binding", "queue", "delivery_delay", "remote"];
const CONSUMER: [&str; 9] = [
    "queue",
    "type",
    "max_batch_size",
    "max_batch_timeout",
    "max_retries",
    "dead_letter_queue",
    "max_concurrency",
    "visibility_timeout_ms",
    "retry_delay",
];

/// What `queues` says.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) producers: Vec<Producer>,
    pub(super) consumers: Vec<Consumer>,
}

/// Reads it. `worker` is what the Worker is called, if that is known.
pub(super) fn read(found: &mut Found, at: &At<'_>, worker: Option<&str>) -> Option<Queues> {
    let table = at.table(found)?;
    table.unknown(found, &["producers", "consumers"], true);
    let producers = table.get("producers").map(|at| at.tables(found)).unwrap_or_default();
    let producers = producers.iter().filter_map(|entry| producer(found, entry, worker)).collect();
    let mut seen = BTreeMap::new();
    let entries = table.get("consumers").map(|at| at.tables(found)).unwrap_or_default();
    let consumers = entries.iter().filter_map(|entry| consumer(found, entry, &mut seen)).collect();
    Some(Queues { producers, consumers })
}

fn producer(found: &mut Found, entry: &Table<'_>, worker: Option<&str>) -> Option<Producer> {
    entry.unknown(found, &PRODUCER, true);
    let help = "write what the Worker calls it: `\"binding\": \"JOBS\"` is `env.JOBS`";
    let binding = entry.required(found, "binding", help);
    let delivery_delay_s = entry.count(found, "delivery_delay", DELAY_S);
    if let Some(at) = entry.get("delivery_delay").filter(|_| delivery_delay_s.is_some()) {
        let message = format!("`{}` delays here, and has no effect at Cloudflare", at.path);
        at.warn(found, message, "set it for the queue, where it holds for whoever sends: Wrangler's `queues update`");
    }
    if entry.truth(found, "remote") == Some(true)
        && let Some(at) = entry.get("remote")
    {
        at.warn(found, format!("`{}` does nothing: the queue is jadpo's own", at.path), "leave it out");
    }
    let queue = match entry.get("queue") {
        Some(at) => {
            let name = at.filled(found, "the queue's name")?;
            name_of(found, &at, name)?.to_owned()
        }
        None => {
            let made = format!("{}-{}", worker?, binding?.to_lowercase().replace('_', "-"));
            let fault = fault(&made);
            if let Some(why) = fault {
                let message = format!(
                    "`{}` names no queue, and {}, which is made of its binding, {why}",
                    entry.at.path,
                    quote(&made)
                );
                entry.at.refuse(found, message, "write the queue's name: `\"queue\": \"jobs\"`");
                return None;
            }
            made
        }
    };
    Some(Producer { binding: binding?.to_owned(), queue, delivery_delay_s })
}

fn consumer(found: &mut Found, entry: &Table<'_>, seen: &mut BTreeMap<String, String>) -> Option<Consumer> {
    entry.unknown(found, &CONSUMER, true);
    kind(found, entry);
    let queue = entry.required(found, "queue", "write the queue's name: `\"queue\": \"jobs\"`");
    let queue = queue.zip(entry.get("queue")).and_then(|(name, at)| name_of(found, &at, name));
    let dead_letters = entry.get("dead_letter_queue").and_then(|at| {
        let name = at.filled(found, "the name of the queue that takes what fails, or leave it out")?;
        name_of(found, &at, name)
    });
    let consumer = Consumer {
        queue: String::new(),
        max_batch_size: entry.count(found, "max_batch_size", BATCH_SIZE),
        max_batch_timeout_ms: entry.get("max_batch_timeout").and_then(|at| at.seconds_ms(found, BATCH_TIMEOUT_S)),
        max_retries: entry.count(found, "max_retries", RETRIES),
        retry_delay_s: entry.count(found, "retry_delay", DELAY_S),
        dead_letter_queue: dead_letters.map(str::to_owned),
        max_concurrency: entry.count(found, "max_concurrency", CONCURRENCY),
    };
    if let Some(at) = entry.get("visibility_timeout_ms")
        && at.number(found).is_some()
    {
        at.warn(found, format!("`{}` does nothing: only pulled queues have it", at.path), "leave it out");
    }
    let queue = queue?;
    if let Some(at) = entry.get("dead_letter_queue").filter(|_| dead_letters == Some(queue)) {
        let message = format!("the queue `{queue}` is its own dead-letter queue");
        at.refuse(found, message, format!("name another queue: `\"dead_letter_queue\": \"{queue}-dead\"`"));
    }
    if let Some(first) = seen.insert(queue.to_owned(), entry.at.path.clone()) {
        let message = format!("`{first}` and `{}` both consume the queue `{queue}`", entry.at.path);
        entry.at.refuse(found, message, "leave one of them out: a queue has one consumer");
        return None;
    }
    Some(Consumer { queue: queue.to_owned(), ..consumer })
}

fn kind(found: &mut Found, entry: &Table<'_>) {
    let Some(at) = entry.get("type") else { return };
    match at.text(found) {
        None | Some("worker") => {}
        Some("http_pull") => {
            let message = format!("`{}` is \"http_pull\": a Wrangler file cannot configure pulling", at.path);
            at.wrong(found, message, "leave the entry out, and make the queue a pulled one by Wrangler's `queues consumer http add`, at Cloudflare or at jadpo");
        }
        Some(other) => {
            let message = format!("`{}` is {}, and only a Worker consumes here", at.path, quote(other));
            at.wrong(found, message, "leave it out, or write \"worker\"");
        }
    }
}

/// A queue's name that the broker takes. Cloudflare's rule says nothing of capitals; one name in one writing is one queue.
fn name_of<'t>(found: &mut Found, at: &At<'_>, name: &'t str) -> Option<&'t str> {
    let Some(why) = fault(name) else { return Some(name) };
    let fixed = fixed(name);
    let rule = "a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends";
    let help = if fault(&fixed).is_none() { format!("write \"{fixed}\": {rule}") } else { rule.to_owned() };
    at.refuse(found, format!("{} is no queue's name: it {why}", quote(name)), help);
    None
}

/// Why the broker takes no such name; completes "it …".
pub(super) fn fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("is empty");
    }
    if name.chars().any(|c| c.is_ascii_uppercase()) {
        return Some("has capitals");
    }
    if !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        return Some("has characters other than letters, digits and dashes");
    }
    if name.len() > NAME_LEN_MAX {
        return Some("is longer than 63 characters");
    }
    (name.starts_with('-') || name.ends_with('-')).then_some("has a dash at an end")
}

fn fixed(name: &str) -> String {
    let mut made = String::new();
    for c in name.chars().take(2 * NAME_LEN_MAX) {
        let c = if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        if c != '-' || !made.ends_with('-') {
            made.push(c);
        }
    }
    made.trim_matches('-').chars().take(NAME_LEN_MAX).collect()
}
