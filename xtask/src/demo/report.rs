//! What became of the demo's messages, for a person.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What the demo's process reports; `host-native/e2e/demo/main.mjs` writes it.
#[derive(Deserialize)]
pub(super) struct Report {
    sent: u64,
    refused: u64,
    kept: u64,
    repeats: u64,
    parked: BTreeMap<String, u64>,
    retried: u64,
    delivered: u64,
    waiting: u64,
    failed: u64,
    batches: u64,
    d1_batches: u64,
    d1_batches_delivering: u64,
    rows_written: u64,
    seconds: f64,
    seconds_played_forward: u64,
    /// Whether everything came to an end in time.
    pub(super) idle: bool,
    retried_by: BTreeMap<String, u64>,
    refusals: Vec<Refusal>,
    calls: u64,
    operator: Value,
    /// What the Worker said, if it did not.
    pub(super) trouble: Vec<String>,
}

#[derive(Deserialize)]
struct Refusal {
    queue: String,
    bytes: u64,
    why: String,
}

/// Prints the report.
pub(super) fn show(report: &Report) {
    anstream::println!(
        "\n\x1b[1mWhat became of {} messages\x1b[0m\n{}",
        report.sent + report.refused,
        messages(report)
    );
    anstream::println!("\n\x1b[1mWhat became of the events\x1b[0m\n{}", deliveries(report));
    let rows = listed(&report.operator);
    if !rows.is_empty() {
        let mut table = table(&["id", "from", "reason", "what is wrong"]);
        table.add_rows(rows);
        anstream::println!("\n\x1b[1mWhat an operator sees\x1b[0m (jadpo deliveries)\n{table}");
    }
    anstream::println!("\n{}", costs(report));
}

/// Prints where the Worker answers; beside the report of `--json`, not into it.
pub(super) fn show_serving(serving: &Value, json: bool) {
    let text = |key| serving.get(key).and_then(Value::as_str).unwrap_or_default();
    let (url, token, sends) = (text("url"), text("token"), text("sends"));
    let queue = serving.get("queues").and_then(|queues| queues.get(0)).and_then(Value::as_str).unwrap_or("QUEUE");
    let said = format!(
        "\n\x1b[1mThe Worker is up\x1b[0m at {url}\n\n  \
         curl {url}/healthz\n  \
         curl {sends}/{queue} --json '{{}}'\n  \
         curl -H 'Authorization: Bearer {token}' {url}/.jadpo/deliveries\n  \
         curl -H 'Authorization: Bearer {token}' {url}/.jadpo/status\n  \
         target/debug/jadpo deliveries --url {url} --token {token}\n\nThe tick runs every minute. Ctrl-C ends it."
    );
    if json { anstream::eprintln!("{said}") } else { anstream::println!("{said}") }
}

fn messages(report: &Report) -> Table {
    let mut table = table(&["messages", "outcome", "what it means"]);
    let mut row = |count: u64, outcome: String, meaning: &str| {
        if count > 0 {
            table.add_row(vec![count.to_string(), outcome, meaning.to_owned()]);
        }
    };
    row(report.kept, "kept".into(), "became an event, with a delivery for each subscriber, before it was acknowledged");
    row(report.repeats, "repeat".into(), "was kept before under the same id: acknowledged, nothing stored");
    for (reason, count) in &report.parked {
        row(*count, format!("parked: {reason}"), meaning(reason));
    }
    row(report.refused, "refused".into(), "the queue itself did not take it");
    let lost = (report.sent).saturating_sub(report.kept + report.repeats + report.parked.values().sum::<u64>());
    row(lost, "still in the queue".into(), "the Worker has not taken it yet");
    for (code, count) in &report.retried_by {
        row(*count, format!("(put off: {code})"), "went back to the queue first, and came again later");
    }
    for Refusal { queue, bytes, why } in &report.refusals {
        table.add_row(vec![String::new(), format!("{queue}, {bytes} bytes"), why.clone()]);
    }
    table
}

fn meaning(reason: &str) -> &'static str {
    match reason {
        "unreadable" => "cannot be read at all; kept whole for an operator",
        "rejected" => "can be read and is not the event; kept whole for an operator",
        "dead_lettered" => "Cloudflare's retries were spent; kept whole for an operator",
        _ => "kept whole for an operator",
    }
}

fn deliveries(report: &Report) -> Table {
    let mut table = table(&["deliveries", "outcome", "what it means"]);
    for (count, outcome, meaning) in [
        (report.delivered, "delivered", "the subscriber answered 2xx"),
        (report.waiting, "waiting", "to be tried again later"),
        (report.failed, "failed", "30 attempts are spent; an operator decides"),
    ] {
        if count > 0 {
            table.add_row(vec![count.to_string(), outcome.to_owned(), meaning.to_owned()]);
        }
    }
    table
}

fn costs(report: &Report) -> String {
    let Report { retried, batches, d1_batches, d1_batches_delivering, rows_written, calls, .. } = report;
    format!(
        "{batches} batches of the queue took {d1_batches} round trips to D1, and the deliveries {d1_batches_delivering}; \
         {rows_written} rows were written in all. {retried} retries.\nSubscribers were called {calls} times: those that \
         listen on this machine for real, the others by stand-ins. {:.1} s, and {} s of waiting played forward.",
        report.seconds, report.seconds_played_forward
    )
}

/// The operator's list, as rows of id, origin, reason and detail.
fn listed(operator: &Value) -> Vec<Vec<String>> {
    let items = operator.get("items").and_then(Value::as_array);
    let text = |item: &Value, key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let row = |item: &Value| {
        let first = |keys: &[&str]| keys.iter().map(|key| text(item, key)).find(|t| !t.is_empty()).unwrap_or_default();
        vec![first(&["id"]), first(&["queue", "subscriber"]), first(&["reason", "kind"]), first(&["detail", "error"])]
    };
    items.into_iter().flatten().map(row).collect()
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    if let Some(first) = table.column_mut(0) {
        first.set_cell_alignment(CellAlignment::Right);
    }
    table
}
