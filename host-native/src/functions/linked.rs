//! Rust functions that an app's own binary brings along, found by the names that `run:` has for them.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

/// What a linked function is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedCall {
    /// Header names and values in order, names in lowercase except where a sender's own were kept.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The query of the request that the body came by, without its `?`.
    pub query: Option<String>,
    /// The body, as it was sent.
    pub body: Vec<u8>,
}

impl LinkedCall {
    /// The first header of this name, in whatever case, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }
}

/// A linked function's work, and its end: done, or what went wrong.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

type Function = Arc<dyn Fn(LinkedCall) -> Work + Send + Sync>;

/// The Rust functions of a binary, by name. Clones share them.
#[derive(Clone, Default)]
pub struct Linked {
    functions: BTreeMap<String, Function>,
}

impl Linked {
    /// No functions, as in the `jadpo` binary itself.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one function more. A name that was there is given to the new one.
    #[must_use]
    pub fn with<F, W>(mut self, name: &str, function: F) -> Self
    where
        F: Fn(LinkedCall) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), String>> + Send + 'static,
    {
        let boxed = move |call| -> Work { Box::pin(function(call)) };
        self.functions.insert(name.to_owned(), Arc::new(boxed));
        self
    }

    /// Whether there is a function of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }
}

/// Why a linked function is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// This binary has none of that name.
    NotLinked(String),
    /// It did not return in time, and was ended where it next waited.
    Late(Duration),
    /// It returned an error.
    Returned(String),
    /// It panicked.
    Panicked(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLinked(name) => write!(f, "the function {name} is not linked in"),
            Self::Late(limit) => write!(f, "it did not return within {} s", limit.as_secs_f32()),
            Self::Returned(error) => f.write_str(error),
            Self::Panicked(what) => write!(f, "it panicked: {what}"),
        }
    }
}

impl Linked {
    /// Calls a function and waits for it, `limit` at most. It runs in a task of its own, so its panic is its own.
    pub(crate) async fn call(&self, name: &str, call: LinkedCall, limit: Duration) -> Result<(), Failure> {
        let Some(function) = self.functions.get(name).cloned() else {
            return Err(Failure::NotLinked(name.to_owned()));
        };
        let mut task = AbortOnDrop(tokio::spawn(async move { function(call).await }));
        match tokio::time::timeout(limit, &mut task.0).await {
            Err(_) => Err(Failure::Late(limit)),
            Ok(Ok(returned)) => returned.map_err(Failure::Returned),
            Ok(Err(ended)) => Err(Failure::Panicked(match ended.try_into_panic() {
                Ok(panic) => panic_text(panic.as_ref()),
                Err(ended) => ended.to_string(),
            })),
        }
    }
}

/// Whoever stops waiting for a function wants it to stop.
struct AbortOnDrop(JoinHandle<Result<(), String>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no reason given".to_owned())
}

impl fmt::Debug for Linked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
