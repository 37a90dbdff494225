//! What a connection's work took.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// How often each thing was done, and how long it took in all. Things that were done side by side count each by itself.
#[derive(Debug, Default)]
pub(super) struct Spent {
    pub(super) pulls: Time,
    pub(super) batches: Time,
    pub(super) settles: Time,
    /// Messages that were pulled.
    pub(super) messages: usize,
}

/// How often something was done, and how long it took in all.
#[derive(Debug, Default)]
pub(super) struct Time {
    count: u64,
    total: Duration,
}

impl Time {
    pub(super) fn add(&mut self, took: Duration) {
        self.count += 1;
        self.total += took;
    }

    fn ms(&self) -> u64 {
        u64::try_from(self.total.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Spent {
    pub(super) fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("messages", self.messages.into()),
            ("pulls", self.pulls.count.into()),
            ("pulling_ms", self.pulls.ms().into()),
            ("batches", self.batches.count.into()),
            ("receiving_ms", self.batches.ms().into()),
            ("settles", self.settles.count.into()),
            ("settling_ms", self.settles.ms().into()),
        ]
    }
}

/// Does it, and says how long it took.
pub(super) async fn timed<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let begun = Instant::now();
    let done = work.await;
    (begun.elapsed(), done)
}
