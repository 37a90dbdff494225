//! HTTP requests to the Worker: the operator's endpoint and a health check.

use std::rc::Rc;

use jadpo_core::admin;
use js_sys::{Array, Uint8Array};
use wasm_bindgen::prelude::*;
use web_sys::{Request, Response};

use crate::host::WorkersHost;
use crate::{isolate, js};

/// Answers a request.
///
/// # Errors
/// When the request's body cannot be read to its end.
pub(crate) async fn answer(host: Rc<WorkersHost>, request: &Request) -> Result<Response, JsValue> {
    let request = read(request).await?;
    let asks_health = request.path == "/healthz";
    if !asks_health && !request.path.starts_with(admin::PREFIX) {
        return Ok(text(404, "not found\n"));
    }
    let Ok(app) = isolate::app(&host) else {
        return Ok(text(503, "the app has not started; the log says why\n"));
    };
    if asks_health {
        return Ok(text(200, "ok\n"));
    }
    let answer = admin::answer(host.as_ref(), &app, request).await;
    Ok(js::response(answer.status, answer.content_type, &answer.body))
}

async fn read(request: &Request) -> Result<admin::Request, JsValue> {
    #[expect(clippy::cast_precision_loss, reason = "a limit far below 2^53")]
    let parts: Array = js::read_request(request, admin::BODY_BYTES_MAX as f64).await?.unchecked_into();
    let text = |index| parts.get(index).as_string();
    Ok(admin::Request {
        method: text(0).unwrap_or_default(),
        path: text(1).unwrap_or_default(),
        query: text(2).unwrap_or_default(),
        authorization: text(3),
        body: Uint8Array::new(&parts.get(4)).to_vec(),
    })
}

fn text(status: u16, body: &str) -> Response {
    js::response(status, "text/plain; charset=utf-8", body)
}
