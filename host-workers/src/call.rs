//! Deliveries' calls: HTTP, a service binding, a linked function.

use jadpo_core::bindings;
use jadpo_core::host::{Call, CallOutcome};
use jadpo_core::program::Target;
use js_sys::Array;
use wasm_bindgen::prelude::*;
use worker::Env;

use crate::{js, links};

/// The address that a service binding is called at; the Worker behind it is found by the binding alone.
const SERVICE_URL: &str = "https://subscriber/";

/// Makes one delivery and waits for its answer, its limit at most.
pub(crate) async fn call(env: &Env, call: Call) -> CallOutcome {
    match &call.target {
        Target::Call(url) => post(&JsValue::UNDEFINED, url, &call).await,
        Target::Service(worker) => {
            let binding = js::get(env, &bindings::service_binding(&call.subscriber));
            if !binding.is_object() {
                return CallOutcome::Unanswered(format!("the Worker has no service binding to {worker}"));
            }
            post(&binding, SERVICE_URL, &call).await
        }
        Target::Run(name) => {
            let name = name.clone();
            links::call(env.clone(), &name, call).await
        }
        Target::Exec(_) => CallOutcome::Unanswered("a Worker runs no programs".to_owned()),
        Target::Send(_) => CallOutcome::Unanswered("a Worker has no local queues".to_owned()),
    }
}

async fn post(fetcher: &JsValue, url: &str, call: &Call) -> CallOutcome {
    let headers: Vec<&str> = call.headers.iter().flat_map(|(name, value)| [*name, value.as_str()]).collect();
    let headers = headers.join("\n"); // in one crossing; no header's value has a line's end
    match js::post(fetcher, url, &headers, &call.body, f64::from(call.timeout_ms)).await {
        Ok(answer) => answered(&answer.unchecked_into()),
        Err(error) => unanswered(fetcher, js::words(&error)),
    }
}

/// An invocation may make so many requests; past that none leaves it, whomever it is for. A service binding's words
/// are no evidence of that: they may be the other Worker's own.
fn unanswered(fetcher: &JsValue, why: String) -> CallOutcome {
    let own_words = fetcher.is_undefined();
    if own_words && why.contains("Too many subrequests") {
        CallOutcome::NotSent(why)
    } else {
        CallOutcome::Unanswered(why)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an HTTP status has three digits")]
fn answered(answer: &Array) -> CallOutcome {
    let status = answer.get(0).as_f64().unwrap_or_default() as u16;
    CallOutcome::Answered { status, retry_after: answer.get(1).as_string() }
}
