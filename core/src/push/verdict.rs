//! What becomes of a batch's messages, by what its handler recorded.
//!
//! The runtime keeps four things of a batch and merges none: whether all were acknowledged, whether all are to be
//! retried and with which delay, the messages that were acknowledged by themselves, and those that were retried. Their
//! meaning is Cloudflare's (docs: Queues, Batching, Retries and Delays): a message's own call stands before its batch's,
//! what was acknowledged stays so though the handler failed, and a failure retries the rest.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::broker::limits::DELAY_MAX_S;
use crate::broker::{MessageId, Reason, Retry, Settle, Taken};

/// How a handler ends that returned.
const OK: &str = "ok";
/// How one ends that threw, and what is said of it as long as nobody knows what.
const EXCEPTION: &str = "exception";
const THREW: &str = "the handler ended with exception";

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// What the broker is to do.
    pub settle: Settle,
    /// How the handler ended, in the runtime's word; `None` if it was not called, since it could be given nothing.
    pub outcome: Option<String>,
    /// What went wrong, where the handler itself could not say it.
    pub error: Option<String>,
    /// Messages that it could not be given, with the reason. They are retried, or dead.
    pub unreadable: Vec<(MessageId, String)>,
}

/// As the dispatcher answers it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Recorded {
    outcome: Option<String>,
    ack_all: bool,
    retry_batch: RetryBatch,
    explicit_acks: Vec<String>,
    retry_messages: Vec<RetryMessage>,
    unreadable: Vec<Unreadable>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RetryBatch {
    retry: bool,
    delay_seconds: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RetryMessage {
    msg_id: String,
    delay_seconds: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Unreadable {
    msg_id: String,
    error: String,
}

/// As the dispatcher answers how a `scheduled` handler ended.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Occurred {
    outcome: String,
    #[serde(default)]
    no_retry: bool,
}

/// An occurrence as its message says it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Occurrence {
    #[serde(rename = "cron")]
    _cron: String,
    #[serde(rename = "scheduledTime")]
    _scheduled_time: i64,
}

impl Verdict {
    /// Whether the handler returned. That it asked for retries is no failure.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.outcome.as_deref() == Some(OK)
    }

    /// Whether the handler threw, and what is not known of it yet.
    #[must_use]
    pub fn is_unexplained(&self) -> bool {
        self.outcome.as_deref() == Some(EXCEPTION) && self.error.is_none()
    }

    /// The same with what the handler threw: it is the last error of whatever failed by it.
    #[must_use]
    pub fn explained(mut self, thrown: String) -> Self {
        for retry in self.settle.retries.iter_mut().filter(|retry| retry.reason == Reason::Failed) {
            if retry.error.as_deref() == Some(THREW) {
                retry.error = Some(thrown.clone());
            }
        }
        self.error = Some(thrown);
        self
    }
}

/// What becomes of a batch, by what the dispatcher answered.
///
/// # Errors
/// In words, if that is no such answer.
pub fn verdict(answer: &[u8], taken: &[Taken]) -> Result<Verdict, String> {
    let recorded: Recorded = serde_json::from_slice(answer).map_err(|error| format!("its answer: {error}"))?;
    let acks: BTreeSet<&str> = recorded.explicit_acks.iter().map(String::as_str).collect();
    let retries: BTreeMap<&str, Option<i64>> =
        recorded.retry_messages.iter().map(|retry| (retry.msg_id.as_str(), retry.delay_seconds)).collect();
    let unreadable: BTreeMap<&str, &str> =
        recorded.unreadable.iter().map(|one| (one.msg_id.as_str(), one.error.as_str())).collect();
    let ended_well = recorded.outcome.as_deref() == Some(OK);
    let mut verdict = Verdict::default();
    for taken in taken {
        let id = taken.message.id.to_string();
        let (lease, id) = (taken.lease, id.as_str());
        let asked = |delay_s: Option<i64>| Retry {
            lease,
            delay_ms: delay_s.map(delay_ms),
            reason: Reason::Retried,
            error: None,
            progress: None,
        };
        if let Some(why) = unreadable.get(id) {
            verdict.unreadable.push((taken.message.id, (*why).to_owned()));
            let error = format!("no Worker can be given its body: {why}");
            verdict.settle.retries.push(failed(taken, error));
        } else if let Some(delay_s) = retries.get(id) {
            verdict.settle.retries.push(asked(delay_s.or(recorded.retry_batch.of_all())));
        } else if acks.contains(id) {
            verdict.settle.acks.push(lease);
        } else if recorded.retry_batch.retry {
            verdict.settle.retries.push(asked(recorded.retry_batch.delay_seconds));
        } else if recorded.ack_all || ended_well {
            verdict.settle.acks.push(lease);
        } else {
            let outcome = recorded.outcome.as_deref().unwrap_or("unknown");
            verdict.settle.retries.push(failed(taken, format!("the handler ended with {outcome}")));
        }
    }
    verdict.outcome = recorded.outcome;
    Ok(verdict)
}

/// What becomes of a batch whose handler ended without saying anything, by this outcome: every message has failed.
#[must_use]
pub fn ended(outcome: &str, error: &str, taken: &[Taken]) -> Verdict {
    let retries = taken.iter().map(|taken| failed(taken, format!("{outcome}: {error}"))).collect();
    Verdict {
        settle: Settle { retries, ..Settle::default() },
        outcome: Some(outcome.to_owned()),
        error: Some(error.to_owned()),
        unreadable: Vec::new(),
    }
}

/// What becomes of an occurrence, by what the dispatcher answered of its handler. Who fails and says `noRetry()` is not
/// called again.
///
/// # Errors
/// In words, if that is no such answer.
pub fn occurred(answer: &[u8], taken: &[Taken]) -> Result<Verdict, String> {
    let Occurred { outcome, no_retry } =
        serde_json::from_slice(answer).map_err(|error| format!("its answer: {error}"))?;
    let settle = if outcome == OK || no_retry {
        Settle { acks: taken.iter().map(|taken| taken.lease).collect(), ..Settle::default() }
    } else {
        let why = format!("the handler ended with {outcome}");
        Settle { retries: taken.iter().map(|taken| failed(taken, why.clone())).collect(), ..Settle::default() }
    };
    let error = (outcome != OK && no_retry).then(|| "it is not to be tried again, so the handler said".to_owned());
    Ok(Verdict { settle, outcome: Some(outcome), error, unreadable: Vec::new() })
}

/// Whether a message of a queue of crons is an occurrence, as [`Schedules`](crate::schedule::Schedules) write them:
/// anybody can send to that queue.
///
/// # Errors
/// In words, if it is not: what belongs there.
pub fn occurrence(queue: &str, body: &[u8]) -> Result<(), String> {
    let Occurrence { .. } = serde_json::from_slice(body).map_err(|error| {
        format!(
            "the queue `{queue}` is for occurrences of the Worker's crons, such as \
             {{\"cron\": \"*/5 * * * *\", \"scheduledTime\": 1767225600000}}, and this message is none: {error}"
        )
    })?;
    Ok(())
}

/// A batch of messages that no handler can be given now or ever, and why: they are dead at once.
#[must_use]
pub fn foreign(why: &str, taken: &[Taken]) -> Verdict {
    let deaths = taken.iter().map(|taken| failed(taken, why.to_owned())).collect();
    Verdict {
        settle: Settle { deaths, ..Settle::default() },
        unreadable: taken.iter().map(|taken| (taken.message.id, why.to_owned())).collect(),
        ..Verdict::default()
    }
}

/// A batch that reached nobody: its messages can be taken again, and the attempt does not count.
#[must_use]
pub fn released(taken: &[Taken]) -> Settle {
    Settle { releases: taken.iter().map(|taken| taken.lease).collect(), ..Settle::default() }
}

pub(super) fn failed(taken: &Taken, error: String) -> Retry {
    Retry { lease: taken.lease, delay_ms: None, reason: Reason::Failed, error: Some(error), progress: None }
}

impl RetryBatch {
    /// The delay of a message that is retried and names none.
    fn of_all(&self) -> Option<i64> {
        self.delay_seconds.filter(|_| self.retry)
    }
}

/// The runtime passes on any number of 32 bits. What is out of range is the nearest that is not: to refuse it would
/// leave the message to its lease.
fn delay_ms(delay_s: i64) -> u32 {
    u32::try_from(delay_s.clamp(0, DELAY_MAX_S.into())).unwrap_or_default() * 1_000
}
