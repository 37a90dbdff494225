//! `jadpo dev`: everything that is declared, on this machine, until a signal ends it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, ValueEnum};
use jadpo_core::app::project::DevSettings;
use jadpo_core::program::Program;
use jadpo_core::trigger::Triggers;

use super::deployable::{Built, DeployableArgs};
use super::load;
use super::output::{self, Exit};
use super::place;
use super::running::{self, Plan};
use super::words::count;
use super::workers::{self, Running, WorkerArgs};
use crate::api::PREFIX;
use crate::broker::ApiPlace;
use crate::functions::Linked;
use crate::log;
use crate::server::{Access, Handler, Options, Pace, Report};
use crate::store::Durability;

/// Arguments of `jadpo dev`.
#[derive(clap::Args)]
#[command(group = ArgGroup::new("a_worker").args(["paths", "names"]).multiple(true))]
pub(crate) struct Args {
    /// The app file, a project.toml, or the folder that holds one of them; app.jadpo if nothing says otherwise. With a
    /// Worker it may be left out, and then nothing but that is run
    file: Option<PathBuf>,
    /// Where HTTP is answered; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    /// The store's file
    #[arg(long, value_name = "FILE", default_value = ".jadpo/queues.db")]
    store: PathBuf,
    /// Whether a POST is kept for the next tick, or runs the functions and answers every attempt's outcome
    #[arg(long, value_name = "HOW")]
    queues: Option<Queues>,
    /// Milliseconds between two drain ticks, 10000 if nothing says otherwise
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    tick_ms: Option<u64>,
    /// Milliseconds for which a failed message stays hidden, for every queue
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=43_200_000))]
    visibility_ms: Option<u32>,
    /// Make a queue when something is sent to one that is not declared
    #[arg(long)]
    create_queues: bool,
    /// A name by which this machine may be asked, beside localhost; may be given again. Any other is refused, since a
    /// page in a browser could come by it
    #[arg(long, value_name = "NAME", env = "JADPO_ALLOW_HOST", value_delimiter = ',', value_parser = host_name)]
    allow_host: Vec<String>,
    /// Let every queue be pulled over HTTP that nothing here handles
    #[arg(long)]
    http_pull: bool,
    /// Write the log as JSON lines, and nothing else
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deployables: DeployableArgs,
    #[command(flatten)]
    workers: WorkerArgs,
    /// Answer for a Worker that is bound as a service and is not given, and log what it is asked
    #[arg(long, requires = "a_worker")]
    stand_in: bool,
}

/// How messages get to functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Queues {
    /// Kept, and delivered at the next tick
    Async,
    /// Delivered before the POST is answered
    Immediate,
}

/// How often the drain ticks where nothing says otherwise.
const TICK_MS: u64 = 10_000;
/// How often due deliveries to subscribers are looked for.
const DELIVERIES_EVERY: Duration = Duration::from_secs(2);
/// How long calls that run may go on after Ctrl-C. A second one ends them at once.
const GRACE: Duration = Duration::from_secs(10);

/// Runs everything. Refusals come before anything is opened.
pub(crate) fn run(args: &Args, linked: &Linked) -> Exit {
    if args.deployables.is_given() {
        return run_deployables(args, linked);
    }
    let named = match args.workers.app_file(args.file.as_deref(), "dev") {
        Ok(named) => named,
        Err(stop) => return stop.said(),
    };
    let (file, program, settings) = match named {
        None => (PathBuf::new(), place::nothing_declared(), DevSettings::default()),
        Some(file) => match load::for_dev(&file, args.json) {
            Ok((program, settings)) => (file, program, settings),
            Err(exit) => return exit,
        },
    };
    if !args.json {
        log::for_people();
    }
    start(args, &file, program, settings, linked, None).map_or_else(running::Stop::said, |()| Exit::Done)
}

/// Runs deployables as Workers, and of the app itself nothing.
fn run_deployables(args: &Args, linked: &Linked) -> Exit {
    let file = args.file.as_deref().unwrap_or(Path::new("app.jadpo"));
    if !args.json {
        log::for_people();
    }
    let built = match args.deployables.build(file, args.json) {
        Ok(built) => built,
        Err(exit) => return exit,
    };
    let program = Program { app: built.app.clone(), ..place::nothing_declared() };
    let started = start(args, file, program, DevSettings::default(), linked, Some(&built));
    started.map_or_else(running::Stop::said, |()| Exit::Done)
}

/// A host's name as it is compared: without a port, in lower case.
fn host_name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
    if is_name {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("a name alone, as in `--allow-host box.lan`: no port, no http://".to_owned())
    }
}

/// What is said on the command line stands before what dev.toml says.
fn start(
    args: &Args,
    file: &Path,
    program: Program,
    settings: DevSettings,
    linked: &Linked,
    built: Option<&Built>,
) -> Result<(), running::Stop> {
    let mut triggers = Triggers::of(&program);
    if let Some(visibility_ms) = args.visibility_ms.or(settings.visibility_ms) {
        triggers = triggers.with_visibility_ms(visibility_ms);
    }
    let said = args.queues.map(|queues| queues == Queues::Immediate);
    let is_immediate = said.or(settings.immediate).unwrap_or(false);
    let tick = args.tick_ms.or(settings.tick_ms.map(u64::from));
    let tick = Duration::from_millis(tick.unwrap_or(TICK_MS));
    let options = |at: Option<SocketAddr>| Options {
        access: Access::Machine { listen: at.unwrap_or(args.listen), hosts: args.allow_host.clone() },
        pace: Some(if is_immediate { Pace::AsItArrives } else { Pace::Ticks(tick) }),
        immediate: is_immediate,
        tick_every: Some(DELIVERIES_EVERY),
        grace: GRACE,
        creates_queues: args.create_queues,
        lets_pull: args.http_pull,
        tells_every_call: true,
    };
    let app = program.app.clone();
    let has_app = args.file.is_some() && built.is_none();
    let (sources, secrets) = built.map_or((Vec::new(), &[][..]), |built| (built.sources.clone(), &built.secrets));
    let plan = Plan {
        program,
        triggers,
        folder: running::folder_of(file),
        store: &args.store,
        durability: Durability::Full,
        listen: Some(args.listen),
        linked,
        lets_pull: args.http_pull,
        migrates: args.workers.migrate || built.is_some_and(|built| built.migrates),
        workers: args.workers.options(&args.store, (true, args.stand_in), secrets, sources),
    };
    running::run(plan, options, |host, report, at, workers| {
        if args.json {
            running::log_concerns(host, report);
            running::log_api(host, report, at, true);
            workers::tell(host, workers);
        } else {
            let every = tick.as_secs_f64();
            let when = match (is_immediate, workers.is_empty(), has_app) {
                (true, ..) => "a POST runs the functions and answers every attempt".to_owned(),
                (_, true, _) => format!("what is due is delivered every {every} s"),
                (_, _, true) => format!("what is due is delivered every {every} s, and to Workers as it comes"),
                (_, _, false) => "what is due is delivered as it comes".to_owned(),
            };
            announce(&app, args, report, (at.unwrap_or(args.listen), &when), workers);
        }
    })
}

/// What runs, for the person who started it.
fn announce(app: &str, args: &Args, report: &Report, (at, when): (SocketAddr, &str), workers: &[Running]) {
    let app = if app.is_empty() { String::new() } else { format!("app `{app}`, ") };
    output::line(&format!("{BOLD}jadpo dev{RESET}: {app}store {}", args.store.display()));
    workers::announce(workers);
    for queue in &report.queues {
        let who = match &queue.handler {
            Handler::Functions(functions) => {
                let functions: Vec<String> = functions.iter().map(|(name, how)| format!("{name} ({how})")).collect();
                let window = Duration::from_millis(queue.visibility_ms.into()).as_secs_f64();
                let apart = if queue.attempts > 1 { format!(", {window} s apart") } else { String::new() };
                format!("to {}; {}{apart}", functions.join(", "), count(queue.attempts.into(), "attempt"))
            }
            Handler::Event(event) => format!("becomes {event}"),
            Handler::Pulled => "pulled over HTTP".to_owned(),
            Handler::Worker(script) if workers.iter().any(|running| running.worker.name == *script) => {
                format!("to the Worker {script}")
            }
            Handler::Worker(script) => format!("to the Worker {script}, which does not run here"),
            Handler::Nobody => "kept; nothing handles it".to_owned(),
        };
        output::line(&format!("  queue    {BOLD}http://{at}/_queues/{}{RESET}  {who}", queue.name));
    }
    for source in &report.sources {
        let (host, queue, event) = (source.host(), source.queue_name(), &source.event);
        output::line(&format!("  pulls    {BOLD}{host}{RESET} queue {queue}  becomes {event}"));
    }
    for (webhook, queue) in &report.webhooks {
        output::line(&format!("  webhook  {BOLD}http://{at}/_webhooks/{webhook}{RESET}  to queue {queue}"));
    }
    announce_api(report, at);
    output::line(&format!("  health   http://{at}/healthz"));
    output::line(&format!("  {when}; Ctrl-C ends it"));
    if !args.allow_host.is_empty() {
        output::line(&format!("  it may be asked as {} too", args.allow_host.join(", ")));
    }
    if !at.ip().is_loopback() {
        let by_name = if args.allow_host.is_empty() { "; by a name only with --allow-host NAME" } else { "" };
        output::line(&format!(
            "  {YELLOW}note{RESET}: it listens beyond this machine, and whoever reaches it may send{by_name}"
        ));
    }
    for concern in &report.concerns {
        output::line(&format!("  {YELLOW}note{RESET}: {}", concern.in_words()));
    }
}

/// The Queues API: where it is, and a request to try it with.
fn announce_api(report: &Report, at: SocketAddr) {
    let ApiPlace { account, dev_token } = &report.api;
    output::line(&format!("  api      {BOLD}http://{at}{PREFIX}{RESET}  account {account}, token {dev_token}"));
    match report.pulled.first() {
        Some((queue, id)) => {
            output::line(&format!("           try it with the queue {queue}:"));
            output::line(&format!(
                "           curl http://{at}{PREFIX}/accounts/{account}/queues/{id}/messages/pull \\\n             \
                 -H 'Authorization: Bearer {dev_token}' --json '{{\"batch_size\": 2}}'"
            ));
        }
        None => output::line("           `jadpo queues pull NAME` lets a queue be pulled there"),
    }
}

const BOLD: &str = "\u{1b}[1m";
const YELLOW: &str = "\u{1b}[33m";
const RESET: &str = "\u{1b}[0m";
