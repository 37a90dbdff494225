//! Schedules: the core says what is due, and the store keeps each occurrence and its message together.

use std::collections::BTreeMap;
use std::time::Duration;

use jadpo_core::broker::BrokerError;
use jadpo_core::host::Level;
use jadpo_core::inbound::rfc3339;
use jadpo_core::schedule::{Occurrence, Schedules};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Shared, again};
use crate::host::now_ms;

/// How often it is looked whether something is due. A schedule's times are whole minutes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often it is said again that a schedule fails for the same reason.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// What was said last of each schedule, and when. What fails for all of them has no name.
#[derive(Default)]
struct Said(BTreeMap<String, (String, Instant)>);

/// What a look found that is no occurrence, each by schedule.
#[derive(Default)]
struct Found {
    failed: BTreeMap<String, String>,
    /// Those that do not run before a time, since they were followed up to there by a clock that was ahead.
    waits: BTreeMap<String, String>,
}

/// Runs until told to stop.
pub(super) async fn run(shared: Shared, schedules: Schedules, mut stopped: watch::Receiver<bool>) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut failures, mut waits) = (Said::default(), Said::default());
    while !*stopped.borrow() {
        tokio::select! {
            _ = looks.tick() => {}
            _ = stopped.changed() => break,
        }
        let found = look(&shared, &schedules, now_ms()).await;
        for (schedule, error) in failures.news(found.failed) {
            let fields = vec![("schedule", schedule.into()), ("error", error.into())];
            shared.log(Level::Error, "schedule.failed", fields);
        }
        for (schedule, until) in waits.news(found.waits) {
            let fields = vec![
                ("schedule", schedule.into()),
                ("until", until.into()),
                ("why", "it was followed up to there while the clock was ahead".into()),
            ];
            shared.log(Level::Warn, "schedule.waits", fields);
        }
    }
}

impl Said {
    /// What of this was not said a short while ago. What is no longer so is forgotten.
    fn news(&mut self, now: BTreeMap<String, String>) -> Vec<(String, String)> {
        self.0.retain(|schedule, _| now.contains_key(schedule));
        let is_said = |(before, at): &(String, Instant), text: &String| before == text && at.elapsed() < SAY_AGAIN;
        let is_news =
            |(schedule, text): &(String, String)| !self.0.get(schedule).is_some_and(|said| is_said(said, text));
        let news: Vec<_> = now.into_iter().filter(is_news).collect();
        self.0.extend(news.iter().map(|(schedule, text)| (schedule.clone(), (text.clone(), Instant::now()))));
        news
    }
}

/// Does what is due. Each schedule stands for itself: one that fails, and why, keeps no other from it, and is tried
/// again at the next look.
async fn look(shared: &Shared, schedules: &Schedules, now_ms: i64) -> Found {
    let mut found = Found::default();
    let states = match shared.own.triggers().await {
        Ok(states) => states,
        Err(error) => {
            found.failed.insert(String::new(), error.to_string());
            return found;
        }
    };
    let due = schedules.due(&states, now_ms);
    found.waits.extend(due.ahead.into_iter().map(|(schedule, until_ms)| (schedule, rfc3339(until_ms))));
    for (schedule, at_ms) in due.passed {
        if let Err(error) = shared.own.pass(&schedule, at_ms).await {
            found.failed.insert(schedule, error.to_string());
        }
    }
    for occurrence in due.occurrences {
        let schedule = occurrence.schedule.clone();
        if let Err(error) = occur(shared, occurrence).await {
            found.failed.insert(schedule, error.to_string());
        }
    }
    found
}

async fn occur(shared: &Shared, occurrence: Occurrence) -> Result<(), BrokerError> {
    let Occurrence { schedule, at_ms, queue, message, missed } = occurrence;
    let occur = || shared.own.occur(&schedule, at_ms, &queue, message.clone());
    let Some(id) = again::with_queue(shared, &queue, occur).await? else { return Ok(()) };
    let at = rfc3339(at_ms);
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
