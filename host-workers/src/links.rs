//! Rust functions linked into the Worker, for subscribers that are reached by `run:`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;

use jadpo_core::host::{Call, CallOutcome};
use wasm_bindgen_futures::future_to_promise;
use worker::Env;

use crate::js;

/// An event brought to a linked function: what an HTTP subscriber would get as a POST.
#[derive(Debug, Clone)]
pub struct Event {
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    env: Env,
}

impl Event {
    /// The event's name, as `StockMoved`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.header("jadpo-event").unwrap_or_default()
    }

    /// The event's id, the same on every attempt.
    #[must_use]
    pub fn id(&self) -> &str {
        self.header("jadpo-event-id").unwrap_or_default()
    }

    /// Which attempt this is; starts at 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.header("jadpo-attempt").and_then(|number| number.parse().ok()).unwrap_or(1)
    }

    /// A header that an HTTP subscriber would get, by its lowercase name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(each, _)| *each == name).map(|(_, value)| value.as_str())
    }

    /// The body, byte for byte as the message carried it.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The Worker's environment: bindings, variables and secrets.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.env
    }
}

/// Why a linked function did not take an event. It is called again later, as an HTTP subscriber would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    reason: String,
    after_s: Option<u32>,
}

impl Failure {
    /// A failure with a reason that an operator reads.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), after_s: None }
    }

    /// Not now, but in so many seconds: what `Retry-After` says for an HTTP subscriber.
    #[must_use]
    pub fn after_s(seconds: u32) -> Self {
        Self { reason: String::new(), after_s: Some(seconds) }
    }
}

impl<E: fmt::Display> From<E> for Failure {
    /// Any error, so that `?` works in a linked function.
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

/// A linked function with its future boxed.
type Linked = Rc<dyn Fn(Event) -> Pin<Box<dyn Future<Output = Result<(), Failure>>>>>;

thread_local! {
    static LINKS: RefCell<BTreeMap<&'static str, Linked>> = const { RefCell::new(BTreeMap::new()) };
}

/// Links functions to the Worker under the names that `run:` uses in the app file.
///
/// A function takes an [`Event`] and returns `Result<(), Failure>`. Used once, in the crate that `jadpo build
/// --worker` is given:
///
/// ```ignore
/// jadpo_host_workers::link! { "audit" => audit }
///
/// async fn audit(event: Event) -> Result<(), Failure> { Ok(()) }
/// ```
#[macro_export]
macro_rules! link {
    ($($name:literal => $function:path),+ $(,)?) => {
        // Runs when the instance starts, and again when it is started anew after a trap.
        #[$crate::__wasm_bindgen::prelude::wasm_bindgen(start, wasm_bindgen = $crate::__wasm_bindgen, private)]
        fn __jadpo_link() {
            $crate::__link_here!($($name => $function),+);
        }
    };
}

/// What [`link!`] does when the instance starts.
#[doc(hidden)]
#[macro_export]
macro_rules! __link_here {
    ($($name:literal => $function:path),+) => {
        $($crate::__link($name, ::std::rc::Rc::new(|event| ::std::boxed::Box::pin($function(event))));)+
    };
}

/// What [`link!`] calls.
pub fn add(name: &'static str, function: Linked) {
    LINKS.with_borrow_mut(|links| links.insert(name, function));
}

/// Whether a function is linked under this name.
pub(crate) fn is_linked(name: &str) -> bool {
    LINKS.with_borrow(|links| links.contains_key(name))
}

/// Calls a linked function as an HTTP subscriber would be called.
pub(crate) async fn call(env: Env, name: &str, call: Call) -> CallOutcome {
    let Some(function) = LINKS.with_borrow(|links| links.get(name).cloned()) else {
        return CallOutcome::Unanswered(format!("no function named {name} is linked into this Worker"));
    };
    let limit_ms = f64::from(call.timeout_ms);
    let event = Event { headers: call.headers, body: call.body, env };
    let slot = Rc::new(RefCell::new(None));
    let ended = Rc::clone(&slot);
    let running = future_to_promise(async move {
        let result = function(event).await;
        ended.replace(Some(result));
        Ok(wasm_bindgen::JsValue::UNDEFINED)
    });
    match js::within(limit_ms, &running).await {
        Ok(_) => outcome(slot.take()),
        Err(error) => CallOutcome::Unanswered(js::words(&error)),
    }
}

fn outcome(result: Option<Result<(), Failure>>) -> CallOutcome {
    match result {
        Some(Ok(())) => CallOutcome::Answered { status: 200, retry_after: None },
        Some(Err(Failure { after_s: Some(seconds), .. })) => {
            CallOutcome::Answered { status: 503, retry_after: Some(seconds.to_string()) }
        }
        Some(Err(failure)) => CallOutcome::Unanswered(failure.reason),
        None => CallOutcome::Unanswered("the function ended without a result".to_owned()),
    }
}

#[cfg(test)]
mod tests;
