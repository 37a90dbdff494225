//! `cargo xtask torture`: the simulation of the whole, on all cores, for as long as there is time.

use crate::problem::{Problem, Result};
use crate::run::{self, Bar};
use crate::setup;
use crate::workspace::Workspace;
use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// Runs everything there is under a seeded scheduler that lets anything die at any step, and looks whether what must
/// hold does. Tells seeds that fail, and which fault met which step how often.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seeds to run.
    #[arg(long, default_value_t = 2_000, conflicts_with_all = ["seed", "minutes"])]
    seeds: u64,
    /// This seed alone.
    #[arg(long, conflicts_with = "minutes")]
    seed: Option<u64>,
    /// As many seeds as there is time for, in minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// A deliberate mistake that the runs are to find, as AckBeforeCommit; or LeftOut3, a statement that the broker forgets.
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Print one JSON object in place of the table.
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Report {
    seeds: u64,
    seconds: f64,
    turns: u64,
    failures: Vec<Failure>,
    faults: Vec<String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Failure {
    seed: u64,
    what: String,
}

#[derive(Deserialize)]
struct Step {
    step: String,
    done: u64,
    met: Vec<u64>,
}

/// Runs the command.
///
/// # Errors
/// When it does not build, or a seed failed.
pub(crate) fn command(ws: &Workspace, args: &Args) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (first, count, seconds) = match (args.seed, args.minutes) {
        (Some(seed), _) => (seed, 1, 0),
        (None, Some(minutes)) => (args.from, u64::MAX, minutes.saturating_mul(60)),
        (None, None) => (args.from, args.seeds, 0),
    };
    let mut cargo = setup::native_cargo(ws);
    cargo.args(["run", "--quiet", "--locked", "--profile", "torture", "--package", "jadpo-host-test"]);
    cargo.args(["--features", "torture", "--bin", "torture", "--"]);
    cargo.args([first, count, seconds, threads as u64].map(|number| number.to_string())).args(&args.variant);
    let bar = Bar::new();
    let mut report = None;
    let ran = run::lines(&mut cargo, |said| hear(said, &bar, args, &mut report));
    bar.hide();
    let Some(report) = report else { return ran.and(Err(Problem::new("the simulation ended without a report"))) };
    if args.json {
        anstream::println!("{report}");
    }
    let report = serde_json::from_value(report).map_err(|e| Problem::new(format!("the report cannot be read: {e}")))?;
    tell(&report, args)
}

fn hear(said: &Value, bar: &Bar, args: &Args, report: &mut Option<Value>) {
    let number = |name| said.get(name).and_then(Value::as_u64);
    if let (Some(done), Some(of)) = (number("done"), number("of")) {
        let of = if args.minutes.is_some() { done } else { of };
        bar.show(done, of, "seeds");
    }
    if let (Some(seed), Some(what)) = (number("failed"), said.get("what").and_then(Value::as_str)) {
        bar.hide();
        run::say(&format!("\x1b[31m✗\x1b[0m seed {seed}: {what}"));
    }
    if let Some(said) = said.get("report") {
        *report = Some(said.clone());
    }
}

fn tell(report: &Report, args: &Args) -> Result<()> {
    if !args.json {
        anstream::println!("{}", table(report));
    }
    let time = run::seconds(Duration::from_secs_f64(report.seconds));
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = report.seeds as f64 / report.seconds.max(0.001);
    run::say(&format!("{} seeds in {time}, {rate:.0} a second, {} steps", report.seeds, report.turns));
    let Some(Failure { seed, .. }) = report.failures.first() else { return Ok(()) };
    let variant = args.variant.as_ref().map(|name| format!(" --variant {name}")).unwrap_or_default();
    let seeds: Vec<String> = report.failures.iter().map(|failure| failure.seed.to_string()).collect();
    let what = report.failures.first().map(|failure| failure.what.as_str()).unwrap_or_default();
    Err(Problem::new(format!("seeds that failed: {}; seed {seed}: {what}", seeds.join(", "))).help(format!(
        "`cargo xtask torture --seed {seed}{variant}` runs it alone; one that found a mistake is kept in \
         host-test/seeds.txt"
    )))
}

/// Which fault met which step how often.
fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    let met = |index: usize| report.steps.iter().any(|step| step.met.get(index).is_some_and(|met| *met > 0));
    let columns: Vec<usize> = (0..report.faults.len()).filter(|index| met(*index)).collect();
    let name = |index: &usize| report.faults.get(*index).cloned().unwrap_or_default();
    table.set_header(["step", "done"].map(str::to_owned).into_iter().chain(columns.iter().map(name)));
    for Step { step, done, met } in report.steps.iter().filter(|step| step.done > 0) {
        let cell = |index: &usize| match met.get(*index) {
            None | Some(0) => String::new(),
            Some(met) => met.to_string(),
        };
        table.add_row([step.clone(), done.to_string()].into_iter().chain(columns.iter().map(cell)));
    }
    for index in 1..columns.len() + 2 {
        if let Some(values) = table.column_mut(index) {
            values.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
