//! Schedules: the core says what is due, and the store keeps each occurrence and its message together.

use std::collections::BTreeMap;
use std::time::Duration;

use jadpo_core::broker::BrokerError;
use jadpo_core::host::Level;
use jadpo_core::schedule::{Occurrence, Schedules};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Shared, again};
use crate::host::now_ms;

/// How often it is looked whether something is due. A schedule's times are whole minutes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often it is said again that a schedule fails for the same reason.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// What was said last of each schedule that fails, and when. What fails for all
/// of them has no name.
type Said = BTreeMap<String, (String, Instant)>;

/// Runs until told to stop.
pub(super) async fn run(shared: Shared, schedules: Schedules, mut stopped: watch::Receiver<bool>) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said = Said::new();
    while !*stopped.borrow() {
        tokio::select! {
            _ = looks.tick() => {}
            _ = stopped.changed() => break,
        }
        let failed = look(&shared, &schedules, now_ms()).await;
        said.retain(|schedule, _| failed.contains_key(schedule));
        for (schedule, error) in failed {
            let error = error.to_string();
            let is_said = |(before, at): &(String, Instant)| *before == error && at.elapsed() < SAY_AGAIN;
            if !said.get(&schedule).is_some_and(is_said) {
                let fields = vec![("schedule", schedule.as_str().into()), ("error", error.as_str().into())];
                shared.log(Level::Error, "schedule.failed", fields);
                said.insert(schedule, (error, Instant::now()));
            }
        }
    }
}

/// Does what is due. Each schedule stands for itself: one that fails, and why, keeps no other from it, and is tried
/// again at the next look.
async fn look(shared: &Shared, schedules: &Schedules, now_ms: i64) -> BTreeMap<String, BrokerError> {
    let states = match shared.own.triggers().await {
        Ok(states) => states,
        Err(error) => return BTreeMap::from([(String::new(), error)]),
    };
    let mut failed = BTreeMap::new();
    let due = schedules.due(&states, now_ms);
    for (schedule, at_ms) in due.passed {
        if let Err(error) = shared.own.pass(&schedule, at_ms).await {
            failed.insert(schedule, error);
        }
    }
    for occurrence in due.occurrences {
        let schedule = occurrence.schedule.clone();
        if let Err(error) = occur(shared, occurrence).await {
            failed.insert(schedule, error);
        }
    }
    failed
}

async fn occur(shared: &Shared, occurrence: Occurrence) -> Result<(), BrokerError> {
    let Occurrence { schedule, at_ms, queue, message, missed } = occurrence;
    let occur = || shared.own.occur(&schedule, at_ms, &queue, message.clone());
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
