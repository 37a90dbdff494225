//! Who does what to the system: producers, operators, deploys, the weather.

use std::collections::BTreeSet;

use jadpo_core::broker::{
    Broker, Content, Moment, NewBatch, NewMessage, Once, Redrive, RedriveFilter, SentOnce, Sql, queue_trigger,
};
use jadpo_core::queue::{Body, Message};
use jadpo_core::start::App;

use super::consumers;
use super::coverage::{Fault, Step};
use super::ledger::Sent;
use super::native::{self, JOBS, ORDERS};
use super::sim::{Sim, WORLD};
use super::state::{Place, State, Weather};
use super::{trace, worker};

/// Faults of D1's.
const OF_D1: [Fault; 5] = [Fault::Down, Fault::Commit, Fault::AnswerLost, Fault::Slow, Fault::Statement];
/// Faults of a file's.
const OF_A_FILE: [Fault; 3] = [Fault::Down, Fault::Commit, Fault::Statement];

/// One that acts on the Worker's side, so many times.
pub(super) async fn around_the_worker(sim: Sim, actions: u32) {
    for _ in 0..actions {
        let what = sim.state().scheduler.random.u32(0..16);
        match what {
            0..8 => send_to_cloudflare(&sim),
            8 | 9 => change_weather(&sim, Place::Worker),
            10 => refuse_something(&sim),
            11 => move_callees(&sim),
            12 => deploy_worker(&sim),
            13 => worker::retry_all(&sim, Place::Worker),
            14 => again(&sim),
            _ => {}
        }
        pass(&sim).await;
    }
}

/// One that acts on the server's side, so many times.
pub(super) async fn around_the_server(sim: Sim, actions: u32) {
    for _ in 0..actions {
        let what = sim.state().scheduler.random.u32(0..26);
        match what {
            0..5 => send_jobs(&sim, JOBS).await,
            5 | 6 => send_jobs(&sim, ORDERS).await,
            7 | 8 => send_once(&sim).await,
            9 | 10 => change_weather(&sim, Place::Native),
            11 => move_callees(&sim),
            12 => redeploy_server(&sim),
            13 => worker::retry_all(&sim, Place::Native),
            14 | 15 => redrive(&sim).await,
            16 => purge(&sim).await,
            17 | 25 => pause(&sim).await,
            18 => switch(&sim).await,
            19 => {
                let state = &mut *sim.state();
                state.native.wall_skew_ms = state.scheduler.random.i64(-7_200_000..7_200_000);
            }
            20 => cancel(&sim).await,
            21 => consumers::remove(&sim),
            22 => consumers::send_and_wait(&sim),
            23 | 24 => consumers::pull(&sim),
            _ => {}
        }
        pass(&sim).await;
    }
}

async fn pass(sim: &Sim) {
    let for_ms = {
        let scheduler = &mut sim.state().scheduler;
        match scheduler.random.u32(0..20) {
            0..8 => scheduler.random.i64(0..50),
            8..15 => scheduler.random.i64(50..6_000),
            15..19 => scheduler.random.i64(6_000..70_000),
            _ => scheduler.random.i64(70_000..900_000),
        }
    };
    sim.sleep(Step::Window, for_ms).await;
}

fn send_to_cloudflare(sim: &Sim) {
    let state = &mut *sim.state();
    for _ in 0..state.scheduler.random.usize(1..5) {
        let key = state.scheduler.random.u32(0..12);
        let movement = |quantity: &str| format!(r#"{{"movement":"m{key}","quantity":{quantity}}}"#);
        let (queue, body) = match state.scheduler.random.u32(0..12) {
            0..5 => ("stock", Body::Text(movement("3"))),
            5 | 6 => ("stock", Body::Json(movement("\"three\""))),
            7..10 => ("notes", Body::Json(format!("[{key}]"))),
            10 => ("notes", Body::Bytes(vec![b'1', 0xff])),
            _ => ("stock-dead", Body::Text(movement("4"))),
        };
        state.send(queue, body);
    }
}

impl State {
    /// A producer sends to a queue at Cloudflare.
    pub(super) fn send(&mut self, queue: &'static str, body: Body) {
        let (id, now_ms) = (format!("{:032x}", self.scheduler.random.u128(..)), self.scheduler.now_ms);
        let connection = queue.strip_suffix("-dead").unwrap_or(queue);
        let key = match &body {
            Body::Text(text) | Body::Json(text) if connection == "stock" => text.split('"').nth(3).map(str::to_owned),
            _ => None,
        };
        trace::note(|| format!("sent to {queue} at Cloudflare: {} {body:?}", id.get(..8).unwrap_or(&id)));
        let sent = Sent { connection, key, body: body.clone() };
        self.side(Place::Worker).ledger.sent.insert(id.clone(), sent);
        self.cloudflare.send(queue, Message { id, sent_at_ms: now_ms, attempts: 0, body }, now_ms);
    }
}

/// Cloudflare hands over a message that was settled once more.
fn again(sim: &Sim) {
    let state = &mut *sim.state();
    let waiting: Vec<String> = state.cloudflare.waiting().into_iter().map(|(_, message)| message.id).collect();
    let ledger = &state.sides[Place::Worker as usize].ledger;
    let sent = &ledger.sent;
    let settled = |id: &&String| sent[*id].connection == "stock" && !waiting.contains(id);
    let stock: Vec<&String> = ledger.acknowledged.iter().filter(settled).collect();
    if stock.is_empty() {
        return;
    }
    let id = stock[state.scheduler.random.usize(..stock.len())].clone();
    let body = sent[&id].body.clone();
    let now_ms = state.scheduler.now_ms;
    state.scheduler.met(Fault::Twice, Step::Answer);
    state.cloudflare.send("stock", Message { id, sent_at_ms: now_ms, attempts: 1, body }, now_ms);
}

fn change_weather(sim: &Sim, place: Place) {
    let state = &mut *sim.state();
    let scheduler = &mut state.scheduler;
    scheduler.lags = scheduler.pick(&[0, 10, 30, 60]);
    scheduler.deaths = scheduler.pick(&[0, 0, 5, 20, 60]);
    let percent = scheduler.pick(&[0, 0, 5, 25, 60]);
    let faults = match (place, scheduler.random.u32(0..6)) {
        (Place::Worker, 0) => vec![Fault::Behind],
        (Place::Worker, 1) => vec![Fault::AnswerLost],
        (Place::Worker, _) => OF_D1.to_vec(),
        (Place::Native, _) => OF_A_FILE.to_vec(),
    };
    trace::note(|| format!("{place:?}'s store fails at {percent} % of steps: {faults:?}"));
    state.side(place).weather = Weather { percent, faults };
}

fn refuse_something(sim: &Sim) {
    let state = &mut *sim.state();
    let refused = state.scheduler.chance(50).then(|| format!("\"m{}\"", state.scheduler.random.u32(0..12)));
    state.side(Place::Worker).refused = refused;
}

fn move_callees(sim: &Sim) {
    let state = &mut *sim.state();
    state.callees.percent = state.scheduler.pick(&[0, 10, 40, 90]);
    state.callees.takes_ms = state.scheduler.pick(&[0, 0, 40, 900, 14_000]);
}

/// Another build of the Worker: it may want another type, and may have a subscriber more. Its store may be behind it
/// for a while, or ahead.
fn deploy_worker(sim: &Sim) {
    let state = &mut *sim.state();
    let (quantity, late) = (state.scheduler.pick(&["int", "int", "text"]), state.scheduler.chance(40));
    state.side(Place::Worker).deploy(worker_app(quantity, late));
    let version = state.scheduler.pick(&[0, 1, 1, 2]);
    if version == 2 {
        state.side(Place::Worker).database.meddle("UPDATE jadpo_schema SET version = version + 1");
    }
    if version == 0 {
        state.side(Place::Worker).database.migrate(false);
        let after_ms = state.scheduler.random.i64(0..120_000);
        let migrating = sim.clone();
        state.scheduler.begin(WORLD, async move {
            migrating.sleep(Step::Window, after_ms).await;
            migrating.state().side(Place::Worker).database.migrate(true);
        });
    }
}

/// The Worker's app: what a quantity is, and whether it has a subscriber that other builds do not have.
pub(super) fn worker_app(quantity: &str, late: bool) -> App {
    let late = if late { r#""late": {"on": "StockMoved", "target": {"run": "late"}},"# } else { "" };
    app(&worker::PROGRAM.replace("QUANTITY", quantity).replace("LATE", late))
}

/// The server's app: how often it lets a job be received.
pub(super) fn server_app(receives: u32) -> App {
    app(&native::PROGRAM.replace("RECEIVES", &receives.to_string()))
}

fn app(program: &str) -> App {
    App::start(program).expect("the simulation's programs are right")
}

/// Another build of the server, which stops the one that runs. Its store may be behind it for a while.
fn redeploy_server(sim: &Sim) {
    let state = &mut *sim.state();
    let receives = state.scheduler.pick(&[3, 3, 3, 2, 4]);
    state.side(Place::Native).deploy(server_app(receives));
    if state.scheduler.chance(30) {
        let after_ms = state.scheduler.random.i64(0..60_000);
        state.side(Place::Native).database.migrate(false);
        let migrating = sim.clone();
        state.scheduler.begin(WORLD, async move {
            migrating.sleep(Step::Window, after_ms).await;
            migrating.state().side(Place::Native).database.migrate(true);
        });
    }
    if let Some(server) = state.native.server {
        state.scheduler.kill(server);
    }
}

pub(super) fn order(state: &mut State) -> NewMessage {
    let key = state.scheduler.random.u32(0..20);
    let n = if state.scheduler.chance(20) { "\"one\"" } else { "1" };
    let delay_s = state.scheduler.chance(25).then(|| state.scheduler.random.u32(0..60));
    let body = format!(r#"{{"order":"o{key}","n":{n}}}"#).into_bytes();
    let content = state.scheduler.pick(&[Content::Json, Content::Text, Content::Bytes]);
    let meta = state.scheduler.chance(50).then(|| format!("sent with {key}"));
    NewMessage { content, body, delay_s, meta }
}

/// A request to the server; it ends when the server dies.
pub(super) fn request(sim: &Sim, work: impl Future<Output = ()> + Send + 'static) {
    let state = &mut *sim.state();
    if let Some(server) = state.native.server {
        state.scheduler.begin(server, work);
    }
}

async fn send_jobs(sim: &Sim, queue: &'static str) {
    let messages = {
        let state = &mut *sim.state();
        (0..state.scheduler.random.usize(1..4)).map(|_| order(state)).collect()
    };
    let (asking, batch) = (sim.clone(), NewBatch { messages, delay_s: None });
    request(sim, async move {
        let _ = native::send(&asking, queue, batch).await;
    });
}

async fn send_once(sim: &Sim) {
    let (scope, key, message) = {
        let state = &mut *sim.state();
        (state.scheduler.pick(&["hook", "api"]), state.scheduler.random.u32(0..5).to_string(), order(state))
    };
    let name = format!("{scope} {key}");
    let message = NewMessage { delay_s: None, ..message };
    let asking = sim.clone();
    request(sim, async move {
        let sent = asking.operation(
            Step::SendOnce,
            |broker, sql, at| broker.send_once(sql, at, JOBS, Once { scope, key: &key }, &message),
            |model, sent, times, _| match *sent {
                SentOnce::Sent(id) => {
                    model.sent_once(&name, id, true);
                    model.sent(JOBS, id, &message, 0, times);
                }
                SentOnce::Repeat(id) => model.sent_once(&name, id, false),
            },
        );
        let _ = sent.await;
    });
}

async fn redrive(sim: &Sim) {
    let (limit, rate_per_s) = {
        let scheduler = &mut sim.state().scheduler;
        let limit = scheduler.chance(30).then(|| scheduler.random.u64(1..5));
        (limit, scheduler.chance(30).then(|| scheduler.random.u32(1..5)))
    };
    let filter = RedriveFilter { limit, ..RedriveFilter::default() };
    let redrive = Redrive { source: JOBS.to_owned(), to: None, filter, rate_per_s };
    let begin = |broker: &mut Broker, sql: &mut dyn Sql, at: Moment| broker.redrive(sql, at, &redrive);
    let Ok(task) = sim.command(Step::Redrive, begin, |_, _, _, _| {}).await else { return };
    let by_command = sim.state().scheduler.chance(30);
    if by_command {
        native::redrive_step(sim, task.id, &task.redrive.source, true).await;
    }
}

async fn cancel(sim: &Sim) {
    let listed = sim.command(Step::Redrive, |broker, sql, at| broker.redrives(sql, at), |_, _, _, _| {}).await;
    if let Some(task) = listed.ok().and_then(|tasks| tasks.into_iter().next_back()) {
        let cancel = |broker: &mut Broker, sql: &mut dyn Sql, at: Moment| broker.cancel_redrive(sql, at, task.id);
        let _ = sim.command(Step::Redrive, cancel, |_, _, _, _| {}).await;
    }
}

async fn purge(sim: &Sim) {
    let queue = sim.state().scheduler.pick(&[JOBS, "jobs-dead", ORDERS]);
    let purge = |broker: &mut Broker, sql: &mut dyn Sql, at: Moment| broker.purge(sql, at, queue);
    let _ = sim.command(Step::Manage, purge, |model, _, _, _| model.purged(queue)).await;
}

async fn pause(sim: &Sim) {
    let (queue, paused) = {
        let scheduler = &mut sim.state().scheduler;
        (scheduler.pick(&[JOBS, ORDERS]), scheduler.chance(60))
    };
    let pause = |broker: &mut Broker, sql: &mut dyn Sql, at: Moment| broker.pause(sql, at, queue, paused);
    let _ = sim.command(Step::Manage, pause, |model, _, _, _| note(&mut model.paused, queue, paused)).await;
}

fn note(queues: &mut BTreeSet<String>, queue: &str, is_one: bool) {
    if is_one {
        queues.insert(queue.to_owned());
    } else {
        queues.remove(queue);
    }
}

async fn switch(sim: &Sim) {
    let enabled = sim.state().scheduler.chance(50);
    let switch = |broker: &mut Broker, sql: &mut dyn Sql, _| broker.enable_trigger(sql, &queue_trigger(JOBS), enabled);
    let _ = sim.command(Step::Manage, switch, |model, _, _, _| note(&mut model.disabled, JOBS, !enabled)).await;
}

/// What an operator does in the end: everything goes on.
pub(super) async fn let_go_on(sim: &Sim) {
    for queue in [JOBS, ORDERS] {
        let go_on = |broker: &mut Broker, sql: &mut dyn Sql, at: Moment| broker.pause(sql, at, queue, false);
        let _ = sim.command(Step::Manage, go_on, |model, _, _, _| note(&mut model.paused, queue, false)).await;
    }
    let enable = |broker: &mut Broker, sql: &mut dyn Sql, _| broker.enable_trigger(sql, &queue_trigger(JOBS), true);
    let _ = sim.command(Step::Manage, enable, |model, _, _, _| note(&mut model.disabled, JOBS, false)).await;
}
