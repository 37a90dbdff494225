//! The operator's endpoint of a native host: what the core answers on every host, and beside it queues, triggers,
//! webhooks and redrives, which only a host with queues of its own has.

mod messages;
mod queues;
mod redrives;
mod route;
mod tokens;
mod triggers;

use jadpo_core::admin::{self, ProblemDetail, Request, Response};
use jadpo_core::broker::BrokerError;
use jadpo_core::start::App;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::broker::Broker;
use crate::host::NativeHost;

pub use jadpo_core::admin::queues::BODY_BYTES_MAX;

/// Answers a request whose path begins with [`admin::PREFIX`]. The caller has read [`BODY_BYTES_MAX`] bytes of its
/// body and one at most. Nothing is answered to who does not give the token.
pub async fn answer(host: &NativeHost, app: &App, broker: &Broker, request: Request) -> Response {
    let path = request.path.strip_prefix(admin::PREFIX).unwrap_or_default();
    if !route::is_here(path) {
        return admin::answer(host, app, request).await;
    }
    if let Some(refused) = admin::refused(host, &request) {
        return refused;
    }
    let call = Call { app, broker, request: &request };
    match route::run(&call, path).await {
        Ok(response) => response,
        Err(refusal) => Response::problem(refusal.status, refusal.detail),
    }
}

/// What an answer is made of.
struct Call<'a> {
    app: &'a App,
    broker: &'a Broker,
    request: &'a Request,
}

impl Call<'_> {
    /// The body as what it must be.
    fn body<T: DeserializeOwned>(&self, what: &str) -> Result<T, Refusal> {
        let body = &self.request.body;
        if body.len() > BODY_BYTES_MAX {
            let message = format!("the body is longer than {BODY_BYTES_MAX} bytes");
            return Err(Refusal { status: 413, detail: ProblemDetail::new("request_too_large", message) });
        }
        serde_json::from_slice(body).map_err(|error| invalid(format!("the body is not {what}: {error}")))
    }

    /// The query string as pairs, all of which must be named here.
    fn query(&self, known: &[&str]) -> Result<Vec<(String, String)>, Refusal> {
        let pairs = form_urlencoded::parse(self.request.query.as_bytes()).into_owned();
        let pairs: Vec<(String, String)> = pairs.collect();
        match pairs.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(pairs),
            Some((name, _)) => {
                let name: String = name.chars().take(40).collect();
                Err(invalid(format!("the query takes {}, and not {name}", known.join(", "))))
            }
        }
    }
}

/// Why a request is not carried out.
#[derive(Debug)]
struct Refusal {
    status: u16,
    detail: ProblemDetail,
}

impl From<BrokerError> for Refusal {
    fn from(error: BrokerError) -> Self {
        Self { status: admin::queues::status(&error), detail: admin::queues::problem(&error) }
    }
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal { status: 400, detail: ProblemDetail::new("request_invalid", message.into()) }
}

fn not_found(code: &'static str, message: impl Into<String>, help: Option<String>) -> Refusal {
    Refusal { status: 404, detail: ProblemDetail { help, ..ProblemDetail::new(code, message.into()) } }
}

fn done(body: &impl Serialize) -> Result<Response, Refusal> {
    Ok(Response::json(200, body))
}

/// What was probably meant by a name that is not there: one that differs in little.
fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.map(|other| (strsim::damerau_levenshtein(name, other), other));
    let (distance, other) = near.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + name.len() / 4).then_some(other)
}
