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

/// A moment, as a host tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock, in milliseconds since 1970.
    pub wall_ms: i64,
    /// A clock that never jumps nor runs back, in milliseconds since any point that stays the same while the process
    /// runs.
    pub steady_ms: i64,
    /// Random bits that nobody can guess. Operations of one moment may share them.
    pub random: u128,
}

impl Moment {
    /// Bits for an id: no two are the same for numbers that are not, and they look like nothing.
    pub(super) fn id(self, number: i64) -> u128 {
        const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        self.random.wrapping_add(u128::from(number.cast_unsigned())).wrapping_mul(ODD)
    }
}

/// How much may be lost of the age when the process is killed, in milliseconds.
pub(super) const WRITTEN_EVERY_MS: i64 = 30_000;

#[derive(Debug, Clone)]
pub(super) struct Clock {
    /// What to add to the steady time.
    time_offset_ms: i64,
    age_offset_ms: i64,
    /// The time when the clocks were last written down.
    written_ms: i64,
}

impl Clock {
    pub(super) fn start(moment: Moment, stored_time_ms: i64, stored_age_ms: i64) -> Self {
        let time_ms = moment.wall_ms.max(stored_time_ms);
        Self {
            time_offset_ms: time_ms - moment.steady_ms,
            age_offset_ms: stored_age_ms - moment.steady_ms,
            written_ms: time_ms,
        }
    }

    pub(super) fn time_ms(&self, moment: Moment) -> i64 {
        moment.steady_ms + self.time_offset_ms
    }

    pub(super) fn age_ms(&self, moment: Moment) -> i64 {
        moment.steady_ms + self.age_offset_ms
    }

    pub(super) fn is_to_be_written(&self, moment: Moment) -> bool {
        self.time_ms(moment) - self.written_ms >= WRITTEN_EVERY_MS
    }

    pub(super) fn written(&mut self, moment: Moment) {
        self.written_ms = self.time_ms(moment);
    }
}
