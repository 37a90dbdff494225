//! Immediate mode: a POST runs its queue's functions before it is answered, as often as they may be tried, with no
//! waiting between. For tests that must not wait.

use hyper::StatusCode;
use jadpo_core::broker::{
    BrokerError, How, NewMessage, Once, Reason, Retaken, Retry, Run, RunOutcome, Settle, Taken, TakenOnce,
    queue_trigger,
};
use jadpo_core::trigger::{Conclusion, Consumer, Declared};
use serde_json::{Map, Value, json};

use super::Shared;
use super::drain::{Attempted, attempt};
use super::reply::{self, Problem, Reply};
use crate::host::now_ms;

/// Runs of one queue at a time: a function that posts to its own queue comes back here, and must come to an end.
pub(super) const RUNS_MAX: usize = 32;

/// Whether this message is handled inline. One that is delayed is not, nor is one that nobody would handle now.
///
/// # Errors
/// [`BrokerError::QueueNotFound`] or [`BrokerError::Store`].
pub(super) async fn takes(shared: &Shared, queue: &str, message: &NewMessage) -> Result<bool, BrokerError> {
    let has_functions =
        |declared: &Declared| matches!(&declared.consumer, Consumer::Functions(names) if !names.is_empty());
    Ok(shared.options.immediate
        && message.delay_s.unwrap_or(0) == 0
        && shared.triggers.get(queue).is_some_and(has_functions)
        && !is_off(shared, queue).await?)
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
    let Some(place) = shared.inline.take(queue) else {
        let why = format!("{RUNS_MAX} messages of the queue `{queue}` are handled inline already");
        return Err(BrokerError::Overloaded(why).into());
    };
    let (shared, queue) = (shared.clone(), queue.to_owned());
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
    let declared = shared.triggers.get(queue).ok_or_else(|| BrokerError::QueueNotFound(queue.to_owned()))?;
    Ok(declared.lease_ms())
}

/// Whether the queue is paused or its trigger is disabled: then messages wait.
async fn is_off(shared: &Shared, queue: &str) -> Result<bool, BrokerError> {
    let (info, triggers) = tokio::try_join!(shared.broker.info(queue), shared.broker.triggers())?;
    Ok(info.settings.paused || triggers.get(&queue_trigger(queue)).is_some_and(|state| !state.enabled))
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
                shared.broker.settle(queue, settle).await?;
                Err("done")
            }
            Conclusion::Again { progress, error } => {
                (run.outcome, run.error) = (RunOutcome::Failed, Some(error.clone()));
                let retry = Retry { lease, delay_ms: None, reason: Reason::Failed, error: Some(error), progress };
                match shared.broker.retry_taken(queue, retry, lease_ms).await? {
                    Retaken::Taken(again) => Ok(again),
                    Retaken::Gone(gone) if matches!(gone.how, How::DeadLettered(_)) => Err("dead_lettered"),
                    Retaken::Gone(_) => Err("dropped"),
                    Retaken::Lost(_) => Err("lost"),
                }
            }
        };
        shared.broker.record_runs(vec![(queue_trigger(queue), run)]).await?;
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
