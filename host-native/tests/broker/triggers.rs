//! Triggers, occurrences of schedules, and webhooks' tokens.

use std::collections::BTreeSet;

use jadpo_core::broker::{
    BrokerError, MessageId, NewMessage, Run, RunOutcome, TriggerState, queue_trigger, schedule_trigger,
};

use super::support::{Fixture, START_MS, message, settings};

impl Fixture {
    fn trigger(&mut self, name: &str) -> TriggerState {
        self.run(|broker, sql, _| broker.triggers(sql)).unwrap().remove(name).unwrap_or_default()
    }

    fn record(&mut self, runs: &[(String, Run)]) -> Result<(), BrokerError> {
        self.run(|broker, sql, _| broker.record_runs(sql, runs))
    }

    fn occur(&mut self, schedule: &str, at_ms: i64, queue: &str) -> Result<Option<MessageId>, BrokerError> {
        self.run(|broker, sql, at| broker.occur(sql, at, schedule, at_ms, queue, &message("tick")))
    }

    fn token(&mut self, name: &str) -> String {
        self.run(|broker, sql, at| broker.webhook_token(sql, at, name)).unwrap()
    }

    fn rotate(&mut self, name: &str) -> String {
        self.run(|broker, sql, at| broker.rotate_webhook_token(sql, at, name)).unwrap()
    }
}

fn ran(outcome: RunOutcome, at_ms: i64, error: Option<&str>) -> Run {
    Run { at_ms, outcome, error: error.map(str::to_owned), message: Some(MessageId(7)) }
}

#[test]
fn a_trigger_that_nothing_is_known_of_is_enabled_and_never_ran() {
    let mut queue = Fixture::new();
    let state = queue.trigger("queue:jobs");
    assert_eq!((state.enabled, state.last_run, state.last_occurrence_ms), (true, None, None));
}

#[test]
fn a_trigger_s_switch_its_last_run_and_its_last_occurrence_are_kept_each_for_itself() {
    let mut queue = Fixture::with(settings(|_| {}));
    let name = schedule_trigger("sweep");
    let failed = ran(RunOutcome::Failed, START_MS, Some("status 500"));
    let done = Run { message: None, ..ran(RunOutcome::Done, START_MS + 1, None) };
    queue.occur("sweep", START_MS, "jobs").unwrap().unwrap();
    queue.record(&[(name.clone(), failed.clone())]).unwrap();
    queue.run(|broker, sql, _| broker.enable_trigger(sql, &name, false)).unwrap();
    queue.restart();
    let state = queue.trigger(&name);
    assert_eq!(
        state,
        TriggerState { enabled: false, last_run: Some(failed.clone()), last_occurrence_ms: Some(START_MS) }
    );
    queue.record(&[(name.clone(), failed), (name.clone(), done.clone())]).unwrap();
    queue.run(|broker, sql, _| broker.enable_trigger(sql, &name, true)).unwrap();
    assert_eq!(
        queue.trigger(&name),
        TriggerState { enabled: true, last_run: Some(done), last_occurrence_ms: Some(START_MS) }
    );
}

#[test]
fn an_endless_error_or_name_of_a_trigger_is_cut_or_refused() {
    let mut queue = Fixture::new();
    let endless = "ü".repeat(1_000_000);
    queue.record(&[(queue_trigger("jobs"), ran(RunOutcome::Failed, 1, Some(&endless)))]).unwrap();
    assert_eq!(queue.trigger("queue:jobs").last_run.unwrap().error.unwrap(), "ü".repeat(1_000));
    let refused = queue.record(&[(endless.clone(), ran(RunOutcome::Done, 1, None))]).unwrap_err();
    assert!(matches!(refused, BrokerError::TooLong { limit: 200, .. }));
    assert!(queue.run(|broker, sql, _| broker.enable_trigger(sql, &endless, true)).is_err());
    assert!(queue.run(|broker, sql, at| broker.webhook_token(sql, at, &endless)).is_err());
}

#[test]
fn an_occurrence_happens_once_and_none_that_is_earlier_after_it() {
    let mut queue = Fixture::with(settings(|_| {}));
    let hour = 3_600_000;
    let first = queue.occur("sweep", START_MS, "jobs").unwrap().unwrap();
    assert_eq!(queue.occur("sweep", START_MS, "jobs").unwrap(), None);
    queue.restart();
    assert_eq!(queue.occur("sweep", START_MS - hour, "jobs").unwrap(), None, "the clock was set back");
    let second = queue.occur("sweep", START_MS + hour, "jobs").unwrap().unwrap();
    let run = queue.trigger("schedule:sweep").last_run.unwrap();
    assert_eq!((run.outcome, run.message), (RunOutcome::Done, Some(second)), "that it was sent is its last run");
    assert!(queue.occur("other", START_MS, "jobs").unwrap().is_some(), "another schedule has its own");
    let taken = queue.take("jobs");
    assert_eq!(taken.len(), 3);
    assert_eq!((taken[0].message.id, taken[1].message.id), (first, second));
}

#[test]
fn an_occurrence_whose_message_cannot_be_sent_has_not_occurred() {
    let mut queue = Fixture::with(settings(|_| {}));
    assert_eq!(queue.occur("sweep", START_MS, "nowhere"), Err(BrokerError::QueueNotFound("nowhere".to_owned())));
    let big = NewMessage { body: vec![0; 128_001], ..message("") };
    assert!(queue.run(|broker, sql, at| broker.occur(sql, at, "sweep", START_MS, "jobs", &big)).is_err());
    assert_eq!(queue.trigger("schedule:sweep").last_occurrence_ms, None);
    assert!(queue.occur("sweep", START_MS, "jobs").unwrap().is_some());
}

#[test]
fn a_webhook_s_token_is_made_once_and_kept_until_it_is_rotated() {
    let mut queue = Fixture::new();
    let token = queue.token("stripe");
    assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    queue.at.random += 1;
    queue.restart();
    assert_eq!(queue.token("stripe"), token);
    let (rotated, again) = (queue.rotate("stripe"), queue.rotate("stripe"));
    assert_eq!(queue.token("stripe"), again);
    let github = queue.token("github");
    assert_eq!(BTreeSet::from([&token, &rotated, &again, &github]).len(), 4, "in one moment, too");
    let all = queue.run(|broker, sql, _| broker.webhook_tokens(sql)).unwrap();
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [("github".to_owned(), github), ("stripe".to_owned(), again)]);
}

#[test]
fn a_token_says_nothing_to_who_knows_the_moment_s_random_bits() {
    // Whoever sends in the same commit can compute them from the message's id.
    let (mut one, mut other) = (Fixture::new(), Fixture::new());
    assert_eq!(one.at.random, other.at.random);
    assert_ne!(one.token("stripe"), other.token("stripe"), "it depends on the store's key");
}
