//! The native host as a stage: its SQLite file, its HTTP client, and batches handed over as a queue does.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use jadpo::host::NativeHost;
use jadpo::store::OpenStore;
use jadpo_core::admin;
use jadpo_core::app::compile;
use jadpo_core::deliver::deliver;
use jadpo_core::host::{Call, CallOutcome, Host, LogEntry};
use jadpo_core::queue::{Answer, Batch, Body, Message};
use jadpo_core::receive::receive;
use jadpo_core::start::App;
use jadpo_core::store::{Rows, Statement, StoreError, Value as Param, classify};
use jadpo_core::tick::tick;
use jadpo_host_test::scenario::{
    Ack, Answered, Content, Dies, Does, HandOver, SEEN_DELIVERIES, SEEN_EVENTS, SEEN_PARKED, Scenario, SeenCall, Send,
    Stage, Step, StoreDoes, Subscribing,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::subscribers::Subscribers;

const TOKEN: &str = "a-token-for-tests-only";
/// How long deliveries may go on after a batch or a tick, as on Workers.
const RUN_MS: i64 = 30_000;

pub(crate) struct NativeStage {
    runtime: Runtime,
    host: Faulty,
    app: App,
    subscribers: Subscribers,
    store: OpenStore,
    _folder: TempDir,
}

/// The native host with faults in front of its store, and a clock that can be moved on.
struct Faulty {
    host: NativeHost,
    ahead_ms: AtomicI64,
    does: Mutex<StoreDoes>,
    refused: Mutex<Vec<String>>,
    dies: Mutex<Option<Dies>>,
    died: Arc<Notify>,
    /// What every call is cut off at, where a scenario has one that hangs.
    call_ms_max: u32,
    log: Mutex<Vec<LogEntry>>,
}

fn lost() -> StoreError {
    StoreError::Unavailable("the connection to the store was lost".into())
}

impl Faulty {
    async fn die(&self) -> ! {
        self.died.notify_one();
        std::future::pending::<()>().await;
        unreachable!("a dead isolate goes on")
    }

    fn refuses(&self, statements: &[Statement]) -> bool {
        let refused = self.refused.lock().unwrap();
        let holds = |param: &Param, text: &str| match param {
            Param::Text(param) => param.contains(text),
            Param::Blob(bytes) => String::from_utf8_lossy(bytes).contains(text),
            Param::Null | Param::Integer(_) | Param::Real(_) => false,
        };
        let carries = |text: &String| statements.iter().any(|one| one.params.iter().any(|param| holds(param, text)));
        refused.iter().any(carries)
    }
}

impl Host for Faulty {
    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        let dies = self.dies.lock().unwrap().take();
        if dies == Some(Dies::BeforeCommit) {
            self.die().await;
        }
        if self.refuses(&statements) {
            return Err(classify("D1_ERROR: CHECK constraint failed: injected: SQLITE_CONSTRAINT"));
        }
        let does = *self.does.lock().unwrap();
        match does {
            StoreDoes::Down => return Err(lost()),
            StoreDoes::RollsBack => {
                let mut all = statements;
                all.push(Statement { sql: "INSERT INTO jadpo_schema SELECT * FROM jadpo_schema", params: Vec::new() });
                let rolled_back = self.host.batch(all).await;
                assert!(rolled_back.is_err(), "the store took a row twice");
                return Err(lost());
            }
            _ => {}
        }
        let rows = self.host.batch(statements).await;
        if dies == Some(Dies::AfterCommit) {
            self.die().await;
        }
        if does == StoreDoes::LosesAnswers { Err(lost()) } else { rows }
    }

    async fn call(&self, mut call: Call) -> CallOutcome {
        call.timeout_ms = call.timeout_ms.min(self.call_ms_max);
        self.host.call(call).await
    }

    async fn sleep(&self, duration_ms: u32) {
        self.host.sleep(duration_ms).await;
    }

    fn now_ms(&self) -> i64 {
        self.host.now_ms() + self.ahead_ms.load(Ordering::SeqCst)
    }

    fn random(&self) -> u128 {
        self.host.random()
    }

    fn env(&self, name: &str) -> Option<String> {
        self.host.env(name)
    }

    fn log(&self, entry: LogEntry) {
        self.log.lock().unwrap().push(entry);
    }
}

fn built(app: &str) -> App {
    let compiled = compile(app);
    App::new(compiled.program.unwrap_or_else(|| panic!("{:?}", compiled.problems)))
}

impl NativeStage {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = OpenStore::create(&folder.path().join("jadpo.db")).unwrap();
        let mut host = NativeHost::new(store.handle()).with_env("JADPO_ADMIN_TOKEN", TOKEN.to_owned());
        for (name, value) in &scenario.env {
            host = host.with_env(name, value.clone());
        }
        let hangs = |step: &Step| matches!(step, Step::Subscriber(does) if does.answers.contains(&Does::Hangs));
        let host = Faulty {
            host,
            ahead_ms: AtomicI64::new(0),
            does: Mutex::new(StoreDoes::Well),
            refused: Mutex::default(),
            dies: Mutex::default(),
            died: Arc::default(),
            call_ms_max: if scenario.steps.iter().any(hangs) { 3_000 } else { u32::MAX },
            log: Mutex::default(),
        };
        let mut subscribers = Subscribers::default();
        let app = built(&subscribers.reached_by(&scenario.app));
        Self { runtime, host, app, subscribers, store, _folder: folder }
    }

    fn beside(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.store.path()).unwrap()
    }

    fn look(&self, sql: &str) -> Vec<Value> {
        seen_rows(&self.beside(), sql)
    }
}

/// The rows of one of the suite's queries.
pub(crate) fn seen_rows(connection: &rusqlite::Connection, sql: &str) -> Vec<Value> {
    let mut prepared = connection.prepare(sql).unwrap();
    let rows = prepared.query_map([], |row| row.get::<_, String>(0)).unwrap();
    rows.map(|row| serde_json::from_str(&row.unwrap()).unwrap()).collect()
}

impl Stage for NativeStage {
    fn subscriber(&mut self, does: &Subscribing) {
        self.subscribers.does(does);
    }

    fn store(&mut self, does: StoreDoes) {
        match does {
            StoreDoes::Behind => {
                self.beside().execute("UPDATE jadpo_schema SET version = version - 1", []).unwrap();
            }
            StoreDoes::Migrated => {
                self.beside().execute("UPDATE jadpo_schema SET version = version + 1", []).unwrap();
            }
            does => {
                *self.host.does.lock().unwrap() = does;
                self.host.refused.lock().unwrap().clear();
            }
        }
    }

    fn store_refuses(&mut self, text: &str) {
        self.host.refused.lock().unwrap().push(text.to_owned());
    }

    fn hand_over(&mut self, batch: &HandOver) -> Vec<Answered> {
        let sent_at_ms = self.host.now_ms();
        let messages = batch.messages.iter().flat_map(|given| {
            let attempts = given.attempts.unwrap_or(1);
            let message = move |(id, content)| Message { id, sent_at_ms, attempts, body: body(content) };
            given.each().into_iter().map(message)
        });
        let handed_over = Batch { queue: batch.queue.clone(), messages: messages.collect() };
        *self.host.dies.lock().unwrap() = batch.dies;
        let (host, app, died) = (&self.host, &self.app, self.host.died.clone());
        let invocation = async {
            let received = receive(host, app, handed_over).await;
            deliver(host, app, received.claimed, host.now_ms() + RUN_MS).await;
            received.answers
        };
        let answers = self.runtime.block_on(async {
            tokio::select! {
                answers = invocation => answers,
                () = died.notified() => Vec::new(),
            }
        });
        let told = |answer| match answer {
            Answer::Ack => Answered::Word(Ack::Ack),
            Answer::Retry { delay_s } => Answered::Retry(delay_s),
        };
        answers.into_iter().map(told).collect()
    }

    fn seconds_pass(&mut self, seconds: u32) {
        self.host.ahead_ms.fetch_add(i64::from(seconds) * 1_000, Ordering::SeqCst);
    }

    fn tick(&mut self) {
        self.runtime.block_on(tick(&self.host, &self.app, self.host.now_ms() + RUN_MS));
    }

    fn operator(&mut self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let request = admin::Request {
            method: method.to_owned(),
            path: format!("{}{path}", admin::PREFIX),
            query: query.to_owned(),
            authorization: Some(format!("Bearer {TOKEN}")),
            body: body.as_bytes().to_vec(),
        };
        let answer = self.runtime.block_on(admin::answer(&self.host, &self.app, request));
        (answer.status, answer.body)
    }

    fn deploy(&mut self, app: &str) {
        self.app = built(&self.subscribers.reached_by(app));
    }

    fn send(&mut self, _send: &Send) -> (u16, Option<String>) {
        panic!("the native host's own queues are on the stage `server`")
    }

    fn settles(&mut self, _within_s: u32) {
        panic!("nothing runs by itself on this stage")
    }

    fn redrive(&mut self, _queue: &str) -> u64 {
        panic!("the native host's own queues are on the stage `server`")
    }

    fn seen(&mut self) -> Value {
        let log = self.host.log.lock().unwrap();
        let log: Vec<Value> = log.iter().map(|entry| serde_json::from_str(&entry.to_json()).unwrap()).collect();
        json!({
            "events": self.look(SEEN_EVENTS),
            "parked": self.look(SEEN_PARKED),
            "deliveries": self.look(SEEN_DELIVERIES),
            "calls": SeenCall::by_subscriber(self.subscribers.calls()),
            "log": log,
        })
    }
}

fn body(content: Content) -> Body {
    match content {
        Content::Text(text) => Body::Text(text),
        Content::Json(json) => Body::Json(json),
        Content::Bytes(bytes) => Body::Bytes(bytes),
    }
}
