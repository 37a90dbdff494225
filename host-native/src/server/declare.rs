//! The queues that a program declares, made or brought up to what it says. Nothing is ever deleted here.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use jadpo_core::broker::{BrokerError, Consumer, Settings};
use jadpo_core::program::{CONCURRENCY, Connection};
use jadpo_core::pull;
use jadpo_core::trigger::{Consumer as Handler, Declared, Triggers};
use jadpo_core::workers::Worker;

use super::Shared;
use crate::broker::Broker;

/// Queues that are made at once.
const AT_ONCE: usize = 100;
/// Attempts and visibility of a queue that nobody declared, as of one that says neither.
const MAX_RECEIVES: u32 = 3;
const VISIBILITY_MS: u64 = 30_000;

/// Makes what is declared and not there, and updates what is there and says something else. Whatever an operator set
/// that a declaration does not speak of stays.
///
/// # Errors
/// [`BrokerError`]; what was made before it stays.
pub async fn declare(broker: &Broker, triggers: &Triggers) -> Result<(), BrokerError> {
    let consumers = broker.consumers().await?;
    let all: Vec<&Declared> = triggers.declared().collect();
    all.iter().try_for_each(|declared| one_consumer(declared, &consumers))?;
    // Side by side, so that many of them share a sync of the disk.
    for some in all.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|declared| one(broker, declared, consumers.contains_key(&declared.queue))))
            .await?;
    }
    Ok(())
}

/// Refuses a queue that the app handles and that somebody else consumes too.
fn one_consumer(declared: &Declared, consumers: &BTreeMap<String, Consumer>) -> Result<(), BrokerError> {
    match consumers.get(&declared.queue) {
        Some(present) if declared.consumer != Handler::Nobody => Err(BrokerError::ConsumerExists {
            queue: declared.queue.clone(),
            present: present.kind.in_words(),
            wanted: pull::in_words(&declared.consumer),
        }),
        _ => Ok(()),
    }
}

/// What is set for a queue that has a consumer of its own is that consumer's, and is left as it is. Whether anything had
/// to be done.
pub(super) async fn one(broker: &Broker, declared: &Declared, is_consumed: bool) -> Result<bool, BrokerError> {
    let is_new = dead_letters(broker, declared).await?;
    let is_changed = ensure(broker, &declared.queue, declared.settings.clone(), |present| {
        if is_consumed { present.clone() } else { declared.settings_over(present) }
    });
    Ok(is_changed.await? || is_new)
}

/// Makes the queue of a declared queue's dead letters, if it is not there.
pub(crate) async fn dead_letters(broker: &Broker, declared: &Declared) -> Result<bool, BrokerError> {
    let (dead, settings) = declared.dead_letters();
    ensure(broker, &dead, settings, Settings::clone).await
}

async fn ensure(
    broker: &Broker,
    name: &str,
    settings: Settings,
    over: impl Fn(&Settings) -> Settings,
) -> Result<bool, BrokerError> {
    match broker.info(name).await {
        Ok(info) => {
            let wanted = over(&info.settings);
            if wanted == info.settings {
                return Ok(false);
            }
            broker.update(name, wanted).await?;
        }
        Err(BrokerError::QueueNotFound(_)) => match broker.create(name, settings).await {
            // Somebody else made it meanwhile.
            Ok(_) | Err(BrokerError::QueueExists(_)) => {}
            Err(error) => return Err(error),
        },
        Err(error) => return Err(error),
    }
    Ok(true)
}

/// Lets every queue be pulled over HTTP that has no consumer, that the app does not handle, that none of these Workers
/// sends to, since one may come to consume it, and that holds nobody's dead letters.
///
/// # Errors
/// [`BrokerError`]; what was done before it stays.
pub async fn let_pull(broker: &Broker, triggers: &Triggers, workers: &[Worker]) -> Result<(), BrokerError> {
    let consumers = broker.consumers().await?;
    let infos = broker.list().await?;
    for info in &infos {
        let is_handled = triggers.get(&info.name).is_some_and(|declared| declared.consumer != Handler::Nobody);
        let holds_letters =
            infos.iter().any(|other| other.settings.consumer.dead_letter_queue.as_ref() == Some(&info.name));
        let mut producers = workers.iter().flat_map(|worker| &worker.producers);
        let is_sent_to = producers.any(|producer| producer.queue == info.name);
        if !is_handled && !is_sent_to && !holds_letters && !consumers.contains_key(&info.name) {
            broker.let_pull(&info.name).await?;
        }
    }
    Ok(())
}

/// Makes a queue that somebody sends to and nobody declared, as if it had been declared with nothing but its name.
pub(super) async fn on_first_use(shared: &Shared, name: &str) -> Result<(), BrokerError> {
    let mut program = shared.app.program.clone();
    program.connections.clear();
    let connection = Connection::LocalQueue {
        queue: name.to_owned(),
        functions: Vec::new(),
        max_receives: MAX_RECEIVES,
        visibility_ms: VISIBILITY_MS,
        concurrency: CONCURRENCY,
    };
    program.connections.insert(name.to_owned(), connection);
    match Triggers::of(&program).get(name) {
        Some(declared) => {
            one(&shared.broker, declared, false).await?;
            if !shared.options.lets_pull {
                return Ok(());
            }
            match shared.broker.let_pull(name).await {
                // Somebody else was first.
                Ok(_) | Err(BrokerError::ConsumerExists { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        }
        None => Err(BrokerError::QueueNotFound(name.to_owned())),
    }
}
