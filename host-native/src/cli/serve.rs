//! `jadpo serve`: a native deployable, until a signal ends it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::functions::Linked;
use crate::host::NativeHost;
use crate::server::Server;
use crate::store::{OpenError, OpenStore, StoreLock};
use jadpo_core::host::{Host, Level, LogEntry};
use jadpo_core::program::{Deployable, Platform, Program, Trigger};
use jadpo_core::start::App;
use jadpo_core::wrangler;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::load::{self, Load};
use super::output::{self, Exit};

/// Arguments of `jadpo serve`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The app file, or a program.json
    #[arg(default_value = "app.jadpo")]
    file: PathBuf,
    /// Which native deployable to run; may be left out if there is only one
    #[arg(long, value_name = "NAME")]
    deployable: Option<String>,
    /// Where HTTP is answered; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    /// The store's file
    #[arg(long, value_name = "FILE", default_value = ".jadpo/store.db")]
    store: PathBuf,
    /// Seconds between two ticks
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    tick: u64,
}

/// What keeps a server from starting: what happened, what to do, and the exit code.
struct Stop {
    what: String,
    help: Option<String>,
    exit: Exit,
}

/// Runs the server. Refusals come before anything is opened.
pub(crate) fn run(args: &Args, linked: &Linked) -> Exit {
    let program = match load::program(&args.file, args.deployable.as_deref(), false) {
        Load::Program(program) => *program,
        Load::Reported(exit) => return exit,
    };
    match start(args, program, linked) {
        Ok(()) => Exit::Done,
        Err(stop) => {
            output::error(&stop.what, stop.help.as_deref());
            stop.exit
        }
    }
}

fn start(args: &Args, program: Program, linked: &Linked) -> Result<(), Stop> {
    let (name, deployable) = choose(&program, args.deployable.as_deref())?;
    let lock = StoreLock::take(&args.store).map_err(store_stop)?;
    let store = OpenStore::create(&args.store).map_err(store_stop)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(format!("cannot start: {error}"), None))?;
    let host = NativeHost::new(store.handle());
    warn_of_what_is_missing(&host, &program, &name, &deployable, linked);
    let ended = runtime.block_on(serve(args, host, App::new(program), &deployable));
    // First the runtime, which holds handles of the store; then the store; then the right to it.
    drop(runtime);
    store.close();
    drop(lock);
    ended
}

async fn serve(args: &Args, host: NativeHost, app: App, deployable: &Deployable) -> Result<(), Stop> {
    let has = |trigger| deployable.triggers.contains(&trigger);
    let signals = Signals::new().map_err(|error| failed(format!("cannot listen for signals: {error}"), None))?;
    let listener = if has(Trigger::Http) {
        Some(TcpListener::bind(args.listen).await.map_err(|error| {
            let help = Some("name another address with --listen; port 0 takes a free one".to_owned());
            failed(format!("cannot listen on {}: {error}", args.listen), help)
        })?)
    } else {
        None
    };
    let tick_every = has(Trigger::Tick).then(|| Duration::from_secs(args.tick));
    Server { host, app, listener, tick_every }.run(signals.any()).await;
    Ok(())
}

/// The deployable to run: the one that was named, or the only native one.
fn choose(program: &Program, named: Option<&str>) -> Result<(String, Deployable), Stop> {
    let native: Vec<&str> = program
        .deployables
        .iter()
        .filter(|(_, deployable)| deployable.target == Platform::Native)
        .map(|(name, _)| name.as_str())
        .collect();
    let known = match native.as_slice() {
        [] => "the app has no native deployable; add one with `target: Target.native`".to_owned(),
        names => format!("the app's native deployables: {}", names.join(", ")),
    };
    let name = match (named, native.as_slice()) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, []) => return Err(wrong(known, None)),
        (None, _) => return Err(wrong("which deployable? name it with --deployable".to_owned(), Some(known))),
    };
    let Some(deployable) = program.deployables.get(name) else {
        return Err(wrong(format!("the app has no deployable `{name}`"), Some(known)));
    };
    if deployable.target != Platform::Native {
        let what = format!("the deployable `{name}` runs on Workers, not here");
        let help = format!("build it with `jadpo build --deployable {name}` and deploy the folder; {known}");
        return Err(wrong(what, Some(help)));
    }
    Ok((name.to_owned(), deployable.clone()))
}

/// Deliveries that need these would only wait, so it is said at once.
fn warn_of_what_is_missing(host: &NativeHost, program: &Program, name: &str, deployable: &Deployable, linked: &Linked) {
    for variable in wrangler::environment(program, deployable) {
        if host.env(&variable).is_none() {
            let fields = vec![("deployable", name.into()), ("variable", variable.into())];
            host.log(LogEntry { level: Level::Warn, event: "env.missing", fields });
        }
    }
    for function in App::new(program.clone()).unlinked(|function| linked.has(function)) {
        let fields = vec![("deployable", name.into()), ("function", function.into())];
        host.log(LogEntry { level: Level::Warn, event: "function.not_linked", fields });
    }
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
            std::process::exit(Exit::Failed as i32);
        });
        name
    }
}

fn store_stop(error: OpenError) -> Stop {
    match &error {
        OpenError::InUse { .. } => {
            wrong(error.to_string(), Some("stop that one, or name another store with --store".to_owned()))
        }
        _ => failed(error.to_string(), Some("name another store with --store".to_owned())),
    }
}

fn wrong(what: String, help: Option<String>) -> Stop {
    Stop { what, help, exit: Exit::Wrong }
}

fn failed(what: String, help: Option<String>) -> Stop {
    Stop { what, help, exit: Exit::Failed }
}
