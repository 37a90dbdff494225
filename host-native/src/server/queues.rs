//! Queues over HTTP: sent to, one message or many; and looked at.

use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use jadpo_core::broker::limits::{MESSAGE_BYTES_MAX, PRODUCERS_MAX};
use jadpo_core::broker::{BrokerError, NewBatch, Sent};
use jadpo_core::inbound::{self as rules, Surface};
use serde_json::{Value, json};

use super::guard::Act;
use super::immediate::Inline;
use super::places::Place;
use super::reply::{self, Problem, Reply};
use super::{Shared, again, immediate, inbound, look};

/// Most bytes of a batch's request: as much as its bodies may have, with room for base64 and escapes.
const BATCH_REQUEST_BYTES_MAX: usize = 2_000_000;
/// How long a call waits for one of the places at its queue before it is told to come back. Bursts are over sooner.
const PLACE_WAIT_MAX: Duration = Duration::from_secs(3);

/// One message for a queue, or a look at it.
pub(super) async fn one(shared: &Shared, head: Parts, body: Incoming, name: &str) -> Result<Reply, Problem> {
    if let Some(reply) = inbound::of_method(Surface::Queue, &head) {
        return Ok(reply);
    }
    if head.method != "POST" {
        shared.options.access.admit(&head, Act::Look)?;
        return look::queue(shared, &head, name).await;
    }
    shared.options.access.admit(&head, Act::Send)?;
    let inbound = inbound::read(shared, &head, body, MESSAGE_BYTES_MAX).await?;
    let message = rules::enqueue(inbound)?;
    let inline = immediate::takes(shared, name, message.delay_s).await?;
    if inline == Inline::Now {
        return immediate::run(shared, name, message, None, StatusCode::OK).await;
    }
    let sent = send(shared, name, NewBatch { messages: vec![message], delay_s: None }).await?;
    let id = sent.ids.first().map(ToString::to_string);
    Ok(accepted(json!({ "id": id }), inline))
}

/// Many messages for a queue: all of them are kept, or none.
pub(super) async fn batch(shared: &Shared, head: Parts, body: Incoming, name: &str) -> Result<Reply, Problem> {
    if let Some(reply) = inbound::of_method(Surface::Batch, &head) {
        return Ok(reply);
    }
    shared.options.access.admit(&head, Act::Send)?;
    let inbound = inbound::read(shared, &head, body, BATCH_REQUEST_BYTES_MAX).await?;
    let batch = rules::batch(&inbound)?;
    let inline = immediate::takes(shared, name, None).await?;
    if inline == Inline::Now {
        return immediate::run_batch(shared, name, batch).await;
    }
    let sent = send(shared, name, batch).await?;
    let ids: Vec<String> = sent.ids.iter().map(ToString::to_string).collect();
    Ok(accepted(json!({ "ids": ids }), inline))
}

/// What was kept, and where its sender would else be told what became of it, why that is not known.
fn accepted(mut told: Value, inline: Inline) -> Reply {
    if let (Some(why), Some(told)) = (inline.why(), told.as_object_mut()) {
        told.insert("waits".to_owned(), why.into());
    }
    reply::json(StatusCode::ACCEPTED, &told)
}

/// Every queue.
pub(super) async fn all(shared: &Shared, head: &Parts) -> Result<Reply, Problem> {
    if !matches!(head.method.as_str(), "GET" | "HEAD") {
        return Err(Problem::method(head.uri.path(), "GET, HEAD", head.method.as_str()));
    }
    shared.options.access.admit(head, Act::Look)?;
    look::queues(shared, head).await
}

/// Sends by a task of its own: once a request has arrived whole, it is kept whether or not its sender waits for the
/// answer.
async fn send(shared: &Shared, name: &str, batch: NewBatch) -> Result<Sent, Problem> {
    let (shared, name) = (shared.clone(), name.to_owned());
    let sending = tokio::spawn(async move { send_when_there_is_a_place(&shared, &name, batch).await });
    let sent = sending.await.map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the send failed"));
    Ok(sent??)
}

async fn send_when_there_is_a_place(shared: &Shared, name: &str, batch: NewBatch) -> Result<Sent, BrokerError> {
    let _place = place(shared, name).await?;
    again::with_queue(shared, name, || shared.broker.send(name, batch.clone())).await
}

/// One of the places of those who send to a queue. A burst gets through; what lasts is told to come back.
pub(super) async fn place(shared: &Shared, name: &str) -> Result<Place, BrokerError> {
    shared
        .senders
        .take_within(name, PLACE_WAIT_MAX)
        .await
        .ok_or_else(|| BrokerError::Overloaded(format!("{PRODUCERS_MAX} calls send to the queue `{name}` already")))
}
