//! The same rules on a clock of the test's: boundaries to the millisecond, and days.

use jadpo_core::admin::Request;
use jadpo_core::broker::Settings;
use jadpo_core::program::Program;
use jadpo_core::pull::{Call, Door, PREFIX, Rules};
use jadpo_core::trigger::Triggers;
use serde_json::{Value, json};

use crate::client::{bodies, lease};
use crate::fixture::Fixture;

/// A server's rules on a store in memory.
struct Clocked {
    fixture: Fixture,
    rules: Rules,
    queue: String,
}

impl Clocked {
    /// With a queue that is pulled, and these settings of its consumer.
    fn with(consumer: Value) -> Self {
        let program: Program = serde_json::from_value(json!({ "format": 1, "app": "a" })).unwrap();
        let rules = Rules::new(Door::Dev, &Triggers::of(&program));
        let mut clocked = Self { fixture: Fixture::new(), rules, queue: String::new() };
        clocked.fixture.create("dead", Settings::default());
        let made = clocked.ask("POST", "/queues", json!({ "queue_name": "mail" }));
        clocked.queue = made["result"]["queue_id"].as_str().unwrap().to_owned();
        let consumer = json!({ "type": "http_pull", "settings": consumer, "dead_letter_queue": "dead" });
        clocked.of_queue("/consumers", consumer);
        clocked
    }

    fn ask(&mut self, method: &str, path: &str, body: Value) -> Value {
        let (token, key) = self.fixture.run(|broker, _, _| Ok((broker.dev_token(), broker.lease_key()))).unwrap();
        let request = Request {
            method: method.to_owned(),
            path: format!("{PREFIX}/accounts/a{path}"),
            query: String::new(),
            authorization: Some(format!("Bearer {token}")),
            body: if body.is_null() { Vec::new() } else { body.to_string().into_bytes() },
        };
        let call = Call::read(&request, &key).unwrap();
        let rules = self.rules.clone();
        let mut done = None;
        for part in 0..call.parts() {
            let now = self.fixture.run(|broker, sql, at| call.run(part, &rules, broker, sql, at)).unwrap();
            let answer = match now {
                Ok(now) => now,
                Err(refusal) => return serde_json::from_str(&refusal.answer().body).unwrap(),
            };
            done = Some(match done.take() {
                None => answer,
                Some(before) => jadpo_core::pull::Done::and(before, answer),
            });
        }
        serde_json::from_str(&done.unwrap().answer(&key).body).unwrap()
    }

    fn of_queue(&mut self, path: &str, body: Value) -> Value {
        let path = format!("/queues/{}{path}", self.queue);
        let said = self.ask("POST", &path, body);
        assert_eq!(said["success"], true, "{said}");
        said["result"].clone()
    }

    fn send(&mut self, text: &str, delay_s: u32) {
        self.of_queue("/messages", json!({ "body": text, "content_type": "text", "delay_seconds": delay_s }));
    }

    fn pull(&mut self, pull: Value) -> Vec<Value> {
        self.of_queue("/messages/pull", pull)["messages"].as_array().unwrap().clone()
    }

    fn pass_ms(&mut self, ms: i64) {
        self.fixture.pass_ms(ms);
    }
}

#[test]
fn a_lease_and_a_delay_end_at_their_millisecond_and_not_one_before_or_after() {
    let mut clocked = Clocked::with(json!({}));
    clocked.send("a", 0);
    assert_eq!(clocked.pull(json!({ "visibility_timeout_ms": 10_000 })).len(), 1);
    clocked.pass_ms(9_999);
    assert!(clocked.pull(json!({})).is_empty());
    clocked.pass_ms(1);
    let again = clocked.pull(json!({}));
    assert_eq!(again.len(), 1);
    clocked.of_queue("/messages/ack", json!({ "acks": [lease(&again[0])] }));
    clocked.send("b", 3);
    clocked.pass_ms(2_999);
    assert!(clocked.pull(json!({})).is_empty());
    clocked.pass_ms(1);
    assert_eq!(clocked.pull(json!({})).len(), 1);
}

#[test]
fn a_job_that_takes_longer_than_its_lease_is_seen_twice_ends_with_its_first_ack_and_never_a_third_time() {
    let mut clocked = Clocked::with(json!({}));
    clocked.send("job", 0);
    let first = clocked.pull(json!({ "visibility_timeout_ms": 30_000 }));
    let mut seen = Vec::new();
    for second in (10..=70).step_by(10) {
        clocked.pass_ms(10_000);
        for message in clocked.pull(json!({ "visibility_timeout_ms": 120_000 })) {
            seen.push((second, message["attempts"].as_u64().unwrap()));
        }
    }
    assert_eq!(seen, [(30, 2)], "the other one gets it when the lease ends and not before");
    let acked = clocked.of_queue("/messages/ack", json!({ "acks": [lease(&first[0])] }));
    assert_eq!(acked["ackCount"], 1);
    clocked.pass_ms(86_400_000);
    assert!(clocked.pull(json!({})).is_empty());
    assert_eq!(clocked.fixture.metrics("dead").messages, 0);
}

#[test]
fn a_retry_is_ready_at_once_or_after_its_delay_or_else_after_the_consumer_s() {
    let mut clocked = Clocked::with(json!({}));
    clocked.send("a", 0);
    let held = clocked.pull(json!({ "visibility_timeout_ms": 43_200_000 }));
    clocked.of_queue("/messages/ack", json!({ "retries": [lease(&held[0])] }));
    let held = clocked.pull(json!({}));
    assert_eq!(held.len(), 1, "at once, and not when the lease would have ended");
    let retry = json!({ "lease_id": held[0]["lease_id"], "delay_seconds": 600 });
    clocked.of_queue("/messages/ack", json!({ "retries": [retry] }));
    clocked.pass_ms(599_999);
    assert!(clocked.pull(json!({})).is_empty());
    clocked.pass_ms(1);
    assert_eq!(clocked.pull(json!({})).len(), 1);

    let mut clocked = Clocked::with(json!({ "retry_delay": 60 }));
    clocked.send("a", 0);
    let held = clocked.pull(json!({}));
    clocked.of_queue("/messages/ack", json!({ "retries": [lease(&held[0])] }));
    clocked.pass_ms(59_999);
    assert!(clocked.pull(json!({})).is_empty());
    clocked.pass_ms(1);
    let held = clocked.pull(json!({}));
    let now = json!({ "lease_id": held[0]["lease_id"], "delay_seconds": 0 });
    clocked.of_queue("/messages/ack", json!({ "retries": [now] }));
    assert_eq!(clocked.pull(json!({})).len(), 1, "0 is a delay of its own and stands before the consumer's");
}

#[test]
fn a_clock_that_jumps_while_leases_are_out_cuts_none_and_lengthens_none() {
    let mut clocked = Clocked::with(json!({}));
    clocked.send("a", 0);
    clocked.send("b", 60);
    let held = clocked.pull(json!({ "visibility_timeout_ms": 30_000 }));
    for jump_ms in [86_400_000_000_i64, -172_800_000_000] {
        clocked.fixture.at.wall_ms += jump_ms;
        clocked.fixture.sweep();
        assert!(clocked.pull(json!({})).is_empty(), "after a jump of {jump_ms} ms");
    }
    clocked.pass_ms(29_999);
    assert!(clocked.pull(json!({})).is_empty());
    clocked.pass_ms(1);
    let again = clocked.pull(json!({ "visibility_timeout_ms": 60_000 }));
    assert_eq!(bodies(&again), ["a"]);
    assert_eq!(clocked.of_queue("/messages/ack", json!({ "acks": [lease(&held[0])] }))["ackCount"], 1);
    clocked.pass_ms(30_000);
    assert_eq!(bodies(&clocked.pull(json!({}))), ["b"]);
}

#[test]
fn a_paused_queue_s_messages_grow_old_all_the_same() {
    let mut clocked = Clocked::with(json!({}));
    let path = format!("/queues/{}", clocked.queue);
    let settings = json!({ "settings": { "delivery_paused": true, "message_retention_period": 60 } });
    clocked.ask("PATCH", &path, settings);
    clocked.send("old", 0);
    clocked.pass_ms(59_000);
    clocked.send("new", 0);
    clocked.pass_ms(1_001);
    clocked.fixture.sweep_all();
    let paused = clocked.ask("POST", &format!("{path}/messages/pull"), json!({}));
    assert!(paused["errors"][0]["message"].as_str().unwrap().contains("queue_delivery_paused"), "{paused}");
    clocked.ask("PATCH", &path, json!({ "settings": { "delivery_paused": false } }));
    assert_eq!(bodies(&clocked.pull(json!({}))), ["new"]);
    assert_eq!(clocked.fixture.metrics("dead").messages, 0, "what expires is deleted, not dead-lettered");
}
