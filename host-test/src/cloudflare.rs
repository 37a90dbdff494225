//! Cloudflare's side of a queue, as a consumer meets it: batches, attempts, delays, retries spent, dead letters.
//!
//! It keeps the documented promises and none of the undocumented habits: delivery is at least once, so a test may
//! have answers lost or messages come in another order.

use std::collections::{BTreeMap, BTreeSet};

use jadpo_core::program::{Connection, Program};
use jadpo_core::queue::{Answer, Batch, Body, Message};
use jadpo_core::wrangler::{BATCH_SIZE_MAX, BATCH_WAIT_S, DEAD_LETTER_RETRIES_MAX, RETRIES_MAX};

/// The most messages that Cloudflare hands over at once.
pub(crate) const BATCH_MAX: usize = 100;

/// A body as the Worker gets it: nobody tells it a message's content type, so a json message that is a string is the text
/// message of that string.
pub(crate) fn handed_over(body: Body) -> Body {
    match body {
        Body::Json(json) if json.trim_start().starts_with('"') => {
            serde_json::from_str(&json).map_or(Body::Json(json), Body::Text)
        }
        body => body,
    }
}

/// A queue's consumer, as the Wrangler file sets it.
#[derive(Debug, Clone)]
struct Consumer {
    retries_max: u32,
    dead_letter_queue: Option<String>,
}

/// A message in a queue. `message.attempts` counts the deliveries so far.
#[derive(Debug, Clone)]
struct Waiting {
    message: Message,
    visible_at_ms: i64,
}

#[derive(Debug, Default)]
struct Queue {
    consumer: Option<Consumer>,
    waiting: Vec<Waiting>,
    /// Handed over and not settled yet.
    out: Vec<Message>,
}

/// All queues of an app.
#[derive(Debug)]
pub(crate) struct Cloudflare {
    queues: BTreeMap<String, Queue>,
    /// Messages whose retries were spent where no dead-letter queue took them.
    lost: Vec<Message>,
    batch_size: usize,
    acks_to_lose: u32,
    shuffled: bool,
    random: fastrand::Rng,
    /// How many invocations have a batch that is not settled, where that is counted.
    #[cfg(feature = "torture")]
    pub(crate) invocations: usize,
}

impl Cloudflare {
    pub(crate) fn of(program: &Program) -> Self {
        let mut cloudflare = Self {
            queues: BTreeMap::new(),
            lost: Vec::new(),
            batch_size: BATCH_SIZE_MAX as usize,
            acks_to_lose: 0,
            shuffled: false,
            random: fastrand::Rng::with_seed(0),
            #[cfg(feature = "torture")]
            invocations: 0,
        };
        cloudflare.deploy(program);
        cloudflare
    }

    /// A Worker's deployment makes it the consumer of its queues; what is in them stays.
    pub(crate) fn deploy(&mut self, program: &Program) {
        for connection in program.connections.values() {
            let Connection::CloudflareQueues { queue, dead_letter_queue } = connection else { continue };
            let consumer = Consumer { retries_max: RETRIES_MAX, dead_letter_queue: Some(dead_letter_queue.clone()) };
            self.queues.entry(queue.clone()).or_default().consumer = Some(consumer);
            let consumer = Consumer { retries_max: DEAD_LETTER_RETRIES_MAX, dead_letter_queue: None };
            self.queues.entry(dead_letter_queue.clone()).or_default().consumer = Some(consumer);
        }
    }

    /// The names of the queues.
    pub(crate) fn queues(&self) -> BTreeSet<String> {
        self.queues.keys().cloned().collect()
    }

    pub(crate) fn seed(&mut self, seed: u64) {
        self.random.seed(seed);
    }

    /// Cuts batches at `size`, 1 or more.
    pub(crate) fn cut_batches_at(&mut self, size: usize) {
        self.batch_size = size;
    }

    pub(crate) fn shuffle(&mut self) {
        self.shuffled = true;
    }

    pub(crate) fn lose_acks(&mut self, acks: u32) {
        self.acks_to_lose = acks;
    }

    /// An id in the form that Cloudflare gives: 32 hex digits.
    pub(crate) fn new_id(&mut self) -> String {
        format!("{:032x}", self.random.u128(..))
    }

    /// Takes a message in. A queue that nobody declared is made, with a consumer of the usual settings.
    pub(crate) fn send(&mut self, queue: &str, message: Message, now_ms: i64) {
        let queue = self.queues.entry(queue.to_owned()).or_insert_with(|| Queue {
            consumer: Some(Consumer { retries_max: RETRIES_MAX, dead_letter_queue: None }),
            ..Queue::default()
        });
        queue.waiting.push(Waiting { message, visible_at_ms: now_ms });
    }

    /// When the next batch is ready, and of which queue: once enough messages can be seen, or the first of them has
    /// waited long enough.
    pub(crate) fn next_batch_at(&self) -> Option<(i64, String)> {
        let ready = |queue: &Queue| {
            let mut visible: Vec<i64> = queue.waiting.iter().map(|waiting| waiting.visible_at_ms).collect();
            visible.sort_unstable();
            let waited_ms = visible.first()? + i64::from(BATCH_WAIT_S) * 1_000;
            let filled_ms = visible.get(self.batch_size - 1).copied();
            Some(filled_ms.unwrap_or(waited_ms).min(waited_ms))
        };
        self.queues.iter().filter_map(|(name, queue)| Some((ready(queue)?, name.clone()))).min()
    }

    /// Hands over a batch of what can be seen now.
    pub(crate) fn take(&mut self, queue: &str, now_ms: i64) -> Batch {
        let mut messages = Vec::new();
        if let Some(queue) = self.queues.get_mut(queue) {
            if self.shuffled {
                self.random.shuffle(&mut queue.waiting);
            } else {
                queue.waiting.sort_by_key(|waiting| waiting.visible_at_ms);
            }
            let mut left = Vec::new();
            for mut waiting in queue.waiting.drain(..) {
                if waiting.visible_at_ms <= now_ms && messages.len() < self.batch_size {
                    waiting.message.attempts += 1;
                    messages.push(waiting.message);
                } else {
                    left.push(waiting);
                }
            }
            queue.waiting = left;
            queue.out.extend(messages.iter().cloned());
        }
        Batch { queue: queue.to_owned(), messages }
    }

    /// Settles one message that was handed over.
    pub(crate) fn settle(&mut self, queue: &str, id: &str, answer: Answer, now_ms: i64) {
        let Some(from) = self.queues.get_mut(queue) else { return };
        let Some(at) = from.out.iter().position(|message| message.id == id) else { return };
        let message = from.out.remove(at);
        match answer {
            Answer::Ack if self.acks_to_lose == 0 => {}
            Answer::Ack => {
                self.acks_to_lose -= 1;
                self.again(queue, message, now_ms);
            }
            Answer::Retry { delay_s } => self.again(queue, message, now_ms + i64::from(delay_s) * 1_000),
        }
    }

    /// The handler has ended or died: what it did not settle comes again at once.
    pub(crate) fn unsettled(&mut self, queue: &str, now_ms: i64) {
        let Some(from) = self.queues.get_mut(queue) else { return };
        for message in std::mem::take(&mut from.out) {
            self.again(queue, message, now_ms);
        }
    }

    /// As [`Cloudflare::unsettled`], of one handler among several.
    #[cfg(feature = "torture")]
    pub(crate) fn unsettled_of(&mut self, queue: &str, ids: &[String], now_ms: i64) {
        let Some(from) = self.queues.get_mut(queue) else { return };
        let back: Vec<Message> = from.out.extract_if(.., |message| ids.contains(&message.id)).collect();
        for message in back {
            self.again(queue, message, now_ms);
        }
    }

    /// Whether every message is settled.
    #[cfg(feature = "torture")]
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.values().all(|queue| queue.waiting.is_empty() && queue.out.is_empty())
    }

    /// Puts a message back, or where messages go whose retries are spent.
    fn again(&mut self, queue: &str, mut message: Message, visible_at_ms: i64) {
        let Some(from) = self.queues.get_mut(queue) else { return };
        let consumer = from.consumer.clone();
        let spent = consumer.as_ref().is_some_and(|consumer| message.attempts > consumer.retries_max);
        if !spent {
            from.waiting.push(Waiting { message, visible_at_ms });
            return;
        }
        message.attempts = 0;
        match consumer.and_then(|consumer| consumer.dead_letter_queue) {
            Some(dead) => self.send(&dead, message, visible_at_ms),
            None => self.lost.push(message),
        }
    }

    /// Messages that are in a queue now.
    pub(crate) fn waiting(&self) -> Vec<(String, Message)> {
        let mut all = Vec::new();
        for (name, queue) in &self.queues {
            let waiting = queue.waiting.iter().map(|waiting| &waiting.message).chain(&queue.out);
            all.extend(waiting.map(|message| (name.clone(), message.clone())));
        }
        all
    }

    pub(crate) fn lost(&self) -> &[Message] {
        &self.lost
    }
}
