//! The queues that a program declares: their settings, and who gets their messages.

use std::collections::BTreeMap;

use crate::broker::limits::{self, VISIBILITY_MAX_MS};
use crate::broker::{Broker, ConsumerSettings, Settings};
use crate::local;
use crate::program::{Connection, Function, Program, Target};

/// How much longer a message is leased than a call of a function may take, in milliseconds: a call always ends before
/// its lease does.
pub const GRACE_MS: u32 = 10_000;
/// How long the messages of a declared queue and its dead letters are kept, in seconds: as long as they may be.
pub const RETENTION_S: u32 = limits::RETENTION_S.1;

/// A queue of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub queue: String,
    /// What the program says of it.
    pub settings: Settings,
    /// How long a call may take, and after how long a failed message is visible again, in milliseconds.
    pub visibility_ms: u32,
    /// Messages handled side by side, at most.
    pub concurrency: u32,
    /// Who gets its messages.
    pub consumer: Consumer,
}

/// Who gets a queue's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consumer {
    /// Each of these functions gets every message: the queue has a trigger.
    Functions(Vec<String>),
    /// They become events, by [`receive`](crate::receive::receive()).
    Receiving,
    /// Nobody: the queue keeps them.
    Nobody,
}

impl Declared {
    /// How long a message is leased when it is taken, in milliseconds.
    #[must_use]
    pub fn lease_ms(&self) -> u32 {
        self.visibility_ms.saturating_add(GRACE_MS).min(VISIBILITY_MAX_MS)
    }

    /// How long a message that failed stays hidden yet, in milliseconds, when it was taken so long ago.
    #[must_use]
    pub fn again_in_ms(&self, taken_ms_ago: u64) -> u32 {
        self.visibility_ms.saturating_sub(u32::try_from(taken_ms_ago).unwrap_or(u32::MAX))
    }

    /// What to set for a queue that is there already: what the program says, and what it leaves to the operator.
    #[must_use]
    pub fn settings_over(&self, present: &Settings) -> Settings {
        Settings { consumer: self.settings.consumer.clone(), ..present.clone() }
    }

    /// The dead-letter queue, which is made with the queue.
    #[must_use]
    pub fn dead_letters(&self) -> (String, Settings) {
        (local::dead_letters_of(&self.queue), Settings { retention_s: RETENTION_S, ..Settings::default() })
    }

    fn new(queue: &str, max_retries: u32, visibility_ms: u64, concurrency: u32, consumer: Consumer) -> Self {
        let visibility_ms = u32::try_from(visibility_ms).unwrap_or(VISIBILITY_MAX_MS).min(VISIBILITY_MAX_MS);
        let settings = Settings {
            retention_s: RETENTION_S,
            consumer: ConsumerSettings {
                batch_wait_ms: 0,
                max_retries: max_retries.min(limits::RETRIES_MAX),
                visibility_ms,
                dead_letter_queue: Some(local::dead_letters_of(queue)),
                max_concurrency: Some(concurrency),
                ..ConsumerSettings::default()
            },
            ..Settings::default()
        };
        Self { queue: queue.to_owned(), settings, visibility_ms, concurrency, consumer }
    }
}

/// The queues of a program and their functions, looked up once.
#[derive(Debug, Clone, PartialEq)]
pub struct Triggers {
    queues: BTreeMap<String, Declared>,
    functions: BTreeMap<String, Function>,
}

impl Triggers {
    /// What a program declares: its local queues, and a queue for each schedule whose function is called.
    #[must_use]
    pub fn of(program: &Program) -> Self {
        let declared = program.connections.iter().filter_map(|(name, connection)| {
            let Connection::LocalQueue { queue, functions, max_receives, visibility_ms, concurrency } = connection
            else {
                return None;
            };
            let (retries, consumer) = if program.receiving.contains_key(name) {
                // Such a message is retried only because the store is away, and whatever is wrong with it is parked.
                // As many retries as there may be, on the schedule that grows to an hour, outlast four days of that.
                (limits::RETRIES_MAX, Consumer::Receiving)
            } else if functions.is_empty() {
                (max_receives.saturating_sub(1), Consumer::Nobody)
            } else {
                (max_receives.saturating_sub(1), Consumer::Functions(functions.clone()))
            };
            Some(Declared::new(queue, retries, *visibility_ms, *concurrency, consumer))
        });
        let scheduled = program
            .functions
            .iter()
            .filter(|(_, function)| function.schedule.is_some() && !matches!(function.target, Target::Send(_)));
        let scheduled = scheduled.map(|(name, _)| {
            let consumer = Consumer::Functions(vec![name.clone()]);
            Declared::new(&local::queue_of_schedule(name), local::MAX_RECEIVES - 1, local::VISIBILITY_MS, 1, consumer)
        });
        let queues = declared.chain(scheduled).map(|declared| (declared.queue.clone(), declared)).collect();
        Self { queues, functions: program.functions.clone() }
    }

    /// The same with another visibility for every queue, in milliseconds, as a developer sets it.
    #[must_use]
    pub fn with_visibility_ms(mut self, visibility_ms: u32) -> Self {
        for declared in self.queues.values_mut() {
            declared.visibility_ms = visibility_ms.min(VISIBILITY_MAX_MS);
            declared.settings.consumer.visibility_ms = declared.visibility_ms;
        }
        self
    }

    /// Every declared queue, by name. What is no longer declared stays in the store: only an operator deletes.
    pub fn declared(&self) -> impl Iterator<Item = &Declared> {
        self.queues.values()
    }

    /// A declared queue.
    #[must_use]
    pub fn get(&self, queue: &str) -> Option<&Declared> {
        self.queues.get(queue)
    }

    /// The declared queue whose dead letters a queue of this name takes.
    #[must_use]
    pub fn dying_into(&self, queue: &str) -> Option<&Declared> {
        self.queues.get(queue.strip_suffix(local::DEAD_SUFFIX)?)
    }

    /// The declared queues that somebody deleted, or whose dead letters' queue; and those that the app handles and that
    /// are not as it declares them, which only one is that was made again by hand. What is set for a queue that the app
    /// leaves to others is theirs.
    #[must_use]
    pub fn strayed(&self, broker: &Broker) -> Vec<String> {
        let strayed = |declared: &&Declared| {
            let Ok(info) = broker.info(&declared.queue) else { return true };
            let is_ours = declared.consumer != Consumer::Nobody;
            broker.info(&local::dead_letters_of(&declared.queue)).is_err()
                || (is_ours && declared.settings_over(&info.settings) != info.settings)
        };
        self.declared().filter(strayed).map(|declared| declared.queue.clone()).collect()
    }

    /// The functions of a queue, with their names. One that the program does not have, which no build writes, is
    /// taken for a linked one that is not there: its messages wait and are not lost.
    pub(super) fn functions_of(&self, queue: &str) -> Vec<(&str, Function)> {
        let Some(Declared { consumer: Consumer::Functions(names), .. }) = self.queues.get(queue) else {
            return Vec::new();
        };
        let found = |name: &String| {
            let missing = || Function { target: Target::Run(name.clone()), schedule: None, body: None };
            self.functions.get(name).cloned().unwrap_or_else(missing)
        };
        names.iter().map(|name| (name.as_str(), found(name))).collect()
    }
}
