//! A request's body, read once, whole, within its limits.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::{HeaderMap, StatusCode, header};
use tokio::time::{Instant, timeout_at};

use super::reply::Problem;

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
/// 413 with the limit and as much as is known of the size; 408 if it is slow; 400 if the client broke off, who will
/// not read it.
pub(super) async fn read(headers: &HeaderMap, mut body: Incoming, max: usize) -> Result<Vec<u8>, Problem> {
    let announced = body.size_hint().exact();
    let too_large = announced.is_some_and(|bytes| bytes > max as u64);
    if too_large && headers.contains_key(header::EXPECT) {
        // It waits for a word before it sends; this is the word.
        return Err(refused(max, announced, 0));
    }
    if too_large {
        drop_rest(&mut body, 0, max).await;
        return Err(refused(max, announced, 0));
    }
    let ends = Instant::now() + TIME_MAX;
    let capacity = announced.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(max).min(max));
    let mut bytes = Vec::with_capacity(capacity);
    loop {
        let frame = timeout_at(ends, body.frame()).await.map_err(|_| slow())?;
        let Some(frame) = frame else { return Ok(bytes) };
        let Ok(data) = frame.map_err(|_| broken_off())?.into_data() else { continue };
        if bytes.len() + data.len() > max {
            let (seen, ended) = drop_rest(&mut body, bytes.len() + data.len(), max).await;
            return Err(refused(max, ended.then_some(seen as u64), seen));
        }
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

fn slow() -> Problem {
    let message = format!("the request's body did not arrive within {} s; nothing is kept of it", TIME_MAX.as_secs());
    Problem::new(StatusCode::REQUEST_TIMEOUT, "body_slow", message)
}

fn broken_off() -> Problem {
    let message = "the request's body did not arrive whole; nothing is kept of it";
    Problem::new(StatusCode::BAD_REQUEST, "body_broken_off", message)
}
