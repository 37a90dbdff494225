//! `cargo xtask bench pull`: messages pulled and acknowledged over HTTP, beside the broker as a library.

use crate::problem::Result;
use crate::setup;
use crate::workspace::Workspace;
use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;
use std::collections::BTreeMap;

/// How fast clients pull messages and acknowledge them over HTTP, beside tasks that use the broker as a library.
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
    super::show(&mut cargo, args.json, table)
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
