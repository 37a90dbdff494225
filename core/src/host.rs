//! The seam: the one trait that a host implements.

use crate::program::Target;
use crate::store::{Rows, Statement, StoreError};

cfg_if::cfg_if! {
    if #[cfg(target_family = "wasm")] {
        /// Nothing: a Worker has one thread, and JavaScript's values cannot leave it.
        pub trait MaybeSend {}
        impl<T: ?Sized> MaybeSend for T {}
        /// Nothing, as [`MaybeSend`].
        pub trait MaybeSync {}
        impl<T: ?Sized> MaybeSync for T {}
    } else {
        /// `Send`, since a native host moves work between threads.
        pub trait MaybeSend: Send {}
        impl<T: Send + ?Sized> MaybeSend for T {}
        /// `Sync`, as [`MaybeSend`].
        pub trait MaybeSync: Sync {}
        impl<T: Sync + ?Sized> MaybeSync for T {}
    }
}

/// What a host does for the core. It decides nothing.
pub trait Host: MaybeSync {
    /// Runs the statements in order as one transaction: all of them commit, or none does.
    ///
    /// # Errors
    /// Any [`StoreError`]; after `Unavailable` the batch may have committed all the same.
    fn batch(&self, statements: Vec<Statement>) -> impl Future<Output = Result<Vec<Rows>, StoreError>> + MaybeSend;

    /// Makes one delivery and waits for its answer, [`Call::timeout_ms`] at most. Redirects are not followed.
    fn call(&self, call: Call) -> impl Future<Output = CallOutcome> + MaybeSend;

    /// Waits. A host without a timer returns at once, which costs a few writes more.
    fn sleep(&self, _duration_ms: u32) -> impl Future<Output = ()> + MaybeSend {
        std::future::ready(())
    }

    /// The time, in milliseconds since 1970.
    fn now_ms(&self) -> i64;

    /// Random bits that nobody can guess.
    fn random(&self) -> u128;

    /// The value of an environment variable or secret.
    fn env(&self, name: &str) -> Option<String>;

    /// Writes a line to the log.
    fn log(&self, entry: LogEntry);
}

/// One delivery to be made: a POST, or a linked function's call with the same headers and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The subscriber's name, for logs and for a service binding's name.
    pub subscriber: String,
    /// How it is reached.
    pub target: Target,
    /// Headers by lowercase name, `content-type` among them.
    pub headers: Vec<(&'static str, String)>,
    /// The event's body as it was stored.
    pub body: Vec<u8>,
    /// How long to wait for the answer.
    pub timeout_ms: u32,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    /// There was an answer. A linked function that returns `Ok` answers 200.
    Answered {
        /// Its HTTP status.
        status: u16,
        /// Its `Retry-After` header, as sent.
        retry_after: Option<String>,
    },
    /// There was none: the reason in words (refused, closed, timed out, not linked).
    Unanswered(String),
    /// Nothing was sent, whoever the subscriber is: the host may make no calls any more for now (a Worker's
    /// invocation has so many). The reason in words.
    NotSent(String),
}

/// A line of the log: an event's name and its fields, never a body.
#[derive(Debug, Clone, PartialEq)]
pub struct LogEntry {
    /// How much it matters.
    pub level: Level,
    /// What happened, as `queue.retried`.
    pub event: &'static str,
    /// More about it, in order.
    pub fields: Vec<(&'static str, serde_json::Value)>,
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As planned.
    Info,
    /// Handled, but someone may want to look.
    Warn,
    /// Someone has to look.
    Error,
}

impl LogEntry {
    /// The line as one JSON object: `level`, `event`, then the fields.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut object = serde_json::Map::new();
        let level = match self.level {
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        object.insert("level".into(), level.into());
        object.insert("event".into(), self.event.into());
        for (name, value) in &self.fields {
            object.insert((*name).into(), value.clone());
        }
        serde_json::Value::Object(object).to_string()
    }
}
