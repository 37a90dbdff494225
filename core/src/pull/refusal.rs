//! Why a request is not carried out: its status, Cloudflare's code, and words.

use super::wire::{ApiError, Source};
use crate::admin::queues::{problem, status};
use crate::broker::BrokerError;
use crate::store::StoreError;

/// A request that is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// Why. Boxed: it is big, and nearly every result may be one.
    pub error: Box<ApiError>,
    /// The methods that there are, where the one that was used is not among them.
    pub allow: Option<&'static str>,
}

/// Cloudflare's codes. Those of [`BrokerError`] are there.
pub(super) mod code {
    /// Where it has none, or none is known.
    pub(crate) const NONE: i64 = 0;
    /// What Cloudflare's API says to who shows no token that counts.
    pub(crate) const NOT_AUTHENTICATED: i64 = 10_000;
    pub(crate) const UNAUTHORIZED: i64 = 10_106;
    pub(crate) const QUEUE_ID_MALFORMED: i64 = 10_107;
    pub(crate) const BATCH_DELAY: i64 = 10_202;
    pub(crate) const MESSAGE_METADATA: i64 = 10_203;
    pub(crate) const SCHEMA: i64 = 10_207;
    pub(crate) const NOT_JSON: i64 = 10_208;
    pub(crate) const CONSUMER_SETTINGS: i64 = 100_127;
    pub(crate) const QUEUE_SETTINGS: i64 = 100_128;
    /// The name is taken, as Wrangler's users have seen it reported.
    pub(crate) const QUEUE_EXISTS: i64 = 11_009;
    /// There is nothing at this address.
    pub(crate) const NO_ROUTE: i64 = 7_003;
    pub(crate) const METHOD: i64 = 10_405;
    pub(crate) const OVERLOADED: i64 = 10_250;
    pub(crate) const TOO_LARGE: i64 = 10_205;
}

impl Refusal {
    pub(super) fn new(status: u16, code: i64, message: impl Into<String>) -> Self {
        let error = ApiError { code, message: message.into(), ..ApiError::default() };
        Self { status, error: Box::new(error), allow: None }
    }

    /// It is about this part of the request.
    pub(super) fn at(mut self, pointer: &str) -> Self {
        if !pointer.is_empty() {
            self.error.source = Some(Source { pointer: pointer.to_owned() });
        }
        self
    }

    pub(super) fn schema(pointer: &str, message: impl Into<String>) -> Self {
        Self::new(400, code::SCHEMA, message).at(pointer)
    }

    pub(super) fn no_route(path: &str) -> Self {
        let path: String = path.chars().take(200).collect();
        Self::new(404, code::NO_ROUTE, format!("there is nothing at {path}: the API here is that of queues"))
    }

    pub(super) fn method(path: &str, allow: &'static str, method: &str) -> Self {
        let message = format!("{path} takes {allow}, not {method}");
        Self { allow: Some(allow), ..Self::new(405, code::METHOD, message) }
    }

    /// The same for a request's body that a host did not read whole: too large, too slow, or broken off.
    #[must_use]
    pub fn of_body(status: u16, message: String, limit: Option<u64>, actual: Option<u64>) -> Self {
        let code = if status == 413 { code::TOO_LARGE } else { code::NOT_JSON };
        let mut refusal = Self::new(status, code, message);
        (refusal.error.limit, refusal.error.actual) = (limit, actual);
        refusal
    }

    /// A request that no page in a browser, and nobody from elsewhere, may make of a developer's machine.
    #[must_use]
    pub fn of_origin(message: String) -> Self {
        Self::new(403, code::NOT_AUTHENTICATED, message)
    }
}

impl From<BrokerError> for Refusal {
    fn from(error: BrokerError) -> Self {
        let detail = problem(&error);
        let (status, code, message) = match &error {
            BrokerError::Paused(_) => (409, code::NONE, format!("queue_delivery_paused: {error}; it can be resumed")),
            BrokerError::QueueExists(_) => (409, code::QUEUE_EXISTS, error.to_string()),
            // 507 is asked again by clients, and nothing is gained by that soon.
            BrokerError::QueueFull { .. } => (429, 10_251, error.to_string()),
            BrokerError::TooManyQueues { .. } => (403, code::NONE, error.to_string()),
            BrokerError::Store(StoreError::Unavailable(_)) => (503, code::OVERLOADED, error.to_string()),
            _ => (status(&error), error.code().map_or(code::NONE, i64::from), error.to_string()),
        };
        let mut refusal = Self::new(status, code, message);
        (refusal.error.limit, refusal.error.actual) = (detail.limit, detail.actual);
        refusal
    }
}
