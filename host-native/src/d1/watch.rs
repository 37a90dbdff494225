//! Interrupts the statements whose time is over. `SQLite` itself looks at the clock only every so many operations, and a
//! single one of them, such as a function over a long text, can take seconds.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::InterruptHandle;

/// An interrupt that comes between two statements is lost on `SQLite`, so it is repeated until the request ends.
const AGAIN: Duration = Duration::from_millis(50);

/// One for all databases.
static WATCH: LazyLock<Watch> = LazyLock::new(Watch::default);

#[derive(Default)]
struct Watch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    runs: BTreeMap<u64, Run>,
    last: u64,
    /// The thread is there.
    started: bool,
    /// Until when it sleeps, if not until it is woken.
    asleep_until: Option<Instant>,
}

struct Run {
    until: Instant,
    handle: Arc<InterruptHandle>,
}

/// Something that is watched, until this goes. After that nothing interrupts it.
pub(super) struct Watched(u64);

/// Watches what a connection does from now on.
pub(super) fn watch(handle: Arc<InterruptHandle>, until: Instant) -> Watched {
    let mut state = WATCH.lock();
    state.last += 1;
    let number = state.last;
    state.runs.insert(number, Run { until, handle });
    if !state.started {
        // Without a thread, the progress handler is left; the next request tries again.
        state.started = thread::Builder::new().name("d1-watch".to_owned()).spawn(|| WATCH.run()).is_ok();
    }
    if state.asleep_until.is_none_or(|asleep| asleep > until) {
        WATCH.changed.notify_one();
    }
    Watched(number)
}

impl Drop for Watched {
    fn drop(&mut self) {
        WATCH.lock().runs.remove(&self.0);
    }
}

impl Watch {
    fn run(&self) {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let next = state.runs.values().map(|run| {
                if run.until > now {
                    return run.until;
                }
                // Under the lock, so that what it is meant for still runs.
                run.handle.interrupt();
                now + AGAIN
            });
            state.asleep_until = next.min();
            state = match state.asleep_until {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let woken = self.changed.wait_timeout(state, until - now);
                    woken.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state)
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is done under this lock that could leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
