//! Pulling: what is asked for, how answers are read, what a connection does next, and that nothing is lost by it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::string_slice, clippy::panic)]

mod answers;
mod course;
mod held_back;
mod messages;
mod requests;
mod simulated;

use std::sync::Arc;

use jadpo_core::app;
use jadpo_core::pulling::{Answer, Lent, Source};
use jadpo_core::queue::{Body, Message};

/// The time of the tests, in milliseconds since 1970.
pub(crate) const NOW_MS: i64 = 1_796_000_000_000;
pub(crate) const QUEUE_ID: &str = "5e1b9969eb974d8c99c48d19df104c7a";

/// An app with one connection that is pulled from, and more settings of it.
pub(crate) fn source_with(more: &str) -> Arc<Source> {
    let text = format!(
        r#"app: "shop"
        connections: {{ supply: {{ driver: Driver.cloudflare_pull, account: env("ACCOUNT"), token: env("TOKEN"){more} }} }}
        events: {{ Moved: Json }}
        receiving: {{ supply: {{ event: Moved }} }}"#
    );
    let compiled = app::compile(&text);
    let program = compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.problems));
    Arc::new(Source::all(&program).remove(0))
}

/// One that names its queue by its id.
pub(crate) fn source() -> Arc<Source> {
    source_with(&format!(", queue_id: \"{QUEUE_ID}\""))
}

/// One that names it by its name.
pub(crate) fn source_by_name() -> Arc<Source> {
    source_with(", queue: \"jobs\"")
}

pub(crate) fn environment(name: &str) -> Option<String> {
    match name {
        "ACCOUNT" => Some("0123456789abcdef0123456789abcdef".to_owned()),
        "TOKEN" => Some("hush".to_owned()),
        _ => None,
    }
}

pub(crate) fn answer(status: u16, body: &str) -> Answer<'_> {
    Answer { status, retry_after: None, body: body.as_bytes() }
}

pub(crate) fn lent(number: u32) -> Lent {
    let message = Message { id: format!("m{number}"), sent_at_ms: 0, attempts: 1, body: Body::Text(String::new()) };
    Lent { lease_id: format!("lease {number}"), message }
}
