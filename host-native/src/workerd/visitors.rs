//! Clients of the Workers: how many there may be, and whose turn it is.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::link::Body;
use crate::server::connections::{Connection, Connections, Seat};

/// Clients of all Workers at a time, and WebSockets of theirs, where there are file descriptors for so many. Each takes
/// two, and jadpo's own clients are to have theirs in any case.
const VISITORS_MAX: usize = 1_000;
const VISITORS_MIN: usize = 8;
const DESCRIPTORS_PART: usize = 16;
/// Who is connected to the Workers' addresses. WebSockets have places of their own, for one may well say nothing for
/// long: so they shut nobody else out, and nobody who comes shuts them out. Clones share the places.
#[derive(Clone)]
pub(super) struct Visitors {
    connections: Connections,
    pub(super) sockets: Arc<Semaphore>,
    numbers: Arc<AtomicU64>,
}

impl Visitors {
    /// As many as so many file descriptors allow.
    pub(super) fn new(descriptors: usize) -> Self {
        let most = (descriptors / DESCRIPTORS_PART).clamp(VISITORS_MIN, VISITORS_MAX);
        Self { connections: Connections::new(most), sockets: Arc::new(Semaphore::new(most)), numbers: Arc::default() }
    }

    /// A place for who has just connected.
    pub(super) async fn seat(&self) -> Seat {
        self.connections.seat(self.numbers.fetch_add(1, Ordering::Relaxed)).await
    }
}

/// It is the Worker's turn until all of these are dropped; then its client is waited for.
#[derive(Clone)]
pub(super) struct Turn(Arc<OnTurn>);

struct OnTurn(Arc<Connection>);

impl Turn {
    pub(super) fn of(connection: Arc<Connection>) -> Self {
        connection.turn(None);
        Self(Arc::new(OnTurn(connection)))
    }
}

impl Drop for OnTurn {
    fn drop(&mut self) {
        self.0.turn(Some(Instant::now()));
    }
}

/// A request's body. While more of it is wanted than there is, its client is waited for: since it began, so that nobody
/// gains anything by sending a byte now and then.
pub(super) struct Awaited {
    body: Incoming,
    since: Instant,
    turn: Turn,
}

impl Awaited {
    pub(super) fn new(body: Incoming, turn: Turn) -> Self {
        Self { body, since: Instant::now(), turn }
    }
}

impl hyper::body::Body for Awaited {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.turn.0.0.turn(frame.is_pending().then_some(self.since));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body, until it has been made to its end.
pub(super) struct Made {
    body: Body,
    _turn: Turn,
}

impl Made {
    pub(super) fn new(body: Body, turn: Turn) -> Self {
        Self { body, _turn: turn }
    }
}

impl hyper::body::Body for Made {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
