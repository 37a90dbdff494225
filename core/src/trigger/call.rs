//! What a function is told: the message's body, the headers that it came with, and ours.

use super::declared::Triggers;
use crate::broker::{Content, Message};
use crate::inbound::{Meta, rfc3339};
use crate::program::{Target, Written};

/// One function to be called with one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionCall {
    /// The function's name.
    pub function: String,
    /// How it is reached. An address has the message's query already.
    pub target: Target,
    /// Headers in order, as their sender wrote them, then ours. A `content-type` is among them.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The query of the request that brought the message, without its `?`.
    pub query: Option<String>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// What the body is, for a function that sends it on.
    pub content: Content,
    /// What is kept with a message that is sent on.
    pub meta: Option<String>,
    /// How long it may take, in milliseconds.
    pub timeout_ms: u32,
    /// The message's id.
    pub message_id: String,
    /// The queue.
    pub queue: String,
    /// Which attempt at the message this is, from 1.
    pub attempt: u32,
    /// When the message was received, in milliseconds since 1970.
    pub received_at_ms: i64,
}

impl FunctionCall {
    /// The value of the last header of this name, in whatever case, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().rev().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }
}

impl Triggers {
    /// Whether the message can be handed over again as soon as its calls are broken off: all that it needs yet are
    /// programs, and a program that is killed does nothing more. Whoever is called over HTTP may still be at work.
    #[must_use]
    pub fn ends_when_cut(&self, queue: &str, message: &Message) -> bool {
        let done = done(message);
        let mut open = self.functions_of(queue).into_iter().filter(|(name, _)| !done.contains(name));
        open.all(|(_, function)| matches!(function.target, Target::Exec(_)))
    }

    /// The calls that a message of this queue needs yet: one for each function that has not succeeded at an earlier
    /// attempt.
    #[must_use]
    pub fn calls(&self, queue: &str, message: &Message) -> Vec<FunctionCall> {
        let Some(declared) = self.get(queue) else { return Vec::new() };
        let meta = message.meta.as_deref().and_then(Meta::decode);
        let done = done(message);
        let open = self.functions_of(queue).into_iter().filter(|(name, _)| !done.contains(name));
        open.map(|(name, function)| {
            let received_at_ms = meta.as_ref().map_or(message.sent_at_ms, |meta| meta.received_at_ms);
            let query = meta.as_ref().and_then(|meta| meta.query.clone());
            let mut call = FunctionCall {
                function: name.to_owned(),
                target: with_query(function.target, query.as_deref()),
                headers: headers(name, queue, message, meta.as_ref(), received_at_ms),
                query,
                body: message.body.clone(),
                content: message.content,
                meta: message.meta.clone(),
                timeout_ms: declared.visibility_ms,
                message_id: message.id.to_string(),
                queue: queue.to_owned(),
                attempt: message.attempts,
                received_at_ms,
            };
            // Of a function that is called, `body:` is what its schedule sends, and has been sent.
            if let (Target::Send(_), Some(written)) = (&call.target, function.body) {
                (call.content, call.body) = written_body(written);
                call.meta = None;
            }
            call
        })
        .collect()
    }
}

pub(crate) fn written_body(written: Written) -> (Content, Vec<u8>) {
    match written {
        Written::Text(text) => (Content::Text, text.into_bytes()),
        Written::Json(text) => (Content::Json, text.into_bytes()),
    }
}

/// The functions that have succeeded, one a line.
pub(super) fn done(message: &Message) -> Vec<&str> {
    message.progress.as_deref().map(|progress| progress.lines().collect()).unwrap_or_default()
}

/// The address with the query behind it. Who sends a message may not say again what the app says in the address: which
/// of two a function would go by is its own business, and the app's is the one that counts.
fn with_query(target: Target, query: Option<&str>) -> Target {
    let (Target::Call(address), Some(query)) = (&target, query.filter(|query| !query.is_empty())) else {
        return target;
    };
    let address = address.split('#').next().unwrap_or_default();
    let Some((_, own)) = address.split_once('?') else { return Target::Call(format!("{address}?{query}")) };
    let own: Vec<_> = form_urlencoded::parse(own.as_bytes()).map(|(name, _)| name.into_owned()).collect();
    let is_own = |pair: &&str| {
        let name = form_urlencoded::parse(pair.as_bytes()).next().map(|(name, _)| name.into_owned());
        name.is_some_and(|name| own.iter().any(|own| own.eq_ignore_ascii_case(&name)))
    };
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_own(pair)).collect();
    if rest.is_empty() {
        return Target::Call(address.to_owned());
    }
    Target::Call(format!("{address}&{}", rest.join("&")))
}

/// What a sender wrote and a function is not handed: the server's own name, and what only we may say.
fn is_ours(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "host" || name.starts_with("jadpo-")
}

fn headers(
    function: &str,
    queue: &str,
    message: &Message,
    meta: Option<&Meta>,
    received_at_ms: i64,
) -> Vec<(String, Vec<u8>)> {
    const SENDERS_KEY: &str = "X-Forwarded-Idempotency-Key";
    let received = meta.map(|meta| meta.headers.as_slice()).unwrap_or_default();
    let has = |wanted: &str| received.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    let mut headers: Vec<(String, Vec<u8>)> = Vec::with_capacity(received.len() + 8);
    for (name, value) in received.iter().filter(|(name, _)| !is_ours(name)) {
        // The sender's key is of its request; ours is of this call.
        let name = if name.eq_ignore_ascii_case("idempotency-key") { SENDERS_KEY } else { name };
        headers.push((name.to_owned(), value.clone()));
    }
    if !has("content-type") {
        headers.push(("Content-Type".to_owned(), content_type(message.content).into()));
    }
    let host = received.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    if let Some((_, host)) = host.filter(|_| !has("x-forwarded-host")) {
        headers.push(("X-Forwarded-Host".to_owned(), host.clone()));
    }
    let id = message.id;
    let ours = [
        ("Jadpo-Message-Id", id.to_string()),
        ("Jadpo-Queue", queue.to_owned()),
        ("Jadpo-Attempt", message.attempts.to_string()),
        ("Jadpo-Received-At", rfc3339(received_at_ms)),
        ("Idempotency-Key", format!("{id}.{function}")),
    ];
    headers.extend(ours.map(|(name, value)| (name.to_owned(), value.into_bytes())));
    headers
}

fn content_type(content: Content) -> &'static str {
    match content {
        Content::Json => "application/json",
        Content::Text => "text/plain; charset=utf-8",
        Content::Bytes | Content::V8 => "application/octet-stream",
    }
}
