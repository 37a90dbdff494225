//! What `jadpo dev` and `jadpo serve` share: the store, the address, signals, and a server until one comes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jadpo_core::admin::queues::{Mode, Serving};
use jadpo_core::host::{Host, Level, LogEntry};
use jadpo_core::program::Program;
use jadpo_core::push::served;
use jadpo_core::start::App;
use jadpo_core::trigger::Triggers;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use super::output::{self, Exit};
use super::workers::{self, Running};
use crate::api::PREFIX;
use crate::broker::Broker;
use crate::d1::Databases;
use crate::functions::{self, Functions, Linked};
use crate::host::{NativeHost, now_ms};
use crate::http::Client;
use crate::log;
use crate::server::{Access, Ended, Options, Report, Server, declare, declare_workers, let_pull, report, secrets};
use crate::store::{Durability, OpenError, OpenStore, StoreLock};
use crate::workerd::{self, Failure, Prepared, Started, Workerd};

/// What keeps a server from starting: what happened, what to do, and the exit code.
pub(super) struct Stop {
    what: String,
    help: Option<String>,
    exit: Exit,
}

impl Stop {
    /// The input or the usage is wrong.
    pub(super) fn wrong(what: impl Into<String>, help: Option<String>) -> Self {
        Self { what: what.into(), help, exit: Exit::Wrong }
    }

    /// It was asked rightly and cannot be done.
    pub(super) fn failed(what: impl Into<String>, help: Option<String>) -> Self {
        Self { what: what.into(), help, exit: Exit::Failed }
    }

    /// Says it.
    pub(super) fn said(self) -> Exit {
        output::error(&self.what, self.help.as_deref());
        self.exit
    }
}

/// A server to be run.
pub(super) struct Plan<'a> {
    pub(super) program: Program,
    pub(super) triggers: Triggers,
    /// Where the app file is: there its programs are run.
    pub(super) folder: PathBuf,
    pub(super) store: &'a Path,
    pub(super) durability: Durability,
    /// Where HTTP is answered, if it is.
    pub(super) listen: Option<SocketAddr>,
    pub(super) linked: &'a Linked,
    /// Whether every queue that nothing else handles can be pulled over HTTP.
    pub(super) lets_pull: bool,
    /// The Workers that run beside it, if there are any.
    pub(super) workers: Option<workerd::Options>,
    /// Whether the migrations of their databases are applied first.
    pub(super) migrates: bool,
}

/// How long a store is waited for that another process has, and how often it is looked.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);
const LOCK_LOOK_EVERY: Duration = Duration::from_millis(50);

/// The folder that a file is in.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Runs a server until a signal ends it. `announce` tells what it will do, when it can: the address is taken and the
/// queues are there.
pub(super) fn run(
    mut plan: Plan<'_>,
    options: impl FnOnce(Option<SocketAddr>) -> Options,
    announce: impl FnOnce(&NativeHost, &Report, Option<SocketAddr>, &[Running]),
) -> Result<(), Stop> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Stop::failed(format!("cannot start: {error}"), None))?;
    let signals = {
        let _within = runtime.enter();
        Signals::new().map_err(|error| Stop::failed(format!("cannot listen for signals: {error}"), None))?
    };
    let mut stop = Box::pin(signals.any());
    // What is wrong with a Worker is told before anything is opened.
    let workers = match plan.workers.take() {
        Some(workers) => {
            let prepared = runtime.block_on(async {
                tokio::select! {
                    prepared = Prepared::new(workers) => Some(prepared),
                    // A build may take long, and what it has begun ends with it.
                    _ = &mut stop => None,
                }
            });
            let Some(prepared) = prepared else { return Ok(()) };
            Some(prepared.map_err(worker_stop)?)
        }
        None => None,
    };
    let lock = locked(plan.store).map_err(store_stop)?;
    let store = OpenStore::create_with(plan.store, plan.durability).map_err(store_stop)?;
    let ended = runtime.block_on(serve(plan, workers, &store, stop, options, announce));
    // First the runtime, which holds handles of the store; then the store; then the right to it.
    drop(runtime);
    store.close();
    drop(lock);
    ended
}

/// The right to the store. Whoever had it may have been killed a moment ago, and the system is not done with it yet: so
/// it is waited for a little, and said.
fn locked(store: &Path) -> Result<StoreLock, OpenError> {
    let started = Instant::now();
    let mut is_told = false;
    loop {
        match StoreLock::take(store) {
            Err(error @ OpenError::InUse { .. }) if started.elapsed() < LOCK_WAIT_MAX => {
                if !is_told {
                    let fields = vec![
                        ("why", error.to_string().into()),
                        ("wait_ms", LOCK_WAIT_MAX.as_millis().to_string().into()),
                    ];
                    log::write(&LogEntry { level: Level::Warn, event: "store.in_use", fields });
                    is_told = true;
                }
                std::thread::sleep(LOCK_LOOK_EVERY);
            }
            taken => return taken,
        }
    }
}

async fn serve(
    plan: Plan<'_>,
    workers: Option<Prepared>,
    store: &OpenStore,
    mut stop: Stopping,
    options: impl FnOnce(Option<SocketAddr>) -> Options,
    announce: impl FnOnce(&NativeHost, &Report, Option<SocketAddr>, &[Running]),
) -> Result<(), Stop> {
    let Plan { program, triggers, folder, listen, linked, lets_pull, migrates, .. } = plan;
    let listener = match listen {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let at = listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let host = NativeHost::new(store.handle()).with_linked(linked.clone());
    let unusable = |error| Stop::failed(format!("the queues cannot be used: {error}"), None);
    let broker = Broker::open(store.handle()).await.map_err(unusable)?;
    declare(&broker, &triggers).await.map_err(|error| {
        let help = "change the app file, or the store's queues with `jadpo queues`".to_owned();
        Stop::failed(format!("the declared queues cannot be made: {error}"), Some(help))
    })?;
    let workers = match workers {
        Some(prepared) => tokio::select! {
            begun = begin(prepared, &broker, &triggers, migrates) => Some(begun?),
            // Whoever does not want to wait for it need not.
            _ = &mut stop => return Ok(()),
        },
        None => None,
    };
    if lets_pull {
        let of_here = workers.as_ref().map(|(started, _)| started.workers()).unwrap_or_default();
        let_pull(&broker, &triggers, &of_here).await.map_err(unusable)?;
    }
    let told = report(&program, &triggers, &broker, linked, |name| host.env(name)).await.map_err(unusable)?;
    let running = workers.as_ref().map(|(started, _)| Running::of(started)).unwrap_or_default();
    announce(&host, &told, at, &running);
    let functions = Functions::new(Client::new(), linked.clone(), folder, broker.clone(), secrets(&program));
    let options = options(at);
    let mode = match options.access {
        Access::Machine { .. } => Mode::Dev,
        Access::Token { .. } => Mode::Serve,
    };
    let serving = Serving::new(program.clone(), mode, at.map(|at| format!("http://{at}")), now_ms());
    let here = workers.as_ref().map(|(started, _)| served(&started.workers())).unwrap_or_default();
    let serving = serving.with_workers(here);
    broker.set_serving(&serving).await.map_err(unusable)?;
    let app = App::new(program);
    let runs = workers.as_ref().map(|(started, _)| started.handle());
    let server = Server { host, app, broker, functions, triggers, listener, workers, options };
    match server.run(stopping(stop, runs)).await {
        Ended::Stopped => Ok(()),
        Ended::Failed => {
            let help = "what was answered is kept; start it again, and tell of the panic that it has logged".to_owned();
            Err(Stop::failed("a part of the server failed, by a fault of its own", Some(help)))
        }
    }
}

/// What is amiss, as lines of the log.
pub(super) fn log_concerns(host: &NativeHost, report: &Report) {
    for concern in &report.concerns {
        let (event, fields) = concern.logged();
        host.log(LogEntry { level: Level::Warn, event, fields });
    }
}

/// Where the Queues API is, as a line of the log.
pub(super) fn log_api(host: &NativeHost, report: &Report, at: Option<SocketAddr>, is_dev: bool) {
    let Some(at) = at else { return };
    let mut fields =
        vec![("url", format!("http://{at}{PREFIX}").into()), ("account", report.api.account.as_str().into())];
    if is_dev {
        fields.push(("token", report.api.dev_token.as_str().into()));
    }
    host.log(LogEntry { level: Level::Info, event: "api.ready", fields });
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Stop> {
    let error = match TcpListener::bind(address).await {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    if error.kind() != std::io::ErrorKind::AddrInUse {
        let help = "name another address with --listen; port 0 takes a free one".to_owned();
        return Err(Stop::failed(format!("cannot listen on {address}: {error}"), Some(help)));
    }
    let port = address.port();
    let (who, advice) = if answers_as_jadpo(address).await {
        ("another jadpo answers there", "stop that one".to_owned())
    } else {
        ("another program listens there", format!("`ss -ltnp 'sport = :{port}'` tells which; stop it"))
    };
    let help = format!("{advice}, or name another address: --listen {}:{}", address.ip(), port.saturating_add(1));
    Err(Stop::failed(format!("cannot listen on {address}: {who}"), Some(help)))
}

/// Whether whoever listens there answers as a server of ours does.
async fn answers_as_jadpo(address: SocketAddr) -> bool {
    let asking = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await.ok()?;
        let mut answer = Vec::new();
        stream.take(1_000).read_to_end(&mut answer).await.ok()?;
        Some(answer.ends_with(b"\r\n\r\nok\n"))
    };
    matches!(tokio::time::timeout(Duration::from_millis(500), asking).await, Ok(Some(true)))
}

/// Until a signal comes; its name.
type Stopping = Pin<Box<dyn Future<Output = &'static str>>>;

/// How soon after the first signal it is said what is waited for.
const WAITS_SAID_AFTER: Duration = Duration::from_millis(300);

/// Until a signal comes. Then whoever sent it is told what is still waited for, and that the next one ends it.
async fn stopping(stop: Stopping, runs: Option<Workerd>) -> &'static str {
    let signal = stop.await;
    if let Some(workerd) = runs {
        tokio::spawn(async move {
            sleep(WAITS_SAID_AFTER).await;
            let runs = workerd.runs();
            if !runs.is_empty() {
                let why = "Ctrl-C again, or a second signal, ends it at once; what runs is then tried again";
                let fields = vec![("waits_for", runs.join(", ").into()), ("why", why.into())];
                log::write(&LogEntry { level: Level::Info, event: "server.waiting", fields });
            }
        });
    }
    signal
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the first one. The next ends the process at once, for who does not want to wait.
    async fn any(mut self) -> &'static str {
        let name = tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        };
        tokio::spawn(async move {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
            }
            // They have groups of their own, which no signal of a terminal reaches.
            functions::kill_all();
            std::process::exit(Exit::Failed as i32);
        });
        name
    }
}

/// Declares the Workers' queues and starts them: what is refused by the one is told before anything runs.
async fn begin(
    prepared: Prepared,
    broker: &Broker,
    triggers: &Triggers,
    migrates: bool,
) -> Result<(Started, Databases), Stop> {
    let all = Arc::new(prepared.workers());
    declare_workers(broker, &all, &Arc::new(triggers.clone())).await.map_err(|error| {
        let help = "change the Wrangler file, or the store's queues with `jadpo queues`".to_owned();
        Stop::wrong(format!("the Workers' queues cannot be made: {error}"), Some(help))
    })?;
    let databases = Databases::new(prepared.databases());
    workers::migrate(&databases, &prepared, migrates).await?;
    let started = prepared.start().await.map_err(worker_stop)?;
    Ok((started, databases))
}

fn worker_stop(failure: Failure) -> Stop {
    let Failure { what, help, is_input } = failure;
    if is_input { Stop::wrong(what, help) } else { Stop::failed(what, help) }
}

fn store_stop(error: OpenError) -> Stop {
    match &error {
        OpenError::InUse { .. } => {
            let what = format!("{error}, and was still after {} s", LOCK_WAIT_MAX.as_secs());
            Stop::wrong(what, Some("stop that one, or name another store with --store".to_owned()))
        }
        OpenError::Foreign { .. } => Stop::wrong(
            error.to_string(),
            Some("name another file with --store; it is made if it is not there".to_owned()),
        ),
        _ => Stop::failed(error.to_string(), Some("name another store with --store".to_owned())),
    }
}
