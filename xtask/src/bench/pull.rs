//! `cargo xtask bench pull`: messages pulled and acknowledged over HTTP, beside the broker as a library.

use crate::problem::Result;
use crate::setup;
use crate::workspace::Workspace;
use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;
use std::collections::BTreeMap;

/// How fast clients pull messages and acknowledge them over HTTP, beside tasks that use the broker as a library; and how
/// fast a connection of an app keeps them as its events.
///
/// Bodies of 1 KiB, `synchronous=FULL`, in turn, several rounds. The server is the `jadpo` binary, its clients on this
/// machine too; each pulls a batch and acknowledges it before it pulls again.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds for each case, peer and round.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds; the median is told.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Print one JSON object in place of the table.
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Figures {
    rows: Vec<Row>,
    reads: Vec<Read>,
}

/// A queue that a connection of an app reads to its end.
#[derive(Deserialize)]
struct Read {
    batch: u32,
    /// Whether the events are delivered meanwhile.
    delivers: bool,
    kept_per_s: f64,
    /// Milliseconds that one request, or one batch's way into the store, takes.
    pull_ms: f64,
    commit_ms: f64,
    ack_ms: f64,
    /// Seconds, and those of the processors in each of the two processes.
    seconds: f64,
    server_cpu_s: f64,
    reader_cpu_s: f64,
}

#[derive(Deserialize)]
struct Row {
    batch: u32,
    clients: u32,
    /// Messages a second, by who was measured.
    figures: BTreeMap<String, f64>,
}

/// Runs the command.
///
/// # Errors
/// When something does not build, or a run does not end.
pub(crate) fn command(ws: &Workspace, args: &Args) -> Result<()> {
    let mut cargo = setup::native_cargo(ws);
    cargo.args(["bench", "--quiet", "--locked", "--package", "jadpo", "--bench", "pull", "--"]);
    cargo.arg("--seconds").arg(args.seconds.to_string()).arg("--rounds").arg(args.rounds.to_string());
    super::show(&mut cargo, args.json, |figures| format!("{}\n\n{}", table(figures), reads(figures)))
}

fn table(figures: &Figures) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["messages a second (median of the rounds)", "clients", "broker", "server, HTTP", "ratio"]);
    for Row { batch, clients, figures } in &figures.rows {
        let rate = |who| figures.get(who).copied();
        let cell = |who| rate(who).map_or("-".to_owned(), |rate| format!("{rate:.0}"));
        let ratio = rate("server").zip(rate("broker")).map(|(server, broker)| format!("{:.2}", server / broker));
        let case =
            if *batch == 1 { "pull, ack one by one".to_owned() } else { format!("pull, ack in batches of {batch}") };
        table.add_row([case, clients.to_string(), cell("broker"), cell("server"), ratio.unwrap_or_default()]);
    }
    for index in 1..5 {
        if let Some(values) = table.column_mut(index) {
            values.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn reads(figures: &Figures) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "a connection keeps",
        "messages a second",
        "ms: pull",
        "commit",
        "ack",
        "seconds",
        "of which server's CPU",
        "reader's CPU",
    ]);
    for read in &figures.reads {
        let deliveries = if read.delivers { ", and delivers them" } else { "" };
        let mut row = vec![format!("batches of {}{deliveries}", read.batch), format!("{:.0}", read.kept_per_s)];
        let rest = [read.pull_ms, read.commit_ms, read.ack_ms, read.seconds, read.server_cpu_s, read.reader_cpu_s];
        row.extend(rest.map(|figure| format!("{figure:.1}")));
        table.add_row(row);
    }
    for index in 1..8 {
        if let Some(values) = table.column_mut(index) {
            values.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
