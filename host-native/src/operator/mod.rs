//! The operator's endpoint, asked: of a running deployment over HTTP, or of a store's file in this process.

mod deliveries;
mod queues;
mod tokens;
mod triggers;

use std::fmt;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, header};
use jadpo_core::admin::{self, PREFIX, Problem, ProblemDetail};
use jadpo_core::bindings::ADMIN_TOKEN;
use jadpo_core::host::Host;
use jadpo_core::start::App;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::broker::Broker;
use crate::host::NativeHost;
use crate::http::{self, Client};

pub use queues::Looked;

/// How long to wait for an answer. A retry of everything may take the other side a while.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// Most bytes of an answer: a page of the longest previews, or bodies in base64, with room to spare.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What a name in a path need not be escaped for.
const NOT_IN_A_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b':');

/// What to do about a server for development, which has no token as a rule.
pub const OF_DEV: &str = "`jadpo dev` has none unless JADPO_ADMIN_TOKEN is set where it runs, and on the same machine \
    --store FILE asks without one";

/// The code of a server that cannot be asked.
const UNREACHABLE: &str = "unreachable";

/// Whoever answers.
#[derive(Debug)]
pub struct Operator(Place);

#[derive(Debug)]
enum Place {
    Url {
        /// Its address, up to the endpoint's path.
        base: String,
        token: String,
        client: Client,
    },
    /// The endpoint is asked as it is everywhere, with a token that only this value knows.
    Store {
        host: Box<NativeHost>,
        /// The app, as far as it is known.
        app: Box<App>,
        broker: Option<Broker>,
        token: String,
    },
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperatorError {
    /// What happened.
    pub what: String,
    /// What to do.
    pub help: Option<String>,
    /// Whether what was asked for is at fault.
    pub is_input: bool,
    /// Its code, where it has one of its own: the answer's, if there was an answer. See [`code`](Self::code()).
    pub code: Option<String>,
}

impl OperatorError {
    /// What was asked for is at fault.
    #[must_use]
    pub fn input(what: impl Into<String>, help: Option<&str>) -> Self {
        Self { what: what.into(), help: help.map(str::to_owned), is_input: true, code: None }
    }

    /// It could not be done.
    #[must_use]
    pub fn failed(what: impl Into<String>, help: Option<&str>) -> Self {
        Self { what: what.into(), help: help.map(str::to_owned), is_input: false, code: None }
    }

    /// The same with a code of its own.
    #[must_use]
    pub fn coded(self, code: &str) -> Self {
        Self { code: Some(code.to_owned()), ..self }
    }

    /// A code that programs can go by: its own, or which of the two kinds it is.
    #[must_use]
    pub fn code(&self) -> &str {
        self.code.as_deref().unwrap_or(if self.is_input { "input_invalid" } else { "failed" })
    }

    /// Whether nobody answered, or somebody who is not jadpo: a server that starts, or a proxy before it.
    #[must_use]
    pub fn is_no_answer(&self) -> bool {
        self.code.as_deref().is_none_or(|code| code == UNREACHABLE)
    }

    /// Whether the other side is known to have done nothing, and may do it a little later.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        self.code.as_deref() == Some("overloaded")
    }
}

impl fmt::Display for OperatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for OperatorError {}

impl Operator {
    /// Asks a running deployment.
    ///
    /// # Errors
    /// If the address is none.
    pub fn at(url: &str, token: String) -> Result<Self, OperatorError> {
        http::uri(url).map_err(|what| {
            let is_bare = !url.contains("://") && http::uri(&format!("http://{url}")).is_ok();
            let help = is_bare.then(|| format!("write http://{url}"));
            OperatorError::input(what, help.as_deref()).coded("address_invalid")
        })?;
        let base = url.trim_end_matches('/').to_owned();
        Ok(Self(Place::Url { base, token, client: Client::new() }))
    }

    /// Asks a store's file through this host. Without a broker it knows of deliveries only.
    #[must_use]
    pub fn of(host: NativeHost, app: App, broker: Option<Broker>) -> Self {
        let token = format!("{:032x}", host.random());
        let host = Box::new(host.with_env(ADMIN_TOKEN, token.clone()));
        Self(Place::Store { host, app: Box::new(app), broker, token })
    }

    /// The address of the deployment, if one is asked.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        match &self.0 {
            Place::Url { base, .. } => Some(base),
            Place::Store { .. } => None,
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, OperatorError> {
        self.ask("GET", path, Vec::new()).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, OperatorError> {
        let body = serde_json::to_vec(body).map_err(|error| OperatorError::failed(error.to_string(), None))?;
        self.ask("POST", path, body).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, OperatorError> {
        let (status, answer) = match &self.0 {
            Place::Url { base, token, client } => over_http(client, base, token, method, path, body).await?,
            Place::Store { host, app, broker, token } => {
                let (path, query) = path.split_once('?').unwrap_or((path, ""));
                let request = admin::Request {
                    method: method.to_owned(),
                    path: format!("{PREFIX}{path}"),
                    query: query.to_owned(),
                    authorization: Some(format!("Bearer {token}")),
                    body,
                };
                let answer = match broker {
                    Some(broker) => crate::admin::answer(host, app, broker, request).await,
                    None => admin::answer(&**host, app, request).await,
                };
                (answer.status, Bytes::from(answer.body))
            }
        };
        if (200..300).contains(&status)
            && let Ok(value) = serde_json::from_slice(&answer)
        {
            return Ok(value);
        }
        Err(self.refusal(status, &answer))
    }

    /// What an answer that is none of the expected means.
    fn refusal(&self, status: u16, answer: &[u8]) -> OperatorError {
        let Ok(Problem { error }) = serde_json::from_slice::<Problem>(answer) else {
            let who = match &self.0 {
                Place::Url { base, .. } => format!("`{base}` answered {status}"),
                Place::Store { .. } => format!("the store answered {status}"),
            };
            let what = format!("{who} with something that is not an answer of jadpo's");
            return OperatorError::failed(what, Some("is it the address of the Worker or the server?"));
        };
        let ProblemDetail { code, message, help, .. } = error;
        let help = match code.as_str() {
            "unauthorized" => Some(format!("give the deployment's token with --token, or in {ADMIN_TOKEN}")),
            "not_found" if message.starts_with("there is nothing") => Some(format!(
                "the operator's endpoint is on where {ADMIN_TOKEN} is set: `npx wrangler secret put {ADMIN_TOKEN}` for \
                 a Worker, an environment variable for a server; {OF_DEV}"
            )),
            _ => help,
        };
        // What is not there may only be gone or not have come yet, and what is too much now may not be later; all else is
        // the asker's slip.
        let is_input = match code.as_str() {
            "not_found" | "redrive_not_found" | "no_dead_letters" | "overloaded" => false,
            _ => (400..500).contains(&status),
        };
        OperatorError { what: message, help, is_input, code: Some(code) }
    }
}

/// A name as a part of a path.
fn segment(name: &str) -> String {
    utf8_percent_encode(name, NOT_IN_A_NAME).to_string()
}

async fn over_http(
    client: &Client,
    base: &str,
    token: &str,
    method: &str,
    path: &str,
    body: Vec<u8>,
) -> Result<(u16, Bytes), OperatorError> {
    let request = Request::builder()
        .method(method)
        .uri(format!("{base}{PREFIX}{path}"))
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)));
    let request = request
        .map_err(|_| OperatorError::input("the address or the token holds characters that HTTP does not take", None))?;
    client.request(request, ANSWER_BYTES_MAX, ANSWER_TIME_MAX).await.map_err(|why| {
        OperatorError::failed(
            format!("`{base}` cannot be asked: {why}"),
            Some("is it running, and is this its address?"),
        )
        .coded(UNREACHABLE)
    })
}
