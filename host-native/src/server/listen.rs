//! Connections: accepted, limited, served, and at the end let go in an orderly way.

use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use jadpo_core::host::Level;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use super::{Shared, answer};

/// Connections served at a time. What comes on top waits to be accepted.
const CONNECTIONS_MAX: usize = 1_100;
/// How long a connection may take to send a request's head, the first as any later one.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Most bytes of a request's head. Past it hyper answers 431.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How long requests that run may go on once nothing more is accepted.
const REQUEST_GRACE: Duration = Duration::from_secs(5);
/// How long to wait after the system refused a connection, which it does when it is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `closed` says that nothing more is to be accepted.
pub(super) async fn run(listener: TcpListener, shared: Shared, mut closed: watch::Receiver<bool>) {
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
            _ = closed.changed() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                shared.log(Level::Warn, "http.refused", vec![("error", error.to_string().into())]);
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are small and written whole: to wait for more of them only delays them.
        let _ = stream.set_nodelay(true);
        let shared = shared.clone();
        let service = service_fn(move |request| answer::answer(shared.clone(), request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            // Who closes its side after the last byte has sent a whole request, and may still read the answer.
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that breaks off is no event of ours.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(REQUEST_GRACE, graceful.shutdown()).await;
}
