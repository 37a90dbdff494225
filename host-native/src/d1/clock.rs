//! When a request's statements must be over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A database's clock. Clones share it.
#[derive(Clone)]
pub(super) struct Clock {
    start: Instant,
    /// Milliseconds since the start.
    deadline_ms: Arc<AtomicU64>,
    limit: Duration,
}

impl Clock {
    /// A clock that is not set. `limit`: how long a request's statements may run.
    pub(super) fn new(limit: Duration) -> Self {
        Self { start: Instant::now(), deadline_ms: Arc::new(AtomicU64::new(u64::MAX)), limit }
    }

    /// Whether the time is over.
    pub(super) fn is_over(&self) -> bool {
        self.elapsed_ms() > self.deadline_ms.load(Ordering::Relaxed)
    }

    /// Sets it; when the time is over.
    pub(super) fn set(&self) -> Instant {
        let deadline_ms = self.elapsed_ms().saturating_add(milliseconds(self.limit));
        self.deadline_ms.store(deadline_ms, Ordering::Relaxed);
        // It is over past the last of its milliseconds.
        Instant::now() + self.limit + Duration::from_millis(2)
    }

    /// From now on there is no end.
    pub(super) fn clear(&self) {
        self.deadline_ms.store(u64::MAX, Ordering::Relaxed);
    }

    fn elapsed_ms(&self) -> u64 {
        milliseconds(self.start.elapsed())
    }
}

fn milliseconds(of: Duration) -> u64 {
    u64::try_from(of.as_millis()).unwrap_or(u64::MAX)
}
