//! Who is connected: how many there may be, and who goes when somebody comes and there is no room.
//!
//! A connection either waits for its client (for a request's head, for its body, for the client to take the answer) or
//! it is the server's turn. Whoever has kept the server waiting longest goes first. So nobody holds a place by doing
//! nothing, nor by doing it slowly, and a proxy, all of whose connections come from one address, is nobody special.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// Connections served at a time, where the system lets there be so many.
const CONNECTIONS_MAX: usize = 1_100;
/// Connections that there may be however few file descriptors there are.
const CONNECTIONS_MIN: usize = 8;
/// File descriptors that are asked for. Programs that a server starts inherit this, and some of them go through all
/// that they might have.
const DESCRIPTORS_WANTED: u64 = 16_384;
/// How long a client may keep the server waiting in any case.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// How often it is looked for somebody who waits that long.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How many file descriptors this process and what it starts may have. The soft limit is raised first, which is often
/// 1,024 where more is allowed: whoever starts a program that needs many asks this before.
pub(crate) fn descriptors() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(DESCRIPTORS_WANTED, |maximum| maximum.min(DESCRIPTORS_WANTED));
    let raised = current.is_some_and(|current| current < wanted)
        && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_ok();
    let descriptors = if raised { Some(wanted) } else { current };
    descriptors.and_then(|descriptors| usize::try_from(descriptors).ok()).unwrap_or(usize::MAX)
}

/// How many connections there may be: they have half of the file descriptors at most, for the functions' calls and the
/// Workers need some too.
pub(super) fn most() -> usize {
    (descriptors() / 2).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX)
}

/// All connections. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    places: Arc<Semaphore>,
    all: Arc<Mutex<BTreeMap<u64, Arc<Connection>>>>,
}

/// A connection, as far as others need to know of it.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Since when its client is waited for; `None` while it is the server's turn.
    waits_since: Mutex<Option<Instant>>,
    leave: Notify,
    /// Room for the body of its request.
    room: Mutex<Option<OwnedSemaphorePermit>>,
}

/// A place of a connection, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    _place: OwnedSemaphorePermit,
    number: u64,
    connections: Connections,
    pub(crate) connection: Arc<Connection>,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(most)), all: Arc::default() }
    }

    /// A place for who has just connected, of whom goes for it if there is none.
    pub(crate) async fn seat(&self, number: u64) -> Seat {
        let place = loop {
            if let Ok(place) = self.places.clone().try_acquire_owned() {
                break place;
            }
            self.let_one_go();
            // Never closed.
            if let Ok(Ok(place)) = timeout(LOOK_EVERY, self.places.clone().acquire_owned()).await {
                break place;
            }
        };
        let connection = Arc::new(Connection {
            waits_since: Mutex::new(Some(Instant::now())),
            leave: Notify::new(),
            room: Mutex::default(),
        });
        self.lock().insert(number, connection.clone());
        Seat { _place: place, number, connections: self.clone(), connection }
    }

    fn let_one_go(&self) {
        let all = self.lock();
        let waiting = all.values().filter_map(|one| Some((one.waits_since()?, one)));
        let longest = waiting.min_by_key(|(since, _)| *since);
        if let Some((_, one)) = longest.filter(|(since, _)| since.elapsed() >= WAIT_MIN) {
            one.leave.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Connection>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.number);
    }
}

impl Connection {
    /// Until it is to go. It goes only while its client is waited for, so nothing that was begun is cut off.
    pub(crate) async fn is_to_leave(&self) {
        loop {
            self.leave.notified().await;
            if self.waits_since().is_some() {
                return;
            }
        }
    }

    /// From here it is the server's turn, until what this gives is dropped. Then the room for the body is free, too.
    pub(super) fn serves(&self) -> Serves<'_> {
        self.set(None);
        Serves(self)
    }

    /// From here its client is waited for, until what this gives is dropped.
    pub(super) fn waits(&self) -> Waits<'_> {
        self.set(Some(Instant::now()));
        Waits(self)
    }

    /// From here its client has been waited for since then, or it is the server's turn.
    pub(crate) fn turn(&self, waits_since: Option<Instant>) {
        self.set(waits_since);
    }

    /// Keeps room for the body until the request is answered.
    pub(super) fn hold(&self, more: OwnedSemaphorePermit) {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        match room.as_mut() {
            Some(room) => room.merge(more),
            None => *room = Some(more),
        }
    }

    fn waits_since(&self) -> Option<Instant> {
        *self.waits_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, waits_since: Option<Instant>) {
        *self.waits_since.lock().unwrap_or_else(PoisonError::into_inner) = waits_since;
    }
}

/// It is the server's turn.
pub(super) struct Serves<'a>(&'a Connection);

impl Drop for Serves<'_> {
    fn drop(&mut self) {
        self.0.set(Some(Instant::now()));
        self.0.room.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The client is waited for.
pub(super) struct Waits<'a>(&'a Connection);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_kept_the_server_waiting_longest_goes_when_somebody_comes_and_nobody_who_is_served() {
        let connections = Connections::new(3);
        let first = connections.seat(1).await;
        let _turn = first.connection.serves();
        let second = connections.seat(2).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        let third = connections.seat(3).await;
        drop(second.connection.serves());
        tokio::time::sleep(Duration::from_millis(10)).await;
        drop(third.connection.serves());
        let started = Instant::now();
        let left = tokio::spawn(async move {
            second.connection.is_to_leave().await;
            drop(second);
            started.elapsed()
        });
        let fourth = connections.seat(4).await;
        let waited = left.await.unwrap();
        assert!(waited > WAIT_MIN / 2, "{waited:?}");
        assert!(timeout(WAIT_MIN, first.connection.is_to_leave()).await.is_err(), "it is the server's turn");
        drop((third, fourth));
        assert_eq!(connections.lock().len(), 1);
    }
}
