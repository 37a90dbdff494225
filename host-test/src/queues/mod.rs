//! An app with queues of its own, as the queue server runs it: what is sent, the drain, functions, dead letters.

mod drain;
mod immediate;
mod request;
mod store;

use std::cell::RefCell;
use std::path::Path;

use jadpo_core::broker::{self, BrokerError, Peek, Redrive, RedriveState};
use jadpo_core::program::Connection;
use jadpo_core::queue::Body;
use jadpo_core::schedule::Schedules;
use jadpo_core::start::App;
use jadpo_core::tick::tick;
use jadpo_core::trigger::Triggers;

use crate::TestHost;
use crate::app::{IDLE_WITHIN_MS, STEPS_MAX, TICK_MS, WAIT_UNTIL_MS, count};
use crate::known;
use crate::load::{built, load};
use crate::run::drive;
use crate::view::{self, Delivery, DeliveryState, Event, Parked};
use store::QueueStore;

pub use request::{Posted, Request};

/// Rounds of a run until idle: more make no progress, as where the store fails again and again.
const ROUNDS_MAX: u32 = 20_000;

/// An app on the queue server that the test commands. Its functions and subscribers do what
/// [`TestHost::subscriber`] and [`TestHost::link`] tell them, by their names.
///
/// ```
/// use jadpo_host_test::{TestServer, json};
///
/// let server = TestServer::load("apps/jobs");
/// server.host.subscriber("handle-payment").answers([500]);
///
/// let id = server.send("jobs", json(r#"{"kind":"charge","id":42}"#));
/// server.run_until_idle();
///
/// assert_eq!(server.host.calls_to("handle-payment").len(), 2); // one failed, and was made again
/// assert!(server.messages("jobs").is_empty() && server.dead_letters("jobs").is_empty());
/// assert!(server.host.calls()[0].header("idempotency-key").unwrap().starts_with(&id));
/// ```
pub struct TestServer {
    /// The host: time, faults, functions, the log, the store.
    pub host: TestHost,
    app: App,
    triggers: Triggers,
    schedules: Schedules,
    queues: RefCell<QueueStore>,
    /// The tick that came last, in minutes since 1970.
    last_tick: RefCell<i64>,
    /// When the schedules were looked at last.
    looked_at_ms: RefCell<i64>,
    /// When they are to be looked at again, since the store did not let the last look end.
    look_again_at_ms: RefCell<Option<i64>>,
    /// Whether what is sent is handled at once.
    immediate: RefCell<bool>,
    deaths: RefCell<u64>,
}

/// A message that a queue holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its id.
    pub id: String,
    /// Attempts that were made; of a dead letter, those that it died of.
    pub attempts: u32,
    /// The body, invalid UTF-8 replaced.
    pub body: String,
    /// What went wrong last, if it is a dead letter.
    pub error: Option<String>,
    /// What its last attempt ended with, if it is a dead letter: `failed`, `retried`, `lease_ended`.
    pub reason: Option<&'static str>,
}

/// What is due next.
enum Next {
    Queues,
    Tick,
    Schedules,
}

impl TestServer {
    /// The app of an `app.jadpo` or `project.toml` file, or of a folder with one of them. A path is relative to the
    /// package whose test it is.
    ///
    /// # Panics
    /// When it cannot be read, or has problems.
    #[must_use]
    #[track_caller]
    pub fn load(path: impl AsRef<Path>) -> Self {
        Self::on(TestHost::migrated(), load(path.as_ref()))
    }

    /// The app of an app file's text.
    ///
    /// # Panics
    /// When it has problems.
    #[must_use]
    #[track_caller]
    pub fn of(source: &str) -> Self {
        Self::on(TestHost::migrated(), built(source, None))
    }

    fn on(host: TestHost, app: App) -> Self {
        host.knows(&app.program);
        host.seed_from_environment();
        let (triggers, schedules) = (Triggers::of(&app.program), Schedules::of(&app.program));
        let now_ms = host.time_ms();
        let server = Self {
            host,
            app,
            triggers,
            schedules,
            queues: RefCell::new(QueueStore::open()),
            last_tick: RefCell::new(now_ms / TICK_MS),
            looked_at_ms: RefCell::new(now_ms),
            look_again_at_ms: RefCell::default(),
            immediate: RefCell::default(),
            deaths: RefCell::default(),
        };
        server.declare();
        server.look_at_schedules();
        server
    }

    /// Makes the queues that the app declares.
    fn declare(&self) {
        for declared in self.triggers.declared() {
            let (dead, dead_settings) = declared.dead_letters();
            self.on_queues(|broker, sql, moment| broker.create(sql, moment, &dead, dead_settings).map(drop));
            let settings = declared.settings.clone();
            self.on_queues(|broker, sql, moment| broker.create(sql, moment, &declared.queue, settings).map(drop));
        }
    }

    /// From now on the server is in immediate mode, as `jadpo dev --queues=immediate`: what is posted to a queue with
    /// functions is handled before the answer, which is 200, and tried as often as it may be with no waiting between. What
    /// comes over a webhook waits as ever, where the real server handles that too.
    pub fn immediate(&self) {
        *self.immediate.borrow_mut() = true;
    }

    /// Makes every chance of this server follow `seed`.
    pub fn seed(&self, seed: u64) {
        self.host.seed(seed);
    }

    /// Sends a message to a queue. Returns its id.
    ///
    /// # Panics
    /// When there is no such queue, or it refuses; [`TestServer::post`] answers instead.
    #[track_caller]
    pub fn send(&self, queue: &str, body: Body) -> String {
        self.must_have(queue);
        match self.post(queue, Request::of(body)) {
            Posted { id: Some(id), .. } => id,
            Posted { status: 0, .. } => panic!("the server died over it: post() answers status 0"),
            posted => panic!("refused with {}: {}", posted.status, posted.error.unwrap_or_default()),
        }
    }

    /// # Panics
    /// When there is no such queue.
    #[track_caller]
    fn must_have(&self, queue: &str) {
        let mut names = std::collections::BTreeSet::new();
        for declared in self.triggers.declared() {
            names.extend([declared.queue.clone(), declared.dead_letters().0]);
        }
        let why = match self.app.program.connections.get(queue) {
            _ if names.contains(queue) => return,
            Some(Connection::LocalQueue { queue: meant, .. }) => {
                format!("`{queue}` is the connection's name; its queue is `{meant}`")
            }
            _ if known::queues(&self.app.program).contains(queue) => {
                format!("`{queue}` is a queue at Cloudflare, which TestApp has in front of the app")
            }
            _ => known::unknown("queue", queue, &names),
        };
        panic!("{why}");
    }

    /// Sends a request to a queue's address, as `POST /_queues/NAME`. A queue that is not there is answered with 404.
    pub fn post(&self, queue: &str, request: Request) -> Posted {
        self.lives(request::enqueue(self, queue, request))
    }

    /// Sends a request to a webhook's address, as a provider does.
    pub fn webhook(&self, name: &str, request: Request) -> Posted {
        self.lives(request::webhook(self, name, request))
    }

    /// The sender gets no answer when the server dies over it.
    fn lives(&self, sending: impl Future<Output = Posted>) -> Posted {
        self.process(sending).unwrap_or_default()
    }

    /// Runs until every queue that somebody handles is empty and every delivery is done or failed. Schedules stand
    /// still meanwhile, since they never end.
    ///
    /// # Panics
    /// When that takes more than 10 days, or would since a fault keeps the store from taking anything.
    #[track_caller]
    pub fn run_until_idle(&self) {
        let end_ms = self.host.time_ms().saturating_add(IDLE_WITHIN_MS);
        let has_next = || self.first_due(false).is_some_and(|(at_ms, _)| at_ms <= end_ms);
        if let Some(fault) = self.host.takes_nothing().filter(|_| has_next()) {
            panic!(
                "the store fault `{fault:?}` is still in force, and nothing settles until lift_faults(){}: run_for_ms() \
                 runs meanwhile",
                self.left()
            );
        }
        let mut rounds = 0;
        while self.next(end_ms, false) {
            rounds += 1;
            assert!(
                self.host.time_ms() < end_ms && rounds < ROUNDS_MAX,
                "the server does not settle{}{}",
                self.left(),
                self.host.in_force()
            );
        }
        self.sweep();
    }

    /// What is not done, in words.
    fn left(&self) -> String {
        let mut left = String::new();
        for queue in drain::handled(&self.triggers) {
            let metrics = self.on_queues(|broker, sql, _| broker.metrics(sql, &queue));
            if metrics.messages > 0 {
                let messages = usize::try_from(metrics.messages).unwrap_or(usize::MAX);
                left += &format!("; {} waiting in `{queue}`", count(messages, "message"));
            }
        }
        let deliveries = self.deliveries();
        let open = deliveries.iter().filter(|delivery| delivery.state != DeliveryState::Failed).count();
        if open > 0 {
            left += &format!("; {} open", count(open, "delivery"));
        }
        left
    }

    /// Runs what falls due in the next `for_ms` milliseconds, schedules too, and moves the time on by as much.
    #[track_caller]
    pub fn run_for_ms(&self, for_ms: i64) {
        let end_ms = self.host.time_ms().saturating_add(for_ms);
        let (mut steps, mut at_ms) = (0, self.host.time_ms());
        while self.next(end_ms, true) {
            steps = if self.host.time_ms() > at_ms { 0 } else { steps + 1 };
            at_ms = self.host.time_ms();
            assert!(steps < STEPS_MAX, "it has done {STEPS_MAX} things at one moment, and has more to do");
        }
        if self.host.time_ms() < end_ms {
            self.host.set_ms(end_ms);
        }
        self.sweep();
    }

    /// Does the next thing that falls due until `end_ms`; false when there is none.
    fn next(&self, end_ms: i64, with_schedules: bool) -> bool {
        let Some((at_ms, next)) = self.first_due(with_schedules).filter(|(at_ms, _)| *at_ms <= end_ms) else {
            return false;
        };
        self.host.set_ms(at_ms.max(self.host.time_ms()));
        match next {
            Next::Queues => drop(self.process(drain::round(self))),
            Next::Tick => self.tick(),
            Next::Schedules => self.look_at_schedules(),
        }
        true
    }

    fn first_due(&self, with_schedules: bool) -> Option<(i64, Next)> {
        let queues = self.next_message_at().map(|at_ms| (at_ms, Next::Queues));
        let tick = self.next_tick_at().map(|at_ms| (at_ms, Next::Tick));
        let schedules = with_schedules.then(|| self.next_occurrence_at()).flatten();
        let schedules = schedules.map(|at_ms| (at_ms, Next::Schedules));
        queues.into_iter().chain(tick).chain(schedules).min_by_key(|(at_ms, _)| *at_ms)
    }

    fn next_message_at(&self) -> Option<i64> {
        let handled = drain::handled(&self.triggers);
        let wakes = self.on_queues(|broker, sql, moment| broker.wakes(sql, moment, &handled));
        let in_ms =
            wakes.iter().filter_map(|(_, wake)| if wake.ready > 0 { Some(0) } else { wake.next_in_ms }).min()?;
        Some(self.host.time_ms().saturating_add(i64::try_from(in_ms).unwrap_or(i64::MAX)))
    }

    fn next_tick_at(&self) -> Option<i64> {
        let due_ms = view::next_due_ms(&self.host)?;
        let due_tick = due_ms.div_euclid(TICK_MS) + i64::from(due_ms.rem_euclid(TICK_MS) > 0);
        Some(due_tick.max(*self.last_tick.borrow() + 1) * TICK_MS)
    }

    fn next_occurrence_at(&self) -> Option<i64> {
        let after_ms = *self.looked_at_ms.borrow();
        let next = self.schedules.names().filter_map(|name| self.schedules.next_after(name, after_ms)).min();
        next.into_iter().chain(*self.look_again_at_ms.borrow()).min()
    }

    /// Lets the tick come now.
    pub fn tick(&self) {
        *self.last_tick.borrow_mut() = self.host.time_ms() / TICK_MS;
        self.process(tick(&self.host, &self.app, self.host.time_ms() + WAIT_UNTIL_MS));
    }

    fn look_at_schedules(&self) {
        *self.looked_at_ms.borrow_mut() = self.host.time_ms();
        let done = self.process(drain::occur(self)).unwrap_or(false);
        *self.look_again_at_ms.borrow_mut() = (!done).then(|| self.host.time_ms() + drain::PAUSE_FAILED_MS);
    }

    /// Puts a queue's dead letters back where they died. Returns how many; 0 if it has none.
    ///
    /// # Panics
    /// When there is no such queue, or a redrive of it runs.
    #[track_caller]
    pub fn redrive(&self, queue: &str) -> u64 {
        self.must_have(queue);
        let task = self.on_queues(|broker, sql, moment| {
            let source = broker.dead_letter_queue_of(queue)?;
            broker.redrive(sql, moment, &Redrive { source, ..Redrive::default() })
        });
        let mut task = task;
        while task.state == RedriveState::Running {
            self.host.advance_ms(i64::try_from(task.next_in_ms.unwrap_or(0)).unwrap_or(0));
            task = self.on_queues(|broker, sql, moment| broker.redrive_step(sql, moment, task.id, 100));
        }
        task.moved
    }

    /// Empties a queue. Returns how many messages it had.
    ///
    /// # Panics
    /// When there is no such queue.
    #[track_caller]
    pub fn purge(&self, queue: &str) -> u64 {
        self.must_have(queue);
        self.on_queues(|broker, sql, moment| broker.purge(sql, moment, queue)).messages
    }

    /// How many messages' bodies the store holds, in whatever queue, or in none.
    pub(crate) fn bodies(&self) -> i64 {
        self.queues.borrow().bodies()
    }

    /// What the server does all the time: what has expired leaves its queue, and what was purged leaves the store.
    fn sweep(&self) {
        let sweep = || self.on_queues(|broker, sql, moment| broker.sweep(sql, moment)).more;
        while self.host.takes_nothing().is_none() && sweep() {}
    }

    /// The names of the queues that the app declares, in order.
    #[must_use]
    pub fn queues(&self) -> Vec<String> {
        self.triggers.declared().map(|declared| declared.queue.clone()).collect()
    }

    /// The messages that a queue holds, in whatever state, oldest first; the first 100 of them.
    ///
    /// # Panics
    /// When there is no such queue.
    #[must_use]
    #[track_caller]
    pub fn messages(&self, queue: &str) -> Vec<Held> {
        self.must_have(queue);
        let peek = Peek { max: 100, after: None };
        let peeked = self.on_queues(|broker, sql, moment| broker.peek(sql, moment, queue, peek));
        peeked.into_iter().map(|peeked| Held::from(peeked.message)).collect()
    }

    /// The dead letters of a queue.
    ///
    /// # Panics
    /// When there is no such queue.
    #[must_use]
    #[track_caller]
    pub fn dead_letters(&self, queue: &str) -> Vec<Held> {
        self.must_have(queue);
        self.messages(&jadpo_core::local::dead_letters_of(queue))
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

    /// How often the process died at a planned crash.
    #[must_use]
    pub fn deaths(&self) -> u64 {
        *self.deaths.borrow()
    }

    /// Runs something in the server's process; `None` when it died.
    fn process<T>(&self, run: impl Future<Output = T>) -> Option<T> {
        let end = drive(&self.host, run);
        if end.is_none() {
            *self.deaths.borrow_mut() += 1;
            self.queues.borrow_mut().forget();
        }
        end
    }

    /// Does something with the queues on the side, past every fault and at no cost, for tests of the core.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn on_queues<T>(
        &self,
        operation: impl FnOnce(&mut broker::Broker, &mut dyn broker::Sql, broker::Moment) -> Result<T, BrokerError>,
    ) -> T {
        let done = self.queues.borrow_mut().run(&self.host, true, operation);
        match done {
            Ok(done) => done,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.host.ends();
    }
}

impl From<broker::Message> for Held {
    fn from(message: broker::Message) -> Self {
        let dead = message.dead;
        Self {
            id: message.id.to_string(),
            attempts: dead.as_ref().map_or(message.attempts, |dead| dead.attempts),
            body: String::from_utf8_lossy(&message.body).into_owned(),
            reason: dead.as_ref().map(|dead| dead.reason.name()),
            error: dead.and_then(|dead| dead.error),
        }
    }
}
