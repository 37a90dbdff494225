//! A request's turn on its database: how long it waits for it and has it, and that who asked is told the truth about it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jadpo_core::d1::limits::{DURATION_MAX, WAIT_MAX};

use super::error::RunError;

/// How long after its time a request is answered without its database, which is in something of SQLite's that looks at no
/// clock. It is far longer than any other takes to end.
const GRACE: Duration = Duration::from_secs(5);
/// Between two looks at a request that is being committed.
const LOOK: Duration = Duration::from_secs(1);

/// A request's turn, of which who asks has one half and the database's thread the other.
#[derive(Debug, Clone)]
pub(super) struct Turn(Arc<Mutex<Stage>>);

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// It waits, until then.
    Waiting(Instant),
    /// Its statements run, until then.
    Running(Instant),
    /// It is committed. What it did is kept, however long that takes.
    Ending,
    /// Who asked was told that nothing of it is kept.
    GivenUp,
}

impl Turn {
    pub(super) fn new() -> Self {
        Self::within(WAIT_MAX)
    }

    /// A turn that must come within this time.
    pub(super) fn within(wait: Duration) -> Self {
        Self(Arc::new(Mutex::new(Stage::Waiting(Instant::now() + wait))))
    }

    /// Its statements begin.
    ///
    /// # Errors
    /// It was given up.
    pub(super) fn begin(&self) -> Result<(), RunError> {
        self.go_on(Stage::Running(Instant::now() + DURATION_MAX + GRACE))
    }

    /// Its statements have run, and are committed now.
    ///
    /// # Errors
    /// It was given up.
    pub(super) fn end(&self) -> Result<(), RunError> {
        self.go_on(Stage::Ending)
    }

    /// When to look whether it is to be given up.
    pub(super) fn due(&self) -> Instant {
        match *self.lock() {
            Stage::Waiting(until) | Stage::Running(until) => until,
            Stage::Ending | Stage::GivenUp => Instant::now() + LOOK,
        }
    }

    /// Gives it up if its time is over, for that reason.
    pub(super) fn give_up(&self) -> Option<RunError> {
        let mut stage = self.lock();
        let now = Instant::now();
        let why = match *stage {
            Stage::Waiting(until) if until <= now => RunError::WaitedTooLong,
            Stage::Running(until) if until <= now => RunError::TimedOut,
            _ => return None,
        };
        *stage = Stage::GivenUp;
        Some(why)
    }

    fn go_on(&self, to: Stage) -> Result<(), RunError> {
        let mut stage = self.lock();
        if matches!(*stage, Stage::GivenUp) {
            return Err(RunError::TimedOut);
        }
        *stage = to;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        // Nothing is done under this lock that could leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_neither_run_nor_committed() {
        let waiting = Turn(Arc::new(Mutex::new(Stage::Waiting(Instant::now()))));
        assert_eq!(waiting.give_up(), Some(RunError::WaitedTooLong));
        assert_eq!(waiting.begin(), Err(RunError::TimedOut));
        let running = Turn(Arc::new(Mutex::new(Stage::Running(Instant::now()))));
        assert_eq!(running.give_up(), Some(RunError::TimedOut));
        assert_eq!(running.end(), Err(RunError::TimedOut));
    }

    #[test]
    fn what_is_in_time_or_is_being_committed_is_not_given_up() {
        let turn = Turn::new();
        assert_eq!(turn.give_up(), None);
        turn.begin().expect("nobody gave it up");
        assert_eq!(turn.give_up(), None);
        turn.end().expect("nobody gave it up");
        assert_eq!(turn.give_up(), None);
    }
}
