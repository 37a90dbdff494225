//! `cargo xtask bench broker`: the queue engine, beside plain SQLite that does the least a queue must.

use crate::problem::Result;
use crate::setup;
use crate::workspace::Workspace;
use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;

/// How fast the broker sends, leases and acknowledges, beside plain SQLite with the same promise to the disk.
///
/// Bodies of 1 KiB, `synchronous=FULL`, in turn, several rounds. The peer is one thread with two layouts of tables, of
/// which the faster counts; its clients cost it nothing, so it is what no queue on SQLite can pass by much.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds for each case, peer and round.
    #[arg(long, default_value_t = 0.7)]
    seconds: f64,
    /// Rounds; the median is told.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Leave out cases with more messages waiting than this. A million need some 5 GB of disk for the time of the bench.
    #[arg(long, default_value_t = 1_000_000)]
    backlog: u32,
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
    case: String,
    plain: f64,
    broker: f64,
}

/// Runs the command.
///
/// # Errors
/// When something does not build, or a run does not end.
pub(crate) fn command(ws: &Workspace, args: &Args) -> Result<()> {
    let mut cargo = setup::native_cargo(ws);
    cargo.args(["bench", "--quiet", "--locked", "--package", "jadpo", "--bench", "broker", "--"]);
    cargo.arg("--seconds").arg(args.seconds.to_string()).arg("--rounds").arg(args.rounds.to_string());
    cargo.arg("--backlog").arg(args.backlog.to_string());
    super::show(&mut cargo, args.json, table)
}

fn table(figures: &Figures) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["messages a second (median of the rounds)", "plain SQLite", "broker", "ratio"]);
    for Row { case, plain, broker } in &figures.rows {
        let ratio = format!("{:.2}", broker / plain);
        table.add_row([case.clone(), format!("{plain:.0}"), format!("{broker:.0}"), ratio]);
    }
    for index in 1..4 {
        if let Some(values) = table.column_mut(index) {
            values.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
