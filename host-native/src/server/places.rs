//! How many may do one thing to one queue at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Places by queue. Only queues where somebody is are remembered.
#[derive(Debug, Clone)]
pub(super) struct Places {
    most: usize,
    queues: Arc<Mutex<BTreeMap<String, Arc<Semaphore>>>>,
}

/// One of them, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    permit: Option<OwnedSemaphorePermit>,
    places: Places,
    queue: String,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self { most, queues: Arc::default() }
    }

    /// A place at this queue, if there is one.
    pub(super) fn take(&self, queue: &str) -> Option<Place> {
        let permit = self.of(queue).try_acquire_owned().ok()?;
        Some(Place { permit: Some(permit), places: self.clone(), queue: queue.to_owned() })
    }

    /// A place at this queue, waited for in turn.
    pub(super) async fn take_within(&self, queue: &str, time: Duration) -> Option<Place> {
        // Made first, so that the queue is forgotten also by who waits in vain.
        let mut place = Place { permit: None, places: self.clone(), queue: queue.to_owned() };
        place.permit = Some(timeout(time, self.of(queue).acquire_owned()).await.ok()?.ok()?);
        Some(place)
    }

    fn of(&self, queue: &str) -> Arc<Semaphore> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Semaphore::new(self.most));
        queues.entry(queue.to_owned()).or_insert_with(new).clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.permit.take());
        let mut queues = self.places.queues.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever has a place or waits for one holds it too, and nobody comes to hold it without the lock.
        if queues.get(&self.queue).is_some_and(|places| Arc::strong_count(places) == 1) {
            queues.remove(&self.queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn there_are_so_many_places_and_a_queue_where_nobody_is_is_forgotten() {
        let places = Places::new(2);
        let held = [places.take("jobs").unwrap(), places.take_within("jobs", Duration::ZERO).await.unwrap()];
        assert!(places.take("jobs").is_none() && places.take("other").is_some());
        assert!(places.take_within("jobs", Duration::from_millis(1)).await.is_none());
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.take_within("jobs", Duration::from_secs(60)).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(held);
        assert!(waiting.await.unwrap());
        assert!(places.queues.lock().unwrap().is_empty());
    }
}
