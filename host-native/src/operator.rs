//! The operator's endpoint, asked: of a running deployment over HTTP, or of a store's file in this process.

use std::fmt;
use std::time::Duration;

use form_urlencoded::Serializer;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, header};
use jadpo_core::admin::{
    self, Filter, Item, Kind, LIMIT_MAX, Listing, PREFIX, Problem, RETRY_IDS_MAX, Retried, RetryRequest,
};
use jadpo_core::bindings::ADMIN_TOKEN;
use jadpo_core::host::Host;
use jadpo_core::start::App;

use crate::host::NativeHost;
use crate::http::{self, Client};

/// How long to wait for an answer. A retry of everything may take the other side a while.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// Most bytes of an answer: a page of the longest previews, or one body in base64, with room to spare.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Whoever answers.
#[derive(Debug)]
pub enum Operator {
    /// A running deployment.
    Url {
        /// Its address, up to the endpoint's path.
        base: String,
        /// The token it was given.
        token: String,
        /// What asks it.
        client: Client,
    },
    /// A store's file. The core is asked as it is everywhere, with a token that only this value knows.
    Store {
        /// What reads the file.
        host: Box<NativeHost>,
        /// The app, as far as it is known: it names the queue of a failed delivery.
        app: Box<App>,
        /// The token.
        token: String,
    },
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorError {
    /// What happened.
    pub what: String,
    /// What to do.
    pub help: Option<String>,
    /// Whether what was asked for is at fault.
    pub is_input: bool,
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
        http::uri(url).map_err(|what| OperatorError { what, help: None, is_input: true })?;
        Ok(Self::Url { base: url.trim_end_matches('/').to_owned(), token, client: Client::new() })
    }

    /// Asks a store's file through this host.
    #[must_use]
    pub fn of(host: NativeHost, app: App) -> Self {
        let token = format!("{:032x}", host.random());
        let host = Box::new(host.with_env(ADMIN_TOKEN, token.clone()));
        Self::Store { host, app: Box::new(app), token }
    }

    /// What is parked or has failed, `limit` items at most, and whether there is more.
    ///
    /// # Errors
    /// [`OperatorError`] if there is no answer, or the answer is a refusal.
    pub async fn list(&self, filter: &Filter, limit: usize) -> Result<(Vec<Item>, bool), OperatorError> {
        let mut items: Vec<Item> = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let wanted = limit.saturating_sub(items.len()).min(LIMIT_MAX as usize);
            let path = format!("deliveries?{}", query(filter, wanted, after.as_deref()));
            let page: Listing = self.ask("GET", &path, Vec::new()).await?;
            let got = page.items.len();
            items.extend(page.items);
            match page.next {
                Some(next) if items.len() < limit && got > 0 => after = Some(next),
                next => return Ok((items, next.is_some())),
            }
        }
    }

    /// One item, whole.
    ///
    /// # Errors
    /// As [`Operator::list`].
    pub async fn show(&self, id: &str) -> Result<Item, OperatorError> {
        let id: String = form_urlencoded::byte_serialize(id.as_bytes()).collect();
        self.ask("GET", &format!("deliveries/{id}"), Vec::new()).await
    }

    /// Retries these items.
    ///
    /// # Errors
    /// As [`Operator::list`]. Ids before the failure may have been retried.
    pub async fn retry(&self, ids: &[String]) -> Result<Retried, OperatorError> {
        let mut all = Retried::default();
        for some in ids.chunks(RETRY_IDS_MAX) {
            let retried = self.ask_retry(&RetryRequest::ids(some.to_vec())).await?;
            all.retried += retried.retried;
            all.unknown.extend(retried.unknown);
        }
        Ok(all)
    }

    /// Retries everything that fits the filter.
    ///
    /// # Errors
    /// As [`Operator::list`]. Some items may have been retried.
    pub async fn retry_all(&self, filter: &Filter) -> Result<Retried, OperatorError> {
        let mut all = Retried::default();
        loop {
            let retried = self.ask_retry(&RetryRequest::all(filter.clone())).await?;
            all.retried += retried.retried;
            if !retried.more || retried.retried == 0 {
                return Ok(all);
            }
        }
    }

    async fn ask_retry(&self, request: &RetryRequest) -> Result<Retried, OperatorError> {
        let body = serde_json::to_vec(request).map_err(|error| OperatorError {
            what: error.to_string(),
            help: None,
            is_input: false,
        })?;
        self.ask("POST", "deliveries/retry", body).await
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, OperatorError> {
        let (status, answer) = match self {
            Self::Url { base, token, client } => over_http(client, base, token, method, path, body).await?,
            Self::Store { host, app, token } => {
                let (path, query) = path.split_once('?').unwrap_or((path, ""));
                let request = admin::Request {
                    method: method.to_owned(),
                    path: format!("{PREFIX}{path}"),
                    query: query.to_owned(),
                    authorization: Some(format!("Bearer {token}")),
                    body,
                };
                let answer = admin::answer(&**host, app, request).await;
                (answer.status, Bytes::from(answer.body))
            }
        };
        if status == 200
            && let Ok(value) = serde_json::from_slice(&answer)
        {
            return Ok(value);
        }
        Err(self.refusal(status, &answer))
    }

    /// What an answer that is none of the expected means.
    fn refusal(&self, status: u16, answer: &[u8]) -> OperatorError {
        let Ok(problem) = serde_json::from_slice::<Problem>(answer) else {
            let who = match self {
                Self::Url { base, .. } => format!("`{base}` answered {status}"),
                Self::Store { .. } => format!("the store answered {status}"),
            };
            return OperatorError {
                what: format!("{who} with something that is not an answer of jadpo's"),
                help: Some("is it the address of the Worker or the server?".to_owned()),
                is_input: false,
            };
        };
        let code = problem.error.code.as_str();
        let help = match code {
            "unauthorized" => Some(format!("give the deployment's token with --token, or in {ADMIN_TOKEN}")),
            "not_found" if problem.error.message.starts_with("there is nothing") => Some(format!(
                "the operator's endpoint is on where {ADMIN_TOKEN} is set: `npx wrangler secret put {ADMIN_TOKEN}` for \
                 a Worker, an environment variable for a server"
            )),
            _ => None,
        };
        OperatorError {
            what: problem.error.message,
            help,
            is_input: matches!(code, "unauthorized" | "request_invalid" | "request_too_large"),
        }
    }
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
    let request = request.map_err(|_| OperatorError {
        what: "the address or the token holds characters that HTTP does not take".to_owned(),
        help: None,
        is_input: true,
    })?;
    client.request(request, ANSWER_BYTES_MAX, ANSWER_TIME_MAX).await.map_err(|why| OperatorError {
        what: format!("`{base}` cannot be asked: {why}"),
        help: Some("is it running, and is this its address?".to_owned()),
        is_input: false,
    })
}

fn query(filter: &Filter, limit: usize, after: Option<&str>) -> String {
    let kind = filter.kind.map(|kind| match kind {
        Kind::Parked => "parked",
        Kind::Failed => "failed",
    });
    let mut query = Serializer::new(String::new());
    query.append_pair("limit", &limit.to_string());
    for (name, value) in [
        ("kind", kind),
        ("queue", filter.queue.as_deref()),
        ("connection", filter.connection.as_deref()),
        ("reason", filter.reason.as_deref()),
        ("subscriber", filter.subscriber.as_deref()),
        ("event", filter.event.as_deref()),
        ("after", after),
    ] {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    query.finish()
}
