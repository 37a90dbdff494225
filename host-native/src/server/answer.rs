//! What a request is answered: the operator's endpoint, health, and nothing else yet.

use std::convert::Infallible;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode, header};
use jadpo_core::admin;

use super::Shared;

/// How long a request's body may take.
const BODY_TIME_MAX: Duration = Duration::from_secs(15);

/// Answers one request. Whatever goes wrong is an answer too.
pub(super) async fn answer(shared: Shared, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path();
    Ok(if path.starts_with(admin::PREFIX) {
        operator(shared, request).await
    } else if path == "/healthz" {
        text(StatusCode::OK, "text/plain", "ok\n".to_owned())
    } else {
        let body = r#"{"error":{"code":"not_found","message":"there is nothing at this address"}}"#;
        text(StatusCode::NOT_FOUND, "application/json", body.to_owned())
    })
}

async fn operator(shared: Shared, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let Ok(Some(body)) = tokio::time::timeout(BODY_TIME_MAX, read(body)).await else {
        let body = r#"{"error":{"code":"request_invalid","message":"the request's body did not arrive whole"}}"#;
        return text(StatusCode::REQUEST_TIMEOUT, "application/json", body.to_owned());
    };
    let authorization = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let request = admin::Request {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        authorization: authorization.map(str::to_owned),
        body,
    };
    let (host, app) = &*shared;
    let answer = admin::answer(host, app, request).await;
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    text(status, answer.content_type, answer.body)
}

/// The body, cut one byte past what the core takes, so that the core can say that it is too large. `None` if the
/// client broke off.
async fn read(mut body: Incoming) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.ok()?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > admin::BODY_BYTES_MAX {
            bytes.truncate(admin::BODY_BYTES_MAX + 1);
            break;
        }
    }
    Some(bytes)
}

fn text(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}
