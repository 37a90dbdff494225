//! The queues that a program declares, made or brought up to what it says. Nothing is ever deleted here.

use futures_util::future::try_join_all;
use jadpo_core::broker::{BrokerError, Settings};
use jadpo_core::program::{CONCURRENCY, Connection};
use jadpo_core::trigger::{Declared, Triggers};

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
    let all: Vec<&Declared> = triggers.declared().collect();
    // Side by side, so that many of them share a sync of the disk.
    for some in all.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|declared| one(broker, declared))).await?;
    }
    Ok(())
}

async fn one(broker: &Broker, declared: &Declared) -> Result<(), BrokerError> {
    let (dead, dead_settings) = declared.dead_letters();
    ensure(broker, &dead, dead_settings, |present| present.clone()).await?;
    ensure(broker, &declared.queue, declared.settings.clone(), |present| declared.settings_over(present)).await
}

async fn ensure(
    broker: &Broker,
    name: &str,
    settings: Settings,
    over: impl Fn(&Settings) -> Settings,
) -> Result<(), BrokerError> {
    match broker.info(name).await {
        Ok(info) => {
            let wanted = over(&info.settings);
            if wanted != info.settings {
                broker.update(name, wanted).await?;
            }
        }
        Err(BrokerError::QueueNotFound(_)) => match broker.create(name, settings).await {
            // Somebody else made it meanwhile.
            Ok(_) | Err(BrokerError::QueueExists(_)) => {}
            Err(error) => return Err(error),
        },
        Err(error) => return Err(error),
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
        Some(declared) => one(&shared.broker, declared).await,
        None => Err(BrokerError::QueueNotFound(name.to_owned())),
    }
}
