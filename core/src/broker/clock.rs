//! The broker's time, which does not jump.
//!
//! A host tells two times: the wall's, which people read and which may be set, and a steady one, which only runs. The
//! broker has two clocks of its own, and both run with the steady time:
//!
//! - its **time**, by which leases end and delays pass. It starts at the wall's time, or where it was last written
//!   down if the wall is behind that. So a wall clock that is set changes no lease and no delay, and one that was set
//!   back while nothing ran stops nothing.
//! - its **age**, by which messages are kept. It starts where it was written down: time in which the broker did not
//!   run, and a jump of the wall clock, make no message older. A backlog is never wiped because a machine was off or
//!   its clock was wrong; a message is only kept longer.
//!
//! A machine that sleeps stops the steady time on most systems, and so leases and delays with it.
//!
//! A command that opens the store of a running server must tell the same time as the server does, which after a jump
//! or a sleep is not the wall's. So a server writes down what its clocks and the machine's steady one showed, when it
//! starts and from time to time, and a command goes on from there by the steady clock, which all processes share. What
//! the steady clock says is not trusted beyond the time after which the server would have written again.

use sha2::{Digest as _, Sha256};

/// A moment, as a host tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock, in milliseconds since 1970.
    pub wall_ms: i64,
    /// A clock that never jumps nor runs back, in milliseconds since any point that stays the same while the machine
    /// runs, and is the same for every process on it.
    pub steady_ms: i64,
    /// Random bits that nobody can guess. Operations of one moment may share them.
    pub random: u128,
}

impl Moment {
    /// Bits for an id: no two are the same for numbers that are not. Ids are public, and secrets are drawn from the same
    /// random bits, so nobody may get from the one to the other.
    pub(super) fn id(self, number: i64) -> u128 {
        let hash = Sha256::new().chain_update(self.random.to_be_bytes()).chain_update(number.to_be_bytes()).finalize();
        hash.iter().take(16).fold(0, |id, byte| id << 8 | u128::from(*byte))
    }
}

/// How much may be lost of the age when the process is killed, in milliseconds.
pub(super) const WRITTEN_EVERY_MS: i64 = 30_000;

/// How much later than that a sweep may come to it.
const WRITTEN_LATE_MS: i64 = 5_000;

/// The clocks as the store has them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) time_ms: i64,
    pub(super) age_ms: i64,
    /// What the steady clock showed then, if it is known.
    pub(super) steady_ms: Option<i64>,
}

#[derive(Debug, Clone)]
pub(super) struct Clock {
    /// What to add to the steady time.
    time_offset_ms: i64,
    age_offset_ms: i64,
    /// What the store had when it was read.
    read: Written,
    /// The time when the clocks were last written down here.
    written_ms: Option<i64>,
    /// Whether a server's clocks are followed.
    follows: bool,
}

impl Clock {
    pub(super) fn start(moment: Moment, read: Written) -> Self {
        let time_ms = moment.wall_ms.max(read.time_ms);
        Self {
            time_offset_ms: time_ms - moment.steady_ms,
            age_offset_ms: read.age_ms - moment.steady_ms,
            read,
            written_ms: None,
            follows: false,
        }
    }

    /// From now on a server's clocks are followed, and taken over at once if one runs.
    pub(super) fn follow(&mut self, moment: Moment, a_server_runs: bool) {
        self.follows = true;
        if a_server_runs {
            (self.time_offset_ms, self.age_offset_ms) = self.read.offsets(moment);
        }
    }

    /// The clock after the store was read again: it runs on, but not behind a server's that it follows. Who follows one
    /// that has ended is ahead of what that one wrote.
    pub(super) fn with_news(self, news: &Self, moment: Moment) -> Self {
        if !self.follows {
            return self;
        }
        let (time_offset_ms, age_offset_ms) = news.read.offsets(moment);
        Self {
            time_offset_ms: self.time_offset_ms.max(time_offset_ms),
            age_offset_ms: self.age_offset_ms.max(age_offset_ms),
            read: news.read,
            ..self
        }
    }

    pub(super) fn time_ms(&self, moment: Moment) -> i64 {
        moment.steady_ms + self.time_offset_ms
    }

    pub(super) fn age_ms(&self, moment: Moment) -> i64 {
        moment.steady_ms + self.age_offset_ms
    }

    /// At first, and then from time to time.
    pub(super) fn is_to_be_written(&self, moment: Moment) -> bool {
        self.written_ms.is_none_or(|written_ms| self.time_ms(moment) - written_ms >= WRITTEN_EVERY_MS)
    }

    pub(super) fn written(&mut self, moment: Moment) {
        self.written_ms = Some(self.time_ms(moment));
    }
}

impl Written {
    /// What to add to the steady time for the clocks of the server that wrote this and runs on.
    fn offsets(self, moment: Moment) -> (i64, i64) {
        let since_ms = match self.steady_ms {
            Some(steady_ms) => moment.steady_ms - steady_ms,
            None => moment.wall_ms - self.time_ms,
        };
        let since_ms = since_ms.clamp(0, WRITTEN_EVERY_MS + WRITTEN_LATE_MS);
        (self.time_ms + since_ms - moment.steady_ms, self.age_ms + since_ms - moment.steady_ms)
    }
}
