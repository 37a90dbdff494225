//! How many calls send to a queue at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jadpo_core::broker::BrokerError;
use jadpo_core::broker::limits::PRODUCERS_MAX;

/// The calls that send, counted by queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Producers(Arc<Mutex<BTreeMap<String, usize>>>);

impl Producers {
    /// A place among those that send to this queue, given up when it is dropped.
    ///
    /// # Errors
    /// [`BrokerError::Overloaded`] if there is none.
    pub(super) fn place(&self, name: &str) -> Result<Place, BrokerError> {
        let mut producers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = match producers.get_mut(name) {
            Some(count) => count,
            None => producers.entry(name.to_owned()).or_default(),
        };
        if *count >= PRODUCERS_MAX {
            let why = format!("{PRODUCERS_MAX} calls send to the queue `{name}` already");
            return Err(BrokerError::Overloaded(why));
        }
        *count += 1;
        Ok(Place { producers: self.clone(), name: name.to_owned() })
    }
}

/// One of the calls that send to a queue at a time.
pub(super) struct Place {
    producers: Producers,
    name: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut producers = self.producers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = producers.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                producers.remove(&self.name);
            }
        }
    }
}
