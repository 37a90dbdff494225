//! The queues' page: what the addresses tell programs in JSON, for a person at a browser. It shows and does nothing.

use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use minijinja::Environment;
use minijinja::value::Serde;
use serde_json::Value;

use super::reply::{self, Reply};

/// The page of every queue.
pub(super) const QUEUES: &str = "queues.html";
/// The page of one queue.
pub(super) const QUEUE: &str = "queue.html";

const TEMPLATES: [(&str, &str); 3] = [
    ("layout.html", include_str!("layout.html")),
    (QUEUES, include_str!("queues.html")),
    (QUEUE, include_str!("queue.html")),
];

/// Nothing is loaded and nothing runs; what a sender wrote is text, whatever it holds.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Whether a browser asks. Programs that say nothing, or take anything, get JSON.
pub(super) fn is_wanted(head: &Parts) -> bool {
    let accepted = head.headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| kind.trim_start().starts_with("text/html"))
}

/// A page of what was looked at.
///
/// # Errors
/// What is wrong with the template, which a test finds first.
pub(super) fn of(template: &str, looked: &Value) -> Result<Reply, minijinja::Error> {
    let mut environment = Environment::new();
    for (name, source) in TEMPLATES {
        environment.add_template(name, source)?;
    }
    let page = environment.get_template(template)?.render(Serde(looked))?;
    let mut reply = reply::text(StatusCode::OK, "text/html; charset=utf-8", page);
    reply.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(reply)
}

#[cfg(test)]
mod tests;
