//! The Cloudflare Queues REST API over HTTP.

use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use jadpo_core::admin::{Request, Response};
use jadpo_core::pull::Refusal;

use super::reply::{self, Problem, Reply};
use super::{Shared, body, queues};
use crate::api;

/// Bytes that are read of whoever asks.
const STRANGERS_BYTES_MAX: u64 = 16 * 1024;
/// Seconds after which who was refused for lack of room may come again.
const COME_AGAIN: HeaderValue = HeaderValue::from_static("1");

/// Answers one request, whatever it is: also a refusal is an answer of the API's.
pub(super) async fn answer(shared: &Shared, head: &Parts, body: Incoming) -> Reply {
    match carry_out(shared, head, body).await {
        Ok(response) => replied(response, None),
        Err(refusal) => replied(refusal.answer(), refusal.allow),
    }
}

async fn carry_out(shared: &Shared, head: &Parts, body: Incoming) -> Result<Response, Refusal> {
    shared.options.access.is_here(head).map_err(|problem| Refusal::of_origin(problem.detail.message))?;
    let authorization = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let mut request = Request {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        authorization: authorization.map(str::to_owned),
        body: Vec::new(),
    };
    // Much is read only of who has a token. To look for it costs a turn of the store's, which a small request, that
    // finds out anyway, is spared.
    if body.size_hint().upper().is_none_or(|bytes| bytes > STRANGERS_BYTES_MAX) {
        api::admit(&shared.broker, &shared.api, &request).await?;
    }
    let read = body::read(shared, head, body, api::BODY_BYTES_MAX).await;
    request.body = read.map_err(|Problem { status, detail, .. }| {
        Refusal::of_body(status.as_u16(), detail.message, detail.limit, detail.actual)
    })?;
    let call = api::read(&request, shared.broker.lease_key())?;
    let _place = match call.sends_to() {
        Some(queue) => Some(queues::place(shared, queue).await?),
        None => None,
    };
    Ok(api::answer(&shared.broker, &shared.api, call).await)
}

fn replied(response: Response, allow: Option<&'static str>) -> Reply {
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let mut reply = reply::text(status, response.content_type, response.body);
    if let Some(allow) = allow {
        reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    }
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        reply.headers_mut().insert(header::RETRY_AFTER, COME_AGAIN);
    }
    reply
}
