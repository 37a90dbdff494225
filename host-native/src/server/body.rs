//! A request's body, read once, whole, within its limits.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::http::request::Parts;
use hyper::{StatusCode, header};
use tokio::time::{Instant, timeout_at};

use super::Shared;
use super::connections::Connection;
use super::reply::Problem;

/// Bytes of bodies that are held at a time, of all requests together.
pub(super) const HELD_BYTES_MAX: usize = 64 << 20;

/// How long a request's body may take.
const TIME_MAX: Duration = Duration::from_secs(15);
/// Bytes past the limit that are read and dropped, so that a client that sends before it reads gets to know why it is
/// refused. Who sends more than that finds the connection closed.
const DROPPED_MAX: usize = 1024 * 1024;
/// How long that may take.
const DROP_TIME_MAX: Duration = Duration::from_secs(2);

/// Reads a body of `max` bytes at most.
///
/// # Errors
/// 413 with the limit and as much as is known of the size; 408 if it is slow; 503 if there is no room for it; 400 if the
/// client broke off, who will not read it.
pub(super) async fn read(shared: &Shared, head: &Parts, mut body: Incoming, max: usize) -> Result<Vec<u8>, Problem> {
    let announced = body.size_hint().exact();
    let connection = head.extensions.get::<Arc<Connection>>();
    let _waits = connection.map(|connection| connection.waits());
    let too_large = announced.is_some_and(|bytes| bytes > max as u64);
    if too_large && head.headers.contains_key(header::EXPECT) {
        // It waits for a word before it sends; this is the word.
        return Err(refused(max, announced, 0));
    }
    if too_large {
        drop_rest(&mut body, 0, max).await;
        return Err(refused(max, announced, 0));
    }
    let ends = Instant::now() + TIME_MAX;
    let mut bytes = Vec::new();
    loop {
        let frame = timeout_at(ends, body.frame()).await.map_err(|_| slow())?;
        let Some(frame) = frame else { return Ok(bytes) };
        let Ok(data) = frame.map_err(|_| broken_off())?.into_data() else { continue };
        if bytes.len() + data.len() > max {
            let (seen, ended) = drop_rest(&mut body, bytes.len() + data.len(), max).await;
            return Err(refused(max, ended.then_some(seen as u64), seen));
        }
        let room = shared.bodies.clone().try_acquire_many_owned(u32::try_from(data.len()).unwrap_or(u32::MAX));
        match (room, connection) {
            (Ok(room), Some(connection)) => connection.hold(room),
            (Ok(_), None) => {}
            (Err(_), _) => {
                let seen = bytes.len() + data.len();
                drop(bytes);
                drop_rest(&mut body, seen, max).await;
                return Err(no_room());
            }
        }
        // It grows as it comes: what is announced is not yet sent.
        bytes.extend_from_slice(&data);
    }
}

/// Reads on for a while. How many bytes there were, and whether these are all.
async fn drop_rest(body: &mut Incoming, mut seen: usize, max: usize) -> (usize, bool) {
    let (ends, most) = (Instant::now() + DROP_TIME_MAX, seen.max(max) + DROPPED_MAX);
    while seen < most {
        match timeout_at(ends, body.frame()).await {
            Ok(Some(Ok(frame))) => seen += frame.data_ref().map_or(0, hyper::body::Bytes::len),
            Ok(None) => return (seen, true),
            Ok(Some(Err(_))) | Err(_) => break,
        }
    }
    (seen, false)
}

fn refused(limit: usize, actual: Option<u64>, seen: usize) -> Problem {
    let said = actual.map_or_else(|| format!("more than {seen} bytes"), |actual| format!("{actual} bytes"));
    let message = format!("the request's body has {said}; it may have {limit}");
    let mut problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message);
    problem.detail.limit = Some(limit as u64);
    problem.detail.actual = actual;
    problem
}

fn no_room() -> Problem {
    let message = format!(
        "the bodies of the requests that are under way have {HELD_BYTES_MAX} bytes already; nothing is kept of this \
         one, so send it again a little later"
    );
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message)
}

fn slow() -> Problem {
    let message = format!("the request's body did not arrive within {} s; nothing is kept of it", TIME_MAX.as_secs());
    Problem::new(StatusCode::REQUEST_TIMEOUT, "body_slow", message)
}

fn broken_off() -> Problem {
    let message = "the request's body did not arrive whole; nothing is kept of it";
    Problem::new(StatusCode::BAD_REQUEST, "body_broken_off", message)
}
