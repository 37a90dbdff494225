//! What a server knows beside the store.

use std::collections::BTreeMap;

use super::access::Door;
use crate::trigger::{Consumer, Triggers};

/// What a server goes by when it answers the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    pub(super) door: Door,
    handled: BTreeMap<String, Consumer>,
}

impl Rules {
    /// Those of a server that runs this app.
    #[must_use]
    pub fn new(door: Door, triggers: &Triggers) -> Self {
        let handled = triggers.declared().filter(|declared| declared.consumer != Consumer::Nobody);
        let handled = handled.map(|declared| (declared.queue.clone(), declared.consumer.clone()));
        Self { door, handled: handled.collect() }
    }

    /// What the app does with a queue's messages, if anything, for a person.
    pub(super) fn handled_by(&self, queue: &str) -> Option<String> {
        self.handled.get(queue).map(in_words)
    }

    /// The same as the name of a Worker, which is what clients know.
    pub(super) fn script_of(&self, queue: &str) -> Option<String> {
        self.handled.get(queue).map(|consumer| match consumer {
            Consumer::Functions(names) => names.join(","),
            Consumer::Receiving | Consumer::Nobody => "receiving".to_owned(),
        })
    }
}

/// What the app that runs on a store does with a queue's messages, for a person.
#[must_use]
pub fn in_words(consumer: &Consumer) -> String {
    match consumer {
        Consumer::Functions(names) if names.len() == 1 => format!("the app's function `{}`", names.concat()),
        Consumer::Functions(names) => format!("the app's functions `{}`", names.join("`, `")),
        Consumer::Receiving | Consumer::Nobody => "the app's `receiving:`".to_owned(),
    }
}
