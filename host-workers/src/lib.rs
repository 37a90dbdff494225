//! jadpo on Cloudflare Workers.
//!
//! This crate carries a queue's batches, D1 and calls between JavaScript and [`jadpo_core`], which decides
//! everything. It is the Worker that `jadpo build` deploys; a crate of one's own that links Rust functions to it
//! with [`link!`] is the same Worker with these functions inside.
//!
//! No handler panics on what it is given: a panic is a trap, and the instance with all it was doing is lost. What
//! goes wrong is a rejected promise.

mod batch;
mod call;
mod d1;
mod deliveries;
mod host;
mod isolate;
mod js;
mod links;
mod web;

use std::rc::Rc;

use jadpo_core::receive::{not_started, receive};
use wasm_bindgen::prelude::*;
use worker::{Env, worker_sys};

use host::WorkersHost;

pub use links::{Event, Failure};
#[doc(hidden)]
pub use {links::add as __link, wasm_bindgen as __wasm_bindgen};

/// The Worker's `queue`: keeps a batch, answers each of its messages, then delivers in `waitUntil`.
///
/// Exported here and not by workers-rs' macro, which hides `attempts` and panics where a message's call throws.
///
/// # Errors
/// If the batch cannot be read, or once every message is answered, if one of the calls threw: Cloudflare then hands
/// over again what was not acknowledged.
#[wasm_bindgen]
pub async fn queue(batch: worker_sys::MessageBatch, env: Env, context: JsValue) -> Result<(), JsValue> {
    let host = Rc::new(WorkersHost::new(env));
    let (batch, handles) = batch::read(&batch)?;
    let app = match isolate::app(&host) {
        Ok(app) => app,
        Err(why) => return handles.settle(&not_started(host.as_ref(), &batch, &why.to_string()).answers),
    };
    let received = receive(host.as_ref(), &app, batch).await;
    let settled = handles.settle(&received.answers);
    deliveries::after_batch(&context, host, app, received.claimed);
    settled
}

/// The Worker's `fetch`: the operator's endpoint, if it is on, and `GET /healthz`.
///
/// # Errors
/// When the request's body cannot be read to its end.
#[wasm_bindgen]
pub async fn fetch(request: web_sys::Request, env: Env, _context: JsValue) -> Result<web_sys::Response, JsValue> {
    web::answer(Rc::new(WorkersHost::new(env)), &request).await
}

/// The Worker's `scheduled`: the tick.
///
/// # Errors
/// If the app cannot start, so that the failed invocation shows; the log says why.
#[wasm_bindgen]
pub async fn scheduled(_event: JsValue, env: Env, _context: JsValue) -> Result<(), JsValue> {
    let host = WorkersHost::new(env);
    let app = isolate::app(&host).map_err(|why| js_sys::Error::new(&why.to_string()))?;
    deliveries::tick(&host, &app).await;
    Ok(())
}

/// Goes on with deliveries that another invocation had no time for: what the entry module's `Deliveries` calls.
///
/// # Errors
/// None: what cannot be delivered now stays in the store.
#[wasm_bindgen]
pub async fn deliveries(env: Env, context: JsValue) -> Result<(), JsValue> {
    let host = Rc::new(WorkersHost::new(env));
    if let Ok(app) = isolate::app(&host) {
        deliveries::go_on(&context, host, app);
    }
    Ok(())
}
