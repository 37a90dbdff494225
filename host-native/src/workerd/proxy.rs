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
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use jadpo_core::host::{Level, LogEntry};
use jadpo_core::workers::Worker;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use super::config::CF_HEADER;
use super::link::{Body, Unanswered};
use super::phase::{Open, Phases};
use super::scheduled;
use super::tails::Tails;
use super::visitors::{Awaited, Made, Turn, Visitors};
use crate::log;
use crate::server::connections::Connection;
use crate::server::paced::Paced;

/// How long a request waits for workerd to be there again.
const HELD_MAX: Duration = Duration::from_secs(10);
/// How long a connection may take to send a request's head.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// How long to wait after the system refused a connection, or a new workerd did not take one.
const PAUSE: Duration = Duration::from_millis(100);

/// A Worker's address.
pub(super) struct Door {
    /// The Worker's place among those that were given.
    pub(super) index: usize,
    pub(super) phases: Phases,
    pub(super) visitors: Visitors,
    /// Whether its requests are told of, and its clients what it throws.
    pub(super) is_dev: bool,
    pub(super) workers: watch::Receiver<Arc<Vec<Worker>>>,
    pub(super) tails: Tails,
}

impl Door {
    /// The Worker's name, which a reload may change.
    fn worker(&self) -> String {
        self.workers.borrow().get(self.index).map(|worker| worker.name.clone()).unwrap_or_default()
    }
}

/// Serves a Worker's address until it is closed; then requests that run may go on for the grace.
pub(super) async fn serve(listener: TcpListener, door: Door, grace: Duration, mut closed: watch::Receiver<bool>) {
    let door = Arc::new(door);
    // Each connection has one, and when all have gone nothing comes any more.
    let (here, mut all_gone) = mpsc::channel::<Infallible>(1);
    loop {
        let seated = async {
            let (stream, peer) = listener.accept().await?;
            Ok::<_, std::io::Error>((stream, peer, door.visitors.seat().await))
        };
        let seated = tokio::select! {
            seated = seated => seated,
            _ = closed.wait_for(|closed| *closed) => break,
        };
        let Ok((stream, peer, seat)) = seated else {
            sleep(PAUSE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (door, connection) = (door.clone(), seat.connection.clone());
        let service = service_fn(move |request| {
            let (door, connection) = (door.clone(), connection.clone());
            async move { Ok::<_, Infallible>(served(&door, peer, connection, request).await) }
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .half_close(true)
            .serve_connection(TokioIo::new(Paced::new(stream)), service)
            .with_upgrades();
        let (mut closed, here) = (closed.clone(), here.clone());
        tokio::spawn(async move {
            let mut serving = std::pin::pin!(serving);
            let is_to_close = async {
                let _ = closed.wait_for(|closed| *closed).await;
            };
            tokio::select! {
                biased;
                // A client that breaks off is no event of ours.
                _ = serving.as_mut() => {}
                () = is_to_close => {
                    serving.as_mut().graceful_shutdown();
                    let _ = timeout(grace, serving).await;
                }
                () = seat.connection.is_to_leave() => {}
            }
            drop((seat, here));
        });
    }
    drop((listener, here));
    let _ = timeout(grace, all_gone.recv()).await;
}

/// Answers a request. It is the Worker's turn until the answer has been made, except while it wants more of the
/// request's body than there is.
async fn served(
    door: &Door,
    peer: SocketAddr,
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Response<Body> {
    let turn = Turn::of(connection);
    let asked = Asked { method: request.method().clone(), path: path_of(&request), since: Instant::now() };
    let answer = if door.is_dev && scheduled::is_meant(request.uri()) {
        let (status, told) = scheduled::answer(request.uri(), &door.worker(), &door.phases, &door.tails).await;
        text(status, told)
    } else {
        answer(door, peer, request.map(|body| Awaited::new(body, turn.clone()))).await
    };
    let answer = if door.is_dev { asked.told(door, answer).await } else { answer };
    answer.map(|body| Made::new(body, turn).boxed_unsync())
}

/// What was asked, for who develops the Worker.
struct Asked {
    method: Method,
    path: String,
    since: Instant,
}

impl Asked {
    /// Tells of a request. If the Worker threw, the client is told what, as by Wrangler's own server.
    async fn told(self, door: &Door, mut answer: Response<Body>) -> Response<Body> {
        let ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let worker = door.worker();
        let during = format!("{} {}", self.method, self.path);
        // workerd's own words for it have no type.
        let may_have_thrown = answer.status() == StatusCode::INTERNAL_SERVER_ERROR
            && !answer.headers().contains_key(header::CONTENT_TYPE)
            && self.method != Method::HEAD;
        if may_have_thrown && let Some(thrown) = door.tails.thrown_by_fetch(&worker, &during, self.since).await {
            answer = text(StatusCode::INTERNAL_SERVER_ERROR, format!("{}\n", thrown.trim_end()));
        }
        let status = answer.status().as_u16();
        let fields =
            vec![("worker", worker.into()), ("during", during.into()), ("status", status.into()), ("ms", ms.into())];
        log::write(&LogEntry { level: Level::Info, event: "worker.http", fields });
        answer
    }
}

fn path_of(request: &Request<Incoming>) -> String {
    request.uri().path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string)
}

async fn answer(door: &Door, peer: SocketAddr, mut request: Request<Awaited>) -> Response<Body> {
    let upgrade = wanted_upgrade(request.headers());
    let socket = match upgrade.is_some().then(|| door.visitors.sockets.clone().try_acquire_owned()) {
        Some(Err(_)) => return unavailable("there are as many WebSockets as there may be"),
        Some(Ok(socket)) => Some(socket),
        None => None,
    };
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
    let (answer, open) = loop {
        let up = match door.phases.up(until).await {
            Ok(up) => up,
            Err(why) => return unavailable(&why),
        };
        let busy = up.begin();
        let Some(link) = up.workers.get(door.index) else {
            return unavailable("this Worker does not run any more");
        };
        match link.send(request).await {
            Ok(answer) => break (answer, busy.answered()),
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
    handed_back(answer, client.zip(socket), open)
}

fn handed_back(
    mut answer: Response<Incoming>,
    client: Option<(OnUpgrade, OwnedSemaphorePermit)>,
    open: Open,
) -> Response<Body> {
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        if let Some((client, socket)) = client {
            let worker = hyper::upgrade::on(&mut answer);
            tokio::spawn(async move {
                if let (Ok(client), Ok(worker)) = tokio::join!(client, worker) {
                    let (mut client, mut worker) = (TokioIo::new(client), TokioIo::new(worker));
                    // Whoever ends it, both sides see it.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut worker).await;
                }
                drop((socket, open));
            });
        }
        return answer.map(|body| body.map_err(Into::into).boxed_unsync());
    }
    hop_by_hop_out(answer.headers_mut());
    let failed = move |error: hyper::Error| {
        let _while_it_is_streamed = &open;
        error.into()
    };
    answer.map(|body| body.map_err(failed).boxed_unsync())
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
