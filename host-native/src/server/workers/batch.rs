//! One batch, handed to a Worker's handler, and what came of it.

use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use jadpo_core::broker::{MessageId, Metrics, Taken};
use jadpo_core::host::Level;
use jadpo_core::push::{
    Consumed, Handler, Verdict, WALL_LIMIT_MS, ended, foreign, frame, occurred, occurrence, verdict,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::Shared;
use super::settle::{Ended, Line};
use crate::workerd::{CallError, Workerd};

/// How long an invocation may take.
const LIMIT: Duration = Duration::from_millis(WALL_LIMIT_MS as u64);

/// How a batch ended.
#[derive(Debug)]
pub(super) enum Way {
    /// Its handler returned.
    Well,
    /// It did not, or could not be called for what the batch holds.
    Failed,
    /// There is no answer, and the messages are still to be settled.
    Unanswered(Vec<Taken>, Why),
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Why {
    /// No handler was reached.
    ReachedNobody(String),
    /// We ended workerd: its code was changed, or the server ends.
    CalledOff(String),
    /// workerd ended.
    CutOff { outcome: &'static str, error: String, in_company: bool },
}

/// How we call what we ended ourselves.
pub(super) const CANCELED: &str = "canceled";
/// How we call a call that took too long: the handler alone is to blame, and workerd goes on.
const TOO_LONG: &str = "exceededWallTime";

/// Hands a batch over, and what its handler said to the settler.
pub(super) async fn hand(
    shared: &Shared,
    workerd: &Workerd,
    consumed: &Consumed,
    mut taken: Vec<Taken>,
    beside: &Metrics,
    settler: &mpsc::Sender<Ended>,
) -> Way {
    let started = Instant::now();
    let asked = asked(consumed, &mut taken, beside);
    // They are in the frame, and once is enough.
    taken.iter_mut().for_each(|taken| taken.message.body = Vec::new());
    let verdict = match asked {
        Ok((path, body)) => call(workerd, consumed, &path, body, &taken).await,
        Err(why) => Ok(foreign(&why, &taken)),
    };
    let mut verdict = match verdict {
        Ok(verdict) => verdict,
        Err(why) => return Way::Unanswered(taken, why),
    };
    if verdict.is_unexplained() {
        let queue = (consumed.handler == Handler::Queue).then_some(consumed.queue.as_str());
        if let Some(thrown) = workerd.thrown(&consumed.worker, queue, started).await {
            verdict = verdict.explained(thrown);
        }
    }
    let way = if verdict.is_well() { Way::Well } else { Way::Failed };
    for (id, error) in &verdict.unreadable {
        let fields = vec![
            ("worker", consumed.worker.as_str().into()),
            ("queue", consumed.queue.as_str().into()),
            ("message", id.to_string().into()),
            ("error", error.as_str().into()),
        ];
        shared.log(Level::Error, "worker.unreadable", fields);
    }
    // The settler outlives whoever sends to it.
    let _ = settler.send(settled(consumed, verdict, &ids(&taken), started)).await;
    way
}

/// What the dispatcher is asked, and with what; why not, if no handler is to see what the batch holds.
fn asked(consumed: &Consumed, taken: &mut [Taken], beside: &Metrics) -> Result<(String, Vec<u8>), String> {
    let worker = utf8_percent_encode(&consumed.worker, NON_ALPHANUMERIC);
    match consumed.handler {
        Handler::Queue => Ok((format!("/queue?worker={worker}"), frame(&consumed.queue, taken, beside))),
        // A batch of one, as its consumer is set.
        Handler::Scheduled => {
            let body = taken.first_mut().map(|taken| std::mem::take(&mut taken.message.body)).unwrap_or_default();
            occurrence(&consumed.queue, &body)?;
            Ok((format!("/scheduled?worker={worker}"), body))
        }
    }
}

/// Calls the handler, and gives what becomes of the batch by its answer.
async fn call(
    workerd: &Workerd,
    consumed: &Consumed,
    path: &str,
    body: Vec<u8>,
    taken: &[Taken],
) -> Result<Verdict, Why> {
    match workerd.dispatch(path, Bytes::from(body), LIMIT).await {
        Ok((StatusCode::OK, answer)) => Ok(read(consumed, &answer, taken)),
        Ok((status, text)) => {
            let text = String::from_utf8_lossy(&text);
            Ok(ended("internalError", &format!("the dispatcher answered {status}: {text}"), taken))
        }
        Err(CallError::Broken { outcome: TOO_LONG, error, .. }) => Ok(ended(TOO_LONG, &error, taken)),
        Err(CallError::Broken { outcome: CANCELED, error, .. }) => Err(Why::CalledOff(error)),
        Err(CallError::Broken { outcome, error, in_company }) => Err(Why::CutOff { outcome, error, in_company }),
        Err(CallError::NotStarted(error)) => Err(Why::ReachedNobody(error)),
    }
}

/// What the settler is to do of a batch that began then, and to say.
pub(super) fn settled(consumed: &Consumed, verdict: Verdict, ids: &[MessageId], started: Instant) -> Ended {
    let line = Line {
        worker: consumed.worker.clone(),
        handler: consumed.handler,
        ids: ids.to_vec(),
        outcome: verdict.outcome.unwrap_or_else(|| "notCalled".to_owned()),
        error: verdict.error,
        ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    Ended { queue: consumed.queue.clone(), settle: verdict.settle, line: Some(line), until_settled: None }
}

pub(super) fn ids(taken: &[Taken]) -> Vec<MessageId> {
    taken.iter().map(|taken| taken.message.id).collect()
}

fn read(consumed: &Consumed, answer: &[u8], taken: &[Taken]) -> Verdict {
    let read = match consumed.handler {
        Handler::Queue => verdict(answer, taken),
        Handler::Scheduled => occurred(answer, taken),
    };
    read.unwrap_or_else(|error| ended("internalError", &error, taken))
}
