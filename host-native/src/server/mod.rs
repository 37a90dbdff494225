//! The server: HTTP and the tick, until it is told to stop.

mod answer;
mod ticks;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use jadpo_core::host::{Host, Level, LogEntry};
use jadpo_core::start::App;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::host::NativeHost;

/// Connections served at a time. What comes on top waits to be accepted.
const CONNECTIONS_MAX: usize = 1024;
/// How long a connection may take to send a request's head, the first as any later one.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Most bytes of a request's head.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How long requests that run may go on once the server is told to stop.
const GRACE: Duration = Duration::from_secs(10);
/// How long to wait after the system refused a connection, which it does when it is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a server does.
#[derive(Debug)]
pub struct Server {
    /// What carries out the core's decisions.
    pub host: NativeHost,
    /// The app.
    pub app: App,
    /// Where HTTP is answered, if it is.
    pub listener: Option<TcpListener>,
    /// How often the tick runs, if it does.
    pub tick_every: Option<Duration>,
}

impl Server {
    /// Runs until `stop` says so, then lets what runs end in an orderly way.
    pub async fn run(self, stop: impl Future<Output = &'static str>) {
        let Self { host, app, listener, tick_every } = self;
        let shared = Arc::new((host, app));
        let (stopping, stopped) = watch::channel(false);
        let at = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        log(&shared.0, Level::Info, "server.started", started(&shared.1, at, tick_every));
        let ticks = tick_every.map(|every| tokio::spawn(ticks::run(shared.clone(), every, stopped.clone())));
        let http = listener.map(|listener| tokio::spawn(serve(listener, shared.clone(), stopped)));
        let why = stop.await;
        log(&shared.0, Level::Info, "server.stopping", vec![("signal", why.into())]);
        // Both only end early by a panic, which has said why on standard error.
        let _ = stopping.send(true);
        for task in [ticks, http].into_iter().flatten() {
            let _ = task.await;
        }
        log(&shared.0, Level::Info, "server.stopped", vec![]);
    }
}

fn started(app: &App, at: Option<SocketAddr>, every: Option<Duration>) -> Vec<(&'static str, serde_json::Value)> {
    vec![
        ("app", app.program.app.as_str().into()),
        ("url", at.map_or(serde_json::Value::Null, |at| format!("http://{at}").into())),
        ("tick_s", json!(every.map(|every| every.as_secs()))),
        ("process", std::process::id().into()),
    ]
}

type Shared = Arc<(NativeHost, App)>;

async fn serve(listener: TcpListener, shared: Shared, mut stopped: watch::Receiver<bool>) {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = async {
            // Never closed, so there is always a permit to come.
            let place = places.clone().acquire_owned().await.ok();
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            _ = stopped.changed() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                log(&shared.0, Level::Warn, "http.refused", vec![("error", error.to_string().into())]);
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let shared = shared.clone();
        let service = service_fn(move |request| answer::answer(shared.clone(), request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that breaks off is no event of ours.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(GRACE, graceful.shutdown()).await;
}

fn log(host: &NativeHost, level: Level, event: &'static str, fields: Vec<(&'static str, serde_json::Value)>) {
    host.log(LogEntry { level, event, fields });
}
