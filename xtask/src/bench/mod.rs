//! `cargo xtask bench`: figures, each beside a peer in the same run.

mod broker;
mod pull;
mod receive;
mod worker;

use crate::problem::{Problem, Result};
use crate::run;
use crate::workspace::Workspace;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Display;
use std::process::Command;

/// Measures, always beside a peer or a limit in the same run, since machines differ and drift.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Broker(broker::Args),
    Pull(pull::Args),
    Receive(receive::Args),
    Worker(worker::Args),
}

/// Runs the command.
///
/// # Errors
/// When something does not build, or a run does not end.
pub(crate) fn command(ws: &Workspace, args: &Args) -> Result<()> {
    match &args.what {
        What::Broker(args) => broker::command(ws, args),
        What::Pull(args) => pull::command(ws, args),
        What::Receive(args) => receive::command(ws, args),
        What::Worker(args) => worker::command(ws, args),
    }
}

/// Runs a bench that tells what it does and, at the end, its figures; shows those as JSON or as this shows them.
///
/// # Errors
/// When it cannot be run, fails, or ends without figures.
fn show<T: DeserializeOwned, D: Display>(bench: &mut Command, json: bool, shown: impl FnOnce(&T) -> D) -> Result<()> {
    let mut report = None;
    run::lines(bench, |said: &Value| {
        if let Some(text) = said.get("say").and_then(Value::as_str) {
            run::say(&format!("- {text}"));
        }
        if let Some(figures) = said.get("report") {
            report = Some(figures.clone());
        }
    })?;
    let report = report.ok_or_else(|| Problem::new("the bench ended without figures"))?;
    if json {
        anstream::println!("{report}");
        return Ok(());
    }
    let figures = serde_json::from_value(report).map_err(|e| Problem::new(format!("figures cannot be read: {e}")))?;
    anstream::println!("\n{}", shown(&figures));
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
