//! The native server: it drains its queues, receives, delivers, runs schedules, redrives and sweeps, and dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use jadpo_core::broker::{
    Broker, BrokerError, Lease, Moment, NewBatch, NewMessage, Reason, RedriveTask, Retry, Run, RunOutcome, Settings,
    Settle, Sql, Take, Taken, Wake, queue_trigger,
};
use jadpo_core::deliver::deliver;
use jadpo_core::host::Host as _;
use jadpo_core::program::Target;
use jadpo_core::receive::receive;
use jadpo_core::schedule::Schedules;
use jadpo_core::start::App;
use jadpo_core::tick::tick;
use jadpo_core::trigger::{self, Conclusion, Consumer, Declared, FunctionCall, FunctionOutcome, Triggers, conclude};

use super::broker::Opened;
use super::coverage::Step;
use super::host::{Reply, SimHost};
use super::model::{Model, Times};
use super::sim::{Process, Sim};
use super::state::Place;
use super::store::Database;
use super::trace;

/// The queue that is received.
pub(super) const ORDERS: &str = "orders";
/// The queue whose messages functions get.
pub(super) const JOBS: &str = "jobs";
/// What a drain waits for is that something is written.
pub(super) const DRAIN_WAITS: Step = Step::Idle;

/// How long new deliveries may take, in milliseconds.
const DELIVER_TIME_MS: i64 = 30_000;
/// How long a settle is tried again, in milliseconds.
const TRY_AGAIN_MS: i64 = 20_000;

/// The server's side of the state.
#[derive(Default)]
pub(super) struct Native {
    /// Who runs, if anybody does.
    pub(super) server: Option<Process>,
    pub(super) opened: Option<Opened>,
    pub(super) model: Model,
    pub(super) commits: u64,
    /// A statement that its broker forgets.
    pub(super) left_out: Option<&'static str>,
    /// How wrong the wall's clock is.
    pub(super) wall_skew_ms: i64,
    /// Leases that pullers ever got, by queue.
    pub(super) pulled: Vec<(&'static str, Lease)>,
    /// How long queues keep messages, in seconds.
    pub(super) retention_s: u32,
}

/// The server's program.
pub(super) const PROGRAM: &str = r#"{
    "format": 1, "app": "office",
    "connections": {
        "jobs": {"driver": "local_queue", "queue": "jobs", "functions": ["charge", "forward", "mail"],
            "max_receives": RECEIVES, "visibility_ms": 30000, "concurrency": 3},
        "orders": {"driver": "local_queue", "queue": "orders", "max_receives": 3, "visibility_ms": 30000}
    },
    "functions": {
        "charge": {"target": {"call": "http://127.0.0.1:1/charge"}},
        "mail": {"target": {"exec": ["./mail"]}},
        "forward": {"target": {"send": "orders"}},
        "sweep": {"target": {"run": "sweep"}, "schedule": "*/2 * * * *"}
    },
    "events": {"Ordered": {"record": [{"name": "n", "type": "int"}]}},
    "receiving": {"orders": {"event": "Ordered", "id": "order"}},
    "subscribers": {"billing": {"on": "Ordered", "target": {"call": "https://billing.example.com/"}}}
}"#;

/// What everything that the server runs has.
#[derive(Clone)]
struct Server {
    sim: Sim,
    process: Process,
    app: Arc<App>,
    triggers: Arc<Triggers>,
}

/// Starts a server, sooner or later.
pub(super) fn start(sim: &Sim) {
    let (process, app, after_ms) = {
        let state = &mut *sim.state();
        let process = state.scheduler.number();
        state.native.server = Some(process);
        let after_ms = if state.calm { 0 } else { state.scheduler.random.i64(0..20_000) };
        (process, state.side(Place::Native).app.clone(), after_ms)
    };
    let triggers = Arc::new(Triggers::of(&app.program));
    let server = Server { sim: sim.clone(), process, app, triggers };
    sim.spawn(process, server.run(after_ms));
}

/// A process has died: if it was the server, the next one starts.
pub(super) fn died(sim: &Sim, process: Process) {
    trace::note(|| format!("process {process} is dead"));
    let was_server = {
        let native = &mut sim.state().native;
        let was = native.server == Some(process);
        if was {
            (native.server, native.opened) = (None, None);
        }
        was
    };
    if was_server {
        start(sim);
    }
}

impl Server {
    async fn run(self, after_ms: i64) {
        self.sim.sleep(Step::Start, after_ms).await;
        while let Err(_behind) = self.open() {
            self.sim.sleep(Step::Start, 5_000).await;
        }
        for declared in self.triggers.declared() {
            while self.declare(declared).await.is_err() {
                self.sim.sleep(Step::Start, 1_000).await;
            }
        }
        for declared in self.triggers.declared() {
            self.begin(self.clone().drain(declared.clone()));
        }
        self.begin(self.clone().sweeps());
        self.begin(self.clone().schedules());
        self.begin(self.clone().redrives());
        self.begin(self.clone().ticks());
    }

    fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.sim.spawn(self.process, work);
    }

    /// Begins something in one of the places of a queue.
    fn begin_in(&self, busy: &Arc<AtomicUsize>, work: impl Future<Output = ()> + Send + 'static) {
        busy.fetch_add(1, Ordering::Relaxed);
        let (busy, sim) = (busy.clone(), self.sim.clone());
        self.begin(async move {
            work.await;
            busy.fetch_sub(1, Ordering::Relaxed);
            sim.state().scheduler.hurry(DRAIN_WAITS);
        });
    }

    fn open(&self) -> Result<(), ()> {
        let state = &mut *self.sim.state();
        let opened = Opened::load(state).map_err(drop)?;
        state.native.opened = Some(opened);
        Ok(())
    }

    fn is_calm(&self) -> bool {
        self.sim.state().calm
    }

    /// Makes a queue and its dead-letter queue, or brings it up to what the program says.
    async fn declare(&self, declared: &Declared) -> Result<(), BrokerError> {
        let retention_s = self.sim.state().native.retention_s;
        let kept_for = |settings: Settings| Settings { retention_s, ..settings };
        let (dead, dead_settings) = declared.dead_letters();
        let (dead_settings, settings) = (kept_for(dead_settings), kept_for(declared.settings.clone()));
        let queue = declared.queue.as_str();
        let make = |broker: &mut Broker, sql: &mut dyn Sql, at: Moment| {
            for (name, settings) in [(dead.as_str(), &dead_settings), (queue, &settings)] {
                match broker.info(name).map(|info| info.settings.clone()) {
                    Err(_) => broker.create(sql, at, name, settings.clone()).map(drop)?,
                    Ok(present) if name == queue => {
                        broker.update(sql, at, name, declared.settings_over(&present)).map(drop)?;
                    }
                    Ok(_) => {}
                }
            }
            Ok(())
        };
        let retries = settings.consumer.max_retries;
        let to = settings.consumer.dead_letter_queue.clone();
        let dead_retries = dead_settings.consumer.max_retries;
        let note = |model: &mut Model, _: &(), _, _: &_| {
            model.settings.insert(dead.clone(), (dead_retries, None));
            let before = model.settings.insert(queue.to_owned(), (retries, to.clone()));
            if before.is_some_and(|before| before != (retries, to)) {
                model.changed.insert(queue.to_owned());
            }
        };
        self.sim.operation(Step::Start, make, note).await
    }

    /// Takes what there is, no more than can be begun at once.
    async fn drain(self, declared: Declared) {
        let side_by_side = match declared.consumer {
            Consumer::Functions(_) => declared.concurrency as usize,
            Consumer::Receiving => 1,
            Consumer::Nobody => return,
        };
        let busy = Arc::new(AtomicUsize::new(0));
        let queue = declared.queue.clone();
        loop {
            let names = [queue.as_str()];
            let wakes = self.sim.operation(
                Step::Wake,
                |broker, sql, at| broker.wakes(sql, at, &names),
                |model: &mut Model, wakes: &Vec<(String, Wake)>, _, _| {
                    wakes.iter().for_each(|(queue, wake)| model.woke(queue, *wake));
                },
            );
            let wake =
                wakes.await.ok().and_then(|wakes| wakes.into_iter().next()).map(|(_, wake)| wake).unwrap_or_default();
            let room = side_by_side.saturating_sub(busy.load(Ordering::Relaxed));
            let due = wake.ready > 0 || wake.next_in_ms == Some(0);
            if room > 0 && due && self.take(&declared, room, &busy).await {
                continue;
            }
            let most_ms = if self.is_calm() { 3_600_000 } else { 60_000 };
            let wait_ms = wake.next_in_ms.filter(|_| room > 0).and_then(|ms| i64::try_from(ms).ok()).unwrap_or(most_ms);
            let wait_ms = if due { 500 } else { wait_ms.clamp(1, most_ms) };
            self.sim.sleep(DRAIN_WAITS, wait_ms).await;
        }
    }

    /// Takes and begins. False if there was nothing.
    async fn take(&self, declared: &Declared, room: usize, busy: &Arc<AtomicUsize>) -> bool {
        let queue = declared.queue.clone();
        let lease_ms = declared.lease_ms();
        let events = declared.consumer == Consumer::Receiving;
        let take = Take { max: if events { 10 } else { room }, visibility_ms: Some(lease_ms) };
        let batch = self.sim.operation(
            Step::Take,
            |broker, sql, at| broker.take(sql, at, &queue, take),
            |model, batch, times, _| model.took(&queue, batch, lease_ms.into(), times),
        );
        let Ok(batch) = batch.await else { return false };
        if batch.messages.is_empty() {
            return false;
        }
        let taken_ms = self.sim.now_ms();
        let (server, busy) = (self.clone(), busy.clone());
        if events {
            self.begin_in(&busy, server.receive(queue, batch.messages));
            return true;
        }
        for taken in batch.messages {
            let server = self.clone();
            self.begin_in(&busy, server.handle(declared.clone(), taken, taken_ms));
        }
        true
    }

    async fn receive(self, queue: String, taken: Vec<Taken>) {
        let host = SimHost::new(&self.sim, Place::Native);
        let received = receive(&host, &self.app, trigger::batch(&queue, &taken)).await;
        self.settle(&queue, trigger::settle(&taken, &received.answers)).await;
        if !received.claimed.is_empty() {
            let server = self.clone();
            self.begin(async move {
                let stop_at_ms = host.now_ms() + DELIVER_TIME_MS;
                deliver(&host, &server.app, received.claimed, stop_at_ms).await;
            });
        }
    }

    /// One attempt of one message: all its functions side by side, and what that makes of the message.
    async fn handle(self, declared: Declared, taken: Taken, taken_ms: i64) {
        let Taken { lease, message } = taken;
        let calls = self.triggers.calls(&declared.queue, &message);
        let outcomes = join_all(calls.into_iter().map(|call| async {
            let name = call.function.clone();
            let outcome = self.call(call).await;
            if outcome.is_done() {
                self.sim.state().native.model.function_done(message.id, &name);
            }
            (name, outcome)
        }));
        let outcomes = outcomes.await;
        let mut settle = Settle::default();
        let at_ms = self.sim.now_ms();
        let mut run = Run { at_ms, outcome: RunOutcome::Done, error: None, message: Some(message.id) };
        let conclusion = conclude(&message, &outcomes);
        if let Consumer::Functions(names) = &declared.consumer {
            self.sim.state().native.model.concluded(&message, names, &conclusion);
        }
        match conclusion {
            Conclusion::Done => settle.acks.push(lease),
            Conclusion::Again { progress, error } => {
                run.outcome = RunOutcome::Failed;
                let ago_ms = u64::try_from(at_ms - taken_ms).unwrap_or_default();
                let (delay_ms, error) = (Some(declared.again_in_ms(ago_ms)), Some(error));
                settle.retries.push(Retry { lease, delay_ms, reason: Reason::Failed, error, progress });
            }
            Conclusion::NotStarted { progress, .. } => {
                settle.progress.extend(progress.map(|progress| (lease, progress)));
                settle.releases.push(lease);
                return self.settle(&declared.queue, settle).await;
            }
        }
        self.settle(&declared.queue, settle).await;
        let runs = [(queue_trigger(&declared.queue), run)];
        let _ = self.sim.operation(Step::Idle, |broker, sql, _| broker.record_runs(sql, &runs), |_, _, _, _| {}).await;
    }

    async fn settle(&self, queue: &str, settle: Settle) {
        let until_ms = self.sim.now_ms() + TRY_AGAIN_MS;
        loop {
            let settled = self.sim.operation(
                Step::Settle,
                |broker, sql, at| broker.settle(sql, at, queue, &settle),
                |model, settled, times, _| model.settled(queue, &settle, settled, 0, times),
            );
            match settled.await {
                Err(error) if error.may_pass() && self.sim.now_ms() < until_ms => {
                    self.sim.sleep(Step::Settle, 250).await;
                }
                _ => return,
            }
        }
    }

    /// Calls a function, whatever it is, cut off at its time.
    async fn call(&self, call: FunctionCall) -> FunctionOutcome {
        let limit_ms = i64::from(call.timeout_ms);
        if let Target::Send(queue) = &call.target {
            let message =
                NewMessage { content: call.content, body: call.body.clone(), delay_s: None, meta: call.meta.clone() };
            self.sim.before(Step::Function).await;
            let sent = send(&self.sim, queue, NewBatch { messages: vec![message], delay_s: None }).await;
            return FunctionOutcome::Returned(sent.map_err(|error| error.to_string()));
        }
        let (reply, takes_ms) = {
            let state = &mut *self.sim.state();
            state.scheduler.coverage.done(Step::Function);
            let reply = state.reply(Step::Function, &call.function);
            trace::note(|| format!("{} is called, attempt {}, and will: {:?}", call.function, call.attempt, reply.0));
            reply
        };
        self.sim.sleep(Step::Function, takes_ms.min(limit_ms)).await;
        self.sim.after_at_once(Step::Function).await;
        match reply {
            Reply::Done => FunctionOutcome::Answered { status: 200 },
            Reply::Fails(status) => FunctionOutcome::Answered { status },
            Reply::Busy(_) => FunctionOutcome::Answered { status: 429 },
            Reply::DoneAndLost | Reply::Hangs | Reply::NotSent => {
                FunctionOutcome::Unanswered("no answer in time".to_owned())
            }
        }
    }

    async fn sweeps(self) {
        loop {
            let every_ms = {
                let state = &mut *self.sim.state();
                if state.calm { 600_000 } else { state.scheduler.random.i64(500..30_000) }
            };
            self.sim.sleep(Step::Sweep, every_ms).await;
            let swept = self.sim.operation(
                Step::Sweep,
                |broker, sql, at| broker.sweep(sql, at),
                |model, swept, times, _| model.left(&swept.gone, times),
            );
            let _ = swept.await;
        }
    }

    async fn schedules(self) {
        let schedules = Schedules::of(&self.app.program);
        while !self.is_calm() {
            let sim = &self.sim;
            if let Ok(states) = sim.operation(Step::Idle, |broker, sql, _| broker.triggers(sql), |_, _, _, _| {}).await
            {
                let now_ms = sim.now_ms() + sim.state().native.wall_skew_ms;
                let due = schedules.due(&states, now_ms);
                for (schedule, at_ms) in due.passed {
                    let pass = |broker: &mut Broker, sql: &mut dyn Sql, _| broker.pass(sql, &schedule, at_ms);
                    let note = |model: &mut Model, _: &(), _, _: &_| {
                        let last = model.occurrences.entry(schedule.clone()).or_insert(at_ms);
                        *last = at_ms.max(*last);
                    };
                    let _ = sim.operation(Step::Occur, pass, note).await;
                }
                for one in due.occurrences {
                    let _ = sim
                        .operation(
                            Step::Occur,
                            |broker, sql, at| broker.occur(sql, at, &one.schedule, one.at_ms, &one.queue, &one.message),
                            |model, id, times, _| {
                                model.occurred(&one.schedule, one.at_ms, id.is_some());
                                if let Some(id) = id {
                                    model.sent(&one.queue, *id, &one.message, 0, times);
                                }
                            },
                        )
                        .await;
                }
            }
            let pause_ms = self.sim.state().scheduler.random.i64(1_000..40_000);
            self.sim.sleep(Step::Occur, pause_ms).await;
        }
    }

    async fn redrives(self) {
        loop {
            let tasks =
                self.sim.operation(Step::RedriveStep, |broker, sql, at| broker.redrives(sql, at), |_, _, _, _| {});
            let most_ms = if self.is_calm() { 3_600_000 } else { 60_000 };
            let mut pause_ms = most_ms;
            for task in tasks.await.unwrap_or_default() {
                if let Some(next_ms) = task.next_in_ms {
                    redrive_step(&self.sim, task.id, &task.redrive.source, false).await;
                    pause_ms = pause_ms.min(i64::try_from(next_ms).unwrap_or(most_ms).max(100));
                }
            }
            self.sim.sleep(DRAIN_WAITS, pause_ms).await;
        }
    }

    async fn ticks(self) {
        let host = SimHost::new(&self.sim, Place::Native);
        loop {
            let (now_ms, due_ms) = {
                let state = &mut *self.sim.state();
                (state.scheduler.now_ms, state.side(Place::Native).next_due_ms())
            };
            if due_ms.is_some_and(|due_ms| due_ms <= now_ms) {
                tick(&host, &self.app, host.now_ms() + 20_000).await;
            }
            let every_ms = self.sim.state().next_tick_in_ms(Place::Native);
            self.sim.sleep(Step::Window, every_ms).await;
        }
    }
}

/// A slice of a redrive, by the server or by a command.
pub(super) async fn redrive_step(sim: &Sim, id: u64, source: &str, by_command: bool) {
    let max = sim.state().scheduler.pick(&[1, 2, 5, 100]);
    let step = |broker: &mut Broker, sql: &mut dyn Sql, at: Moment| broker.redrive_step(sql, at, id, max);
    let note = |model: &mut Model, _: &RedriveTask, times: Times, database: &Database| {
        model.redriven(source, database, times);
    };
    let _ = match by_command {
        true => sim.command(Step::RedriveStep, step, note).await,
        false => sim.operation(Step::RedriveStep, step, note).await,
    };
}

/// Sends messages, as a request to the server or a function does.
///
/// # Errors
/// As the broker says.
pub(super) async fn send(sim: &Sim, queue: &str, batch: NewBatch) -> Result<(), BrokerError> {
    let sent = sim.operation(
        Step::Send,
        |broker, sql, at| broker.send(sql, at, queue, &batch),
        |model, sent, times, _| {
            for (message, id) in batch.messages.iter().zip(&sent.ids) {
                model.sent(queue, *id, message, message.delay_s.unwrap_or_default(), times);
            }
        },
    );
    sent.await.map(drop)
}
