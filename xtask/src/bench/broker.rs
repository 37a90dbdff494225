//! `cargo xtask bench broker`: the queue engine and its server, beside plain SQLite that does the least a queue must,
//! and beside redis and beanstalkd where they install.

use crate::problem::Result;
use crate::setup;
use crate::workspace::Workspace;
use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;
use std::collections::BTreeMap;

/// How fast the broker sends, leases and acknowledges, beside plain SQLite with the same promise to the disk.
///
/// Bodies of 1 KiB, `synchronous=FULL`, in turn, several rounds. Plain SQLite is one thread with two layouts of tables,
/// of which the faster counts; its clients cost it nothing. The server is the `jadpo` binary over HTTP, its clients on
/// this machine too. Redis (append-only file synced always) and beanstalkd (`-f 0`) do the same by their own protocols.
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
    /// Only the cases whose name holds this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
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
    /// Messages a second, by who was measured.
    figures: BTreeMap<String, f64>,
}

/// Who is measured, in the table's order.
const PLAIN: &str = "plain";
const BROKER: &str = "broker";
const OTHERS: [&str; 3] = ["server", "redis", "beanstalkd"];

/// Runs the command.
///
/// # Errors
/// When something does not build, or a run does not end.
pub(crate) fn command(ws: &Workspace, args: &Args) -> Result<()> {
    setup::bench_peers(ws);
    let mut cargo = setup::native_cargo(ws);
    cargo.args(["bench", "--quiet", "--locked", "--package", "jadpo", "--bench", "broker", "--"]);
    cargo.arg("--seconds").arg(args.seconds.to_string()).arg("--rounds").arg(args.rounds.to_string());
    cargo.arg("--backlog").arg(args.backlog.to_string());
    cargo.arg("--only").arg(&args.only);
    super::show(&mut cargo, args.json, table)
}

fn table(figures: &Figures) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    let head = ["messages a second (median of the rounds)", "plain SQLite", "broker", "ratio"];
    table.set_header(head.into_iter().chain(["server, HTTP", "redis", "beanstalkd"]));
    for Row { case, figures } in &figures.rows {
        let rate = |who| figures.get(who).copied();
        let cell = |who| rate(who).map_or("-".to_owned(), |rate| format!("{rate:.0}"));
        let ratio =
            rate(BROKER).zip(rate(PLAIN)).map_or("-".to_owned(), |(ours, plain)| format!("{:.2}", ours / plain));
        let ours = [case.clone(), cell(PLAIN), cell(BROKER), ratio];
        table.add_row(ours.into_iter().chain(OTHERS.map(cell)));
    }
    for index in 1..7 {
        if let Some(values) = table.column_mut(index) {
            values.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
