//! `cargo xtask demo`: an app run by `jadpo dev`, messages sent to it, and what became of each.

mod report;

use crate::build;
use crate::problem::{Problem, Result};
use crate::run;
use crate::setup::{self, Tools};
use crate::workspace::Workspace;
use report::Report;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) const SAMPLE_APP: &str = "host-test/apps/warehouse/app.jadpo";
const SAMPLE_MESSAGES: &str = "host-test/apps/warehouse/messages.ndjson";

/// Runs an app by `jadpo dev`, with its queues and D1 on this disk, sends it messages, and shows what became of each.
///
/// Without options it runs the warehouse app with a sample in which everything happens that can happen to a message.
#[derive(clap::Args)]
#[command(after_help = "A line of the messages' file is {\"queue\": …, \"content_type\": \"json|text|bytes|v8\", \
    \"body\": …}, or \"body_base64\" in place of \"body\". Subscribers that listen on this machine are called; others \
    are stood in for and answer 200. Waits between attempts are not waited for: time is played forward. With --json \
    the last line of the output is one object.")]
pub(crate) struct Args {
    /// The app file.
    #[arg(long, value_name = "PATH")]
    app: Option<PathBuf>,
    /// Messages to send, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    messages: Option<PathBuf>,
    /// Which of the app's deployables; the first one for Workers if not said.
    #[arg(long, value_name = "NAME")]
    deployable: Option<String>,
    /// A Worker with functions of your own linked in, as `jadpo build` takes it.
    #[arg(long, value_name = "DIR")]
    worker: Option<PathBuf>,
    /// Print one JSON object at the end in place of tables.
    #[arg(long)]
    json: bool,
    /// Keep the Worker up afterwards, and say at which addresses, until Ctrl-C.
    #[arg(long)]
    serve: bool,
    /// Seconds that messages, and then deliveries, may take before the demo gives up.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=3600))]
    limit: u32,
}

/// Runs the command.
///
/// # Errors
/// When something is missing and cannot be got, the app or the messages are wrong, or the app was not done in time.
pub(crate) fn command(ws: &Workspace, args: &Args) -> Result<()> {
    let sample = args.app.is_none() && args.messages.is_none();
    let app = given_or(args.app.as_deref(), ws, SAMPLE_APP)?;
    let messages = match (&args.messages, sample) {
        (Some(path), _) => Some(existing(path)?),
        (None, true) => Some(ws.path(SAMPLE_MESSAGES)),
        (None, false) if args.serve => None,
        (None, false) => {
            return Err(Problem::usage("an app of your own needs messages of its own")
                .help("add --messages FILE.ndjson, or --serve to send them yourself"));
        }
    };
    let tools = setup::ready(ws)?;
    let choice = Choice { deployable: args.deployable.as_deref(), worker: args.worker.as_deref() };
    let built = Built::from_app(ws, &tools, &app, &choice)?;
    let mut node = tools.node(ws);
    node.arg(ws.path("host-native/e2e/demo/main.mjs")).arg("--folder").arg(built.folder());
    node.arg("--deployable").arg(&built.deployable).arg("--limit-s").arg(args.limit.to_string());
    node.env("JADPO_BIN", &built.jadpo);
    if let Some(worker) = &args.worker {
        let worker =
            std::path::absolute(worker).map_err(|e| Problem::io(format!("finding {}", worker.display()), &e))?;
        node.arg("--own-worker").arg(worker);
    }
    if let Some(messages) = messages {
        node.arg("--messages").arg(messages);
    }
    for (given, flag) in [(sample, "--sample"), (args.serve, "--serve")] {
        if given {
            node.arg(flag);
        }
    }
    watch(node, args)
}

/// Which deployable, and with which Worker.
#[derive(Default)]
pub(crate) struct Choice<'a> {
    deployable: Option<&'a str>,
    worker: Option<&'a Path>,
}

/// A deployable's folder that goes when it is no longer needed.
pub(crate) struct Built {
    out: PathBuf,
    folder: PathBuf,
    /// Its name.
    deployable: String,
    /// What has built it.
    jadpo: PathBuf,
}

impl Built {
    /// Builds the Worker and `jadpo`, and has that write the deployable's folder.
    ///
    /// # Errors
    /// When something does not build, or the app has a problem or no such deployable for Workers.
    pub(crate) fn from_app(ws: &Workspace, tools: &Tools, app: &Path, choice: &Choice<'_>) -> Result<Self> {
        build::worker::build(ws, tools)?;
        let jadpo = build::debug_binary(ws, tools)?;
        let out = std::env::temp_dir().join(format!("jadpo-demo-{}", std::process::id()));
        let mut built = Self { out, folder: PathBuf::new(), deployable: String::new(), jadpo };
        (built.folder, built.deployable) = built.write(app, choice)?;
        Ok(built)
    }

    /// The deployable's folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Has the folder written, and gives it with the deployable's name.
    fn write(&self, app: &Path, choice: &Choice<'_>) -> Result<(PathBuf, String)> {
        let jadpo = &self.jadpo;
        let mut command = run::command(jadpo);
        command.arg("build").arg(app).arg("--json").arg("--out").arg(&self.out);
        if let Some(name) = choice.deployable {
            command.arg("--deployable").arg(name);
        }
        if let Some(worker) = choice.worker {
            command.arg("--worker").arg(worker);
        }
        let output = command.stderr(Stdio::inherit()).output();
        let output = output.map_err(|e| Problem::io(format!("starting {}", jadpo.display()), &e))?;
        let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if !output.status.success() {
            return Err(build_problem(jadpo, app, &said));
        }
        let workers = |d: &&Value| d.get("target").and_then(Value::as_str) == Some("workers");
        let built = said.get("deployables").and_then(Value::as_array).into_iter().flatten().find(workers);
        let text = |d: &Value, key| d.get(key).and_then(Value::as_str).map(str::to_owned);
        let built = built.and_then(|d| Some((PathBuf::from(text(d, "folder")?), text(d, "name")?)));
        built.ok_or_else(|| {
            Problem::usage(format!("{} has no deployable for Workers that was asked for", app.display()))
                .help("add one: edge: { target: Target.workers, triggers: [Trigger.subscribers, Trigger.tick] }")
        })
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        // Only what this run wrote; a folder that cannot be removed is no reason to fail.
        let _ = std::fs::remove_dir_all(&self.out);
    }
}

/// What kept an app from being built: its problems as `jadpo check` shows them, or what `jadpo build` said.
fn build_problem(jadpo: &Path, app: &Path, said: &Value) -> Problem {
    let text = |key| said.get(key).and_then(Value::as_str);
    if let Some(error) = text("error") {
        return Problem::usage(error).help(text("help").unwrap_or("mend the app and run this again"));
    }
    let problems = said.get("problems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if let [only] = problems
        && only.get("line").is_none()
    {
        let text = |key| only.get(key).and_then(Value::as_str);
        return Problem::usage(text("message").unwrap_or("the app was not built"))
            .help(text("help").unwrap_or_default());
    }
    let _ = run::through(run::command(jadpo).arg("check").arg(app));
    Problem::usage(format!("{} was not built", app.display())).help("mend what is said above and run this again")
}

/// Runs the demo's process and shows what it says.
fn watch(mut node: Command, args: &Args) -> Result<()> {
    let mut outcome = None;
    let progress = run::Bar::new();
    let ended = run::lines(&mut node, |said| {
        if let Some(now) = said.get("progress") {
            let number = |key| now.get(key).and_then(Value::as_u64).unwrap_or_default();
            progress.show(number("settled"), number("of"), "messages settled");
            return;
        }
        progress.hide();
        if let Some(text) = said.get("say").and_then(Value::as_str) {
            run::say(&format!("- {text}"));
        } else if let Some(report) = said.get("report") {
            outcome = Some(show(report, args));
        } else if let Some(serving) = said.get("serving") {
            report::show_serving(serving, args.json);
        } else if let Some(what) = said.get("problem").and_then(Value::as_str) {
            outcome = Some(Err(problem(what, said)));
        }
    });
    match outcome {
        Some(Err(problem)) => Err(problem),
        Some(Ok(())) => ended,
        None => ended.and(Err(Problem::new("the demo ended without a report").help("look at what it said above"))),
    }
}

fn show(report: &Value, args: &Args) -> Result<()> {
    let parsed: Report = serde_json::from_value(report.clone())
        .map_err(|e| Problem::new(format!("the demo's report cannot be read: {e}")))?;
    if args.json {
        anstream::println!("{report}");
    } else {
        report::show(&parsed);
    }
    if parsed.idle {
        return Ok(());
    }
    for line in &parsed.trouble {
        anstream::eprintln!("  | {line}");
    }
    Err(Problem::new(format!("the app was not done within {} s", args.limit))
        .help("the Worker's own words are above; --limit gives it more time"))
}

fn problem(what: &str, said: &Value) -> Problem {
    let usage = said.get("exit").and_then(Value::as_u64) == Some(2);
    let problem = if usage { Problem::usage(what) } else { Problem::new(what) };
    problem.help(said.get("help").and_then(Value::as_str).unwrap_or("look at what was said above"))
}

/// The file that was given, else the sample's.
///
/// # Errors
/// When there is no such file.
pub(crate) fn given_or(given: Option<&Path>, ws: &Workspace, sample: &str) -> Result<PathBuf> {
    given.map_or_else(|| Ok(ws.path(sample)), existing)
}

fn existing(path: &Path) -> Result<PathBuf> {
    if path.is_file() {
        return std::path::absolute(path).map_err(|e| Problem::io(format!("finding {}", path.display()), &e));
    }
    Err(Problem::usage(format!("there is no file {}", path.display())).help("give the path of a file that exists"))
}
