//! The test host as a stage.

use std::collections::{BTreeMap, VecDeque};

use jadpo_core::admin;
use jadpo_core::queue::{Answer, Batch, Body, Message};
use jadpo_core::store::Row;
use serde_json::{Map, Value, json};

use super::seen::{SEEN_DELIVERIES, SEEN_EVENTS, SEEN_PARKED, SeenCall};
use super::{Ack, Answered, Content, Dies, Does, HandOver, Scenario, Send, Stage, StoreDoes, Subscribing};
use crate::{Held, RecordedCall, Reply, Request, StoreFault, TestApp, TestHost, TestServer};

/// The app of a scenario on the test host: as on Workers if it has Cloudflare's queues, else as the queue server.
#[must_use]
pub fn test_stage(scenario: &Scenario) -> Box<dyn Stage> {
    let on_workers = scenario.app.contains("cloudflare_queues");
    if on_workers { Box::new(AppStage::new(scenario)) } else { Box::new(ServerStage::new(scenario)) }
}

fn set_env(host: &TestHost, scenario: &Scenario) {
    for (name, value) in &scenario.env {
        host.set_env(name, value);
    }
    host.unset_all_else();
}

fn tell(host: &TestHost, does: &Subscribing) {
    let subscriber = host.subscriber(&does.name);
    subscriber.recovers();
    if let Some(text) = does.only.clone() {
        let (mut next, then) = (VecDeque::from(does.answers.clone()), does.then.clone());
        subscriber.answers_by(move |call| {
            if !String::from_utf8_lossy(&call.body).contains(&text) {
                return Reply::Status(200);
            }
            next.pop_front().or_else(|| then.clone()).as_ref().map_or(Reply::Status(200), reply)
        });
        return;
    }
    for answer in &does.answers {
        subscriber.then(reply(answer));
    }
    if let Some(then) = &does.then {
        subscriber.always(reply(then));
    }
}

fn fail(host: &TestHost, does: StoreDoes) {
    match does {
        StoreDoes::Well => host.lift_faults(),
        StoreDoes::Down => host.store_fails_until_lifted(StoreFault::Down),
        StoreDoes::RollsBack => host.store_fails_until_lifted(StoreFault::BeforeCommit),
        StoreDoes::LosesAnswers => host.store_fails_until_lifted(StoreFault::AfterCommit),
        StoreDoes::Behind => host.store_is_behind(),
        StoreDoes::Migrated => host.store_is_migrated(),
    }
}

fn look(host: &TestHost, sql: &str) -> Vec<Value> {
    let json = |row: &Row| row.text(0).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    host.look(sql).iter().map(json).collect()
}

fn seen(host: &TestHost) -> Map<String, Value> {
    let call = |call: &RecordedCall| SeenCall {
        to: call.call.subscriber.clone(),
        headers: call.call.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        body: call.body_text(),
    };
    let log: Vec<Value> = host.log_entries().iter().map(log_line).collect();
    Map::from_iter([
        ("events".to_owned(), look(host, SEEN_EVENTS).into()),
        ("parked".to_owned(), look(host, SEEN_PARKED).into()),
        ("deliveries".to_owned(), look(host, SEEN_DELIVERIES).into()),
        ("calls".to_owned(), SeenCall::by_subscriber(host.calls().iter().map(call).collect())),
        ("log".to_owned(), log.into()),
    ])
}

/// An app as on Workers.
struct AppStage {
    app: TestApp,
}

impl AppStage {
    fn new(scenario: &Scenario) -> Self {
        let app = TestApp::of(&scenario.app);
        set_env(&app.host, scenario);
        Self { app }
    }
}

impl Stage for AppStage {
    fn subscriber(&mut self, does: &Subscribing) {
        tell(&self.app.host, does);
    }

    fn store(&mut self, does: StoreDoes) {
        fail(&self.app.host, does);
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
        seen(&self.app.host).into()
    }
}

/// An app as on the queue server.
struct ServerStage {
    server: TestServer,
    /// What scenarios call messages, by the server's ids.
    names: BTreeMap<String, String>,
}

impl ServerStage {
    fn new(scenario: &Scenario) -> Self {
        let server = TestServer::of(&scenario.app);
        set_env(&server.host, scenario);
        if scenario.immediate {
            server.immediate();
        }
        Self { server, names: BTreeMap::new() }
    }
}

impl Stage for ServerStage {
    fn subscriber(&mut self, does: &Subscribing) {
        tell(&self.server.host, does);
    }

    fn store(&mut self, does: StoreDoes) {
        fail(&self.server.host, does);
    }

    fn store_refuses(&mut self, text: &str) {
        self.server.host.store_refuses(text);
    }

    fn hand_over(&mut self, _batch: &HandOver) -> Vec<Answered> {
        panic!("an app with queues of its own is sent messages, and handed none")
    }

    fn seconds_pass(&mut self, seconds: u32) {
        self.server.run_for_ms(i64::from(seconds) * 1_000);
    }

    fn tick(&mut self) {
        self.server.tick();
    }

    fn operator(&mut self, _method: &str, _path: &str, _body: &str) -> (u16, String) {
        panic!("the operator's endpoint of queues is host-native's: say so in not_on.test")
    }

    fn deploy(&mut self, _app: &str) {
        panic!("an app with queues of its own is not deployed over its store here")
    }

    fn send(&mut self, send: &Send) -> (u16, Option<String>) {
        let mut last = (0, None);
        for (name, content) in send.message.each() {
            let mut request = Request::of(body(content));
            for (header, value) in &send.headers {
                request = request.header(header, value);
            }
            if let Some(seconds) = send.delay_s {
                request = request.query(&format!("delay={seconds}"));
            }
            let posted = match (&send.queue, &send.webhook) {
                (Some(queue), None) => self.server.post(queue, request),
                (None, Some(webhook)) => self.server.webhook(webhook, request),
                _ => panic!("a message goes to a queue or to a webhook"),
            };
            let known = posted.id.map(|id| self.names.entry(id).or_insert(name).clone());
            last = (posted.status, known);
        }
        last
    }

    fn settles(&mut self, within_s: u32) {
        self.server.run_for_ms(i64::from(within_s) * 1_000);
    }

    fn redrive(&mut self, queue: &str) -> u64 {
        self.server.redrive(queue)
    }

    fn purge(&mut self, queue: &str) -> u64 {
        self.server.purge(queue)
    }

    fn seen(&mut self) -> Value {
        let mut all = seen(&self.server.host);
        all.insert("bodies".to_owned(), self.server.bodies().into());
        let dead = |held: Held| json!({ "id": self.names.get(&held.id), "attempts": held.attempts, "body": held.body, "error": held.error });
        let queue = |name: &String| {
            let letters: Vec<Value> = self.server.dead_letters(name).into_iter().map(dead).collect();
            (name.clone(), json!({ "messages": self.server.messages(name).len(), "dead": letters }))
        };
        all.insert("queues".to_owned(), Value::Object(self.server.queues().iter().map(queue).collect()));
        all.into()
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
