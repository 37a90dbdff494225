//! The operator's endpoint: what is parked or has failed, seen and retried. The same on every host, which does no
//! more than hand a request under [`PREFIX`] over and send the answer.
//!
//! It is off unless the host has a token under [`ADMIN_TOKEN`], and says nothing to who does not give it.

#[cfg(feature = "broker")]
pub mod queues;
mod read;
mod retry;
mod sql;
mod wire;

use serde::Serialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub use wire::{
    BODY_BYTES_MAX, Filter, Item, ItemId, Kind, LIMIT_DEFAULT, LIMIT_MAX, Listing, PREVIEW_CHARS, Problem,
    ProblemDetail, RETRY_IDS_MAX, Retried, RetryRequest, Status,
};

use crate::bindings::ADMIN_TOKEN;
use crate::host::{Host, Level, LogEntry};
use crate::start::App;
use crate::store::schema::SCHEMA_VERSION;
use crate::store::{Rows, Statement, StoreError};

/// What every path of the endpoint begins with.
pub const PREFIX: &str = "/.jadpo/";
/// The shortest token that turns the endpoint on, in bytes.
pub const TOKEN_BYTES_MIN: usize = 16;

/// A request to the endpoint, as a host got it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// The method, in capitals.
    pub method: String,
    /// The path, from its first slash to the question mark.
    pub path: String,
    /// What stands behind the question mark, as sent; empty without one.
    pub query: String,
    /// The `Authorization` header, if there is one.
    pub authorization: Option<String>,
    /// The body, [`BODY_BYTES_MAX`] bytes and one at most.
    pub body: Vec<u8>,
}

/// The endpoint's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

/// Why a request is not carried out.
#[derive(Debug)]
struct Refusal {
    status: u16,
    code: &'static str,
    message: String,
}

impl From<Refusal> for Response {
    fn from(Refusal { status, code, message }: Refusal) -> Self {
        Self::problem(status, ProblemDetail::new(code, message))
    }
}

impl Response {
    /// An answer in JSON.
    #[must_use]
    pub fn json(status: u16, body: &impl Serialize) -> Self {
        // What is answered has text keys and no numbers but whole ones: nothing that JSON could not carry.
        let body = serde_json::to_string(body).unwrap_or_default();
        Self { status, content_type: "application/json", body }
    }

    /// An answer that says why the request is not carried out.
    #[must_use]
    pub fn problem(status: u16, error: ProblemDetail) -> Self {
        Self::json(status, &Problem { error })
    }
}

/// Answers a request. A host sends it every request whose path begins with [`PREFIX`].
pub async fn answer<H: Host>(host: &H, app: &App, request: Request) -> Response {
    let answered = match admit(host, &request) {
        Ok(()) => route(host, app, &request).await,
        Err(refusal) => Err(refusal),
    };
    answered.unwrap_or_else(Response::from)
}

/// The refusal of a request that does not give the token, for endpoints beside [`answer`] on the same host. `None`
/// for one that does.
pub fn refused<H: Host>(host: &H, request: &Request) -> Option<Response> {
    admit(host, request).err().map(Response::from)
}

/// Lets in who gives the token. Both sides are hashed first, so that neither what differs nor the length of the
/// token shows in how long the comparison takes.
fn admit<H: Host>(host: &H, request: &Request) -> Result<(), Refusal> {
    let Some(token) = host.env(ADMIN_TOKEN).filter(|token| !token.is_empty()) else {
        return Err(not_found("there is nothing at this address"));
    };
    if token.len() < TOKEN_BYTES_MIN {
        let why = format!("{ADMIN_TOKEN} is shorter than {TOKEN_BYTES_MIN} bytes, so the endpoint stays off");
        host.log(LogEntry { level: Level::Warn, event: "admin.off", fields: vec![("error", why.into())] });
        return Err(not_found("there is nothing at this address"));
    }
    let given = request.authorization.as_deref().and_then(bearer).unwrap_or_default();
    if bool::from(Sha256::digest(token.as_bytes()).ct_eq(&Sha256::digest(given.as_bytes()))) {
        return Ok(());
    }
    let message = if given.is_empty() {
        format!("the header Authorization: Bearer TOKEN is missing; the token is the value of {ADMIN_TOKEN}")
    } else {
        format!("the token is not the value of {ADMIN_TOKEN}")
    };
    Err(Refusal { status: 401, code: "unauthorized", message })
}

/// The token of an `Authorization` header. The scheme's name has no case.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

async fn route<H: Host>(host: &H, app: &App, request: &Request) -> Result<Response, Refusal> {
    let path = request.path.strip_prefix(PREFIX).unwrap_or_default();
    let (needed, is_retry) = match path {
        "deliveries/retry" => ("POST", true),
        _ => ("GET", false),
    };
    let known = matches!(path, "status" | "deliveries") || path.starts_with("deliveries/");
    if !known {
        return Err(not_found("there are /.jadpo/status, /.jadpo/deliveries, /.jadpo/deliveries/ID and …/retry"));
    }
    if request.method != needed {
        let message = format!("{} takes {needed}, not {}", request.path, request.method);
        return Err(Refusal { status: 405, code: "method_not_allowed", message });
    }
    if is_retry {
        return Ok(Response::json(200, &retry::retry(host, app, &request.body).await?));
    }
    match path.strip_prefix("deliveries") {
        None => Ok(Response::json(200, &read::status(host, app).await?)),
        Some("") => Ok(Response::json(200, &read::list(host, app, &request.query).await?)),
        Some(id) => Ok(Response::json(200, &read::show(host, app, id.trim_start_matches('/')).await?)),
    }
}

/// Runs a batch, checks the store's version in front of it, and gives the rows of `statements`.
async fn run<H: Host>(host: &H, statements: Vec<Statement>) -> Result<Vec<Rows>, Refusal> {
    let mut all = vec![sql::version()];
    all.extend(statements);
    let mut rows = host.batch(all).await.map_err(|error| store_refusal(&error))?.into_iter();
    let version = rows.next().and_then(|rows| rows.rows.first()?.integer(0));
    if version.is_none_or(|version| version < i64::from(SCHEMA_VERSION)) {
        let behind = format!("version {}, and this build needs {SCHEMA_VERSION}", version.unwrap_or_default());
        return Err(store_refusal(&StoreError::NotCurrent(behind)));
    }
    Ok(rows.collect())
}

fn store_refusal(error: &StoreError) -> Refusal {
    let (code, advice) = match error {
        StoreError::NotCurrent(_) => ("store_not_current", "run the migrations of this build"),
        StoreError::Unavailable(_) | StoreError::Refused(_) => ("store_unavailable", "try again"),
    };
    Refusal { status: 503, code, message: format!("{error}; {advice}") }
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal { status: 400, code: "request_invalid", message: message.into() }
}

fn not_found(message: impl Into<String>) -> Refusal {
    Refusal { status: 404, code: "not_found", message: message.into() }
}
