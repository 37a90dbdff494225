//! One request to a queue's server, and its whole answer.

use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use jadpo_core::pulling::{Act, Answer, Request, Source, Token, Trouble};

use crate::http::{Client, Unread, Whole, uri};

/// An answer that came whole.
pub(super) struct Came {
    whole: Whole,
    token: Token,
}

impl Came {
    /// What this reads of the answer. What a server says of a request may hold its token, and is logged without.
    pub(super) fn read<T>(&self, as_this: impl FnOnce(&Answer<'_>) -> Result<T, Trouble>) -> Result<T, Trouble> {
        let Whole { status, retry_after, body } = &self.whole;
        let answer = Answer { status: *status, retry_after: retry_after.as_deref(), body };
        as_this(&answer).map_err(|trouble| trouble.without(&self.token.0))
    }
}

/// Makes the request that this act is.
///
/// # Errors
/// Why there is no whole answer.
pub(super) async fn call(
    client: &Client,
    source: &Source,
    act: &Act,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Came, Trouble> {
    let request = source.request(act, env)?;
    let Request { method, url, token, body, answer_bytes_max, time_max_ms } = request;
    let mut authorization = HeaderValue::from_str(&format!("Bearer {}", token.0))
        .map_err(|error| Trouble::failed(format!("the token cannot be sent: {error}")))?;
    authorization.set_sensitive(true);
    let request = hyper::Request::builder()
        .method(method)
        .uri(uri(&url).map_err(Trouble::failed)?)
        .header(header::AUTHORIZATION, authorization)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, concat!("jadpo/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .map_err(|error| Trouble::failed(error.to_string()))?;
    let limit = Duration::from_millis(time_max_ms.into());
    match client.fetch(request, answer_bytes_max, limit).await {
        Ok(whole) => Ok(Came { whole, token }),
        Err(Unread::TooLong) => Err(Trouble::too_long(answer_bytes_max)),
        Err(Unread::Broken(why)) => Err(Trouble::failed(why)),
    }
}
