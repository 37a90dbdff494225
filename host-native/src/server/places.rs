//! How many may do one thing to one queue at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Places by queue. Only queues where somebody is are remembered.
#[derive(Debug, Clone)]
pub(super) struct Places {
    most: usize,
    taken: Arc<Mutex<BTreeMap<String, usize>>>,
}

/// One of them, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    queue: String,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// A place at this queue, if there is one.
    pub(super) fn take(&self, queue: &str) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(queue.to_owned()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Place { places: self.clone(), queue: queue.to_owned() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.queue) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.queue);
            }
        }
    }
}
