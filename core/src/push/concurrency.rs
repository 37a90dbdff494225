//! How many batches of a queue a Worker is handed side by side.

use crate::broker::limits::CONCURRENCY_MAX;

/// Most batches side by side where nothing is said. Cloudflare goes up to 250; here they share one thread.
const MOST: u32 = 20;

/// The number of batches side by side: it begins at one, and follows how batches end and whether more wait.
///
/// As Cloudflare scales: decided after a whole batch, up while there is a backlog, down when handlers fail. A message
/// that is retried because its handler said so is no failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    most: u32,
    now: u32,
}

impl Concurrency {
    /// For a consumer with this `max_concurrency`.
    #[must_use]
    pub fn new(max_concurrency: Option<u32>) -> Self {
        Self { most: max_concurrency.unwrap_or(MOST).clamp(1, CONCURRENCY_MAX), now: 1 }
    }

    /// How many may run now.
    #[must_use]
    pub fn now(self) -> u32 {
        self.now
    }

    /// How many ever run.
    #[must_use]
    pub fn most(self) -> u32 {
        self.most
    }

    /// The setting is another from now on.
    pub fn limit(&mut self, max_concurrency: Option<u32>) {
        let Self { most, .. } = Self::new(max_concurrency);
        *self = Self { most, now: self.now.min(most) };
    }

    /// A batch has ended, well or not, and there is more to take or not.
    pub fn ended(&mut self, well: bool, backlog: bool) {
        self.now = match (well, backlog) {
            (true, true) => self.now.saturating_add(1).min(self.most),
            (true, false) => self.now,
            (false, _) => self.now.saturating_sub(1).max(1),
        };
    }
}
