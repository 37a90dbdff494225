//! The queues of schedules: each has a name made of its function's, which must be one and no other's.

use std::collections::BTreeMap;

use super::problem::quote;
use crate::local;
use crate::program::{Function, Target};

/// Schedules whose messages go to a queue of their own, by the queue, with the place of each.
pub(super) struct Scheduled<P>(BTreeMap<String, (String, P)>);

/// What is wrong with a schedule's queue.
pub(super) struct Wrong<P> {
    pub(super) message: String,
    pub(super) help: String,
    /// The place of the schedule that has the queue already.
    pub(super) first: Option<P>,
}

impl<P> Default for Scheduled<P> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<P: Copy> Scheduled<P> {
    /// Adds a function, and answers what is wrong with its schedule's queue.
    pub(super) fn add(&mut self, name: &str, function: &Function, place: P) -> Option<Wrong<P>> {
        if function.schedule.is_none() || matches!(function.target, Target::Send(_)) {
            return None;
        }
        let queue = local::queue_of_schedule(name);
        let quoted = quote(&queue);
        if queue.len() > local::QUEUE_NAME_LEN_MAX || queue.ends_with('-') {
            let most = local::QUEUE_NAME_LEN_MAX - local::SCHEDULE_PREFIX.len();
            return Some(Wrong {
                message: format!("the messages of the schedule of {} would go to queue {quoted}", quote(name)),
                help: format!(
                    "that is no queue's name: give the function a name of at most {most} characters that ends with a \
                     letter or digit"
                ),
                first: None,
            });
        }
        if let Some((other, first)) = self.0.get(&queue) {
            return Some(Wrong {
                message: format!(
                    "the schedules of {} and {} would both send to queue {quoted}",
                    quote(other),
                    quote(name)
                ),
                help: "a queue's name has no capitals and no underscores: give one of them another name".to_owned(),
                first: Some(*first),
            });
        }
        self.0.insert(queue, (name.to_owned(), place));
        None
    }
}
