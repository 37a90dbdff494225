//! A request as the core takes it: its head as it was sent, its body read once.

use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use jadpo_core::inbound::{Handshake, Inbound, MethodAnswer, Refusal, Surface, answer_to, handshake};

use super::reply::{self, Problem, Reply};
use super::{Shared, body};
use crate::host::now_ms;

/// The answer to a method that stores nothing; `None` if the request is to be handled.
pub(super) fn of_method(surface: Surface, head: &Parts) -> Option<Reply> {
    let MethodAnswer { status, allow } = answer_to(surface, head.method.as_str())?;
    Some(match status {
        405 => Problem::method(head.uri.path(), allow, head.method.as_str()).into(),
        status => reply::empty(StatusCode::from_u16(status).unwrap_or(StatusCode::NO_CONTENT), Some(allow)),
    })
}

/// The answer to what a provider asks of a webhook's address before it posts there; `None` if it asks nothing.
pub(super) fn of_handshake(head: &Parts) -> Option<Reply> {
    let origin = head.headers.get("webhook-request-origin").and_then(|value| value.to_str().ok());
    let Handshake { headers, body } = handshake(head.method.as_str(), head.uri.query(), origin)?;
    let mut reply = reply::text(StatusCode::OK, "text/plain; charset=utf-8", body);
    let out = reply.headers_mut();
    // What was asked is sent back, and no browser may take it for a page.
    out.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    for (name, value) in headers {
        out.insert(name, HeaderValue::try_from(value).ok()?);
    }
    Some(reply)
}

/// Reads the body and puts the request together.
///
/// # Errors
/// As [`body::read`].
pub(super) async fn read(shared: &Shared, head: &Parts, body: Incoming, body_max: usize) -> Result<Inbound, Problem> {
    let received_at_ms = now_ms();
    let body = body::read(shared, head, body, body_max).await?;
    let headers = head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    Ok(Inbound {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().map(str::to_owned),
        headers: headers.collect(),
        body,
        received_at_ms,
    })
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
        let number =
            |name| refusal.fields.iter().find(|(field, _)| *field == name).and_then(|(_, value)| value.as_u64());
        let mut problem = Self::new(status, refusal.code, refusal.message);
        problem.detail.limit = number("limit");
        problem.detail.actual = number("actual");
        problem
    }
}
