//! The queues that Workers consume.

use super::LEASE_MS;
use crate::admin::queues::ServedWorker;
use crate::broker::{ConsumerKind, ConsumerSettings};
use crate::workers::{Consumer, Worker};

/// Retries of an occurrence whose handler failed, and seconds between them.
const CRON_RETRIES: u32 = 3;
const CRON_RETRY_DELAY_S: u32 = 60;
/// Longest name of a schedule, in bytes; there is a prefix before it in the store.
const CRON_NAME_BYTES_MAX: usize = 180;

/// A queue that a Worker consumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumed {
    /// The queue.
    pub queue: String,
    /// The Worker.
    pub worker: String,
    /// The Worker's environment, if one was chosen.
    pub environment: Option<String>,
    /// Which of its handlers gets the messages.
    pub handler: Handler,
    /// How it is consumed, as the Wrangler file says it.
    pub settings: ConsumerSettings,
}

/// A handler of a Worker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handler {
    /// `queue`: it gets batches.
    Queue,
    /// `scheduled`: it gets the occurrences of its crons, each of them a message.
    Scheduled,
}

impl Consumed {
    /// The consumer as the broker's store knows it.
    #[must_use]
    pub fn kind(&self) -> ConsumerKind {
        ConsumerKind::Worker { script: self.worker.clone(), environment: self.environment.clone() }
    }
}

/// The queues that these Workers consume: those that their files name, and one for each Worker with crons.
#[must_use]
pub fn consumed(workers: &[Worker]) -> Vec<Consumed> {
    workers
        .iter()
        .flat_map(|worker| worker.consumers.iter().map(|it| of(worker, it)).chain(occurrences(worker)))
        .collect()
}

fn of(worker: &Worker, consumer: &Consumer) -> Consumed {
    Consumed {
        queue: consumer.queue.clone(),
        worker: worker.name.clone(),
        environment: worker.environment.clone(),
        handler: Handler::Queue,
        settings: consumer.settings(),
    }
}

fn occurrences(worker: &Worker) -> Option<Consumed> {
    let (queue, dead) = (worker.cron_queue(), worker.cron_dead_letter_queue());
    let settings = ConsumerSettings {
        batch_size: 1,
        batch_wait_ms: 0,
        max_retries: CRON_RETRIES,
        retry_delay_s: CRON_RETRY_DELAY_S,
        visibility_ms: LEASE_MS,
        dead_letter_queue: Some(dead),
        max_concurrency: None,
    };
    let (environment, handler) = (worker.environment.clone(), Handler::Scheduled);
    let consumed = Consumed { queue, worker: worker.name.clone(), environment, handler, settings };
    (!worker.crons.is_empty()).then_some(consumed)
}

/// These Workers, as commands and clients of the server's are told of them.
#[must_use]
pub fn served(workers: &[Worker]) -> Vec<ServedWorker> {
    let of = |worker: &Worker| ServedWorker {
        name: worker.name.clone(),
        consumes: consumed(std::slice::from_ref(worker)).into_iter().map(|one| one.queue).collect(),
        produces: worker.producers.iter().map(|producer| producer.queue.clone()).collect(),
        crons: worker.crons.iter().map(|cron| (cron.clone(), cron_name(&worker.name, cron))).collect(),
    };
    workers.iter().map(of).collect()
}

/// The name of a Worker's schedule, by which the store remembers its last occurrence.
#[must_use]
pub fn cron_name(worker: &str, cron: &str) -> String {
    let name = format!("{worker}: {}", cron.split_whitespace().collect::<Vec<_>>().join(" "));
    let end = (0..=CRON_NAME_BYTES_MAX.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    name.get(..end.unwrap_or_default()).unwrap_or_default().to_owned()
}
