//! The Workers' HTTP: each has an address of its own, and what comes there goes to it. While workerd starts anew,
//! requests wait.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

use super::config::CF_HEADER;
use super::link::{Body, Unanswered};
use super::phase::Phases;

/// How long a request waits for workerd to be there again.
const HELD_MAX: Duration = Duration::from_secs(10);
/// Connections of one Worker's address at a time.
const CONNECTIONS_MAX: usize = 1_000;
/// How long a connection may take to send a request's head.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// How long to wait after the system refused a connection, or a new workerd did not take one.
const PAUSE: Duration = Duration::from_millis(100);

/// What is the same for every request of a Worker's address.
struct Door {
    /// The Worker's place among those that were given.
    index: usize,
    phases: Phases,
}

/// Serves a Worker's address until it is closed; then requests that run may go on for the grace.
pub(super) async fn serve(
    listener: TcpListener,
    index: usize,
    phases: Phases,
    grace: Duration,
    mut closed: watch::Receiver<bool>,
) {
    let door = Arc::new(Door { index, phases });
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let seated = async {
            let place = places.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            seated = seated => seated,
            _ = closed.wait_for(|closed| *closed) => break,
        };
        let Ok((stream, peer)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let door = door.clone();
        let service = service_fn(move |request| {
            let door = door.clone();
            async move { Ok::<_, Infallible>(answer(&door, peer, request).await) }
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut closed = closed.clone();
        tokio::spawn(async move {
            let mut serving = std::pin::pin!(serving);
            let is_to_close = async {
                let _ = closed.wait_for(|closed| *closed).await;
            };
            tokio::select! {
                // A client that breaks off is no event of ours.
                _ = serving.as_mut() => {}
                () = is_to_close => {
                    serving.as_mut().graceful_shutdown();
                    let _ = timeout(grace, serving).await;
                }
            }
            drop(place);
        });
    }
    drop(listener);
    let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
    let _ = timeout(grace, places.acquire_many(all)).await;
}

async fn answer(door: &Door, peer: SocketAddr, mut request: Request<Incoming>) -> Response<Body> {
    let upgrade = wanted_upgrade(request.headers());
    let client = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    let (mut parts, body) = request.into_parts();
    hop_by_hop_out(&mut parts.headers);
    parts.headers.remove(header::EXPECT);
    if let Some(protocol) = upgrade {
        parts.headers.insert(header::UPGRADE, protocol);
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    // What Cloudflare says of a client: nobody else may say it.
    if let Ok(ip) = HeaderValue::from_str(&peer.ip().to_canonical().to_string()) {
        parts.headers.insert("cf-connecting-ip", ip);
    }
    parts.headers.insert(HeaderName::from_static(CF_HEADER), HeaderValue::from_static(CF));
    // One that changes nothing may be asked again if workerd dies over it.
    let mut again = (parts.method.is_safe() && body.is_end_stream()).then(|| parts.clone());
    let mut request = Request::from_parts(parts, body.map_err(Into::into).boxed_unsync());
    let until = Instant::now() + HELD_MAX;
    let answer = loop {
        let up = match door.phases.up(until).await {
            Ok(up) => up,
            Err(why) => return unavailable(&why),
        };
        let _busy = up.begin();
        let Some(link) = up.workers.get(door.index) else {
            return unavailable("this Worker does not run any more");
        };
        match link.send(request).await {
            Ok(answer) => break answer,
            Err(Unanswered::Unsent(_, unsent)) if Instant::now() < until => {
                // It has just ended, and the next one is not there yet.
                request = *unsent;
                sleep(PAUSE).await;
            }
            Err(Unanswered::Unsent(why, _)) => return unavailable(&why),
            Err(Unanswered::Broken(why)) => {
                let (outcome, ended) = up.ended_soon().await;
                // But not if it may itself have held the thread.
                if let Some(parts) = again.take().filter(|_| ended.is_some() && outcome != "exceededCpu") {
                    request = Request::from_parts(parts, Empty::new().map_err(|never| match never {}).boxed_unsync());
                    continue;
                }
                return text(StatusCode::BAD_GATEWAY, format!("the Worker did not answer: {}\n", ended.unwrap_or(why)));
            }
        }
    };
    handed_back(answer, client)
}

fn handed_back(mut answer: Response<Incoming>, client: Option<hyper::upgrade::OnUpgrade>) -> Response<Body> {
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        if let Some(client) = client {
            let worker = hyper::upgrade::on(&mut answer);
            tokio::spawn(async move {
                if let (Ok(client), Ok(worker)) = tokio::join!(client, worker) {
                    let (mut client, mut worker) = (TokioIo::new(client), TokioIo::new(worker));
                    // Whoever ends it, both sides see it.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut worker).await;
                }
            });
        }
        return answer.map(|body| body.map_err(Into::into).boxed_unsync());
    }
    hop_by_hop_out(answer.headers_mut());
    answer.map(|body| body.map_err(Into::into).boxed_unsync())
}

/// Headers that are about one connection only.
fn hop_by_hop_out(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let always = [
        header::CONNECTION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::PROXY_AUTHORIZATION,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
    ];
    for name in named.iter().chain(&always) {
        headers.remove(name);
    }
}

fn wanted_upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let connection = headers.get(header::CONNECTION)?.to_str().ok()?;
    let says = connection.split(',').any(|part| part.trim().eq_ignore_ascii_case("upgrade"));
    // Any other protocol is one that the client would like, and workerd does not speak.
    let protocol = headers.get(header::UPGRADE)?;
    (says && protocol.as_bytes().eq_ignore_ascii_case(b"websocket")).then(|| protocol.clone())
}

fn unavailable(why: &str) -> Response<Body> {
    let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, format!("the Worker cannot be asked now: {why}\n"));
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

fn text(status: StatusCode, text: String) -> Response<Body> {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// `request.cf`: there is no edge here, and a Worker that reads it finds the names that it knows.
const CF: &str = concat!(
    r#"{"asOrganization":"","asn":0,"botManagement":{"score":99,"verifiedBot":false},"city":"","clientTcpRtt":0,"#,
    r#""colo":"DEV","continent":"","country":"XX","httpProtocol":"HTTP/1.1","isEUCountry":"0","latitude":"0","#,
    r#""longitude":"0","postalCode":"","region":"","regionCode":"","timezone":"UTC","tlsCipher":"","#,
    r#""tlsClientAuth":{"certPresented":"0","certVerified":"NONE"},"tlsVersion":""}"#
);
