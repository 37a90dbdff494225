//! Workers as consumers: their queues declared, their batches taken, and what their handlers recorded carried out.

use std::slice::from_ref;

use jadpo_core::broker::{BrokerError, ConsumerKind, ConsumerSettings, How, NewBatch, Reason, Retry, Settings, Settle};
use jadpo_core::program::{Connection, Program};
use jadpo_core::push::{
    Asks, Found, LEASE_MS, Told, Verdict, declare, declare_again, ended, foreign, frame, occurred, occurrence, take,
    verdict,
};
use jadpo_core::trigger::Triggers;
use jadpo_core::workers::{Format, Worker, read};
use serde_json::{Value, json};

use super::support::{Fixture, message};

fn worker(name: &str, rest: &str) -> Worker {
    let text = format!(
        r#"{{"name": "{name}", "main": "w.js", "no_bundle": true, "compatibility_date": "2026-08-01", {rest}}}"#
    );
    read(&text, Format::Json, None).unwrap_or_else(|notes| panic!("{notes:?}")).worker
}

fn consumer(name: &str, consumer: &str) -> Worker {
    worker(name, &format!(r#""queues": {{"consumers": [{consumer}]}}"#))
}

/// An app that says nothing of queues, or one with a function on `jobs`.
fn app(with_jobs: bool) -> Triggers {
    let mut program = Program {
        format: 1,
        app: "shop".to_owned(),
        connections: Default::default(),
        functions: Default::default(),
        webhooks: Default::default(),
        events: Default::default(),
        receiving: Default::default(),
        subscribers: Default::default(),
        deployables: Default::default(),
    };
    let connection = Connection::LocalQueue {
        queue: "jobs".to_owned(),
        functions: vec!["go".to_owned()],
        max_receives: 3,
        visibility_ms: 30_000,
        concurrency: 8,
    };
    program.connections.extend(with_jobs.then(|| ("jobs".to_owned(), connection)));
    Triggers::of(&program)
}

fn declared(f: &mut Fixture, workers: &[Worker]) -> Result<Vec<Told>, BrokerError> {
    f.run(|broker, sql, at| declare(broker, sql, at, workers, &app(false)))
}

fn settings(f: &mut Fixture, queue: &str) -> Settings {
    f.run(|broker, _, _| Ok(broker.info(queue)?.settings.clone())).unwrap()
}

fn taken(f: &mut Fixture, queue: &str, worker: &str, batches: usize) -> Found {
    let asks = [Asks { queue: queue.to_owned(), worker: worker.to_owned(), batches }];
    f.run(|broker, sql, at| take(broker, sql, at, &asks)).unwrap().remove(0)
}

fn send_all(f: &mut Fixture, bodies: &[&str]) {
    bodies.iter().for_each(|body| drop(f.send("jobs", body)));
}

/// A Worker `w` that consumes `jobs` as it says.
fn pushed(settings: &str) -> Fixture {
    let mut f = Fixture::new();
    declared(&mut f, &[consumer("w", &format!(r#"{{"queue": "jobs", {settings}}}"#))]).unwrap();
    f
}

/// What becomes of three messages, `a`, `b` and `c`, when the runtime says this of their batch: for each `ack`, or `retry`
/// with its delay and whether the handler asked for it.
fn verdicts(recorded: Value) -> [String; 3] {
    let mut f = pushed(r#""max_batch_timeout": 0, "retry_delay": 9"#);
    send_all(&mut f, &["a", "b", "c"]);
    let batch = taken(&mut f, "jobs", "w", 1).batches.remove(0).taken;
    let mut text = recorded.to_string();
    for (name, one) in ["A", "B", "C"].iter().zip(&batch) {
        text = text.replace(&format!("\"{name}\""), &format!("\"{}\"", one.message.id));
    }
    let Verdict { settle: Settle { acks, retries, .. }, .. } = verdict(text.as_bytes(), &batch).unwrap();
    let told = batch.iter().map(|one| {
        let acked = acks.contains(&one.lease);
        let retry = retries.iter().find(|retry| retry.lease == one.lease);
        assert!(acked != retry.is_some(), "each is one of the two");
        retry.map_or("ack".to_owned(), |Retry { delay_ms, reason, .. }| {
            let delay = delay_ms.map_or("the consumer's".to_owned(), |ms| format!("{} s", ms / 1_000));
            format!("{} {delay}", if *reason == Reason::Retried { "retry" } else { "failed" })
        })
    });
    told.collect::<Vec<_>>().try_into().unwrap()
}

fn recorded(more: Value) -> Value {
    let mut recorded = json!({
        "outcome": "ok", "ackAll": false, "retryBatch": {"retry": false}, "explicitAcks": [], "retryMessages": [],
        "unreadable": [],
    });
    recorded.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    recorded
}

#[test]
fn what_a_handler_says_nothing_of_goes_by_how_it_ended() {
    assert_eq!(verdicts(recorded(json!({}))), ["ack"; 3]);
    assert_eq!(verdicts(recorded(json!({"outcome": "exception"}))), ["failed the consumer's"; 3]);
    assert_eq!(verdicts(recorded(json!({"outcome": "exceededCpu"}))), ["failed the consumer's"; 3]);
}

#[test]
fn a_message_s_own_call_stands_before_its_batch_s_and_survives_a_failure() {
    let told = recorded(json!({"outcome": "exception", "explicitAcks": ["A"]}));
    assert_eq!(verdicts(told), ["ack", "failed the consumer's", "failed the consumer's"]);
    let told = recorded(json!({"explicitAcks": ["A"], "retryBatch": {"retry": true, "delaySeconds": 3}}));
    assert_eq!(verdicts(told), ["ack", "retry 3 s", "retry 3 s"]);
    let told = recorded(json!({"ackAll": true, "retryMessages": [{"msgId": "B", "delaySeconds": 11}]}));
    assert_eq!(verdicts(told), ["ack", "retry 11 s", "ack"]);
    let told = recorded(json!({"outcome": "exception", "ackAll": true}));
    assert_eq!(verdicts(told), ["ack"; 3]);
    let told = recorded(json!({"outcome": "exception", "retryMessages": [{"msgId": "C", "delaySeconds": 5}]}));
    assert_eq!(verdicts(told), ["failed the consumer's", "failed the consumer's", "retry 5 s"]);
}

#[test]
fn a_retry_s_delay_is_its_own_else_its_batch_s_else_the_consumer_s_and_none_is_one() {
    let told = recorded(json!({"retryMessages": [{"msgId": "A"}, {"msgId": "B", "delaySeconds": 0}]}));
    assert_eq!(verdicts(told), ["retry the consumer's", "retry 0 s", "ack"]);
    let told = recorded(json!({
        "retryBatch": {"retry": true, "delaySeconds": 3},
        "retryMessages": [{"msgId": "A", "delaySeconds": 11}, {"msgId": "B"}],
    }));
    assert_eq!(verdicts(told), ["retry 11 s", "retry 3 s", "retry 3 s"]);
    let told = recorded(json!({"retryBatch": {"retry": true}}));
    assert_eq!(verdicts(told), ["retry the consumer's"; 3]);
    let told = recorded(json!({
        "retryMessages": [{"msgId": "A", "delaySeconds": -5}, {"msgId": "B", "delaySeconds": 2_000_000_000}],
    }));
    assert_eq!(verdicts(told), ["retry 0 s", "retry 86400 s", "ack"], "the runtime passes any number on");
}

#[test]
fn what_no_handler_can_be_given_is_retried_and_takes_no_other_along() {
    let told = recorded(json!({"unreadable": [{"msgId": "B", "error": "json: no"}]}));
    assert_eq!(verdicts(told), ["ack", "failed the consumer's", "ack"]);
    assert!(verdict(b"<html>", &[]).is_err());
}

#[test]
fn a_batch_that_ended_without_a_word_has_failed_whole_and_counts() {
    let mut f = pushed(r#""max_batch_timeout": 0, "max_retries": 1"#);
    f.send("jobs", "a");
    for attempt in 1..=2 {
        let batch = taken(&mut f, "jobs", "w", 1).batches.remove(0).taken;
        assert_eq!(batch[0].message.attempts, attempt);
        let settle = ended("daemonDown", "workerd was killed", &batch).settle;
        let gone = f.run(|broker, sql, at| broker.settle(sql, at, "jobs", &settle)).unwrap().gone;
        assert_eq!(gone.first().map(|gone| &gone.how), (attempt == 2).then_some(&How::Dropped));
    }
}

#[test]
fn an_occurrence_is_tried_again_unless_its_handler_says_no() {
    let mut f = pushed(r#""max_batch_timeout": 0"#);
    f.send("jobs", "a");
    let batch = taken(&mut f, "jobs", "w", 1).batches.remove(0).taken;
    let settle = |answer: Value| occurred(answer.to_string().as_bytes(), &batch).unwrap().settle;
    assert_eq!(settle(json!({"outcome": "ok", "noRetry": false})).acks.len(), 1);
    assert_eq!(settle(json!({"outcome": "exception", "noRetry": false})).retries.len(), 1);
    assert_eq!(settle(json!({"outcome": "exception", "noRetry": true})).acks.len(), 1);
}

#[test]
fn a_batch_is_due_when_it_is_full_or_has_waited() {
    let mut f = pushed(r#""max_batch_size": 3, "max_batch_timeout": 10"#);
    send_all(&mut f, &["a", "b"]);
    let found = taken(&mut f, "jobs", "w", 1);
    assert_eq!((found.batches.len(), found.ready, found.again_in_ms), (0, 2, Some(10_000)));
    f.pass_s(4);
    assert_eq!(taken(&mut f, "jobs", "w", 1).again_in_ms, Some(6_000));
    f.send("jobs", "c");
    assert_eq!(taken(&mut f, "jobs", "w", 1).batches.len(), 1, "full");
    f.send("jobs", "d");
    assert_eq!(taken(&mut f, "jobs", "w", 1).batches.len(), 0);
    f.pass_s(10);
    let found = taken(&mut f, "jobs", "w", 1);
    assert_eq!((found.batches[0].taken.len(), found.ready), (1, 0));
    assert_eq!(found.batches[0].beside.messages, 3, "the three that are in flight");
}

#[test]
fn as_many_batches_are_taken_as_somebody_is_free_for_and_each_knows_what_is_left() {
    let mut f = pushed(r#""max_batch_size": 2, "max_batch_timeout": 0"#);
    for body in ["a", "bb", "ccc", "dddd", "eeeee"] {
        f.send("jobs", body);
        f.pass_ms(1);
    }
    let found = taken(&mut f, "jobs", "w", 2);
    let bodies = |at: usize| -> Vec<String> {
        found.batches[at].taken.iter().map(|one| String::from_utf8_lossy(&one.message.body).into_owned()).collect()
    };
    assert_eq!([bodies(0), bodies(1)], [["a", "bb"], ["ccc", "dddd"]]);
    assert_eq!((found.ready, found.again_in_ms), (1, Some(0)));
    let first = found.batches[0].beside;
    let third_sent_at_ms = found.batches[1].taken[0].message.sent_at_ms;
    assert_eq!((first.messages, first.bytes, first.oldest_sent_at_ms), (3, 12, Some(third_sent_at_ms)));
    f.pass_ms(i64::from(LEASE_MS) - 1);
    assert_eq!(taken(&mut f, "jobs", "w", 9).batches.len(), 1, "what is leased for a Worker stays so");
}

#[test]
fn nothing_is_taken_from_a_queue_that_is_paused_or_another_s() {
    let mut f = pushed(r#""max_batch_timeout": 0"#);
    f.send("jobs", "a");
    assert_eq!(taken(&mut f, "jobs", "other", 1), Found::default());
    assert_eq!(taken(&mut f, "none", "w", 1), Found::default());
    f.run(|broker, sql, at| broker.pause(sql, at, "jobs", true)).unwrap();
    let found = taken(&mut f, "jobs", "w", 1);
    assert!(found.batches.is_empty() && found.consumer.is_some());
    f.run(|broker, sql, at| broker.pause(sql, at, "jobs", false)).unwrap();
    assert_eq!(taken(&mut f, "jobs", "w", 1).batches.len(), 1);
}

#[test]
fn what_is_no_occurrence_dies_at_once_and_says_what_belongs_there() {
    let error = occurrence("w-cron", b"\"hello\"").unwrap_err();
    assert!(error.contains("`w-cron`") && error.contains("scheduledTime"), "{error}");
    assert!(occurrence("w-cron", br#"{"cron": "* * * * *"}"#).is_err());
    assert_eq!(occurrence("w-cron", br#"{"cron": "* * * * *", "scheduledTime": 5, "more": 1}"#), Ok(()));
    let mut f = pushed(r#""max_batch_timeout": 0, "max_retries": 9, "dead_letter_queue": "dead""#);
    send_all(&mut f, &["a"]);
    let batch = taken(&mut f, "jobs", "w", 1).batches.remove(0).taken;
    let settle = foreign(&error, &batch).settle;
    let settled = f.run(|broker, sql, at| broker.settle(sql, at, "jobs", &settle)).unwrap();
    assert_eq!((settled.retried, settled.gone.len()), (1, 1));
    let letter = f.take("dead").remove(0).message.dead.unwrap();
    assert_eq!((letter.attempts, letter.reason, letter.error), (1, Reason::Failed, Some(error)));
}

#[test]
fn what_a_dead_server_leased_is_given_back_however_late_and_no_attempt_counts() {
    let mut f = pushed(r#""max_batch_timeout": 0, "max_retries": 0, "dead_letter_queue": "dead""#);
    send_all(&mut f, &["a", "b"]);
    for away_ms in [0, i64::from(LEASE_MS) * 2, 0] {
        let batch = taken(&mut f, "jobs", "w", 1).batches.remove(0).taken;
        let told: Vec<_> = batch.iter().map(|one| (one.message.body.clone(), one.message.attempts)).collect();
        assert_eq!(told, [(b"a".to_vec(), 1), (b"b".to_vec(), 1)]);
        f.pass_ms(away_ms);
        f.restart();
        assert_eq!(f.run(|broker, sql, _| broker.reclaim(sql, "jobs")).unwrap(), 2);
        assert_eq!(f.run(|broker, sql, _| broker.metrics(sql, "jobs")).unwrap().in_flight, 0);
    }
    assert_eq!(f.run(|broker, sql, _| broker.reclaim(sql, "jobs")).unwrap(), 0);
    assert_eq!(f.run(|broker, sql, _| broker.metrics(sql, "dead")).unwrap().messages, 0);
}

#[test]
fn a_declaration_makes_what_is_missing_and_sets_what_the_file_says_or_cloudflare_s_defaults() {
    let mut f = Fixture::new();
    let worker = worker(
        "w",
        r#""triggers": {"crons": ["0 9 * * 2"]},
        "queues": {"producers": [{"binding": "OUT", "queue": "out"}], "consumers": [
            {"queue": "plain"},
            {"queue": "zeros", "max_batch_timeout": 0, "max_retries": 0, "retry_delay": 0, "dead_letter_queue": "dead"}
        ]}"#,
    );
    assert_eq!(declared(&mut f, from_ref(&worker)).unwrap().len(), 6);
    assert_eq!(declared(&mut f, from_ref(&worker)).unwrap(), [], "a second time there is nothing to do");
    let plain = settings(&mut f, "plain").consumer;
    assert_eq!(plain, ConsumerSettings { visibility_ms: LEASE_MS, ..ConsumerSettings::default() });
    let zeros = settings(&mut f, "zeros").consumer;
    assert_eq!((zeros.batch_wait_ms, zeros.max_retries, zeros.retry_delay_s), (0, 0, 0));
    assert_eq!(zeros.dead_letter_queue.as_deref(), Some("dead"));
    let cron = settings(&mut f, "w-cron").consumer;
    assert_eq!((cron.batch_size, cron.max_retries, cron.retry_delay_s), (1, 3, 60));
    assert_eq!(cron.dead_letter_queue.as_deref(), Some("w-cron-dead"));
    let kind = f.run(|broker, _, _| Ok(broker.consumer("zeros")?.map(|present| present.kind.clone()))).unwrap();
    assert_eq!(kind, Some(ConsumerKind::Worker { script: "w".to_owned(), environment: None }));
}

#[test]
fn what_a_file_does_not_speak_of_stays_and_what_it_speaks_of_is_set_anew() {
    let mut f = pushed(r#""max_retries": 7"#);
    let changed = Settings { paused: true, retention_s: 600, ..settings(&mut f, "jobs") };
    let changed = Settings { consumer: ConsumerSettings { max_retries: 1, ..changed.consumer.clone() }, ..changed };
    f.run(|broker, sql, at| broker.update(sql, at, "jobs", changed)).unwrap();
    declared(&mut f, &[consumer("w", r#"{"queue": "jobs", "max_retries": 7}"#)]).unwrap();
    let now = settings(&mut f, "jobs");
    assert_eq!((now.paused, now.retention_s, now.consumer.max_retries), (true, 600, 7));
}

#[test]
fn a_queue_that_was_deleted_is_made_again_and_the_others_stay_as_they_are() {
    let mut f = Fixture::new();
    let worker = consumer("w", r#"{"queue": "jobs", "dead_letter_queue": "dead"}, {"queue": "other"}"#);
    declared(&mut f, from_ref(&worker)).unwrap();
    let changed = ConsumerSettings { max_retries: 9, ..settings(&mut f, "other").consumer };
    let changed = Settings { consumer: changed, ..Settings::default() };
    f.run(|broker, sql, at| broker.update(sql, at, "other", changed)).unwrap();
    for queue in ["jobs", "dead"] {
        f.run(|broker, sql, _| broker.delete(sql, queue)).unwrap();
    }
    let again = |f: &mut Fixture| f.run(|broker, sql, at| declare_again(broker, sql, at, from_ref(&worker))).unwrap();
    let made = ["jobs", "dead"].map(|queue| Told::Made { queue: queue.to_owned() });
    assert_eq!(again(&mut f), made);
    assert_eq!(again(&mut f), []);
    assert_eq!(settings(&mut f, "other").consumer.max_retries, 9);
    f.send("jobs", "a");
    assert!(taken(&mut f, "jobs", "w", 1).consumer.is_some());
}

#[test]
fn no_more_is_taken_at_once_than_there_is_room_for() {
    let mut f = pushed(r#""max_batch_size": 100, "max_batch_timeout": 0"#);
    let big = NewBatch { messages: vec![message(&"x".repeat(128_000)); 2], delay_s: None };
    for _ in 0..250 {
        f.send_batch("jobs", &big).unwrap();
    }
    let found = taken(&mut f, "jobs", "w", 5);
    assert_eq!((found.batches.len(), found.ready, found.again_in_ms), (2, 300, Some(0)));
}

#[test]
fn a_queue_that_a_worker_no_longer_lists_is_left_with_its_messages() {
    let mut f = pushed(r#""max_retries": 7"#);
    f.send("jobs", "a");
    let told = declared(&mut f, &[consumer("w", r#"{"queue": "other"}"#)]).unwrap();
    assert!(told.contains(&Told::Left { queue: "jobs".to_owned(), worker: "w".to_owned() }), "{told:?}");
    assert!(f.run(|broker, _, _| Ok(broker.consumer("jobs")?.is_none())).unwrap());
    assert_eq!(f.run(|broker, sql, _| broker.metrics(sql, "jobs")).unwrap().messages, 1);
}

#[test]
fn a_queue_of_a_worker_that_does_not_run_here_is_taken_over_and_one_that_does_keeps_its_own() {
    let mut f = pushed(r#""max_retries": 7"#);
    let told = declared(&mut f, &[consumer("new", r#"{"queue": "jobs"}"#)]).unwrap();
    let over = Told::TakenOver { queue: "jobs".to_owned(), worker: "new".to_owned(), from: "w".to_owned() };
    assert_eq!(told, [over]);
    assert_eq!(settings(&mut f, "jobs").consumer.max_retries, 3);
    // They change places.
    let told = declared(&mut f, &[consumer("new", r#"{"queue": "x"}"#), consumer("w", r#"{"queue": "jobs"}"#)]);
    let told = told.unwrap();
    assert!(told.contains(&Told::Left { queue: "jobs".to_owned(), worker: "new".to_owned() }), "{told:?}");
    let script = f.run(|broker, _, _| Ok(broker.consumer("jobs")?.unwrap().kind.clone())).unwrap();
    assert_eq!(script, ConsumerKind::Worker { script: "w".to_owned(), environment: None });
}

#[test]
fn a_queue_that_somebody_else_consumes_is_refused_by_name_and_nothing_is_done() {
    let refused = |f: &mut Fixture, workers: &[Worker], with_app| {
        let outcome = f.run(|broker, sql, at| declare(broker, sql, at, workers, &app(with_app)));
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), Some(11_004));
        error.to_string()
    };
    let mut f = Fixture::with(Settings::default());
    let set = ConsumerKind::HttpPull.default_settings();
    f.run(|broker, sql, at| broker.add_consumer(sql, at, "jobs", ConsumerKind::HttpPull, set, None)).unwrap();
    let both = [consumer("first", r#"{"queue": "new"}"#), consumer("w", r#"{"queue": "jobs"}"#)];
    let text = refused(&mut f, &both, false);
    assert!(text.contains("`jobs`") && text.contains("http_pull") && text.contains("`w`"), "{text}");
    assert!(f.run(|broker, _, _| Ok(broker.info("new").is_err())).unwrap());
    let mut f = Fixture::new();
    let text = refused(&mut f, &[consumer("w", r#"{"queue": "jobs"}"#)], true);
    assert!(text.contains("`jobs`") && text.contains("function `go`") && text.contains("`w`"), "{text}");
    let twice = [consumer("one", r#"{"queue": "jobs"}"#), consumer("two", r#"{"queue": "jobs"}"#)];
    let text = refused(&mut f, &twice, false);
    assert!(text.contains("`one`") && text.contains("`two`"), "{text}");
}

#[test]
fn a_frame_is_its_head_and_the_bodies_as_they_are() {
    let mut f = pushed(r#""max_batch_timeout": 0"#);
    send_all(&mut f, &["a", "bb"]);
    let handed = taken(&mut f, "jobs", "w", 1).batches.remove(0);
    let frame = frame("jobs", &handed.taken, &handed.beside);
    let (length, rest) = frame.split_first_chunk::<4>().unwrap();
    let (head, bodies) = rest.split_at(u32::from_be_bytes(*length) as usize);
    let head: Value = serde_json::from_slice(head).unwrap();
    let ids: Vec<String> = handed.taken.iter().map(|one| one.message.id.to_string()).collect();
    let at = handed.taken[0].message.sent_at_ms;
    assert_eq!(bodies, b"abb");
    assert_eq!(
        head,
        json!({
            "queue": "jobs",
            "metrics": {"backlogCount": 0, "backlogBytes": 0, "oldestMessageTimestamp": 0},
            "messages": [[ids[0], at, 1, "text", 1], [ids[1], at, 1, "text", 2]],
        })
    );
}
