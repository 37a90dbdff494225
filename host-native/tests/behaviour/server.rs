//! The whole server as a stage: `jadpo dev` as a process, messages over HTTP, its own queues.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jadpo_core::app::compile;
use jadpo_core::trigger::Triggers;
use jadpo_host_test::scenario::{
    Ack, Answered, Answers, Content, Given, HandOver, SEEN_DELIVERIES, SEEN_EVENTS, SEEN_PARKED, Scenario, SeenCall,
    Send, Stage, StoreDoes, Subscribing,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::native::seen_rows;
use crate::subscribers::Subscribers;
use crate::support::{LONG, Reply, Server, folder, request};

const TOKEN: &str = "a-token-for-tests-only";

pub(crate) struct ServerStage {
    server: Server,
    folder: TempDir,
    subscribers: Subscribers,
    /// What scenarios call messages, by the server's ids.
    names: BTreeMap<String, String>,
    queues: Vec<String>,
    log: Vec<Value>,
}

/// The app with a local queue in place of each of Cloudflare's, and without what is deployed elsewhere.
fn natively(app: &str) -> String {
    let mut text = app.replace("Driver.cloudflare_queues", "Driver.local_queue");
    while let Some((before, after)) = text.split_once(", dead_letter_queue: \"") {
        let (_, after) = after.split_once('"').expect("a name ends");
        text = format!("{before}{after}");
    }
    text.split_once("\ndeployables:").map_or(text.clone(), |(before, _)| before.to_owned() + "\n")
}

impl ServerStage {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut subscribers = Subscribers::default();
        let app = subscribers.reached_by(&natively(&scenario.app));
        let program = compile(&app).program.unwrap();
        let queues = Triggers::of(&program).declared().map(|declared| declared.queue.clone()).collect();
        let folder = folder(&app);
        let mut envs: Vec<(&str, &str)> =
            scenario.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        envs.push(("JADPO_ADMIN_TOKEN", TOKEN));
        let args: &[&str] = if scenario.immediate { &["--queues=immediate"] } else { &[] };
        let server = Server::dev_with(folder.path(), args, &envs);
        Self { server, folder, subscribers, names: BTreeMap::new(), queues, log: Vec::new() }
    }

    fn look(&self, sql: &str) -> Vec<Value> {
        let mut rows =
            seen_rows(&rusqlite::Connection::open(self.folder.path().join(".jadpo/queues.db")).unwrap(), sql);
        for row in &mut rows {
            let name = row["message"].as_str().and_then(|id| self.names.get(id));
            if let Some(name) = name.cloned() {
                row["message"] = name.into();
            }
        }
        rows
    }

    fn bodies(&self) -> i64 {
        let store = rusqlite::Connection::open(self.folder.path().join(".jadpo/queues.db")).unwrap();
        store.query_row("SELECT count(*) FROM jadpo_queue_messages", [], |row| row.get(0)).unwrap()
    }

    fn post(&self, path: &str, content: &Content, headers: &BTreeMap<String, String>) -> Reply {
        let (kind, body) = match content {
            Content::Text(text) => ("text/plain; charset=utf-8", text.as_bytes()),
            Content::Json(json) => ("application/json", json.as_bytes()),
            Content::Bytes(bytes) => ("application/octet-stream", bytes.as_slice()),
        };
        let mut all = vec![("content-type", kind)];
        all.extend(headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        request(&self.server.url, "POST", path, &all, body)
    }

    /// Remembers what a message is called here, and gives the name of the one that it is kept as.
    fn named(&mut self, reply: &Reply, name: &str) -> Option<String> {
        let id = reply.json()["id"].as_str()?.to_owned();
        Some(self.names.entry(id).or_insert_with(|| name.to_owned()).clone())
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        let authorization = format!("Bearer {TOKEN}");
        let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        request(&self.server.url, method, &format!("/.jadpo/{path}"), &headers, body.as_bytes())
    }

    fn wait_until(&mut self, what: &str, within: Duration, mut is_so: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + within;
        while !is_so(self) {
            assert!(Instant::now() < end, "not within {within:?}: {what}; there is {}", self.seen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_quiet(&mut self) -> bool {
        let empty = |queue: &String| self.server.queue(queue)["messages"] == 0;
        self.queues.iter().all(empty)
            && self.look(SEEN_DELIVERIES).iter().all(|delivery| delivery["state"] != "running")
    }
}

impl Stage for ServerStage {
    fn subscriber(&mut self, does: &Subscribing) {
        self.subscribers.does(does);
    }

    fn store(&mut self, _does: StoreDoes) {
        panic!("the server's store cannot be told to fail: say so in not_on.server")
    }

    fn store_refuses(&mut self, _text: &str) {
        panic!("the server's store cannot be told to fail: say so in not_on.server")
    }

    fn hand_over(&mut self, batch: &HandOver) -> Vec<Answered> {
        assert!(batch.dies.is_none(), "the server does not die at a step: say so in not_on.server");
        let messages: Vec<(String, Content)> = batch.messages.iter().flat_map(Given::each).collect();
        assert!(batch.messages.iter().all(|given| given.attempts.is_none()), "the server counts attempts itself");
        let acks = match &batch.answers {
            Answers::All(answer) => vec![*answer; messages.len()],
            Answers::Each(answers) => answers.clone(),
        };
        assert!(acks.iter().all(|answer| *answer == Answered::Word(Ack::Ack)), "only acks can be seen of a server");
        for (name, content) in &messages {
            let reply = self.post(&format!("/_queues/{}", batch.queue), content, &BTreeMap::new());
            assert_eq!(reply.status, 202, "{reply:?}");
            self.named(&reply, name);
        }
        self.wait_until("every message is answered", LONG, Self::is_quiet);
        acks
    }

    fn seconds_pass(&mut self, seconds: u32) {
        std::thread::sleep(Duration::from_secs(seconds.into()));
    }

    fn tick(&mut self) {
        panic!("the server's tick comes by itself, once a minute: say so in not_on.server")
    }

    fn operator(&mut self, method: &str, path: &str, body: &str) -> (u16, String) {
        let reply = self.ask(method, path, body);
        (reply.status, String::from_utf8(reply.body).unwrap())
    }

    fn deploy(&mut self, _app: &str) {
        panic!("the server is not deployed over its store: say so in not_on.server")
    }

    fn send(&mut self, send: &Send) -> (u16, Option<String>) {
        let delay = send.delay_s.map(|seconds| format!("?delay={seconds}")).unwrap_or_default();
        let path = match (&send.queue, &send.webhook) {
            (Some(queue), None) => format!("/_queues/{queue}{delay}"),
            (None, Some(webhook)) => format!("/_webhooks/{webhook}"),
            _ => panic!("a message goes to a queue or to a webhook"),
        };
        let mut last = (0, None);
        for (name, content) in send.message.each() {
            let reply = self.post(&path, &content, &send.headers);
            let known = matches!(reply.status, 200 | 202).then(|| self.named(&reply, &name)).flatten();
            last = (reply.status, known);
        }
        last
    }

    fn settles(&mut self, within_s: u32) {
        self.wait_until("all is done", Duration::from_secs(within_s.into()) + LONG, Self::is_quiet);
    }

    fn redrive(&mut self, queue: &str) -> u64 {
        let started = self.ask("POST", "redrives", &json!({ "queue": queue }).to_string());
        assert!(started.status < 300, "{started:?}");
        let id = started.json()["id"].clone();
        let mut moved = 0;
        self.wait_until("the redrive ends", LONG, |stage| {
            let task = stage.ask("GET", &format!("redrives/{id}"), "").json();
            moved = task["moved"].as_u64().unwrap();
            task["state"] != "running"
        });
        moved
    }

    fn purge(&mut self, queue: &str) -> u64 {
        let emptied = self.ask("DELETE", &format!("queues/{queue}/messages"), "");
        assert_eq!(emptied.status, 200, "{emptied:?}");
        emptied.json()["messages"].as_u64().unwrap()
    }

    fn seen(&mut self) -> Value {
        self.log.extend(self.server.log());
        let mut queues = serde_json::Map::new();
        for queue in &self.queues {
            let looked = self.server.queue(queue);
            let mut dead = looked["dead_letters"]["items"].clone();
            for letter in dead.as_array_mut().into_iter().flatten() {
                let name = letter["id"].as_str().and_then(|id| self.names.get(id)).cloned();
                letter["id"] = name.into();
                letter["body"] = letter["preview"].take();
            }
            queues.insert(queue.clone(), json!({ "messages": looked["messages"], "dead": dead }));
        }
        json!({
            "events": self.look(SEEN_EVENTS),
            "parked": self.look(SEEN_PARKED),
            "deliveries": self.look(SEEN_DELIVERIES),
            "calls": SeenCall::by_subscriber(self.subscribers.calls()),
            "log": self.log,
            "queues": queues,
            "bodies": self.bodies(),
        })
    }

    fn patience_ms(&self) -> u64 {
        10_000
    }
}
