//! A queue that somebody here handles: who, and how many side by side.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jadpo_core::broker::limits::BATCH_COUNT_MAX;
use jadpo_core::broker::queue_trigger;
use jadpo_core::trigger::{Consumer, Declared, NOT_STARTED_PAUSE_MS, Triggers};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Who handles a queue's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Functions, message by message.
    Functions,
    /// The program: they become events, batch by batch.
    Events,
}

/// A queue that is handled here.
#[derive(Debug)]
pub(in crate::server) struct Lane {
    pub(super) declared: Declared,
    /// The name of the trigger that an operator may switch off.
    pub(super) trigger: String,
    pub(super) work: Work,
    slots: Arc<Semaphore>,
    /// It is left alone until then: this machine had no room to begin what its messages need.
    rests_until: Mutex<Option<Instant>>,
}

/// The queues of a program that functions handle, or that become events.
pub(in crate::server) fn lanes(triggers: &Triggers) -> Vec<Lane> {
    let lane = |declared: &Declared| {
        let (work, side_by_side) = match declared.consumer {
            Consumer::Functions(_) => (Work::Functions, declared.concurrency as usize),
            // A batch after the other: they would wait for the same writer anyway.
            Consumer::Receiving => (Work::Events, 1),
            Consumer::Nobody => return None,
        };
        let (trigger, slots) = (queue_trigger(&declared.queue), Arc::new(Semaphore::new(side_by_side)));
        Some(Lane { declared: declared.clone(), trigger, work, slots, rests_until: Mutex::default() })
    };
    triggers.declared().filter_map(lane).collect()
}

impl Lane {
    pub(super) fn queue(&self) -> &str {
        &self.declared.queue
    }

    /// How many messages could be begun now.
    pub(super) fn room(&self) -> usize {
        let free = self.slots.available_permits();
        match self.work {
            Work::Functions => free.min(BATCH_COUNT_MAX),
            Work::Events if free > 0 => BATCH_COUNT_MAX,
            Work::Events => 0,
        }
    }

    /// Leaves the queue alone for a while.
    pub(super) fn rest(&self) {
        let until = Instant::now() + Duration::from_millis(NOT_STARTED_PAUSE_MS.into());
        *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// Until when it is left alone, if it is.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        let until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.filter(|until| *until > Instant::now())
    }

    /// A place for what begins. Only the dispatcher takes places, and no more than there is room for.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.slots.clone().try_acquire_owned().ok()
    }
}
