//! Webhooks over HTTP: what a provider posts goes onto a queue.

use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use jadpo_core::broker::limits::MESSAGE_BYTES_MAX;
use jadpo_core::broker::{BrokerError, NewBatch, Once, SentOnce};
use jadpo_core::host::{Host, Level};
use jadpo_core::inbound::{self as rules, Hook, Surface};
use serde_json::json;

use super::guard::{Access, is_same};
use super::immediate::Inline;
use super::reply::{self, Problem, Reply};
use super::{Shared, again, immediate, inbound, queues};

/// Receives what was posted to a webhook. In production its address holds a token, and without the right one there is
/// nothing there.
pub(super) async fn receive(
    shared: &Shared,
    head: Parts,
    body: Incoming,
    name: &str,
    token: Option<&str>,
) -> Result<Reply, Problem> {
    let Some(webhook) = shared.app.program.webhooks.get(name) else { return Err(Problem::nothing_here()) };
    match (&shared.options.access, token) {
        (Access::Machine { .. }, None) => {}
        (Access::Token { .. }, Some(token)) if is_same(&shared.broker.webhook_token(name).await?, token) => {}
        _ => return Err(Problem::nothing_here()),
    }
    if let Some(reply) = inbound::of_handshake(&head).or_else(|| inbound::of_method(Surface::Webhook, &head)) {
        return Ok(reply);
    }
    shared.options.access.is_no_page(&head)?;
    let request = inbound::read(shared, &head, body, MESSAGE_BYTES_MAX).await?;
    let hook = rules::webhook(name, webhook, |variable| shared.host.env(variable), request).inspect_err(|refusal| {
        let fields =
            vec![("webhook", name.into()), ("code", refusal.code.into()), ("why", refusal.message.as_str().into())];
        shared.log(Level::Warn, "webhook.refused", fields);
    })?;
    if immediate::takes(shared, &webhook.queue, hook.message.delay_s).await? == Inline::Now {
        // The provider is told what it always is.
        return immediate::run(shared, &webhook.queue, hook.message, hook.once, StatusCode::ACCEPTED).await;
    }
    let (shared, queue) = (shared.clone(), webhook.queue.clone());
    let sending = tokio::spawn(async move { send(&shared, &queue, hook).await });
    let sent = sending.await.map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the send failed"));
    let body = match sent?? {
        SentOnce::Sent(id) => json!({ "id": id.to_string() }),
        SentOnce::Repeat(id) => json!({ "id": id.to_string(), "repeat": true }),
    };
    Ok(reply::json(StatusCode::ACCEPTED, &body))
}

async fn send(shared: &Shared, queue: &str, Hook { message, once }: Hook) -> Result<SentOnce, BrokerError> {
    let _place = queues::place(shared, queue).await?;
    if let Some((scope, key)) = &once {
        let send = || shared.broker.send_once(queue, Once { scope, key }, message.clone());
        return again::with_queue(shared, queue, send).await;
    }
    let batch = NewBatch { messages: vec![message], delay_s: None };
    let sent = again::with_queue(shared, queue, || shared.broker.send(queue, batch.clone())).await?;
    match sent.ids.first() {
        Some(id) => Ok(SentOnce::Sent(*id)),
        None => Err(BrokerError::Overloaded("the send gave no id".to_owned())),
    }
}
