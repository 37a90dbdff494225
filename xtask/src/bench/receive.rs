//! `cargo xtask bench receive`: messages from a queue into D1, beside plain JavaScript Workers.

use super::median;
use crate::demo;
use crate::problem::Result;
use crate::setup;
use crate::workspace::Workspace;
use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;
use std::path::PathBuf;

/// How fast the Worker keeps messages in D1, beside a plain JavaScript Worker that only inserts them, and one that calls
/// the subscribers too.
///
/// All run in workerd with the same queue settings, in turn, several rounds. Subscribers answer from a Worker beside.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The app file; the warehouse app, with its two subscribers, if not said.
    #[arg(long, value_name = "PATH")]
    app: Option<PathBuf>,
    /// Messages in each round.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    messages: u32,
    /// Rounds; the median is told.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Print one JSON object in place of the table.
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Figures {
    messages: f64,
    rounds: Vec<Round>,
    start_up_ms: Vec<f64>,
    start_up_empty_ms: Vec<f64>,
}

#[derive(Deserialize)]
struct Round {
    plain_s: f64,
    calling_s: f64,
    kept_s: f64,
    delivered_s: f64,
    batches: f64,
    kept: f64,
    delivered: f64,
    subscribers: f64,
    d1_batches: f64,
    rows_written_receiving: f64,
    rows_written_delivering: f64,
}

/// Runs the command.
///
/// # Errors
/// When something does not build, or a run does not end.
pub(crate) fn command(ws: &Workspace, args: &Args) -> Result<()> {
    let tools = setup::ready(ws)?;
    let app = demo::given_or(args.app.as_deref(), ws, demo::SAMPLE_APP)?;
    let built = demo::Built::from_app(ws, &tools, &app, &demo::Choice::default())?;
    let mut node = tools.node(ws);
    node.arg(ws.path("host-workers/e2e/bench/receive.mjs")).arg("--folder").arg(built.folder());
    node.arg("--messages").arg(args.messages.to_string()).arg("--rounds").arg(args.rounds.to_string());
    super::show(&mut node, args.json, table)
}

fn table(figures: &Figures) -> Table {
    let over = |of: fn(&Round) -> f64| median(figures.rounds.iter().map(of).collect());
    let per_second = |seconds: f64| format!("{:.0} /s", figures.messages / seconds);
    let ratio = |of: fn(&Round) -> f64| format!("{:.2}", over(of));
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(["figure (median of the rounds)", "value"]);
    let mut row = |figure: &str, value: String| {
        table.add_row([figure, &value]);
    };
    row("messages inserted by the plain Worker", per_second(over(|r| r.plain_s)));
    row("messages inserted by a plain Worker that calls the subscribers too", per_second(over(|r| r.calling_s)));
    row("messages kept by the app", per_second(over(|r| r.kept_s)));
    row("  the app : the plain Worker, round by round", ratio(|r| r.plain_s / r.kept_s));
    row("  the app : the plain Worker that calls, round by round", ratio(|r| r.calling_s / r.kept_s));
    row("messages kept and delivered to every subscriber", per_second(over(|r| r.delivered_s)));
    row("subscribers of each event", format!("{:.0}", over(|r| r.subscribers)));
    row("deliveries done", format!("{:.0}", over(|r| r.delivered)));
    row("round trips to D1 for each batch of the queue", ratio(|r| r.d1_batches / r.batches));
    row(
        "rows written to keep a message, its deliveries' rows among them",
        ratio(|r| r.rows_written_receiving / r.kept),
    );
    row("rows written to settle the deliveries of a message", ratio(|r| r.rows_written_delivering / r.kept));
    row("runtime's start to the Worker's first answer", format!("{:.0} ms", median(figures.start_up_ms.clone())));
    row("  the same for an empty Worker", format!("{:.0} ms", median(figures.start_up_empty_ms.clone())));
    if let Some(values) = table.column_mut(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    table
}
