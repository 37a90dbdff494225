//! The queues of Workers, as their Wrangler files declare them, brought into the store.

use std::collections::BTreeMap;

use super::{Consumed, consumed};
use crate::broker::{Broker, BrokerError, ConsumerKind, ConsumerSettings, Moment, Settings, Sql, check_name};
use crate::pull;
use crate::trigger::{self, Triggers};
use crate::workers::Worker;

/// What was done that somebody should hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A queue was made.
    Made {
        /// The queue.
        queue: String,
    },
    /// A queue had another Worker as its consumer, which does not run here.
    TakenOver {
        /// The queue.
        queue: String,
        /// The Worker that consumes it now.
        worker: String,
        /// The one that did.
        from: String,
    },
    /// A Worker no longer consumes a queue; the queue keeps its messages.
    Left {
        /// The queue.
        queue: String,
        /// The Worker.
        worker: String,
    },
}

/// Makes the queues that these Workers send to and consume, and those of their dead letters, where they are missing; sets
/// how they are consumed as the Wrangler files say it; and takes away what a Worker consumed and no longer lists. What a
/// file does not speak of stays: whether a queue is paused, how long it keeps messages.
///
/// Nothing is written if anything is refused.
///
/// # Errors
/// [`BrokerError::ConsumerExists`] for a queue that somebody else consumes: whoever pulls it, the app that runs here, or
/// two of the Workers; a refusal of a name or a setting; [`BrokerError::Store`].
pub fn declare(
    broker: &mut Broker,
    sql: &mut dyn Sql,
    moment: Moment,
    workers: &[Worker],
    app: &Triggers,
) -> Result<Vec<Told>, BrokerError> {
    let consumed = consumed(workers);
    check(broker, &consumed, workers, app)?;
    let mut told = Vec::new();
    leave(broker, sql, moment, &consumed, workers, &mut told)?;
    for one in &consumed {
        consume(broker, sql, moment, one, &mut told)?;
    }
    for queue in beside(workers, &consumed) {
        make(broker, sql, moment, queue, ConsumerSettings::default(), &mut told)?;
    }
    Ok(told)
}

/// Makes those queues of these Workers that are not there though they were declared: somebody deleted them. Those that
/// are there stay as they are, whatever an operator has set.
///
/// # Errors
/// As [`declare`].
pub fn declare_again(
    broker: &mut Broker,
    sql: &mut dyn Sql,
    moment: Moment,
    workers: &[Worker],
) -> Result<Vec<Told>, BrokerError> {
    let mut told = Vec::new();
    let consumed = consumed(workers);
    for one in consumed.iter().filter(|one| is_missing(broker, &one.queue)).collect::<Vec<_>>() {
        consume(broker, sql, moment, one, &mut told)?;
    }
    for queue in beside(workers, &consumed) {
        make(broker, sql, moment, queue, ConsumerSettings::default(), &mut told)?;
    }
    Ok(told)
}

fn is_missing(broker: &Broker, queue: &str) -> bool {
    broker.info(queue).is_err()
}

/// The queues beside those that are consumed: what is sent to, and where dead letters go.
fn beside<'a>(workers: &'a [Worker], consumed: &'a [Consumed]) -> impl Iterator<Item = &'a String> {
    let sent_to = workers.iter().flat_map(|worker| worker.producers.iter().map(|producer| &producer.queue));
    sent_to.chain(consumed.iter().filter_map(|one| one.settings.dead_letter_queue.as_ref()))
}

fn check(broker: &Broker, consumed: &[Consumed], workers: &[Worker], app: &Triggers) -> Result<(), BrokerError> {
    let mut by_queue: BTreeMap<&str, &Consumed> = BTreeMap::new();
    for one in consumed {
        check_name(&one.queue)?;
        Settings { consumer: one.settings.clone(), ..Settings::default() }.check(&one.queue)?;
        let other = by_queue.insert(&one.queue, one).map(|other| other.kind().in_words());
        let of_app = app.get(&one.queue).filter(|declared| declared.consumer != trigger::Consumer::Nobody);
        let of_app = of_app.map(|declared| pull::in_words(&declared.consumer));
        let pulled = match broker.consumer(&one.queue) {
            Ok(Some(present)) if present.kind == ConsumerKind::HttpPull => Some(present.kind.in_words()),
            _ => None,
        };
        if let Some(present) = other.or(of_app).or(pulled) {
            let (queue, wanted) = (one.queue.clone(), one.kind().in_words());
            return Err(BrokerError::ConsumerExists { queue, present, wanted });
        }
    }
    workers.iter().flat_map(|worker| &worker.producers).try_for_each(|producer| check_name(&producer.queue))
}

/// Takes away what these Workers consumed and no longer list.
fn leave(
    broker: &mut Broker,
    sql: &mut dyn Sql,
    moment: Moment,
    consumed: &[Consumed],
    workers: &[Worker],
    told: &mut Vec<Told>,
) -> Result<(), BrokerError> {
    let names: Vec<String> = broker.list().map(|info| info.name.clone()).collect();
    for queue in names {
        let Some(ConsumerKind::Worker { script, .. }) = broker.consumer(&queue)?.map(|present| present.kind.clone())
        else {
            continue;
        };
        let runs_here = workers.iter().any(|worker| worker.name == script);
        let consumes = consumed.iter().any(|one| one.queue == queue && one.worker == script);
        if runs_here && !consumes {
            broker.remove_consumer(sql, moment, &queue)?;
            told.push(Told::Left { queue, worker: script });
        }
    }
    Ok(())
}

fn consume(
    broker: &mut Broker,
    sql: &mut dyn Sql,
    moment: Moment,
    one: &Consumed,
    told: &mut Vec<Told>,
) -> Result<(), BrokerError> {
    make(broker, sql, moment, &one.queue, one.settings.clone(), told)?;
    match broker.consumer(&one.queue)?.map(|present| present.kind.clone()) {
        Some(kind) if kind == one.kind() => {
            let present = broker.info(&one.queue)?.settings.clone();
            if present.consumer != one.settings {
                broker.update(sql, moment, &one.queue, Settings { consumer: one.settings.clone(), ..present })?;
            }
            return Ok(());
        }
        Some(ConsumerKind::Worker { script, .. }) => {
            broker.remove_consumer(sql, moment, &one.queue)?;
            if script != one.worker {
                told.push(Told::TakenOver { queue: one.queue.clone(), worker: one.worker.clone(), from: script });
            }
        }
        Some(ConsumerKind::HttpPull) | None => {}
    }
    broker.add_consumer(sql, moment, &one.queue, one.kind(), one.settings.clone(), None)?;
    Ok(())
}

fn make(
    broker: &mut Broker,
    sql: &mut dyn Sql,
    moment: Moment,
    queue: &str,
    consumer: ConsumerSettings,
    told: &mut Vec<Told>,
) -> Result<(), BrokerError> {
    if !is_missing(broker, queue) {
        return Ok(());
    }
    broker.create(sql, moment, queue, Settings { consumer, ..Settings::default() })?;
    told.push(Told::Made { queue: queue.to_owned() });
    Ok(())
}
