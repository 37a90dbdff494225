//! What Workers ask of the server: their queues and their databases.

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use jadpo_core::d1::{self, limits::REQUEST_BYTES_MAX};

use super::{Shared, workers};
use crate::d1::{Databases, SESSION};
use crate::workerd::{Answer, Asked};

/// Answers Workers out of this server's store, and their databases.
pub(super) struct AskedByWorkers {
    shared: Shared,
    databases: Databases,
}

impl AskedByWorkers {
    pub(super) fn new(shared: &Shared, databases: Databases) -> Self {
        Self { shared: shared.clone(), databases }
    }
}

impl Asked for AskedByWorkers {
    async fn queue(&self, queue: String, delay_s: Option<u32>, request: Request<Incoming>) -> Answer {
        workers::producers::answer(&self.shared.broker, &queue, delay_s, request).await
    }

    async fn database(&self, key: String, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let session = head.headers.get(SESSION).and_then(|value| value.to_str().ok());
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let Ok(body) = Limited::new(body, REQUEST_BYTES_MAX).collect().await else {
            return json(StatusCode::PAYLOAD_TOO_LARGE, d1::failure(d1::UNHOLDABLE).into());
        };
        let answered = self.databases.answer(&key, path, session, body.to_bytes()).await;
        let mut answer = json(answered.status, answered.body);
        if let Some(session) = answered.session.and_then(|session| HeaderValue::from_str(&session).ok()) {
            answer.headers_mut().insert(SESSION, session);
        }
        answer
    }
}

fn json(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
