//! Rust functions that an app's own binary brings along, found by the names that `run:` has for them.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

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

impl fmt::Debug for Linked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
