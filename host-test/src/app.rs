//! An app under test: its Worker, its store, its subscribers, and Cloudflare's queues in front of it.

use std::cell::RefCell;
use std::future::Future;
use std::path::Path;

use jadpo_core::admin;
use jadpo_core::app::{Compiled, Lines, compile};
use jadpo_core::bindings::ADMIN_TOKEN;
use jadpo_core::deliver::{Delivered, deliver, deliver_due};
use jadpo_core::host::Host as _;
use jadpo_core::queue::{Answer, Batch, Body, Message};
use jadpo_core::receive;
use jadpo_core::start::App;
use jadpo_core::tick::tick;

use crate::TestHost;
use crate::cloudflare::Cloudflare;
use crate::run::drive;
use crate::view::{self, Delivery, Event, Parked};

/// Virtual time after which an app that has not settled never will: 10 days. A message that is refused by everything
/// takes 22 hours to reach the dead-letter queue and 4 days there.
pub(crate) const IDLE_WITHIN_MS: i64 = 10 * 24 * 3_600_000;

/// Things that may fall due in one run of a test. More is a loop that never ends.
pub(crate) const STEPS_MAX: u32 = 10_000;

/// How long an invocation may run on after its answers: what `waitUntil` has on Workers.
pub(crate) const WAIT_UNTIL_MS: i64 = 30_000;
/// The tick comes every minute.
pub(crate) const TICK_MS: i64 = 60_000;

/// The operator's token on every test host.
const OPERATOR_TOKEN: &str = "a-token-for-tests-only";
/// Invocations that one may set off in a chain; Cloudflare ends chains too.
const HANDED_ON_MAX: u32 = 16;

/// A text body.
#[must_use]
pub fn text(body: &str) -> Body {
    Body::Text(body.to_owned())
}

/// A json body: the JSON text of the value that the Worker was handed.
#[must_use]
pub fn json(body: &str) -> Body {
    Body::Json(body.to_owned())
}

/// A bytes body.
#[must_use]
pub fn bytes(body: &[u8]) -> Body {
    Body::Bytes(body.to_vec())
}

/// An app, deployed to a Workers host that the test commands.
pub struct TestApp {
    /// The host: time, faults, subscribers, the log, the store.
    pub host: TestHost,
    app: RefCell<App>,
    cloudflare: RefCell<Cloudflare>,
    answers: RefCell<Vec<Answered>>,
    deaths: RefCell<u64>,
    /// The tick that came last, in minutes since 1970.
    last_tick: RefCell<i64>,
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
    /// The app of an `app.jadpo` file, its store migrated.
    ///
    /// # Panics
    /// When the file cannot be read, or has problems: they are listed.
    #[must_use]
    pub fn load(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let source = std::fs::read_to_string(path);
        Self::of(&source.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    /// The app of an app file's text, or of a `program.json`'s, its store migrated.
    ///
    /// # Panics
    /// When it has problems, or is no program that this build runs.
    #[must_use]
    pub fn of(source: &str) -> Self {
        Self::on(TestHost::migrated(), source)
    }

    /// As [`TestApp::of`], on a host of the test's choice.
    ///
    /// # Panics
    /// When it has problems, or is no program that this build runs.
    #[must_use]
    pub fn on(host: TestHost, source: &str) -> Self {
        let app = built(source);
        host.seed_from_environment();
        host.set_env(ADMIN_TOKEN, OPERATOR_TOKEN);
        let mut cloudflare = Cloudflare::of(&app.program);
        cloudflare.seed(host.seeded());
        let cloudflare = RefCell::new(cloudflare);
        let last_tick = RefCell::new(host.time_ms() / TICK_MS);
        let (answers, deaths) = (RefCell::default(), RefCell::default());
        Self { host, app: RefCell::new(app), cloudflare, answers, deaths, last_tick }
    }

    /// Deploys another build, of an app file's text or a `program.json`'s, over the same store and queues.
    ///
    /// # Panics
    /// When it has problems, or is no program that this build runs.
    pub fn redeploy(&self, source: &str) {
        *self.app.borrow_mut() = built(source);
    }

    /// What an operator's `jadpo deliveries retry --all` does: the next tick takes up every parked message and every
    /// failed delivery. Returns how many, or `None` when the store did not take it.
    ///
    /// # Panics
    /// When the endpoint answers what it never should.
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

    /// Sends a message now. Returns its id.
    pub fn send(&self, queue: &str, body: Body) -> String {
        let id = self.cloudflare.borrow_mut().new_id();
        self.send_as(queue, &id, body);
        id
    }

    /// Sends a message now under an id of the test's choice.
    pub fn send_as(&self, queue: &str, id: &str, body: Body) {
        let message = Message { id: id.to_owned(), sent_at_ms: self.host.time_ms(), attempts: 0, body };
        self.send_message(queue, message);
    }

    /// Sends a message that is handed over as delivery number `attempts` of itself, from 1. Returns its id.
    pub fn send_at_attempt(&self, queue: &str, body: Body, attempts: u32) -> String {
        let id = self.cloudflare.borrow_mut().new_id();
        let (sent_at_ms, attempts) = (self.host.time_ms(), attempts.saturating_sub(1));
        self.send_message(queue, Message { id: id.clone(), sent_at_ms, attempts, body });
        id
    }

    /// Puts a message into the queue as it is; its `attempts` are those that lie behind it.
    pub fn send_message(&self, queue: &str, message: Message) {
        self.cloudflare.borrow_mut().send(queue, message, self.host.time_ms());
    }

    /// Cloudflare hands over at most `size` messages at once.
    pub fn cut_batches_at(&self, size: usize) {
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
    /// When that takes more than 10 days.
    pub fn run_until_idle(&self) {
        let end_ms = self.host.time_ms().saturating_add(IDLE_WITHIN_MS);
        while self.next(end_ms) {
            assert!(self.host.time_ms() < end_ms, "the app has not settled within 10 days");
        }
    }

    /// Runs what falls due in the next `for_ms` milliseconds, and moves the time on by as much.
    pub fn run_for_ms(&self, for_ms: i64) {
        let end_ms = self.host.time_ms().saturating_add(for_ms);
        let mut steps = 0;
        while self.next(end_ms) {
            steps += 1;
            assert!(steps < STEPS_MAX, "it has done {STEPS_MAX} things and is not at its end");
        }
        if self.host.time_ms() < end_ms {
            self.host.set_ms(end_ms);
        }
    }

    /// Does the next thing that falls due until `end_ms`: a batch, or a tick that has something to do. False when
    /// there is none.
    pub fn next(&self, end_ms: i64) -> bool {
        let batch = self.cloudflare.borrow().next_batch_at();
        let tick = self.next_tick_at();
        let (at_ms, queue) = match (batch, tick) {
            (Some((batch_ms, queue)), tick) if tick.is_none_or(|tick_ms| batch_ms <= tick_ms) => {
                (batch_ms, Some(queue))
            }
            (_, Some(tick_ms)) => (tick_ms, None),
            _ => return false,
        };
        if at_ms > end_ms {
            return false;
        }
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
    pub fn hand_over(&self, batch: Batch) {
        let app = self.app.borrow().clone();
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
        self.host.tell_seed();
    }
}

/// Builds an app from its file, or from what `jadpo build` made of that.
pub(crate) fn built(source: &str) -> App {
    if source.trim_start().starts_with('{') {
        return App::start(source).unwrap_or_else(|error| panic!("{error}"));
    }
    let compiled = compile(source);
    let found = problems(source, &compiled);
    App::new(compiled.program.unwrap_or_else(|| panic!("the app file has problems:{found}")))
}

/// What is wrong in a file, a line each.
pub(crate) fn problems(source: &str, compiled: &Compiled) -> String {
    let lines = Lines::new(source);
    let problems = compiled.problems.iter().map(|problem| {
        let (line, column) = lines.position(problem.span.start);
        format!("\n  {line}:{column} {}: {}", problem.code, problem.message)
    });
    problems.collect()
}
