//! The server: HTTP, the drain of its queues, schedules, redrives and the tick, until it is told to stop.
//!
//! Nothing is decided here about queues: the core says what a request means, what becomes of a message and when
//! something is due.

mod again;
mod answer;
mod api;
mod asked;
mod body;
pub(crate) mod connections;
mod declare;
mod deliveries;
mod drain;
mod guard;
mod health;
mod immediate;
mod inbound;
mod listen;
mod look;
pub(crate) mod paced;
mod page;
mod places;
mod pulling;
mod queues;
mod recent;
mod redrives;
mod reply;
mod report;
mod route;
mod schedules;
mod ticks;
mod webhooks;
pub(crate) mod workers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jadpo_core::broker::limits::PRODUCERS_MAX;
use jadpo_core::host::{Host, Level, LogEntry};
use jadpo_core::pull::{Door, Rules};
use jadpo_core::schedule::Schedules;
use jadpo_core::start::App;
use jadpo_core::trigger::Triggers;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::broker::Broker;
use crate::d1::Databases;
use crate::functions::Functions;
use crate::host::NativeHost;
use crate::workerd::Started;

pub(crate) use declare::dead_letters;
pub use declare::{declare, let_pull};
pub use drain::Pace;
pub use guard::Access;
pub use report::{Concern, DeclaredQueue, Handler, Report, report, secrets};
pub(crate) use workers::declare as declare_workers;

use asked::AskedByWorkers;
use health::Readiness;
use places::Places;
use pulling::Standings;
use recent::Recent;

/// Runs of deliveries of just received events, side by side.
const DELIVERING_MAX: usize = 4;
/// How much longer than the calls' grace a stop takes at most: what ended is to be settled.
const SETTLE_GRACE: Duration = Duration::from_secs(5);

/// What a server does.
#[derive(Debug)]
pub struct Server {
    /// What carries out the core's decisions.
    pub host: NativeHost,
    /// The app.
    pub app: App,
    /// Its queues.
    pub broker: Broker,
    /// What calls its functions.
    pub functions: Functions,
    /// Which queue's messages go to which functions.
    pub triggers: Triggers,
    /// Where HTTP is answered, if it is.
    pub listener: Option<TcpListener>,
    /// The Workers that run beside it, if there are any, and their databases.
    pub workers: Option<(Started, Databases)>,
    /// How it behaves.
    pub options: Options,
}

/// How a server came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was told to stop.
    Stopped,
    /// A part of it failed, by a fault of ours. What was answered is kept.
    Failed,
}

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whom it lets in.
    pub access: Access,
    /// When messages are delivered; `None` if none are, nor schedules run.
    pub pace: Option<Pace>,
    /// Whether a POST runs its queue's functions before it is answered.
    pub immediate: bool,
    /// How often the tick runs, if it does.
    pub tick_every: Option<Duration>,
    /// How long calls that run may go on once the server is told to stop.
    pub grace: Duration,
    /// Whether a queue is made when something is sent to it that was not declared.
    pub creates_queues: bool,
    /// Whether every queue that nothing else handles can be pulled over HTTP.
    pub lets_pull: bool,
    /// Whether each call of a function is logged, and not only failed ones.
    pub tells_every_call: bool,
}

/// What everything that runs here shares.
#[derive(Debug)]
struct State {
    host: NativeHost,
    app: App,
    /// The queues, for who asks from outside.
    broker: Broker,
    /// The queues, for what the server does by itself.
    own: Broker,
    functions: Functions,
    triggers: Triggers,
    /// What the API goes by.
    api: Arc<Rules>,
    options: Options,
    recent: Recent,
    readiness: Readiness,
    /// How the connections that are pulled from stand.
    pulls: Standings,
    /// Who sends to which queue.
    senders: Places,
    /// Whose message is handled inline.
    inline: Places,
    delivering: Arc<Semaphore>,
    /// Room for the bodies of requests, in bytes.
    bodies: Arc<Semaphore>,
    /// Who looks at queues.
    looking: Semaphore,
    stopping: watch::Receiver<bool>,
}

type Shared = Arc<State>;

impl State {
    fn log(&self, level: Level, event: &'static str, fields: Vec<(&'static str, Value)>) {
        self.host.log(LogEntry { level, event, fields });
    }
}

impl Server {
    /// Runs until `stop` says so. Then nothing more is taken, what runs may end, and HTTP is answered until it has.
    pub async fn run(self, stop: impl Future<Output = &'static str>) -> Ended {
        let Self { host, app, broker, functions, triggers, listener, workers, options } = self;
        let (stopping_sender, stopping) = watch::channel(false);
        let (closing, closed) = watch::channel(false);
        let at = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let door = match options.access {
            Access::Machine { .. } => Door::Dev,
            Access::Token { .. } => Door::Serve,
        };
        let shared = Arc::new(State {
            api: Arc::new(Rules::new(door, &triggers)),
            own: broker.for_own_work(),
            host,
            app,
            broker,
            functions,
            triggers,
            options,
            recent: Recent::default(),
            readiness: Readiness::default(),
            pulls: Standings::default(),
            senders: Places::new(PRODUCERS_MAX),
            inline: Places::new(immediate::RUNS_MAX),
            delivering: Arc::new(Semaphore::new(DELIVERING_MAX)),
            bodies: Arc::new(Semaphore::new(body::HELD_BYTES_MAX)),
            looking: Semaphore::new(look::LOOKING_MAX),
            stopping: stopping.clone(),
        });
        let most = connections::most();
        shared.log(Level::Info, "server.started", started(&shared, at));
        let mut work = begin(&shared, &stopping);
        let mut workerd = workers.map(|(started, databases)| {
            work.spawn(workers::run(shared.clone(), started.handle(), stopping.clone()));
            // It runs until what it was given has ended.
            tokio::spawn(started.run(AskedByWorkers::new(&shared, databases), closed.clone()))
        });
        let http = listener.map(|listener| tokio::spawn(listen::run(listener, shared.clone(), most, closed)));
        let told = tokio::select! {
            why = stop => Some(why),
            _ = work.join_next() => None,
            () = ends(&mut workerd) => None,
        };
        let _ = stopping_sender.send(true);
        let ended = match told {
            Some(why) => {
                shared.log(Level::Info, "server.stopping", vec![("signal", why.into())]);
                Ended::Stopped
            }
            // A panic has said why on standard error. Half a server is none: whoever watches it is to start it anew.
            None => {
                shared.log(Level::Error, "server.failed", vec![("error", "a part of it ended early".into())]);
                Ended::Failed
            }
        };
        finish(&shared, work).await;
        let _ = closing.send(true);
        for part in [http, workerd].into_iter().flatten() {
            let _ = part.await;
        }
        shared.log(Level::Info, "server.stopped", vec![]);
        ended
    }
}

/// Until it ends, if it is there at all.
async fn ends(part: &mut Option<JoinHandle<()>>) {
    match part {
        Some(running) => {
            let _ = running.await;
            *part = None;
        }
        None => std::future::pending().await,
    }
}

/// Waits for what runs to end, and for deliveries that were begun; not much longer than the grace.
async fn finish(shared: &Shared, mut work: JoinSet<()>) {
    let all = async {
        while work.join_next().await.is_some() {}
        let places = u32::try_from(DELIVERING_MAX).unwrap_or(u32::MAX);
        let _ = shared.delivering.acquire_many(places).await;
    };
    if timeout(shared.options.grace + SETTLE_GRACE, all).await.is_err() {
        shared.log(Level::Warn, "server.cut_off", vec![("parts", work.len().into())]);
    }
}

/// Begins what runs beside HTTP.
fn begin(shared: &Shared, stopping: &watch::Receiver<bool>) -> JoinSet<()> {
    let mut work = JoinSet::new();
    work.spawn(until_stopped(shared.clone(), stopping.clone()));
    work.spawn(again::keep(shared.clone(), stopping.clone()));
    // Whatever a server is for: an operator's command leaves a redrive to whoever has the store.
    work.spawn(redrives::run(shared.clone(), stopping.clone()));
    if let Some(pace) = shared.options.pace {
        let lanes = drain::lanes(&shared.triggers);
        work.spawn(drain::run(shared.clone(), lanes, pace, stopping.clone()));
        pulling::begin(shared, stopping, &mut work);
        let schedules = Schedules::of(&shared.app.program);
        if schedules.names().next().is_some() {
            work.spawn(schedules::run(shared.clone(), schedules, stopping.clone()));
        }
    }
    if let Some(every) = shared.options.tick_every {
        work.spawn(ticks::run(shared.clone(), every, stopping.clone()));
    }
    work
}

/// Does to the queues what time does to them.
async fn until_stopped(shared: Shared, mut stopping: watch::Receiver<bool>) {
    tokio::select! {
        () = shared.own.keep_swept() => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
}

fn started(shared: &State, at: Option<SocketAddr>) -> Vec<(&'static str, Value)> {
    // In development what is waited for is the drain's tick; elsewhere what is due is delivered as it comes, and the
    // tick is that of deliveries and of what was parked.
    let tick = match (shared.options.pace, &shared.options.access) {
        (Some(Pace::Ticks(every)), _) => ("queue_tick_ms", json!(every.as_millis())),
        (_, Access::Machine { .. }) => ("immediate", shared.options.immediate.into()),
        _ => ("tick_s", json!(shared.options.tick_every.map(|every| every.as_secs_f32()))),
    };
    // Where there are only Workers there is no app.
    let app = Some(shared.app.program.app.as_str()).filter(|app| !app.is_empty());
    let app = app.map(|app| ("app", Value::from(app)));
    let rest = [
        ("url", at.map_or(Value::Null, |at| format!("http://{at}").into())),
        tick,
        ("process", std::process::id().into()),
    ];
    app.into_iter().chain(rest).collect()
}
