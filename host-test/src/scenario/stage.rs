//! The test host as a stage.

use jadpo_core::admin;
use jadpo_core::queue::{Answer, Batch, Body, Message};
use jadpo_core::store::Row;
use serde_json::{Value, json};

use super::seen::{SEEN_DELIVERIES, SEEN_EVENTS, SEEN_PARKED, SeenCall, in_seconds};
use super::{Ack, Answered, Content, Dies, Does, HandOver, Scenario, Send, Stage, StoreDoes, Subscribing};
use crate::{Reply, StoreFault, TestApp};

/// The app of a scenario on the test host.
pub struct TestStage {
    app: TestApp,
}

impl TestStage {
    /// The app, new.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let app = TestApp::of(&scenario.app);
        for (name, value) in &scenario.env {
            app.host.set_env(name, value);
        }
        Self { app }
    }

    fn look(&self, sql: &str) -> Vec<Value> {
        let json = |row: &Row| row.text(0).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        self.app.host.look(sql).iter().map(json).collect()
    }
}

impl Stage for TestStage {
    fn subscriber(&mut self, does: &Subscribing) {
        let subscriber = self.app.host.subscriber(&does.name);
        subscriber.recovers();
        for answer in &does.answers {
            subscriber.then(reply(answer));
        }
        if let Some(then) = &does.then {
            subscriber.always(reply(then));
        }
    }

    fn store(&mut self, does: StoreDoes) {
        let host = &self.app.host;
        match does {
            StoreDoes::Well => host.lift_faults(),
            StoreDoes::Down => host.store_fails_until_lifted(StoreFault::Down),
            StoreDoes::RollsBack => host.store_fails_until_lifted(StoreFault::BeforeCommit),
            StoreDoes::LosesAnswers => host.store_fails_until_lifted(StoreFault::AfterCommit),
            StoreDoes::Behind => host.meddle("UPDATE jadpo_schema SET version = version - 1"),
            StoreDoes::Migrated => host.meddle("UPDATE jadpo_schema SET version = version + 1"),
        }
    }

    fn store_refuses(&mut self, text: &str) {
        self.app.host.store_refuses(text);
    }

    fn hand_over(&mut self, batch: &HandOver) -> Vec<Answered> {
        let before = self.app.answers().len();
        let message = |given: &super::Given| {
            let attempts = given.attempts.unwrap_or(1);
            let sent_at_ms = self.app.host.time_ms();
            let whole = given.each().into_iter();
            whole
                .map(move |(id, content)| Message { id, sent_at_ms, attempts, body: body(content) })
                .collect::<Vec<_>>()
        };
        let messages = batch.messages.iter().flat_map(message).collect();
        match batch.dies {
            Some(Dies::BeforeCommit) => self.app.host.crash_at_step(0),
            Some(Dies::AfterCommit) => self.app.host.crash_at_step(1),
            None => {}
        }
        self.app.hand_over(Batch { queue: batch.queue.clone(), messages });
        self.app.answers().iter().skip(before).map(|answered| told(answered.answer)).collect()
    }

    fn seconds_pass(&mut self, seconds: u32) {
        self.app.host.advance_ms(i64::from(seconds) * 1_000);
    }

    fn tick(&mut self) {
        self.app.tick();
    }

    fn operator(&mut self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let answer = self.app.ask(admin::Request {
            method: method.to_owned(),
            path: format!("{}{path}", admin::PREFIX),
            query: query.to_owned(),
            body: body.as_bytes().to_vec(),
            ..admin::Request::default()
        });
        answer.map_or((0, "the isolate died".to_owned()), |answer| (answer.status, answer.body))
    }

    fn deploy(&mut self, app: &str) {
        self.app.redeploy(app);
    }

    fn send(&mut self, _send: &Send) -> (u16, Option<String>) {
        panic!("a queue of the server's own is not on this stage")
    }

    fn settles(&mut self, within_s: u32) {
        self.app.run_for_ms(i64::from(within_s) * 1_000);
    }

    fn redrive(&mut self, _queue: &str) -> u64 {
        panic!("a queue of the server's own is not on this stage")
    }

    fn seen(&mut self) -> Value {
        let call = |call: &crate::RecordedCall| SeenCall {
            to: call.call.subscriber.clone(),
            headers: call.call.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
            body: call.body_text(),
        };
        let log: Vec<Value> = self.app.host.log_entries().iter().map(log_line).collect();
        json!({
            "events": self.look(SEEN_EVENTS),
            "parked": self.look(SEEN_PARKED),
            "deliveries": in_seconds(self.look(SEEN_DELIVERIES), self.app.host.time_ms()),
            "calls": SeenCall::by_subscriber(self.app.host.calls().iter().map(call).collect()),
            "log": log,
        })
    }
}

fn log_line(entry: &jadpo_core::host::LogEntry) -> Value {
    serde_json::from_str(&entry.to_json()).unwrap_or_default()
}

fn told(answer: Answer) -> Answered {
    match answer {
        Answer::Ack => Answered::Word(Ack::Ack),
        Answer::Retry { delay_s } => Answered::Retry(delay_s),
    }
}

fn body(content: Content) -> Body {
    match content {
        Content::Text(text) => Body::Text(text),
        Content::Json(json) => Body::Json(json),
        Content::Bytes(bytes) => Body::Bytes(bytes),
    }
}

fn reply(does: &Does) -> Reply {
    match does {
        Does::Answers(status) => Reply::Status(*status),
        Does::AnswersAfter(status, after) => Reply::RetryAfter(*status, after.clone()),
        Does::Hangs => Reply::Hangs,
        Does::Closes => Reply::Closes,
    }
}
