//! What a request is answered. Whatever goes wrong is an answer too.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode, header};
use jadpo_core::admin as rules;

use super::connections::Connection;
use super::reply::{self, Problem, Reply};
use super::route::Route;
use super::{Shared, api, body, health, queues, webhooks};
use crate::admin;

/// Answers one request.
pub(super) async fn answer(
    shared: Shared,
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Reply, Infallible> {
    let _turn = connection.serves();
    let (mut head, body) = request.into_parts();
    head.extensions.insert(connection.clone());
    let path = head.uri.path().to_owned();
    let answered = match Route::of(&path) {
        Route::Alive => only_get(&head).map(|()| health::alive()),
        Route::Ready => match only_get(&head) {
            Ok(()) => Ok(health::ready(&shared).await),
            Err(problem) => Err(problem),
        },
        Route::Queues => queues::all(&shared, &head).await,
        Route::Queue(name) => queues::one(&shared, head, body, name).await,
        Route::Batch(name) => queues::batch(&shared, head, body, name).await,
        Route::Webhook(name, token) => webhooks::receive(&shared, head, body, name, token).await,
        Route::Api => Ok(api::answer(&shared, &head, body).await),
        Route::Operator => operator(&shared, &head, body).await,
        Route::Nothing => Err(Problem::nothing_here()),
    };
    Ok(answered.unwrap_or_else(Reply::from))
}

fn only_get(head: &Parts) -> Result<(), Problem> {
    match head.method.as_str() {
        "GET" | "HEAD" => Ok(()),
        method => Err(Problem::method(head.uri.path(), "GET, HEAD", method)),
    }
}

async fn operator(shared: &Shared, head: &Parts, body: Incoming) -> Result<Reply, Problem> {
    let authorization = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let mut request = rules::Request {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        authorization: authorization.map(str::to_owned),
        body: Vec::new(),
    };
    // Of who gives no token, nothing is read.
    let answer = match rules::refused(&shared.host, &request) {
        Some(refused) => refused,
        None => {
            request.body = body::read(shared, head, body, admin::BODY_BYTES_MAX).await?;
            admin::answer(&shared.host, &shared.app, &shared.broker, request).await
        }
    };
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Ok(reply::text(status, answer.content_type, answer.body))
}
