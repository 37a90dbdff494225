//! Our own service, which workerd asks: queues, databases, caches, and where it brings what Workers log.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, watch};

use super::config::{DELAY, NAME, SERVICE};
use super::tails::Tails;
use crate::server::connections::descriptors;

/// Most bytes of what is logged at once.
const TAIL_BYTES_MAX: usize = 16 << 20;
/// How long to wait after the system refused a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The part of this process's file descriptors that Workers have for what they ask: the rest is for everybody else. What
/// is asked past that waits.
const DESCRIPTORS_PART: usize = 4;
const PLACES_MIN: usize = 8;

/// An answer to what a Worker asks.
pub(crate) type Answer = Response<Full<Bytes>>;

/// Who answers what Workers ask of this server.
pub(crate) trait Asked: Send + Sync + 'static {
    /// What a producer sends to a queue, in workerd's form; with the delay of its binding.
    fn queue(
        &self,
        queue: String,
        delay_s: Option<u32>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Answer> + Send;

    /// What is asked of a database, by its key, in the form of workerd's D1 binding.
    fn database(&self, key: String, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

/// Answers until it is closed.
pub(super) async fn serve(
    listener: UnixListener,
    asked: Arc<impl Asked>,
    tails: Tails,
    mut closed: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new((descriptors() / DESCRIPTORS_PART).max(PLACES_MIN)));
    loop {
        let seated = async {
            // Never closed.
            let place = places.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            seated = seated => seated,
            _ = closed.wait_for(|closed| *closed) => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (asked, tails) = (asked.clone(), tails.clone());
        let service = service_fn(move |request| {
            let (asked, tails) = (asked.clone(), tails.clone());
            async move { Ok::<_, std::convert::Infallible>(answer(&*asked, &tails, request).await) }
        });
        tokio::spawn(async move {
            // workerd that ends breaks off; what it asked is done or not, as if the Worker had died a moment later.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}

async fn answer(asked: &impl Asked, tails: &Tails, request: Request<Incoming>) -> Answer {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let name = header(NAME).map(|name| percent_decode_str(&name.replace('+', " ")).decode_utf8_lossy().into_owned());
    let name = name.unwrap_or_default();
    match header(SERVICE) {
        Some("queue") => {
            let delay_s = header(DELAY).and_then(|delay| delay.parse().ok());
            asked.queue(name, delay_s, request).await
        }
        Some("d1") => asked.database(name, request).await,
        Some("tail") => match Limited::new(request.into_body(), TAIL_BYTES_MAX).collect().await {
            Ok(body) => {
                tails.tell(&body.to_bytes());
                said(StatusCode::OK, String::new())
            }
            Err(error) => said(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
        },
        Some("cache") => cache(request.method()),
        _ => said(StatusCode::NOT_FOUND, "there is nothing at this address".to_owned()),
    }
}

/// A cache that never has anything, in the form in which workerd asks one.
fn cache(method: &Method) -> Answer {
    match method.as_str() {
        "PUT" => said(StatusCode::NO_CONTENT, String::new()),
        "PURGE" => said(StatusCode::NOT_FOUND, String::new()),
        _ => {
            let mut miss = said(StatusCode::GATEWAY_TIMEOUT, String::new());
            miss.headers_mut().insert("cf-cache-status", hyper::header::HeaderValue::from_static("MISS"));
            miss
        }
    }
}

fn said(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer
}
