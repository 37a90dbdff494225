//! An app under test: its Worker, its store, its subscribers, and Cloudflare's queues in front of it.

use std::cell::RefCell;
use std::future::Future;
use std::path::Path;

use jadpo_core::admin;
use jadpo_core::bindings::ADMIN_TOKEN;
use jadpo_core::deliver::{Delivered, deliver, deliver_due};
use jadpo_core::host::Host as _;
use jadpo_core::program::{Connection, Program};
use jadpo_core::queue::{Answer, Batch, Body, Message};
use jadpo_core::receive;
use jadpo_core::start::App;
use jadpo_core::tick::tick;

use crate::TestHost;
use crate::cloudflare::{BATCH_MAX, Cloudflare, handed_over};
use crate::load::{built, load};
use crate::run::drive;
use crate::view::{self, Delivery, DeliveryState, Event, Parked};

/// Virtual time after which an app that has not settled never will: 10 days. A message that is refused by everything
/// takes 22 hours to reach the dead-letter queue and 4 days there.
pub(crate) const IDLE_WITHIN_MS: i64 = 10 * 24 * 3_600_000;

/// Things that may fall due at one moment. More is a loop that never ends.
pub(crate) const STEPS_MAX: u32 = 10_000;

/// How long an invocation may run on after its answers: what `waitUntil` has on Workers.
pub(crate) const WAIT_UNTIL_MS: i64 = 30_000;
/// The tick comes every minute.
pub(crate) const TICK_MS: i64 = 60_000;

/// The operator's token on every test host.
const OPERATOR_TOKEN: &str = "a-token-for-tests-only";
/// Invocations that one may set off in a chain; Cloudflare ends chains too.
const HANDED_ON_MAX: u32 = 16;

/// So many of them, in words.
pub(crate) fn count(how_many: usize, what: &str) -> String {
    match (how_many, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{how_many} {stem}ies"),
        (_, None) => format!("{how_many} {what}s"),
    }
}

/// # Panics
/// When an app has queues of its own or schedules and no queue at Cloudflare.
#[track_caller]
fn must_run_on_workers(program: &Program) {
    let is_at_cloudflare = |connection: &Connection| matches!(connection, Connection::CloudflareQueues { .. });
    let is_local = |connection: &Connection| matches!(connection, Connection::LocalQueue { .. });
    let has_schedule = program.functions.values().any(|function| function.schedule.is_some());
    let is_a_servers = has_schedule || program.connections.values().any(is_local);
    assert!(
        !is_a_servers || program.connections.values().any(is_at_cloudflare),
        "{}: its queues are its own, and a Worker runs neither those nor schedules: use TestServer",
        program.app
    );
}

/// An app, deployed to a Workers host that the test commands.
pub struct TestApp {
    /// The host: time, faults, subscribers, the log, the store.
    pub host: TestHost,
    pub(crate) app: RefCell<App>,
    pub(crate) cloudflare: RefCell<Cloudflare>,
    answers: RefCell<Vec<Answered>>,
    deaths: RefCell<u64>,
    /// The tick that came last, in minutes since 1970.
    last_tick: RefCell<i64>,
    /// Whether the test is about messages that are lost.
    may_lose: RefCell<bool>,
}

/// An answer that the Worker gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The queue's name.
    pub queue: String,
    /// The message's id.
    pub message_id: String,
    /// How often it had been handed over.
    pub attempts: u32,
    /// The answer.
    pub answer: Answer,
}

impl TestApp {
    /// The app of an `app.jadpo` file or of the folder that holds it, its store migrated. A path is relative to the
    /// package whose test it is.
    ///
    /// # Panics
    /// When the file cannot be read, or has problems: they are listed. When no queue of it is Cloudflare's.
    #[must_use]
    #[track_caller]
    pub fn load(path: impl AsRef<Path>) -> Self {
        Self::start(TestHost::migrated(), load(path.as_ref()))
    }

    /// The app of an app file's text, or of a `program.json`'s, its store migrated.
    ///
    /// # Panics
    /// When it has problems, or is no program that this build runs. When no queue of it is Cloudflare's.
    #[must_use]
    #[track_caller]
    pub fn of(source: &str) -> Self {
        Self::on(TestHost::migrated(), source)
    }

    /// As [`TestApp::of`], on a host of the test's choice.
    ///
    /// # Panics
    /// When it has problems, or is no program that this build runs.
    #[must_use]
    #[track_caller]
    pub fn on(host: TestHost, source: &str) -> Self {
        Self::start(host, built(source, None))
    }

    #[track_caller]
    fn start(host: TestHost, app: App) -> Self {
        must_run_on_workers(&app.program);
        host.knows(&app.program);
        host.seed_from_environment();
        host.set_env(ADMIN_TOKEN, OPERATOR_TOKEN);
        let mut cloudflare = Cloudflare::of(&app.program);
        cloudflare.seed(host.seeded());
        let cloudflare = RefCell::new(cloudflare);
        let last_tick = RefCell::new(host.time_ms() / TICK_MS);
        let (answers, deaths, may_lose) = (RefCell::default(), RefCell::default(), RefCell::default());
        Self { host, app: RefCell::new(app), cloudflare, answers, deaths, last_tick, may_lose }
    }

    /// Deploys another build, of an app file's text or a `program.json`'s, over the same store and queues.
    ///
    /// # Panics
    /// When it has problems, or is no program that this build runs.
    #[track_caller]
    pub fn redeploy(&self, source: &str) {
        let app = built(source, None);
        self.host.knows(&app.program);
        self.cloudflare.borrow_mut().deploy(&app.program);
        *self.app.borrow_mut() = app;
    }

    /// What an operator's `jadpo deliveries retry --all` does: the next tick takes up every parked message and every
    /// failed delivery. Returns how many, or `None` when the store did not take it.
    ///
    /// # Panics
    /// When the endpoint answers what it never should.
    #[track_caller]
    pub fn retry_all(&self) -> Option<u64> {
        let request = admin::Request {
            method: "POST".into(),
            path: format!("{}deliveries/retry", admin::PREFIX),
            body: br#"{"all":true}"#.to_vec(),
            ..admin::Request::default()
        };
        let response = self.ask(request)?;
        match response.status {
            200 => {
                let retried: Result<admin::Retried, _> = serde_json::from_str(&response.body);
                Some(retried.unwrap_or_else(|error| panic!("{error} in {}", response.body)).retried)
            }
            503 => None,
            status => panic!("the operator's endpoint answered {status}: {}", response.body),
        }
    }

    /// Asks the operator's endpoint, with the operator's token; `None` when the isolate died over it.
    pub fn ask(&self, request: admin::Request) -> Option<admin::Response> {
        let request = admin::Request { authorization: Some(format!("Bearer {OPERATOR_TOKEN}")), ..request };
        let app = self.app.borrow().clone();
        self.invocation(admin::answer(&self.host, &app, request))
    }

    /// Makes every chance of this app and its host follow `seed`.
    pub fn seed(&self, seed: u64) {
        self.host.seed(seed);
        self.cloudflare.borrow_mut().seed(seed);
    }

    /// Cloudflare hands over at most `size` messages at once.
    ///
    /// # Panics
    /// When that is not 1 to 100.
    #[track_caller]
    pub fn cut_batches_at(&self, size: usize) {
        assert!((1..=BATCH_MAX).contains(&size), "a batch holds 1 to {BATCH_MAX} messages, not {size}");
        self.cloudflare.borrow_mut().cut_batches_at(size);
    }

    /// Cloudflare hands messages over in an order of chance, which follows [`TestApp::seed`].
    pub fn shuffle(&self) {
        self.cloudflare.borrow_mut().shuffle();
    }

    /// Cloudflare loses the next `acks` acknowledgements, so that those messages come again.
    pub fn lose_acks(&self, acks: u32) {
        self.cloudflare.borrow_mut().lose_acks(acks);
    }

    /// Runs until nothing is left to do: every message answered, every delivery done or failed. Time moves on as
    /// far as retries need.
    ///
    /// # Panics
    /// When that takes more than 10 days. When a message is lost over it, or would be since a fault keeps the store from
    /// taking anything: a test that is about that says so with [`TestApp::may_lose`].
    #[track_caller]
    pub fn run_until_idle(&self) {
        let lost_before = self.lost().len();
        let may_lose = *self.may_lose.borrow();
        let end_ms = self.host.time_ms().saturating_add(IDLE_WITHIN_MS);
        if let Some(fault) = self.host.takes_nothing().filter(|_| !may_lose && self.has_next(end_ms)) {
            panic!(
                "the store fault `{fault:?}` is still in force, and nothing settles until lift_faults(){}: run_for_ms() \
                 runs meanwhile",
                self.left()
            );
        }
        while self.next(end_ms) {
            assert!(
                self.host.time_ms() < end_ms,
                "the app does not settle within 10 days{}{}",
                self.left(),
                self.host.in_force()
            );
        }
        let lost = self.lost();
        assert!(
            may_lose || lost.len() == lost_before,
            "Cloudflare deleted {} whose retries were spent, the first {:?}{}; if the test is about that, app.may_lose()",
            count(lost.len() - lost_before, "message"),
            lost.get(lost_before).map_or("", |message| message.id.as_str()),
            self.host.in_force()
        );
    }

    /// Messages may be lost from now on: the test is about that.
    pub fn may_lose(&self) {
        *self.may_lose.borrow_mut() = true;
    }

    /// What is not done, in words.
    fn left(&self) -> String {
        let (waiting, deliveries) = (self.waiting(), self.deliveries());
        let open = deliveries.iter().filter(|delivery| delivery.state != DeliveryState::Failed).count();
        let queue = waiting.first().map(|(queue, _)| format!(", the first in `{queue}`")).unwrap_or_default();
        let mut left = String::new();
        if !waiting.is_empty() {
            left += &format!("; {} waiting{queue}", count(waiting.len(), "message"));
        }
        if open > 0 {
            left += &format!("; {} open", count(open, "delivery"));
        }
        left
    }

    /// Runs what falls due in the next `for_ms` milliseconds, and moves the time on by as much.
    #[track_caller]
    pub fn run_for_ms(&self, for_ms: i64) {
        let end_ms = self.host.time_ms().saturating_add(for_ms);
        let (mut steps, mut at_ms) = (0, self.host.time_ms());
        while self.next(end_ms) {
            steps = if self.host.time_ms() > at_ms { 0 } else { steps + 1 };
            at_ms = self.host.time_ms();
            assert!(steps < STEPS_MAX, "it has done {STEPS_MAX} things at one moment, and has more to do");
        }
        if self.host.time_ms() < end_ms {
            self.host.set_ms(end_ms);
        }
    }

    /// When the next thing falls due, and the queue whose batch it is; without one it is a tick.
    fn next_due(&self) -> Option<(i64, Option<String>)> {
        let batch = self.cloudflare.borrow().next_batch_at();
        match (batch, self.next_tick_at()) {
            (Some((batch_ms, queue)), tick) if tick.is_none_or(|tick_ms| batch_ms <= tick_ms) => {
                Some((batch_ms, Some(queue)))
            }
            (_, tick) => tick.map(|tick_ms| (tick_ms, None)),
        }
    }

    fn has_next(&self, end_ms: i64) -> bool {
        self.next_due().is_some_and(|(at_ms, _)| at_ms <= end_ms)
    }

    /// Does the next thing that falls due until `end_ms`: a batch, or a tick that has something to do. False when
    /// there is none.
    pub fn next(&self, end_ms: i64) -> bool {
        let Some((at_ms, queue)) = self.next_due().filter(|(at_ms, _)| *at_ms <= end_ms) else { return false };
        self.host.set_ms(at_ms.max(self.host.time_ms()));
        match queue {
            Some(queue) => {
                let batch = self.cloudflare.borrow_mut().take(&queue, self.host.time_ms());
                self.hand_over(batch);
            }
            None => self.tick(),
        }
        true
    }

    /// When the next tick comes that finds something to do.
    fn next_tick_at(&self) -> Option<i64> {
        let due_ms = view::next_due_ms(&self.host)?;
        let due_tick = due_ms.div_euclid(TICK_MS) + i64::from(due_ms.rem_euclid(TICK_MS) > 0);
        Some(due_tick.max(*self.last_tick.borrow() + 1) * TICK_MS)
    }

    /// Hands a batch to the Worker, whatever the queues hold, and lets the invocation end or die.
    pub fn hand_over(&self, mut batch: Batch) {
        let app = self.app.borrow().clone();
        for message in &mut batch.messages {
            message.body = handed_over(std::mem::replace(&mut message.body, Body::Bytes(Vec::new())));
        }
        let queue = batch.queue.clone();
        let delivered = self.invocation(self.queue_event(&app, batch));
        self.cloudflare.borrow_mut().unsettled(&queue, self.host.time_ms());
        self.hand_on(&app, delivered);
    }

    /// Lets the tick come now.
    pub fn tick(&self) {
        let app = self.app.borrow().clone();
        *self.last_tick.borrow_mut() = self.host.time_ms() / TICK_MS;
        let ticked = self.invocation(tick(&self.host, &app, self.stop_at_ms()));
        self.hand_on(&app, ticked.map(|ticked| ticked.delivered));
    }

    /// Deliveries that an invocation had no time for go on in the next one, at once, as far as a chain may be long;
    /// the tick does the rest.
    fn hand_on(&self, app: &App, delivered: Option<Delivered>) {
        let mut delivered = delivered;
        for _ in 0..HANDED_ON_MAX {
            if !delivered.is_some_and(|delivered| delivered.more_due) {
                break;
            }
            delivered = self.invocation(deliver_due(&self.host, app, self.stop_at_ms()));
        }
    }

    /// Runs one invocation in an isolate of its own; `None` when it died.
    fn invocation<T>(&self, run: impl Future<Output = T>) -> Option<T> {
        let end = drive(&self.host, run);
        *self.deaths.borrow_mut() += u64::from(end.is_none());
        end
    }

    fn stop_at_ms(&self) -> i64 {
        self.host.now_ms().saturating_add(WAIT_UNTIL_MS)
    }

    /// What the Worker does with a batch: each answer is a crash point of its own, the deliveries come after them.
    async fn queue_event(&self, app: &App, batch: Batch) -> Delivered {
        let queue = batch.queue.clone();
        let messages: Vec<(String, u32)> =
            batch.messages.iter().map(|message| (message.id.clone(), message.attempts)).collect();
        let received = receive::receive(&self.host, app, batch).await;
        assert_eq!(received.answers.len(), messages.len(), "one answer for each message");
        for ((message_id, attempts), answer) in messages.into_iter().zip(received.answers) {
            self.host.step().await;
            let at_ms = self.host.time_ms();
            self.cloudflare.borrow_mut().settle(&queue, &message_id, answer, at_ms);
            self.answers.borrow_mut().push(Answered { at_ms, queue: queue.clone(), message_id, attempts, answer });
        }
        self.cloudflare.borrow_mut().unsettled(&queue, self.host.time_ms());
        deliver(&self.host, app, received.claimed, self.stop_at_ms()).await
    }

    /// The events that were kept, oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        view::events(&self.host)
    }

    /// The deliveries that are not done, by event and subscriber.
    #[must_use]
    pub fn deliveries(&self) -> Vec<Delivery> {
        view::deliveries(&self.host)
    }

    /// The parked messages, oldest first.
    #[must_use]
    pub fn parked(&self) -> Vec<Parked> {
        view::parked(&self.host)
    }

    /// Every answer that the Worker gave, in order.
    #[must_use]
    pub fn answers(&self) -> Vec<Answered> {
        self.answers.borrow().clone()
    }

    /// The messages that are in a queue now, with the queue's name.
    #[must_use]
    pub fn waiting(&self) -> Vec<(String, Message)> {
        self.cloudflare.borrow().waiting()
    }

    /// The messages that Cloudflare deleted, since their retries were spent and no dead-letter queue took them.
    #[must_use]
    pub fn lost(&self) -> Vec<Message> {
        self.cloudflare.borrow().lost().to_vec()
    }

    /// How many invocations died at a planned crash.
    #[must_use]
    pub fn deaths(&self) -> u64 {
        *self.deaths.borrow()
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.host.ends();
    }
}
