//! One attempt of one message: all its functions side by side, and what that makes of the message.

use futures_util::future::join_all;
use jadpo_core::broker::Message;
use jadpo_core::host::Level;
use jadpo_core::trigger::{Conclusion, FunctionOutcome, conclude};
use tokio::time::Instant;

use super::super::Shared;
use super::super::recent::Called;
use crate::host::now_ms;

/// What came of an attempt.
#[derive(Debug)]
pub(in crate::server) struct Attempted {
    /// The calls that were made, in the functions' order.
    pub(in crate::server) calls: Vec<Called>,
    /// What becomes of the message.
    pub(in crate::server) conclusion: Conclusion,
}

/// Calls every function that is not done with the message.
pub(in crate::server) async fn attempt(shared: &Shared, queue: &str, message: &Message) -> Attempted {
    let calls = shared.triggers.calls(queue, message);
    let calls = join_all(calls.into_iter().map(|call| async {
        let (at_ms, started, function) = (now_ms(), Instant::now(), call.function.clone());
        let outcome = shared.functions.call(call).await;
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let called =
            Called { at_ms, message: message.id.to_string(), attempt: message.attempts, function, outcome, ms };
        tell(shared, queue, &called);
        shared.recent.add(queue, called.clone());
        called
    }))
    .await;
    let outcomes: Vec<_> = calls.iter().map(|called| (called.function.clone(), called.outcome.clone())).collect();
    let conclusion = conclude(message, &outcomes);
    Attempted { calls, conclusion }
}

/// A line for each call where a person watches; where only failures matter, one for each of these.
fn tell(shared: &Shared, queue: &str, called: &Called) {
    let is_done = called.outcome.is_done();
    if is_done && !shared.options.tells_every_call {
        return;
    }
    let mut fields = vec![
        ("queue", queue.into()),
        ("message", called.message.as_str().into()),
        ("function", called.function.as_str().into()),
        ("attempt", called.attempt.into()),
    ];
    fields.extend(called.fields().into_iter().filter(|(name, _)| *name != "outcome"));
    fields.push(("ms", called.ms.into()));
    let (level, event) = match &called.outcome {
        _ if is_done => (Level::Info, "function.done"),
        FunctionOutcome::NotStarted(_) => (Level::Error, "function.not_started"),
        _ => (Level::Warn, "function.failed"),
    };
    shared.log(level, event, fields);
}
