//! Requests about a queue's consumers, of which there is at most one: a record in the store, or what the app that runs
//! here does with the queue's messages.

use serde_json::{Value, json};

use super::answer::Done;
use super::refusal::{Refusal, code};
use super::run::{Place, Stop};
use super::settings::ConsumerBody;
use crate::admin::queues::ServedWorker;
use crate::broker::{BrokerError, Consumer, ConsumerKind, QueueInfo, Settings};
use crate::inbound::rfc3339;

/// Refuses to pull from a queue that is not for that.
pub(super) fn is_pulled(name: &str, place: &Place<'_>) -> Result<(), Stop> {
    let why = match (place.broker.consumer(name)?, place.rules.handled_by(name)) {
        (Some(Consumer { kind: ConsumerKind::HttpPull, .. }), _) => return Ok(()),
        (Some(other), _) => format!("its consumer is {}", other.kind.in_words()),
        (None, Some(handled)) => format!("its messages go to {handled}"),
        (None, None) => format!(
            "it has no consumer; add one with `jadpo queues pull {name}` or `wrangler queues consumer http add {name}`"
        ),
    };
    // The words before the colon are those that Cloudflare's clients look for.
    let message = format!("messages cannot be pulled unless http_pull mode is enabled: the queue `{name}`: {why}");
    Err(Refusal::new(400, code::NONE, message).into())
}

pub(super) fn list(name: &str, place: &Place<'_>) -> Result<Done, Stop> {
    let consumers = all(name, place)?;
    let count = consumers.len();
    Ok(Done::whole_list(consumers, count))
}

pub(super) fn show(id: &str, name: &str, place: &Place<'_>) -> Result<Done, Stop> {
    let all = all(name, place)?;
    let found = all.into_iter().find(|consumer| consumer["consumer_id"] == id);
    Ok(Done::Value(found.ok_or_else(|| not_found(name))?))
}

pub(super) fn add(body: &ConsumerBody, id: Option<&str>, name: &str, place: &mut Place<'_>) -> Result<Done, Stop> {
    if let Some(present) = place.rules.handled_by(name) {
        let queue = name.to_owned();
        return Err(BrokerError::ConsumerExists { queue, present, wanted: body.kind.in_words() }.into());
    }
    if let ConsumerKind::Worker { script, .. } = &body.kind
        && let Some(worker) = place.workers()?.iter().find(|worker| worker.name == *script)
    {
        return Err(Refusal::new(409, code::NONE, worker.says_what_it_consumes(name)).into());
    }
    let settings = body.over(&place.broker.info(name)?.settings.consumer);
    place.broker.add_consumer(place.sql, place.moment, name, body.kind.clone(), settings, id)?;
    of_record(name, place)
}

/// Replaces a consumer's settings, or adds the consumer under this id, as Cloudflare does.
pub(super) fn put(id: &str, body: &ConsumerBody, name: &str, place: &mut Place<'_>) -> Result<Done, Stop> {
    let present = place.broker.consumer(name)?.cloned();
    match present {
        Some(present) if present.id == id && is_same(&present.kind, &body.kind) => {
            let queue = place.broker.info(name)?.settings.clone();
            let settings = Settings { consumer: body.in_place(), ..queue };
            place.broker.update(place.sql, place.moment, name, settings)?;
            of_record(name, place)
        }
        Some(present) if present.id == id => {
            let (present, wanted) = (present.kind.in_words(), body.kind.in_words());
            Err(BrokerError::ConsumerExists { queue: name.to_owned(), present, wanted }.into())
        }
        _ => add(body, Some(id), name, place),
    }
}

/// A Worker of the same name is the same, whatever its environment.
fn is_same(one: &ConsumerKind, other: &ConsumerKind) -> bool {
    match (one, other) {
        (ConsumerKind::HttpPull, ConsumerKind::HttpPull) => true,
        (ConsumerKind::Worker { script, .. }, ConsumerKind::Worker { script: other, .. }) => script == other,
        _ => false,
    }
}

pub(super) fn remove(id: &str, name: &str, place: &mut Place<'_>) -> Result<Done, Stop> {
    let workers = place.workers()?;
    match place.broker.consumer(name)? {
        Some(consumer) if consumer.id == id => {
            if let Some(worker) = ServedWorker::consuming(&workers, name) {
                return Err(Refusal::new(409, code::NONE, worker.says_who_consumes(name)).into());
            }
            place.broker.remove_consumer(place.sql, place.moment, name)?;
            Ok(Done::Nothing)
        }
        None if place.rules.handled_by(name).is_some() && place.broker.info(name)?.id == id => {
            let message = format!("the app that runs here says what consumes the queue `{name}`; change it there");
            Err(Refusal::new(409, code::NONE, message).into())
        }
        _ => Err(not_found(name).into()),
    }
}

fn not_found(name: &str) -> Refusal {
    BrokerError::ConsumerNotFound { queue: name.to_owned() }.into()
}

fn of_record(name: &str, place: &Place<'_>) -> Result<Done, Stop> {
    let info = place.broker.info(name)?;
    let consumer = place.broker.consumer(name)?.ok_or_else(|| not_found(name))?;
    Ok(Done::Value(as_json(info, consumer)))
}

/// A queue's consumers, as they are answered.
pub(super) fn all(name: &str, place: &Place<'_>) -> Result<Vec<Value>, BrokerError> {
    let info = place.broker.info(name)?;
    Ok(match (place.broker.consumer(name)?, place.rules.script_of(name)) {
        (Some(consumer), _) => vec![as_json(info, consumer)],
        (None, Some(script)) => {
            // To a client this is a Worker; its id is the queue's, since it has no record of its own.
            let kind = ConsumerKind::Worker { script, environment: None };
            vec![as_json(info, &Consumer { id: info.id.clone(), kind, created_at_ms: info.created_at_ms })]
        }
        (None, None) => Vec::new(),
    })
}

/// A Worker's name goes by both names that clients look for.
fn as_json(info: &QueueInfo, consumer: &Consumer) -> Value {
    let set = &info.settings.consumer;
    let mut value = json!({
        "consumer_id": consumer.id,
        "created_on": rfc3339(consumer.created_at_ms),
        "queue_name": info.name,
        "queue_id": info.id,
        "dead_letter_queue": set.dead_letter_queue.as_deref().unwrap_or_default(),
    });
    let Some(fields) = value.as_object_mut() else { return value };
    let mut add = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    match &consumer.kind {
        ConsumerKind::HttpPull => {
            add("type", "http_pull".into());
            let settings = json!({
                "batch_size": set.batch_size,
                "max_retries": set.max_retries,
                "retry_delay": set.retry_delay_s,
                "visibility_timeout_ms": set.visibility_ms,
            });
            add("settings", settings);
        }
        ConsumerKind::Worker { script, environment } => {
            add("type", "worker".into());
            add("script", script.as_str().into());
            add("script_name", script.as_str().into());
            if let Some(environment) = environment {
                add("environment", environment.as_str().into());
            }
            let settings = json!({
                "batch_size": set.batch_size,
                "max_concurrency": set.max_concurrency,
                "max_retries": set.max_retries,
                "max_wait_time_ms": set.batch_wait_ms,
                "retry_delay": set.retry_delay_s,
            });
            add("settings", settings);
        }
    }
    value
}
