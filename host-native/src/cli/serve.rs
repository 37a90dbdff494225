//! `jadpo serve`: a native deployable, until a signal ends it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use jadpo_core::admin::TOKEN_BYTES_MIN;
use jadpo_core::bindings::{ADMIN_TOKEN, ENQUEUE_TOKEN};
use jadpo_core::host::{Host, Level, LogEntry};
use jadpo_core::program::{Deployable, Platform, Program, Trigger};
use jadpo_core::trigger::Triggers;

use super::load::{self, Load};
use super::output::Exit;
use super::place;
use super::running::{self, Plan, Stop};
use super::workers::{self, WorkerArgs};
use crate::functions::Linked;
use crate::server::{Access, Options, Pace};
use crate::store::Durability;

/// Arguments of `jadpo serve`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The app file, a project.toml or a program.json; app.jadpo if nothing says otherwise. With a Worker it may be left
    /// out, and then nothing but that is run
    #[arg(env = "JADPO_FILE")]
    file: Option<PathBuf>,
    /// Which native deployable to run; may be left out if there is only one
    #[arg(long, value_name = "NAME", env = "JADPO_DEPLOYABLE")]
    deployable: Option<String>,
    /// Where HTTP is answered; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878", env = "JADPO_LISTEN")]
    listen: SocketAddr,
    /// The store's file
    #[arg(long, value_name = "FILE", default_value = ".jadpo/queues.db", env = "JADPO_STORE")]
    store: PathBuf,
    /// Seconds between two ticks
    #[arg(long, value_name = "SECONDS", default_value_t = 10, env = "JADPO_TICK",
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    tick: u64,
    /// Seconds for which calls that run may go on once it is told to stop
    #[arg(long, value_name = "SECONDS", default_value_t = 10, env = "JADPO_GRACE",
        value_parser = clap::value_parser!(u64).range(0..=3600))]
    grace: u64,
    /// What an answer promises: that it is on disk, or only that it will be soon
    #[arg(long, value_name = "HOW", default_value = "full", env = "JADPO_DURABILITY")]
    durability: Promise,
    #[command(flatten)]
    workers: WorkerArgs,
    /// A secret of the Workers whose value is in the environment, under this name; may be given again. No file of
    /// development, such as .dev.vars, is read
    #[arg(long = "secret", value_name = "NAME", requires = "paths")]
    secrets: Vec<String>,
}

/// What is true when a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Promise {
    /// It is on disk, and outlasts a loss of power
    Full,
    /// It outlasts the end of the process; a loss of power may take the last moments
    Relaxed,
}

/// Runs the server. Refusals come before anything is opened.
pub(crate) fn run(args: &Args, linked: &Linked) -> Exit {
    let named = match args.workers.app_file(args.file.as_deref(), "serve") {
        Ok(named) => named,
        Err(stop) => return stop.said(),
    };
    let started = match named {
        None => start(args, Path::new(""), place::nothing_declared(), linked),
        Some(file) => match load::program(&file, args.deployable.as_deref(), false) {
            Load::Program(program) => start(args, &file, *program, linked),
            Load::Reported(exit) => return exit,
        },
    };
    started.map_or_else(Stop::said, |()| Exit::Done)
}

fn start(args: &Args, file: &Path, program: Program, linked: &Linked) -> Result<(), Stop> {
    let triggers = triggers(args, &program)?;
    let has = |trigger| triggers.contains(&trigger);
    let enqueue = token(ENQUEUE_TOKEN)?;
    let enqueue_is_off = enqueue.is_none() && has(Trigger::Http);
    let admin = token(ADMIN_TOKEN)?;
    let options = |_| Options {
        access: Access::Token { enqueue, admin },
        pace: (has(Trigger::Tick) || has(Trigger::Subscribers)).then_some(Pace::AsItArrives),
        immediate: false,
        tick_every: has(Trigger::Tick).then(|| Duration::from_secs(args.tick)),
        grace: Duration::from_secs(args.grace),
        creates_queues: false,
        lets_pull: false,
        tells_every_call: false,
    };
    let plan = Plan {
        triggers: Triggers::of(&program),
        program,
        folder: running::folder_of(file),
        store: &args.store,
        durability: match args.durability {
            Promise::Full => Durability::Full,
            Promise::Relaxed => Durability::Relaxed,
        },
        listen: has(Trigger::Http).then_some(args.listen),
        linked,
        lets_pull: false,
        migrates: args.workers.migrate,
        workers: args.workers.options(&args.store, (false, false), &args.secrets, Vec::new()),
    };
    running::run(plan, options, |host, report, at, workers| {
        workers::tell(host, workers);
        running::log_concerns(host, report);
        running::log_api(host, report, at, false);
        if enqueue_is_off {
            let fields = vec![("variable", ENQUEUE_TOKEN.into())];
            host.log(LogEntry { level: Level::Warn, event: "enqueue.off", fields });
        }
    })
}

/// What the server is for: what its deployable says, and everything where there are only Workers.
fn triggers(args: &Args, program: &Program) -> Result<Vec<Trigger>, Stop> {
    if args.file.is_none() && args.workers.is_given() {
        return Ok(vec![Trigger::Http, Trigger::Tick, Trigger::Subscribers]);
    }
    Ok(choose(program, args.deployable.as_deref())?.triggers.into_iter().collect())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A token of the environment. One that is too short is a mistake that is told at once, and not by doors that stay shut.
fn token(name: &str) -> Result<Option<String>, Stop> {
    match variable(name) {
        Some(token) if token.len() < TOKEN_BYTES_MIN => {
            let what = format!("{name} has {} bytes, and a token has at least {TOKEN_BYTES_MIN}", token.len());
            Err(Stop::wrong(what, Some("make one with `openssl rand -hex 32`".to_owned())))
        }
        token => Ok(token),
    }
}

/// The deployable to run: the one that was named, or the only native one.
fn choose(program: &Program, named: Option<&str>) -> Result<Deployable, Stop> {
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
        (None, []) => return Err(Stop::wrong(known, None)),
        (None, _) => return Err(Stop::wrong("which deployable? name it with --deployable".to_owned(), Some(known))),
    };
    let Some(deployable) = program.deployables.get(name) else {
        return Err(Stop::wrong(format!("the app has no deployable `{name}`"), Some(known)));
    };
    if deployable.target != Platform::Native {
        let what = format!("the deployable `{name}` runs on Workers, not here");
        let help = format!("build it with `jadpo build --deployable {name}` and deploy the folder; {known}");
        return Err(Stop::wrong(what, Some(help)));
    }
    Ok(deployable.clone())
}
