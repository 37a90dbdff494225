//! What a Worker's `queue` binding asks, answered.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::ext::ReasonPhrase;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use jadpo_core::push::{self, Call, Refused};

use crate::broker::Broker;

const CAUSE: HeaderName = HeaderName::from_static("cf-queues-error-cause");
const CODE: HeaderName = HeaderName::from_static("cf-queues-error-code");

/// Answers one request of a binding to this queue, whose `delivery_delay` is `delay_s`, when what it sends is on disk.
pub(crate) async fn answer(
    broker: &Broker,
    queue: &str,
    delay_s: Option<u32>,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    match carry_out(broker, queue, delay_s, request).await {
        Ok(answer) => {
            let mut response = Response::new(Full::new(answer.into()));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(refused) => told(refused),
    }
}

async fn carry_out(
    broker: &Broker,
    queue: &str,
    delay_s: Option<u32>,
    request: Request<Incoming>,
) -> Result<String, Refused> {
    let (head, mut body) = request.into_parts();
    let header = |name| head.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let call = match Call::read(head.method.as_str(), head.uri.path(), header) {
        Ok(call) => call,
        Err(refused) => {
            drop_rest(&mut body).await;
            return Err(refused);
        }
    };
    let body = read(body, call.body_bytes_max()).await?;
    match call.messages(body, delay_s)? {
        Some(batch) => Ok(push::sent(&broker.send(queue, batch).await?)),
        None => Ok(push::metrics(&broker.metrics(queue).await?)),
    }
}

async fn read(mut body: Incoming, max: usize) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refused::broken_off())?.into_data() else { continue };
        if bytes.len() + data.len() > max {
            let seen = bytes.len() + data.len() + drop_rest(&mut body).await;
            return Err(Refused::body_too_large(max, seen));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// Reads the rest and drops it, so that workerd, which sends before it reads, gets to know why it is refused. How many
/// bytes there were.
async fn drop_rest(body: &mut Incoming) -> usize {
    let mut seen = 0;
    while let Some(Ok(frame)) = body.frame().await {
        seen += frame.data_ref().map_or(0, Bytes::len);
    }
    seen
}

/// On new compatibility dates a Worker reads the headers, on old ones the status line.
fn told(refused: Refused) -> Response<Full<Bytes>> {
    let Refused { status, code, cause } = refused;
    let mut response = Response::new(Full::new(Bytes::from(cause.clone())));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Ok(cause) = HeaderValue::from_str(&cause) {
        response.headers_mut().insert(CAUSE, cause);
    }
    if let Ok(reason) = ReasonPhrase::try_from(cause.into_bytes()) {
        response.extensions_mut().insert(reason);
    }
    response.headers_mut().insert(CODE, code.into());
    response
}
