//! Answers, and how a refusal is put into one.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use jadpo_core::admin::{ProblemDetail, queues};
use jadpo_core::broker::BrokerError;
use serde_json::{Value, json};

/// What a request is answered.
pub(super) type Reply = Response<Full<Bytes>>;

/// Seconds after which who was refused for lack of room may come again.
const COME_AGAIN_S: u32 = 1;

/// Why a request is not carried out: answered as `{"error": {"code", "message", …}}`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    /// Boxed: it is big, and nearly every result may be one.
    pub(super) detail: Box<ProblemDetail>,
    /// The methods that there are, for 405.
    allow: Option<&'static str>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, detail: Box::new(ProblemDetail::new(code, message.into())), allow: None }
    }

    pub(super) fn nothing_here() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is nothing at this address")
    }

    pub(super) fn method(path: &str, allow: &'static str, method: &str) -> Self {
        let message = format!("{path} takes {allow}, not {method}");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message) }
    }
}

impl From<Problem> for Reply {
    fn from(problem: Problem) -> Self {
        let mut reply = json(problem.status, &json!({ "error": problem.detail }));
        if let Some(allow) = problem.allow {
            reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if matches!(problem.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            reply.headers_mut().insert(header::RETRY_AFTER, COME_AGAIN_S.into());
        }
        reply
    }
}

impl From<BrokerError> for Problem {
    fn from(error: BrokerError) -> Self {
        let status = match &error {
            // What is kept beside a body here is what its request's head holds.
            BrokerError::MetaTooBig { .. } => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            BrokerError::BatchCount { limit, actual } if actual > limit => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::from_u16(queues::status(&error)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        };
        Self { status, detail: Box::new(queues::problem(&error)), allow: None }
    }
}

/// An answer in JSON.
pub(super) fn json(status: StatusCode, body: &Value) -> Reply {
    text(status, "application/json", body.to_string())
}

/// An answer of any text.
pub(super) fn text(status: StatusCode, content_type: &'static str, body: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// An answer without a body.
pub(super) fn empty(status: StatusCode, allow: Option<&'static str>) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::new()));
    *reply.status_mut() = status;
    if let Some(allow) = allow {
        reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    }
    reply
}
