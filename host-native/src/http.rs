//! HTTP as a client: subscribers and other deployments are called through this.

pub(crate) mod lacks;

use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, Uri, header};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// Most bytes that are read of an answer whose body nobody needs. Reading a short one lets the connection be used
/// again; a longer one costs the connection.
const DRAINED_MAX: usize = 64 * 1024;
/// How long a short answer's body may take after its head.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);
/// How long to wait for a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// How long an unused connection is kept.
const IDLE_TIME_MAX: Duration = Duration::from_secs(30);

/// An HTTP client. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    inner: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// An answer with its whole body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// Its status.
    pub status: u16,
    /// Its `Retry-After` header.
    pub retry_after: Option<String>,
    /// Its body.
    pub body: Bytes,
}

/// Why there is no whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// Its body is longer than was to be read.
    TooLong,
    /// In words: there was no connection, it was closed, or the time passed.
    Broken(String),
}

/// Why there is no answer to a POST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unposted {
    /// In words: nothing was sent, for this machine has no room for one more connection.
    NoRoom(String),
    /// In words: anything else.
    Failed(String),
}

/// The head of an answer to a POST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its `Retry-After` header.
    pub retry_after: Option<String>,
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// A client that trusts the system's certificates, or where there are none, Mozilla's.
    #[must_use]
    pub fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIME_MAX));
        tcp.set_nodelay(true);
        let connector = match HttpsConnectorBuilder::new().with_native_roots() {
            Ok(connector) => connector,
            Err(_) => HttpsConnectorBuilder::new().with_webpki_roots(),
        };
        let https = connector.https_or_http().enable_http1().wrap_connector(tcp);
        let inner = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME_MAX)
            .build(https);
        Self { inner }
    }

    /// POSTs and gives the answer's head. Redirects are answers like any other.
    ///
    /// # Errors
    /// In words: the address is none, there was no connection, it was closed, or `limit` passed.
    pub async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<Answer, String> {
        let mut request = Request::post(uri(url)?);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
        let response = within(limit, self.inner.request(request)).await?;
        let status = response.status().as_u16();
        let retry_after = retry_after(&response);
        // The head is the answer; what is wrong with the body changes nothing about it.
        let _ = tokio::time::timeout(DRAIN_TIME_MAX, drain(response)).await;
        Ok(Answer { status, retry_after })
    }

    /// POSTs with whatever headers there are, two of one name as two, and gives the answer's status. Redirects are
    /// answers like any other, and no more of the answer's body is read than [`Client::post`] reads.
    ///
    /// # Errors
    /// [`Unposted`], in the words of [`Client::post`].
    pub async fn post_as(
        &self,
        url: &str,
        headers: &[(String, Vec<u8>)],
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<u16, Unposted> {
        let mut request = Request::post(uri(url).map_err(Unposted::Failed)?);
        for (name, value) in headers {
            request = request.header(name.as_str(), value.as_slice());
        }
        let request =
            request.body(Full::new(Bytes::from(body))).map_err(|error| Unposted::Failed(error.to_string()))?;
        let response = match tokio::time::timeout(limit, self.inner.request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() && lacks::keeps_from_connecting(&error) => {
                return Err(Unposted::NoRoom(in_words(&error)));
            }
            Ok(Err(error)) => return Err(Unposted::Failed(in_words(&error))),
            Err(_) => return Err(Unposted::Failed(no_answer(limit))),
        };
        let status = response.status().as_u16();
        let _ = tokio::time::timeout(DRAIN_TIME_MAX, drain(response)).await;
        Ok(status)
    }

    /// Sends a request and gives the answer's status and whole body.
    ///
    /// # Errors
    /// As [`Client::post`]; also if the body is longer than `body_max` bytes.
    pub async fn request(
        &self,
        request: Request<Full<Bytes>>,
        body_max: usize,
        limit: Duration,
    ) -> Result<(u16, Bytes), String> {
        match self.fetch(request, body_max, limit).await {
            Ok(whole) => Ok((whole.status, whole.body)),
            Err(Unread::TooLong) => Err(format!("the answer is longer than {body_max} bytes")),
            Err(Unread::Broken(why)) => Err(why),
        }
    }

    /// As [`Client::request`], with more of the answer, and of what is wrong with it.
    ///
    /// # Errors
    /// [`Unread`].
    pub async fn fetch(
        &self,
        request: Request<Full<Bytes>>,
        body_max: usize,
        limit: Duration,
    ) -> Result<Whole, Unread> {
        let whole = async {
            let response = self.inner.request(request).await.map_err(|error| Unread::Broken(in_words(&error)))?;
            let (status, retry_after) = (response.status().as_u16(), retry_after(&response));
            let body = Limited::new(response.into_body(), body_max).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    return Unread::TooLong;
                }
                Unread::Broken(format!("the answer broke off: {error}"))
            })?;
            Ok(Whole { status, retry_after, body: body.to_bytes() })
        };
        tokio::time::timeout(limit, whole).await.unwrap_or_else(|_| Err(Unread::Broken(no_answer(limit))))
    }
}

/// An absolute HTTP address.
///
/// # Errors
/// In words, if it is none.
pub fn uri(url: &str) -> Result<Uri, String> {
    let uri: Uri = url.parse().map_err(|error| format!("{url} is no address: {error}"))?;
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_some() => Ok(uri),
        _ => Err(format!("{url} is no http:// or https:// address")),
    }
}

async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, hyper_util::client::legacy::Error>>,
) -> Result<T, String> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answered) => answered.map_err(|error| in_words(&error)),
        Err(_) => Err(no_answer(limit)),
    }
}

fn retry_after(response: &Response<Incoming>) -> Option<String> {
    response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn no_answer(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs_f32())
}

/// The innermost cause: "Connection refused" says more than "client error".
fn in_words(error: &hyper_util::client::legacy::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if error.is_connect() { format!("no connection: {cause}") } else { cause.to_string() }
}

async fn drain(response: Response<Incoming>) {
    let _ = Limited::new(response.into_body(), DRAINED_MAX).collect().await;
}

#[cfg(test)]
mod tests;
