//! Looking at queues over HTTP: how much they hold, what was delivered last, and what died. Programs get JSON, browsers
//! a page of it.

use std::time::Duration;

use hyper::StatusCode;
use hyper::http::request::Parts;
use jadpo_core::broker::{BrokerError, Message, Metrics, Peek, QueueInfo, RunOutcome, TriggerState, queue_trigger};
use jadpo_core::trigger::Consumer;
use serde_json::{Map, Value, json};
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::reply::{self, Problem, Reply};
use super::{Shared, page};
use crate::log::rfc3339;

/// Dead letters that are shown.
const DEAD_SHOWN: usize = 20;
/// Characters of a body that are shown.
const PREVIEW_CHARS: usize = 200;
/// Queues that are listed.
const QUEUES_SHOWN: usize = 1_000;
/// Those who look at a time. Looking takes turns of the one that also writes.
pub(super) const LOOKING_MAX: usize = 2;
/// How long somebody waits for a place among them. Who looks is a person, or a program that asks again.
const LOOK_WAIT_MAX: Duration = Duration::from_secs(5);

/// Every queue with its depth, as who asks can read it.
pub(super) async fn queues(shared: &Shared, head: &Parts) -> Result<Reply, Problem> {
    shown(head, page::QUEUES, &all(shared).await?)
}

/// One queue: its depth, its trigger, the last calls, and the first of its dead letters, as who asks can read it.
pub(super) async fn queue(shared: &Shared, head: &Parts, name: &str) -> Result<Reply, Problem> {
    shown(head, page::QUEUE, &one(shared, name).await?)
}

fn shown(head: &Parts, template: &str, looked: &Value) -> Result<Reply, Problem> {
    if !page::is_wanted(head) {
        return Ok(reply::json(StatusCode::OK, looked));
    }
    page::of(template, looked).map_err(|why| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", format!("the page cannot be made: {why}"))
    })
}

/// A place among those who look.
async fn looking(shared: &Shared) -> Result<SemaphorePermit<'_>, BrokerError> {
    match timeout(LOOK_WAIT_MAX, shared.looking.acquire()).await {
        Ok(Ok(place)) => Ok(place),
        _ => Err(BrokerError::Overloaded(format!("{LOOKING_MAX} others look at queues already"))),
    }
}

async fn all(shared: &Shared) -> Result<Value, Problem> {
    let _place = looking(shared).await?;
    let infos = shared.broker.list().await?;
    let more = infos.len() > QUEUES_SHOWN;
    let names: Vec<String> = infos.iter().take(QUEUES_SHOWN).map(|info| info.name.clone()).collect();
    let metrics = shared.broker.metrics_of(&names).await?;
    // Of one that was deleted meanwhile there are no figures.
    let figures = infos.iter().filter_map(|info| Some((info, metrics.get(&info.name)?)));
    let queues: Vec<Value> = figures.map(|(info, metrics)| Value::Object(depth(shared, info, metrics))).collect();
    Ok(json!({ "app": shared.app.program.app, "queues": queues, "more": more }))
}

async fn one(shared: &Shared, name: &str) -> Result<Value, Problem> {
    let _place = looking(shared).await?;
    let broker = &shared.broker;
    let (info, metrics, triggers) = tokio::try_join!(broker.info(name), broker.metrics(name), broker.triggers())?;
    let mut queue = depth(shared, &info, &metrics);
    let trigger = queue_trigger(name);
    let state = triggers.get(&trigger);
    if !functions(shared, name).is_empty() {
        queue.insert("trigger".to_owned(), trigger_json(&trigger, state));
    }
    queue.insert("recent".to_owned(), shared.recent.of(name).into());
    queue.insert("dead_letters".to_owned(), dead_letters(shared, &info).await?);
    Ok(Value::Object(queue))
}

fn depth(shared: &Shared, info: &QueueInfo, metrics: &Metrics) -> Map<String, Value> {
    let mut queue = Map::new();
    let mut put = |name: &str, value: Value| drop(queue.insert(name.to_owned(), value));
    put("name", info.name.as_str().into());
    put("messages", metrics.messages.into());
    put("in_flight", metrics.in_flight.into());
    put("delayed", metrics.delayed.into());
    put("bytes", metrics.bytes.into());
    put("oldest_sent_at", metrics.oldest_sent_at_ms.map(rfc3339).into());
    put("paused", info.settings.paused.into());
    put("functions", functions(shared, &info.name).into());
    let webhooks = shared.app.program.webhooks.iter().filter(|(_, webhook)| webhook.queue == info.name);
    put("webhooks", webhooks.map(|(name, _)| name.as_str()).collect::<Vec<_>>().into());
    put("dead_letter_queue", info.settings.consumer.dead_letter_queue.as_deref().into());
    if shared.triggers.get(&info.name).is_some_and(|declared| declared.consumer == Consumer::Receiving) {
        let receiving = shared.app.route(&info.name).and_then(|route| route.receiving.as_ref());
        put("event", receiving.map(|receiving| receiving.event.as_str()).into());
    }
    queue
}

fn functions<'a>(shared: &'a Shared, queue: &str) -> &'a [String] {
    match shared.triggers.get(queue).map(|declared| &declared.consumer) {
        Some(Consumer::Functions(names)) => names,
        _ => &[],
    }
}

fn trigger_json(name: &str, state: Option<&TriggerState>) -> Value {
    let last_run = state.and_then(|state| state.last_run.as_ref()).map(|run| {
        json!({
            "at": rfc3339(run.at_ms),
            "outcome": match run.outcome {
                RunOutcome::Done => "done",
                RunOutcome::Failed => "failed",
            },
            "error": run.error,
            "message": run.message.map(|id| id.to_string()),
        })
    });
    json!({ "name": name, "enabled": state.is_none_or(|state| state.enabled), "last_run": last_run })
}

async fn dead_letters(shared: &Shared, info: &QueueInfo) -> Result<Value, BrokerError> {
    let Some(dead) = &info.settings.consumer.dead_letter_queue else { return Ok(Value::Null) };
    let metrics = match shared.broker.metrics(dead).await {
        Ok(metrics) => metrics,
        // It is made when it is first needed.
        Err(BrokerError::QueueNotFound(_)) => return Ok(json!({ "queue": dead, "messages": 0, "items": [] })),
        Err(error) => return Err(error),
    };
    let peeked = shared.broker.peek(dead, Peek { max: DEAD_SHOWN, after: None }).await?;
    let items: Vec<Value> = peeked.iter().map(|peeked| dead_letter(&peeked.message)).collect();
    Ok(json!({ "queue": dead, "messages": metrics.messages, "items": items }))
}

fn dead_letter(message: &Message) -> Value {
    let dead = message.dead.as_ref();
    json!({
        "id": message.id.to_string(),
        "sent_at": rfc3339(message.sent_at_ms),
        "died_at": dead.map(|dead| rfc3339(dead.last_at_ms)),
        "attempts": dead.map(|dead| dead.attempts),
        "reason": dead.map(|dead| dead.reason.name()),
        "error": dead.and_then(|dead| dead.error.as_deref()),
        "content_type": message.content.name(),
        "bytes": message.body.len(),
        "preview": String::from_utf8_lossy(&message.body).chars().take(PREVIEW_CHARS).collect::<String>(),
    })
}
