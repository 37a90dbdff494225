//! `cargo xtask torture`: the simulation of the whole, on all cores, for as long as there is time.

use crate::problem::{Problem, Result};
use crate::run::{self, Bar};
use crate::setup;
use crate::workspace::Workspace;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Deserialize;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Lines that are told of what happened before a seed that runs alone failed.
const TRACE_OF_ONE: u64 = 20;
/// Columns of a table where there is no terminal.
const WIDTH: u16 = 120;

/// Runs everything there is under a seeded scheduler that lets anything die at any step, and looks whether what must
/// hold does. Tells seeds that fail, and which fault met which step how often.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seeds to run.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = ["seed", "minutes"])]
    seeds: u64,
    /// This seed alone.
    #[arg(long, conflicts_with_all = ["minutes", "from"])]
    seed: Option<u64>,
    /// As many seeds as there is time for, in minutes.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// A deliberate mistake that the runs are to find, as AckBeforeCommit, or LeftOut3, a statement that the broker
    /// forgets: 0 if a seed found it, 1 if it survived them all. See --variants.
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// List the deliberate mistakes, each with what is wrong then.
    #[arg(long, conflicts_with_all = ["variant", "seed", "minutes", "seeds", "from", "trace"])]
    variants: bool,
    /// What happened last before a failure, so many lines; 20 if not said for one seed alone, else none.
    #[arg(long, value_name = "LINES")]
    trace: Option<u64>,
    /// Print one JSON object in place of the table.
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Report {
    seeds: u64,
    seconds: f64,
    turns: u64,
    /// Whoever started it wanted no more before its end.
    #[serde(default)]
    cut_short: bool,
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
    if args.variants {
        return tell_variants(ws, args);
    }
    if args.seed.is_none() && args.from.checked_add(args.seeds - 1).is_none() {
        let problem = Problem::usage(format!("there are no {} from seed {} on", seeds(args.seeds), args.from));
        return Err(problem.help(format!("the last one is {}", u64::MAX)));
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (first, count, seconds) = match (args.seed, args.minutes) {
        (Some(seed), _) => (seed, 1, 0),
        (None, Some(minutes)) => (args.from, u64::MAX, minutes.saturating_mul(60)),
        (None, None) => (args.from, args.seeds, 0),
    };
    let trace = args.trace.unwrap_or(if args.seed.is_some() { TRACE_OF_ONE } else { 0 });
    let mut cargo = simulation(ws);
    cargo.args([first, count, seconds, threads as u64, trace].map(|number| number.to_string())).args(&args.variant);
    let bar = Bar::new();
    let (mut report, mut is_known) = (None, true);
    let ran = run::lines(&mut cargo, |said| {
        is_known &= said.get("unknown").is_none();
        hear(said, &bar, args, &mut report);
    });
    bar.hide();
    if !is_known {
        let name = args.variant.as_deref().unwrap_or_default();
        let problem = Problem::usage(format!("there is no variant {name}"));
        return Err(problem.help("`cargo xtask torture --variants` lists them"));
    }
    let Some(report) = report else { return ran.and(Err(Problem::new("the simulation ended without a report"))) };
    if args.json {
        anstream::println!("{report}");
    }
    let report = serde_json::from_value(report).map_err(|e| Problem::new(format!("the report cannot be read: {e}")))?;
    tell(&report, args)
}

/// The program that runs the simulation.
fn simulation(ws: &Workspace) -> Command {
    let mut cargo = setup::native_cargo(ws);
    cargo.args(["run", "--quiet", "--locked", "--profile", "torture", "--package", "jadpo-host-test"]);
    cargo.args(["--features", "torture", "--bin", "torture", "--"]);
    cargo
}

/// Lists the deliberate mistakes.
fn tell_variants(ws: &Workspace, args: &Args) -> Result<()> {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["variant", "what is wrong then"]);
    let mut all = Vec::new();
    run::lines(simulation(ws).arg("variants"), |said| {
        let text = |name| said.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        table.add_row([text("variant"), text("about")]);
        all.push(said.clone());
    })?;
    if args.json {
        anstream::println!("{}", Value::Array(all));
    } else {
        anstream::println!("{table}");
    }
    Ok(())
}

fn hear(said: &Value, bar: &Bar, args: &Args, report: &mut Option<Value>) {
    let number = |name| said.get(name).and_then(Value::as_u64);
    match (number("done"), number("of"), number("seconds"), args.minutes) {
        (Some(_), _, Some(seconds), Some(minutes)) => {
            let all = minutes.saturating_mul(60);
            bar.show(seconds.min(all), all, "seconds");
        }
        (Some(done), Some(of), ..) => bar.show(done, of, "seeds"),
        _ => {}
    }
    if let (Some(seed), Some(what)) = (number("failed"), said.get("what").and_then(Value::as_str)) {
        bar.hide();
        for line in said.get("trace").and_then(Value::as_array).into_iter().flatten() {
            run::say(&format!("  {}", line.as_str().unwrap_or_default()));
        }
        if args.variant.is_none() {
            run::say(&format!("\x1b[31m✗\x1b[0m seed {seed}: {what}"));
        }
    }
    if let Some(said) = said.get("report") {
        *report = Some(said.clone());
    }
}

fn tell(report: &Report, args: &Args) -> Result<()> {
    if !args.json && args.variant.is_none() {
        anstream::println!("{}", table(report));
        anstream::println!("A fault that a step is not shown with cannot meet it, or met it in none of these seeds.");
    }
    let time = run::seconds(Duration::from_secs_f64(report.seconds));
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = report.seeds as f64 / report.seconds.max(0.001);
    run::say(&format!("{} in {time}, {rate:.0} a second, {} steps", seeds(report.seeds), report.turns));
    match (report.failures.first(), &args.variant) {
        (None, _) if report.cut_short => Err(Problem::new("stopped before its end; no seed had failed until then")),
        (None, None) => Ok(()),
        (None, Some(variant)) => {
            let problem = Problem::new(format!("{variant} survived {}", seeds(report.seeds)));
            Err(problem.help("nobody sees it when the code is wrong so: the simulation lacks a step or a check"))
        }
        (Some(Failure { seed, what }), Some(variant)) => {
            run::say(&format!("\x1b[32m✓\x1b[0m {variant} was found by seed {seed}: {what}"));
            Ok(())
        }
        (Some(Failure { seed, what }), None) => {
            let failed: Vec<String> = report.failures.iter().map(|failure| failure.seed.to_string()).collect();
            Err(Problem::new(format!("seeds that failed: {}; seed {seed}: {what}", failed.join(", "))).help(format!(
                "`cargo xtask torture --seed {seed}` runs it alone and tells what happened last, `--trace 500` more of \
                 it; a seed that found a mistake is kept in host-test/seeds.txt"
            )))
        }
    }
}

fn seeds(count: u64) -> String {
    if count == 1 { "1 seed".to_owned() } else { format!("{count} seeds") }
}

/// Which fault met which step how often: a line for each step, since the faults side by side are wider than a screen.
fn table(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        table.set_width(WIDTH); // no terminal
    }
    table.set_header(["step", "done", "met by"]);
    for Step { step, done, met } in report.steps.iter().filter(|step| step.done > 0) {
        let faults = report.faults.iter().zip(met).filter(|(_, met)| **met > 0);
        let faults: Vec<String> =
            faults.map(|(fault, met)| format!("{fault}\u{a0}{met}").replace(' ', "\u{a0}")).collect();
        table.add_row([step.clone(), done.to_string(), faults.join(", ")]);
    }
    if let Some(done) = table.column_mut(1) {
        done.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// How a run ends that was asked for so and in which these seeds failed: the exit code, 0 if it is good.
    fn ends(asked: &[&str], failed: &[u64]) -> u8 {
        let line = Line::parse_from(["torture", "--json"].iter().chain(asked));
        let failures: Vec<Value> = failed.iter().map(|seed| serde_json::json!({"seed": seed, "what": "x"})).collect();
        let report = serde_json::json!({
            "seeds": 7, "seconds": 1.0, "turns": 9, "failures": failures, "faults": ["dies"], "steps": [],
        });
        tell(&serde_json::from_value(report).unwrap(), &line.args).map_or_else(|problem| problem.exit, |()| 0)
    }

    #[test]
    fn a_seed_that_fails_is_bad_and_a_variant_that_no_seed_finds_is_too() {
        assert_eq!((ends(&[], &[]), ends(&[], &[3])), (0, 1));
        let variant = ["--variant", "AckBeforeCommit"];
        assert_eq!((ends(&variant, &[3]), ends(&variant, &[])), (0, 1));
    }

    #[test]
    fn what_was_stopped_before_its_end_is_no_run_that_holds() {
        let line = Line::parse_from(["torture", "--json"]);
        let report = serde_json::json!({
            "seeds": 7, "seconds": 1.0, "turns": 9, "failures": [], "faults": [], "steps": [], "cut_short": true,
        });
        assert!(tell(&serde_json::from_value(report).unwrap(), &line.args).is_err());
    }

    #[test]
    fn seeds_past_the_last_one_are_no_run() {
        let ws = Workspace::find().unwrap();
        let asked = ["torture", "--from", "18446744073709551615", "--seeds", "5"];
        assert_eq!(command(&ws, &Line::parse_from(asked).args).unwrap_err().exit, 2);
    }

    #[test]
    fn what_would_not_be_heeded_is_refused() {
        for wrong in [["--seed", "5", "--from", "3"], ["--variants", "--seeds", "3", "--json"]] {
            assert!(Line::try_parse_from(["torture"].iter().chain(&wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn no_seeds_and_no_minutes_are_no_run() {
        for wrong in [["--seeds", "0"], ["--minutes", "0"]] {
            assert!(Line::try_parse_from(["torture"].iter().chain(&wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_step_is_shown_with_the_faults_that_it_met() {
        let report = serde_json::json!({
            "seeds": 1, "seconds": 1.0, "turns": 1, "failures": [], "faults": ["store down", "slow"],
            "steps": [{"step": "take", "done": 5, "met": [2, 0]}, {"step": "never", "done": 0, "met": [0, 0]}],
        });
        let shown = table(&serde_json::from_value(report).unwrap()).to_string().replace('\u{a0}', " ");
        assert!(shown.contains("take") && shown.contains("store down 2"), "{shown}");
        assert!(!shown.contains("slow") && !shown.contains("never"), "{shown}");
    }
}
