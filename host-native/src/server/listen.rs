//! Connections: accepted, limited, served, and at the end let go in an orderly way.

use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use jadpo_core::host::Level;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::connections::Connections;
use super::paced::Paced;
use super::{Shared, answer};

/// How long a connection may take to send a request's head, the first as any later one.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Most bytes of a request's head. Past it hyper answers 431.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How long requests that run may go on once nothing more is accepted.
const REQUEST_GRACE: Duration = Duration::from_secs(5);
/// How long to wait after the system refused a connection, which it does when it is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `closed` says that nothing more is to be accepted; so many connections at a time at most.
pub(super) async fn run(listener: TcpListener, shared: Shared, most: usize, mut closed: watch::Receiver<bool>) {
    let graceful = GracefulShutdown::new();
    let connections = Connections::new(most);
    for number in 0.. {
        let seated = async {
            let (stream, _) = listener.accept().await?;
            Ok((stream, connections.seat(number).await))
        };
        let seated: std::io::Result<_> = tokio::select! {
            seated = seated => seated,
            _ = closed.changed() => break,
        };
        let (stream, seat) = match seated {
            Ok(seated) => seated,
            Err(error) => {
                shared.log(Level::Warn, "http.refused", vec![("error", error.to_string().into())]);
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are small and written whole: to wait for more of them only delays them.
        let _ = stream.set_nodelay(true);
        let (shared, connection) = (shared.clone(), seat.connection.clone());
        let service = service_fn(move |request| answer::answer(shared.clone(), connection.clone(), request));
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            // Who closes its side after the last byte has sent a whole request, and may still read the answer.
            .half_close(true)
            .serve_connection(TokioIo::new(Paced::new(stream)), service);
        let serving = graceful.watch(serving);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                // A client that breaks off is no event of ours.
                _ = serving => {}
                () = seat.connection.is_to_leave() => {}
            }
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(REQUEST_GRACE, graceful.shutdown()).await;
}
