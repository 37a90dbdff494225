//! What comes in: requests to a queue's address or a webhook's, and an app's folder.

use jadpo_core::admin::queues::status;
use jadpo_core::broker::{BrokerError, MessageId, NewBatch, NewMessage, Once, SentOnce};
use jadpo_core::host::Host as _;
use jadpo_core::inbound::{self, Inbound, Refusal};
use jadpo_core::queue::Body;

use super::store::operate;
use super::{TestServer, immediate};

/// A POST.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    headers: Vec<(String, Vec<u8>)>,
    query: Option<String>,
    body: Vec<u8>,
}

/// What a POST was answered. Status 0: nothing, since the server died over it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Posted {
    /// The HTTP status.
    pub status: u16,
    /// The message's id, if it is kept.
    pub id: Option<String>,
    /// Whether it was known already, and nothing was kept.
    pub is_repeat: bool,
    /// What was wrong, in words.
    pub error: Option<String>,
}

impl Request {
    /// A request with this body and its content type.
    #[must_use]
    pub fn of(body: Body) -> Self {
        let (kind, body) = match body {
            Body::Text(text) | Body::Unreadable { shown: text, .. } => ("text/plain; charset=utf-8", text.into_bytes()),
            Body::Json(json) => ("application/json", json.into_bytes()),
            Body::Bytes(bytes) => ("application/octet-stream", bytes),
        };
        Self { headers: Vec::new(), query: None, body }.header("content-type", kind)
    }

    /// The same with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.as_bytes().to_vec()));
        self
    }

    /// The same with a query, without its `?`: `delay=60`.
    #[must_use]
    pub fn query(mut self, query: &str) -> Self {
        self.query = Some(query.to_owned());
        self
    }

    fn inbound(self, server: &TestServer, path: String) -> Inbound {
        let Self { headers, query, body } = self;
        Inbound { method: "POST".to_owned(), path, query, headers, body, received_at_ms: server.host.now_ms() }
    }
}

impl Posted {
    fn kept(id: MessageId, is_repeat: bool) -> Self {
        Self { status: 202, id: Some(id.to_string()), is_repeat, error: None }
    }
}

impl From<Refusal> for Posted {
    fn from(refusal: Refusal) -> Self {
        Self { status: refusal.status, error: Some(refusal.message), ..Self::default() }
    }
}

impl From<BrokerError> for Posted {
    fn from(error: BrokerError) -> Self {
        Self { status: status(&error), error: Some(error.to_string()), ..Self::default() }
    }
}

pub(super) async fn enqueue(server: &TestServer, queue: &str, request: Request) -> Posted {
    match inbound::enqueue(request.inbound(server, format!("/_queues/{queue}"))) {
        Ok(message) => match immediate::takes(server, queue, &message) {
            Some(declared) => {
                let sent = immediate::send(server, declared, message).await;
                sent.map_or_else(Posted::from, |id| Posted { status: 200, ..Posted::kept(id, false) })
            }
            None => send(server, queue, message).await.unwrap_or_else(Posted::from),
        },
        Err(refusal) => refusal.into(),
    }
}

pub(super) async fn webhook(server: &TestServer, name: &str, request: Request) -> Posted {
    let Some(webhook) = server.app.program.webhooks.get(name) else {
        return Posted { status: 404, error: Some(format!("there is no webhook {name}")), ..Posted::default() };
    };
    let request = request.inbound(server, format!("/_webhooks/{name}"));
    let hook = match inbound::webhook(name, webhook, |variable| server.host.env(variable), request) {
        Ok(hook) => hook,
        Err(refusal) => return refusal.into(),
    };
    let Some((scope, key)) = hook.once else {
        return send(server, &webhook.queue, hook.message).await.unwrap_or_else(Posted::from);
    };
    let sent = operate(&server.host, &server.queues, |broker, sql, moment| {
        broker.send_once(sql, moment, &webhook.queue, Once { scope: &scope, key: &key }, &hook.message)
    });
    match sent.await {
        Ok(SentOnce::Sent(id)) => Posted::kept(id, false),
        Ok(SentOnce::Repeat(id)) => Posted::kept(id, true),
        Err(error) => error.into(),
    }
}

/// Sends a message; also what a function with `send:` does.
pub(super) async fn send(server: &TestServer, queue: &str, message: NewMessage) -> Result<Posted, BrokerError> {
    let batch = NewBatch { messages: vec![message], delay_s: None };
    let sent = operate(&server.host, &server.queues, |broker, sql, moment| broker.send(sql, moment, queue, &batch));
    let sent = sent.await?;
    Ok(sent.ids.first().map(|id| Posted::kept(*id, false)).unwrap_or_default())
}
