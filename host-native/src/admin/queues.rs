//! Queues: listed, made, paused, emptied, deleted.

use std::collections::BTreeMap;

use jadpo_core::admin::queues::{
    Consumer, Emptied, NewQueue, QUEUES_LIMIT_MAX, Queue, QueueSettings, Queues, ServedWorker, consumers,
};
use jadpo_core::admin::{ProblemDetail, Response};
use jadpo_core::broker::{BrokerError, ConsumerKind, Metrics, QueueInfo};
use jadpo_core::trigger::Triggers;

use super::{Call, Refusal, done, invalid, nearest, tokens};

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
    let mut names: Vec<&str> = all.queues.keys().map(String::as_str).filter(|name| *name > after.as_str()).collect();
    let more = names.len() > limit;
    names.truncate(limit);
    let next = names.last().filter(|_| more).map(|last| (*last).to_owned());
    done(&Queues { queues: all.queues(call, &names).await?, next })
}

/// One queue.
pub(super) async fn show(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    done(&one(call, name).await?)
}

/// Makes a queue.
pub(super) async fn create(call: &Call<'_>) -> Result<Response, Refusal> {
    let new: NewQueue = call.body("a queue to be made, as {\"name\": \"jobs\"}")?;
    if new.http_pull {
        tokens::not_handled(call, &new.name)?;
    }
    make(call, &new).await?;
    if new.http_pull {
        call.broker.let_pull(&new.name).await?;
    }
    Ok(Response::json(201, &one(call, &new.name).await?))
}

/// Makes a queue: as the app declares it, if it does. Any other would drop the messages that fail, or try them
/// otherwise than the app says, until a server starts.
async fn make(call: &Call<'_>, new: &NewQueue) -> Result<(), Refusal> {
    let triggers = Triggers::of(&call.app.program);
    let settings = match (triggers.get(&new.name), triggers.dying_into(&new.name)) {
        (Some(declared), _) => {
            let settings = new.settings_as_declared(declared.settings.clone());
            crate::server::dead_letters(call.broker, declared).await?;
            settings.map_err(|what| declared_otherwise(&new.name, what))?
        }
        (None, Some(dying)) => new.settings_over(dying.dead_letters().1),
        (None, None) => new.settings(),
    };
    match call.broker.create(&new.name, settings).await {
        Err(error @ BrokerError::QueueExists(_)) => {
            let mut refusal = Refusal::from(error);
            if is_declared(call, &new.name) {
                refusal.detail.help =
                    Some("the app declares it, so whatever runs the app makes it: nothing is to be done".to_owned());
            }
            Err(refusal)
        }
        made => Ok(made.map(drop)?),
    }
}

fn declared_otherwise(name: &str, what: &str) -> Refusal {
    let message = format!("the app declares the queue `{name}` with another {what}");
    let help = "leave that out, and it is made as declared; to have it otherwise, change the app file".to_owned();
    let detail = ProblemDetail { help: Some(help), ..ProblemDetail::new("queue_declared", message) };
    Refusal { status: 409, detail }
}

/// Whether the app declares the queue, or the queue whose dead letters it takes.
fn is_declared(call: &Call<'_>, name: &str) -> bool {
    let triggers = Triggers::of(&call.app.program);
    triggers.get(name).or_else(|| triggers.dying_into(name)).is_some()
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

/// Deletes a queue. One that the app declares comes back, which the answer says, and so does one that a Worker sends to
/// that runs here. One that such a Worker consumes is not deleted: it would be there again before anybody looked.
pub(super) async fn delete(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    let workers = call.broker.served_workers().await?;
    if let Some(worker) = ServedWorker::consuming(&workers, name) {
        let detail = ProblemDetail::new("queue_consumed", worker.says_who_consumes(name));
        return Err(Refusal { status: 409, detail });
    }
    let emptied = Emptied::from(meant(call, name, call.broker.delete(name).await).await?);
    let worker = ServedWorker::producing(&workers, name).next().map(|worker| worker.name.clone());
    done(&Emptied { declared: is_declared(call, name), worker, ..emptied })
}

pub(super) async fn one(call: &Call<'_>, name: &str) -> Result<Queue, Refusal> {
    let all = Known::read(call).await?;
    let queue = all.queues(call, &[name]).await?.pop();
    queue.ok_or_else(|| unknown(name, all.queues.keys().map(String::as_str)))
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
        let mut consumers = consumers(&call.app.program, &call.broker.triggers().await?);
        let workers = call.broker.served_workers().await?;
        for (name, consumer) in call.broker.consumers().await? {
            let worker = match consumer.kind {
                ConsumerKind::HttpPull => None,
                ConsumerKind::Worker { script, .. } => Some(script),
            };
            let (http_pull, functions, event, enabled) = (worker.is_none(), Vec::new(), None, true);
            let worker_runs = worker.as_ref().map(|script| workers.iter().any(|worker| worker.name == *script));
            consumers.insert(name, Consumer { functions, event, http_pull, worker, worker_runs, enabled });
        }
        Ok(Self { queues, dead_letters_of, consumers })
    }

    /// The queues of these names with their figures. One that is not there, or no longer, is left out.
    async fn queues(&self, call: &Call<'_>, names: &[&str]) -> Result<Vec<Queue>, BrokerError> {
        let infos: Vec<&QueueInfo> = names.iter().filter_map(|name| self.queues.get(*name)).collect();
        let dead = infos.iter().filter_map(|info| info.settings.consumer.dead_letter_queue.clone());
        let mut asked: Vec<String> = infos.iter().map(|info| info.name.clone()).chain(dead).collect();
        asked.sort_unstable();
        asked.dedup();
        let metrics = call.broker.metrics_of(&asked).await?;
        Ok(infos.into_iter().filter_map(|info| self.queue(info, &metrics)).collect())
    }

    fn queue(&self, info: &QueueInfo, all: &BTreeMap<String, Metrics>) -> Option<Queue> {
        let metrics = all.get(&info.name)?;
        let dead_letter_queue = info.settings.consumer.dead_letter_queue.clone();
        let dead_letters = dead_letter_queue.as_ref().and_then(|dead| all.get(dead));
        Some(Queue {
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
            dead_letters: dead_letters.map_or(0, |dead| dead.messages),
            dead_letter_queue,
            dead_letters_of: self.dead_letters_of.get(&info.name).cloned().unwrap_or_default(),
            consumer: self.consumers.get(&info.name).cloned(),
            settings: QueueSettings::from(&info.settings),
        })
    }
}
