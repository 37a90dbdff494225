//! Schedules: the core says what is due, and the store keeps each occurrence and its message together.

use std::time::Duration;

use jadpo_core::broker::BrokerError;
use jadpo_core::host::Level;
use jadpo_core::schedule::{Occurrence, Schedules};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::{Shared, again};
use crate::host::now_ms;

/// How often it is looked whether something is due. A schedule's times are whole minutes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Runs until told to stop.
pub(super) async fn run(shared: Shared, schedules: Schedules, mut stopped: watch::Receiver<bool>) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !*stopped.borrow() {
        tokio::select! {
            _ = looks.tick() => {}
            _ = stopped.changed() => break,
        }
        if let Err(error) = look(&shared, &schedules, now_ms()).await {
            shared.log(Level::Error, "schedule.failed", vec![("error", error.to_string().into())]);
        }
    }
}

async fn look(shared: &Shared, schedules: &Schedules, now_ms: i64) -> Result<(), BrokerError> {
    let states = shared.broker.triggers().await?;
    let due = schedules.due(&states, now_ms);
    for (schedule, at_ms) in due.passed {
        shared.broker.pass(&schedule, at_ms).await?;
    }
    for occurrence in due.occurrences {
        occur(shared, occurrence).await?;
    }
    Ok(())
}

async fn occur(shared: &Shared, occurrence: Occurrence) -> Result<(), BrokerError> {
    let Occurrence { schedule, at_ms, queue, message, missed } = occurrence;
    let occur = || shared.broker.occur(&schedule, at_ms, &queue, message.clone());
    let Some(id) = again::with_queue(shared, &queue, occur).await? else { return Ok(()) };
    let at = jadpo_core::inbound::rfc3339(at_ms);
    let fields = vec![
        ("schedule", schedule.as_str().into()),
        ("at", at.into()),
        ("queue", queue.into()),
        ("message", id.to_string().into()),
    ];
    shared.log(Level::Info, "schedule.occurred", fields);
    if missed > 0 {
        shared.log(Level::Warn, "schedule.missed", vec![("schedule", schedule.into()), ("count", missed.into())]);
    }
    Ok(())
}
