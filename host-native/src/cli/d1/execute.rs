//! `jadpo d1 execute`.

use std::path::PathBuf;

use comfy_table::{ContentArrangement, Table, presets};
use jadpo_core::d1::limits::REQUEST_BYTES_MAX;
use serde_json::{Map, Value, json};

use super::found::Found;
use crate::cli::output::{self, Exit};
use crate::cli::words::{brief, count, plain};
use crate::d1::{Databases, Ran, RunError};
use crate::operator::OperatorError;

/// Characters of a value that a table shows.
const SHOWN_MAX: usize = 200;

/// Arguments of `jadpo d1 execute`.
#[derive(clap::Args)]
#[command(after_help = "\
All statements together are one transaction, as a file is in Wrangler. They are held to D1's limits.
With --json: an array with {results, success, meta} for each statement, as Wrangler prints it.")]
pub(super) struct Args {
    /// The database
    database: String,
    /// The statements
    #[arg(long, value_name = "SQL", required_unless_present = "file", conflicts_with = "file")]
    command: Option<String>,
    /// A file with the statements
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

pub(super) async fn run(
    args: &Args,
    found: &[Found],
    databases: &Databases,
    as_json: bool,
) -> Result<Exit, OperatorError> {
    let one = Found::named(found, &args.database)?;
    let sql = match &args.file {
        Some(file) => read(file)?,
        None => args.command.clone().unwrap_or_default(),
    };
    let ran = databases.execute(&one.key, sql).await.map_err(|error| failed(&error))?;
    if as_json {
        output::line(&Value::Array(ran.iter().map(shown_json).collect()).to_string());
        return Ok(Exit::Done);
    }
    if ran.is_empty() {
        output::line("there was no statement");
    }
    for one in &ran {
        show(one);
    }
    Ok(Exit::Done)
}

fn read(file: &PathBuf) -> Result<String, OperatorError> {
    let unread = |why: String| {
        OperatorError::input(format!("`{}` cannot be read: {why}", file.display()), None).coded("file_unreadable")
    };
    let size = std::fs::metadata(file).map_err(|error| unread(error.to_string()))?.len();
    if size > REQUEST_BYTES_MAX as u64 {
        return Err(unread(format!("it has {size} bytes, and {REQUEST_BYTES_MAX} are the limit")));
    }
    std::fs::read_to_string(file).map_err(|error| unread(error.to_string()))
}

fn failed(error: &RunError) -> OperatorError {
    let help = "nothing was kept";
    match error {
        RunError::Open(_) => OperatorError::failed(error.to_string(), None).coded("database_failed"),
        _ => OperatorError::failed(error.to_string(), Some(help)).coded("sql_failed"),
    }
}

fn shown_json(ran: &Ran) -> Value {
    let object = |row: &Vec<Value>| -> Value {
        ran.columns.iter().cloned().zip(row.iter().cloned()).collect::<Map<_, _>>().into()
    };
    json!({
        "results": ran.rows.iter().map(object).collect::<Vec<_>>(),
        "success": true,
        "meta": {
            "duration": ran.meta.duration_ms,
            "changes": ran.meta.changes,
            "last_row_id": ran.meta.last_row_id,
            "changed_db": ran.meta.changed_db,
            "size_after": ran.meta.size_after,
            "rows_read": ran.meta.rows_read,
            "rows_written": ran.meta.rows_written,
        },
    })
}

fn show(ran: &Ran) {
    if ran.columns.is_empty() {
        let what =
            if ran.meta.changes > 0 { format!("{} changed", count(ran.meta.changes, "row")) } else { "done".into() };
        output::line(&format!("{what}: {}", brief(&ran.sql, 80)));
        return;
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(ran.columns.iter().map(|name| plain(name)));
    for row in &ran.rows {
        table.add_row(row.iter().map(|value| match value {
            Value::String(text) => brief(text, SHOWN_MAX),
            other => brief(&other.to_string(), SHOWN_MAX),
        }));
    }
    output::line(&table.to_string());
    output::line(&count(ran.rows.len() as u64, "row"));
}
