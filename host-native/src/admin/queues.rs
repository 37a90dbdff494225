//! Queues: listed, made, paused, emptied, deleted.

use std::collections::BTreeMap;

use jadpo_core::admin::Response;
use jadpo_core::admin::queues::{
    Consumer, Emptied, NewQueue, QUEUES_LIMIT_MAX, Queue, QueueSettings, Queues, consumers,
};
use jadpo_core::broker::{BrokerError, QueueInfo};

use super::{Call, Refusal, done, invalid, nearest};

/// A page of queues with their figures.
pub(super) async fn list(call: &Call<'_>) -> Result<Response, Refusal> {
    let (mut limit, mut after) = (QUEUES_LIMIT_MAX, String::new());
    for (name, value) in call.query(&["limit", "after"])? {
        if name == "after" {
            after = value;
        } else {
            let number = value.parse().ok().filter(|limit| (1..=QUEUES_LIMIT_MAX).contains(limit));
            limit = number.ok_or_else(|| invalid(format!("limit: a number from 1 to {QUEUES_LIMIT_MAX}")))?;
        }
    }
    let all = Known::read(call).await?;
    let mut page = Queues::default();
    for info in all.queues.values().filter(|info| info.name > after) {
        if page.queues.len() == limit {
            page.next = page.queues.last().map(|last| last.name.clone());
            break;
        }
        // A queue that was deleted since is no longer there to be listed.
        match all.queue(call, info).await {
            Ok(queue) => page.queues.push(queue),
            Err(BrokerError::QueueNotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    done(&page)
}

/// One queue.
pub(super) async fn show(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    done(&one(call, name).await?)
}

/// Makes a queue.
pub(super) async fn create(call: &Call<'_>) -> Result<Response, Refusal> {
    let new: NewQueue = call.body("a queue to be made, as {\"name\": \"jobs\"}")?;
    call.broker.create(&new.name, new.settings()).await?;
    Ok(Response::json(201, &one(call, &new.name).await?))
}

/// Pauses a queue or lets it go on.
pub(super) async fn pause(call: &Call<'_>, name: &str, paused: bool) -> Result<Response, Refusal> {
    meant(call, name, call.broker.pause(name, paused).await).await?;
    show(call, name).await
}

/// Empties a queue.
pub(super) async fn purge(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    done(&Emptied::from(meant(call, name, call.broker.purge(name).await).await?))
}

/// Deletes a queue.
pub(super) async fn delete(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    done(&Emptied::from(meant(call, name, call.broker.delete(name).await).await?))
}

pub(super) async fn one(call: &Call<'_>, name: &str) -> Result<Queue, Refusal> {
    let all = Known::read(call).await?;
    match all.queues.get(name) {
        Some(info) => Ok(all.queue(call, info).await?),
        None => Err(unknown(name, all.queues.keys().map(String::as_str))),
    }
}

/// An answer of the broker's; if it knows no such queue, with the name that was probably meant.
pub(super) async fn meant<T>(call: &Call<'_>, name: &str, answer: Result<T, BrokerError>) -> Result<T, Refusal> {
    match answer {
        Err(BrokerError::QueueNotFound(unknown_name)) if unknown_name == name => {
            let queues = call.broker.list().await?;
            Err(unknown(name, queues.iter().map(|queue| queue.name.as_str())))
        }
        answer => Ok(answer?),
    }
}

fn unknown<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Refusal {
    // A name that is too long to be one is not repeated whole.
    let name: String = name.chars().take(64).collect();
    let mut refusal = Refusal::from(BrokerError::QueueNotFound(name.clone()));
    match nearest(&name, names) {
        Some(other) => refusal.detail.message.push_str(&format!("; did you mean `{other}`?")),
        None => refusal.detail.help = Some("`jadpo queues list` shows those that there are".to_owned()),
    }
    refusal
}

/// All queues, and which of them take whose dead letters.
struct Known {
    queues: BTreeMap<String, QueueInfo>,
    dead_letters_of: BTreeMap<String, Vec<String>>,
    consumers: BTreeMap<String, Consumer>,
}

impl Known {
    async fn read(call: &Call<'_>) -> Result<Self, BrokerError> {
        let queues: BTreeMap<String, QueueInfo> =
            call.broker.list().await?.into_iter().map(|info| (info.name.clone(), info)).collect();
        let mut dead_letters_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, info) in &queues {
            if let Some(dead) = &info.settings.consumer.dead_letter_queue {
                dead_letters_of.entry(dead.clone()).or_default().push(name.clone());
            }
        }
        let consumers = consumers(&call.app.program, &call.broker.triggers().await?);
        Ok(Self { queues, dead_letters_of, consumers })
    }

    async fn queue(&self, call: &Call<'_>, info: &QueueInfo) -> Result<Queue, BrokerError> {
        let metrics = call.broker.metrics(&info.name).await?;
        let dead_letter_queue = info.settings.consumer.dead_letter_queue.clone();
        let dead_letters = match dead_letter_queue.as_ref().filter(|dead| self.queues.contains_key(*dead)) {
            Some(dead) => call.broker.metrics(dead).await?.messages,
            None => 0,
        };
        Ok(Queue {
            name: info.name.clone(),
            id: info.id.clone(),
            created_at_ms: info.created_at_ms,
            modified_at_ms: info.modified_at_ms,
            messages: metrics.messages,
            in_flight: metrics.in_flight,
            delayed: metrics.delayed,
            bytes: metrics.bytes,
            oldest_sent_at_ms: metrics.oldest_sent_at_ms,
            paused: info.settings.paused,
            dead_letter_queue,
            dead_letters,
            dead_letters_of: self.dead_letters_of.get(&info.name).cloned().unwrap_or_default(),
            consumer: self.consumers.get(&info.name).cloned(),
            settings: QueueSettings::from(&info.settings),
        })
    }
}
