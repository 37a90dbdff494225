//! Immediate mode: a POST runs its queue's functions before it is answered, as often as they may be tried, with no
//! waiting between. For tests that must not wait.

use futures_util::future::join_all;
use hyper::StatusCode;
use jadpo_core::broker::limits::VISIBILITY_MAX_MS;
use jadpo_core::broker::{
    BrokerError, How, Kept, NewBatch, NewMessage, Once, Reason, Retaken, Retry, Run, RunOutcome, Settle, Taken,
    TakenOnce, queue_trigger,
};
use jadpo_core::trigger::{Conclusion, Consumer, Declared};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::drain::{Attempted, attempt};
use super::places::Place;
use super::reply::{self, Problem, Reply};
use super::{Shared, again};
use crate::host::now_ms;

/// Runs of one queue at a time: a function that posts to its own queue comes back here, and must come to an end.
pub(super) const RUNS_MAX: usize = 32;

/// What becomes of a message whose functions could not be begun: it waits for the drain.
pub(super) const WAITS: &str = "waits";

/// Whether what is sent to a queue is handled before the sender is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inline {
    /// It is.
    Now,
    /// It would be, but it waits, and this is why.
    Waits(&'static str),
    /// It never is.
    No,
}

impl Inline {
    /// Why the message waits, for who is told that it was kept.
    pub(super) fn why(self) -> Option<&'static str> {
        match self {
            Self::Waits(why) => Some(why),
            Self::Now | Self::No => None,
        }
    }
}

const DELAYED: &str = "it is delayed";

/// Whether a message with this delay is handled inline. One that is delayed is not, nor is one that nobody would handle
/// now.
///
/// # Errors
/// [`BrokerError::QueueNotFound`] or [`BrokerError::Store`].
pub(super) async fn takes(shared: &Shared, queue: &str, delay_s: Option<u32>) -> Result<Inline, BrokerError> {
    let has_functions =
        |declared: &Declared| matches!(&declared.consumer, Consumer::Functions(names) if !names.is_empty());
    if !shared.options.immediate || !shared.triggers.get(queue).is_some_and(has_functions) {
        return Ok(Inline::No);
    }
    Ok(match again::with_queue(shared, queue, || why_off(shared, queue)).await? {
        Some(why) => Inline::Waits(why),
        None if delay_s.unwrap_or(0) > 0 => Inline::Waits(DELAYED),
        None => Inline::Now,
    })
}

/// Keeps the message and handles it to its end: done, or dead-lettered. The answer to what is not a repeat has the
/// status `told_by`.
pub(super) async fn run(
    shared: &Shared,
    queue: &str,
    message: NewMessage,
    once: Option<(String, String)>,
    told_by: StatusCode,
) -> Result<Reply, Problem> {
    let (shared, queue, place) = (shared.clone(), queue.to_owned(), place(shared, queue)?);
    // By a task of its own: what was begun ends whether or not its sender waits for the answer.
    let running = tokio::spawn(async move {
        let _place = place;
        match keep(&shared, &queue, message, once).await? {
            TakenOnce::Taken(taken) => {
                let told = to_the_end(&shared, &queue, taken).await?;
                Ok(reply::json(told_by, &told))
            }
            TakenOnce::Repeat(id) => {
                Ok(reply::json(StatusCode::ACCEPTED, &json!({ "id": id.to_string(), "repeat": true })))
            }
        }
    });
    running.await.map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the run failed"))?
}

/// Keeps a batch, all of it or none, and handles each of its messages to its end: as many side by side as the queue's
/// functions are called, in the batch's order. It counts as one run.
pub(super) async fn run_batch(shared: &Shared, queue: &str, batch: NewBatch) -> Result<Reply, Problem> {
    let (shared, queue, place) = (shared.clone(), queue.to_owned(), place(shared, queue)?);
    let running = tokio::spawn(async move {
        let _place = place;
        let declared = declared(&shared, &queue)?;
        let at_once = declared.concurrency.max(1) as usize;
        let (lease_ms, tries) = (declared.lease_ms(), declared.settings.consumer.max_retries + 1);
        // A message may begin when all before it had all their attempts.
        let leases_ms = move |place: usize| {
            let rounds = u32::try_from(place / at_once).unwrap_or(u32::MAX);
            lease_ms.saturating_mul(rounds.saturating_mul(tries).saturating_add(1)).min(VISIBILITY_MAX_MS)
        };
        let kept = shared.broker.send_batch_taken(&queue, batch, leases_ms).await?;
        let slots = Semaphore::new(at_once);
        let is_any_done = kept.iter().any(|kept| matches!(kept, Kept::Taken(_)));
        let told = join_all(kept.into_iter().map(|kept| one_of(&shared, &queue, kept, &slots))).await;
        let ids: Vec<Value> = told.iter().map(|told| told["id"].clone()).collect();
        let status = if is_any_done { StatusCode::OK } else { StatusCode::ACCEPTED };
        Ok(reply::json(status, &json!({ "ids": ids, "messages": told })))
    });
    running.await.map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the run failed"))?
}

/// What becomes of one message of a batch. What the store does not let end is left to its lease, and said.
async fn one_of(shared: &Shared, queue: &str, kept: Kept, slots: &Semaphore) -> Value {
    let taken = match kept {
        Kept::Taken(taken) => taken,
        Kept::Delayed(id) => return json!({ "id": id.to_string(), "waits": DELAYED }),
    };
    let id = taken.message.id;
    let _slot = slots.acquire().await;
    match to_the_end(shared, queue, taken).await {
        Ok(told) => told,
        Err(error) => json!({ "id": id.to_string(), "outcome": "unknown", "error": error.to_string() }),
    }
}

fn place(shared: &Shared, queue: &str) -> Result<Place, BrokerError> {
    let why = || format!("{RUNS_MAX} messages of the queue `{queue}` are handled inline already");
    shared.inline.take(queue).ok_or_else(|| BrokerError::Overloaded(why()))
}

async fn keep(
    shared: &Shared,
    queue: &str,
    message: NewMessage,
    once: Option<(String, String)>,
) -> Result<TakenOnce, BrokerError> {
    let lease_ms = lease_ms(shared, queue)?;
    match &once {
        Some((scope, key)) => shared.broker.send_once_taken(queue, Once { scope, key }, message, lease_ms).await,
        None => shared.broker.send_taken(queue, message, lease_ms).await.map(TakenOnce::Taken),
    }
}

fn lease_ms(shared: &Shared, queue: &str) -> Result<u32, BrokerError> {
    Ok(declared(shared, queue)?.lease_ms())
}

fn declared<'a>(shared: &'a Shared, queue: &str) -> Result<&'a Declared, BrokerError> {
    shared.triggers.get(queue).ok_or_else(|| BrokerError::QueueNotFound(queue.to_owned()))
}

/// Why nothing of the queue is handled now, if it is not: messages wait.
async fn why_off(shared: &Shared, queue: &str) -> Result<Option<&'static str>, BrokerError> {
    let (info, triggers) = tokio::try_join!(shared.broker.info(queue), shared.broker.triggers())?;
    let is_enabled = triggers.get(&queue_trigger(queue)).is_none_or(|state| state.enabled);
    Ok(match (info.settings.paused, is_enabled) {
        (true, _) => Some("the queue is paused"),
        (false, false) => Some("the trigger is disabled"),
        (false, true) => None,
    })
}

/// Tries a message that was taken as often as it may be, at once. How each attempt went, and what became of it.
pub(super) async fn to_the_end(shared: &Shared, queue: &str, mut taken: Taken) -> Result<Value, BrokerError> {
    let lease_ms = lease_ms(shared, queue)?;
    let id = taken.message.id;
    let mut attempts = Vec::new();
    let outcome = loop {
        let Taken { lease, message } = &taken;
        let lease = *lease;
        let attempted = attempt(shared, queue, message).await;
        attempts.push(json!({ "attempt": message.attempts, "functions": functions(&attempted) }));
        let mut run = Run { at_ms: now_ms(), outcome: RunOutcome::Done, error: None, message: Some(id) };
        let next = match attempted.conclusion {
            Conclusion::Done => {
                let settle = Settle { acks: vec![lease], ..Settle::default() };
                shared.own.settle(queue, settle).await?;
                Err("done")
            }
            Conclusion::Again { progress, error } => {
                (run.outcome, run.error) = (RunOutcome::Failed, Some(error.clone()));
                let retry = Retry { lease, delay_ms: None, reason: Reason::Failed, error: Some(error), progress };
                match shared.own.retry_taken(queue, retry, lease_ms).await? {
                    Retaken::Taken(again) => Ok(again),
                    Retaken::Gone(gone) if matches!(gone.how, How::DeadLettered(_)) => Err("dead_lettered"),
                    Retaken::Gone(_) => Err("dropped"),
                    Retaken::Lost(_) => Err("lost"),
                }
            }
            Conclusion::NotStarted { progress, .. } => {
                let progress = progress.map(|progress| (lease, progress)).into_iter().collect();
                let settle = Settle { releases: vec![lease], progress, ..Settle::default() };
                shared.own.settle(queue, settle).await?;
                break WAITS;
            }
        };
        shared.own.record_runs(vec![(queue_trigger(queue), run)]).await?;
        match next {
            Ok(again) => taken = again,
            Err(outcome) => break outcome,
        }
    };
    Ok(json!({ "id": id.to_string(), "outcome": outcome, "attempts": attempts }))
}

fn functions(attempted: &Attempted) -> Vec<Value> {
    let function = |called: &super::recent::Called| {
        let mut object = Map::new();
        object.insert("function".to_owned(), called.function.as_str().into());
        object.extend(called.fields().into_iter().map(|(name, value)| (name.to_owned(), value)));
        object.insert("ms".to_owned(), called.ms.into());
        Value::Object(object)
    };
    attempted.calls.iter().map(function).collect()
}
