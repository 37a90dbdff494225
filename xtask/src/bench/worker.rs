//! `cargo xtask bench worker`: messages from a Worker's `send` to its handler and its ack, beside miniflare.

use crate::build;
use crate::problem::Result;
use crate::setup;
use crate::workspace::Workspace;
use comfy_table::{CellAlignment, Table, presets};
use serde::Deserialize;

/// How fast messages go from a Worker's `send` through its queue to its handler and its ack: our queue, on disk, beside
/// miniflare's, in memory.
///
/// The same JavaScript Worker in the same workerd. It sends batches with eight calls side by side, its handler
/// acknowledges each message, and the time is over when the queue holds nothing. In turn, several rounds.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Messages in each round.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    messages: u32,
    /// Bytes of a message's body, about.
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(20..=2_500))]
    bytes: u32,
    /// Rounds; the median is told.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Print one JSON object in place of the table.
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Figures {
    messages: f64,
    figures: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    batch: u32,
    rows: Vec<Round>,
}

#[derive(Deserialize)]
struct Round {
    ours: Run,
    theirs: Run,
}

#[derive(Deserialize)]
struct Run {
    sent_ms: f64,
    all_ms: f64,
    batches: f64,
}

/// Runs the command.
///
/// # Errors
/// When something does not build, or a run does not end.
pub(crate) fn command(ws: &Workspace, args: &Args) -> Result<()> {
    let tools = setup::ready(ws)?;
    let jadpo = build::release_binary(ws, &tools)?;
    let mut node = tools.node(ws);
    node.arg(ws.path("host-native/e2e/bench/worker.mjs")).env("JADPO_BIN", jadpo);
    node.arg("--messages").arg(args.messages.to_string()).arg("--rounds").arg(args.rounds.to_string());
    node.arg("--bytes").arg(args.bytes.to_string());
    super::show(&mut node, args.json, table)
}

fn table(figures: &Figures) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["messages a second (median of the rounds)", "jadpo, on disk", "miniflare, in memory", "ratio"]);
    for Case { batch, rows } in &figures.figures {
        let median = |of: &dyn Fn(&Round) -> f64| super::median(rows.iter().map(of).collect());
        let rate = |ms: f64| format!("{:.0}", figures.messages / ms * 1_000.0);
        let mut row = |what: String, of: &dyn Fn(&Run) -> f64| {
            let (ours, theirs) = (median(&|round| of(&round.ours)), median(&|round| of(&round.theirs)));
            let ratio = median(&|round| of(&round.theirs) / of(&round.ours));
            table.add_row([what, rate(ours), rate(theirs), format!("{ratio:.2}")]);
        };
        row(format!("batches of {batch}: sent, handled and acknowledged"), &|run| run.all_ms);
        row(format!("batches of {batch}: sent, while they are handled"), &|run| run.sent_ms);
        let (ours, theirs) = (median(&|round| round.ours.batches), median(&|round| round.theirs.batches));
        table.add_row([format!("batches of {batch}: handed over"), format!("{ours:.0}"), format!("{theirs:.0}")]);
    }
    for index in 1..4 {
        if let Some(values) = table.column_mut(index) {
            values.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
