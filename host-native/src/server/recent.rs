//! The last calls of each queue's functions, for whoever looks. They live as long as the process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use jadpo_core::trigger::FunctionOutcome;
use serde_json::{Map, Value};

use crate::log::rfc3339;

/// Calls remembered of one queue.
const KEPT_MAX: usize = 50;

/// A call of one function for one message.
#[derive(Debug, Clone)]
pub(super) struct Called {
    /// When it began, in milliseconds since 1970.
    pub(super) at_ms: i64,
    /// The message's id.
    pub(super) message: String,
    /// Which attempt of the message it belonged to.
    pub(super) attempt: u32,
    /// The function.
    pub(super) function: String,
    /// How it ended.
    pub(super) outcome: FunctionOutcome,
    /// How long it took.
    pub(super) ms: u64,
}

impl Called {
    /// How it ended, by fields: `outcome`, and `status` or `exit` and `error` where there is one.
    pub(super) fn fields(&self) -> Vec<(&'static str, Value)> {
        let outcome = match &self.outcome {
            outcome if outcome.is_done() => "done",
            FunctionOutcome::NotStarted(_) => "not_started",
            _ => "failed",
        };
        let mut fields = vec![("outcome", outcome.into())];
        match &self.outcome {
            FunctionOutcome::Answered { status } => fields.push(("status", (*status).into())),
            FunctionOutcome::Exited { code: Some(code), .. } => fields.push(("exit", (*code).into())),
            _ => {}
        }
        if let Some(error) = self.outcome.error() {
            fields.push(("error", error.into()));
        }
        fields
    }

    fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("at".to_owned(), rfc3339(self.at_ms).into());
        object.insert("message".to_owned(), self.message.as_str().into());
        object.insert("attempt".to_owned(), self.attempt.into());
        object.insert("function".to_owned(), self.function.as_str().into());
        object.extend(self.fields().into_iter().map(|(name, value)| (name.to_owned(), value)));
        object.insert("ms".to_owned(), self.ms.into());
        Value::Object(object)
    }
}

/// The last calls of every queue.
#[derive(Debug, Default)]
pub(super) struct Recent {
    queues: Mutex<BTreeMap<String, VecDeque<Called>>>,
}

impl Recent {
    /// Remembers a call, and forgets the oldest past [`KEPT_MAX`].
    pub(super) fn add(&self, queue: &str, called: Called) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = match queues.get_mut(queue) {
            Some(calls) => calls,
            None => queues.entry(queue.to_owned()).or_default(),
        };
        calls.truncate(KEPT_MAX - 1);
        calls.push_front(called);
    }

    /// The calls of a queue, the last one first.
    pub(super) fn of(&self, queue: &str) -> Vec<Value> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.get(queue).into_iter().flatten().map(Called::json).collect()
    }
}
