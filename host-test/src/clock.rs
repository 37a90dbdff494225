//! Virtual time: it moves when a test says so, or to the next timer when everything waits.

use std::collections::BTreeMap;
use std::task::Waker;

/// Where a test's clock starts: 2026-11-30T12:00:00Z.
pub(crate) const START_MS: i64 = 1_796_040_000_000;

/// The clock and who waits for it.
#[derive(Debug)]
pub(crate) struct Clock {
    now_ms: i64,
    next_timer: u64,
    /// By the time they ring, then by the order they were set in.
    timers: BTreeMap<(i64, u64), Option<Waker>>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { now_ms: START_MS, next_timer: 0, timers: BTreeMap::new() }
    }
}

impl Clock {
    pub(crate) fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Sets the clock, forward or back, and wakes whoever's time has come.
    pub(crate) fn set_ms(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        for ((at_ms, _), waker) in &mut self.timers {
            if *at_ms > now_ms {
                break;
            }
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }

    /// Sets a timer; [`Clock::rings`] and [`Clock::forget`] take what this gives.
    pub(crate) fn timer(&mut self, after_ms: i64) -> (i64, u64) {
        self.next_timer += 1;
        let timer = (self.now_ms.saturating_add(after_ms), self.next_timer);
        self.timers.insert(timer, None);
        timer
    }

    /// Whether a timer's time has come; if not, `waker` is woken then.
    pub(crate) fn rings(&mut self, timer: (i64, u64), waker: &Waker) -> bool {
        if timer.0 <= self.now_ms {
            self.timers.remove(&timer);
            return true;
        }
        self.timers.insert(timer, Some(waker.clone()));
        false
    }

    pub(crate) fn forget(&mut self, timer: (i64, u64)) {
        self.timers.remove(&timer);
    }

    /// When the next timer rings.
    pub(crate) fn next_ms(&self) -> Option<i64> {
        self.timers.keys().next().map(|(at_ms, _)| *at_ms)
    }
}
