//! What statements did that were run one by one, for a person or a program to look at.

use jadpo_core::d1::limits::ANSWER_BYTES_MAX;
use jadpo_core::d1::{Cell, Meta};
use serde_json::{Value, json};

use super::error::RunError;
use super::run::Rows;

/// What a statement did that was run by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// Its text.
    pub sql: String,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// Its rows: null, numbers, texts, and bytes as arrays of numbers.
    pub rows: Vec<Vec<Value>>,
    /// What it did.
    pub meta: Meta,
}

/// Results, kept.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) done: Vec<Ran>,
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
    bytes: usize,
}

impl Rows for Collected {
    fn begin(&mut self, columns: &[&str]) {
        self.columns = columns.iter().map(|&name| name.to_owned()).collect();
        self.rows = Vec::new();
    }

    fn row<'a>(&mut self, cells: impl Iterator<Item = Cell<'a>>) -> Result<(), RunError> {
        let row: Vec<Value> = cells
            .map(|cell| {
                self.bytes += size(&cell);
                value(cell)
            })
            .collect();
        self.rows.push(row);
        if self.bytes > ANSWER_BYTES_MAX { Err(RunError::TooLarge) } else { Ok(()) }
    }

    fn end(&mut self, sql: &str, meta: &Meta) {
        let (columns, rows) = (std::mem::take(&mut self.columns), std::mem::take(&mut self.rows));
        self.done.push(Ran { sql: sql.to_owned(), columns, rows, meta: *meta });
    }
}

/// About what a value takes.
fn size(cell: &Cell<'_>) -> usize {
    match cell {
        Cell::Text(bytes) => bytes.len() + 16,
        // Each byte becomes a number.
        Cell::Blob(bytes) => bytes.len() * 4 + 16,
        _ => 16,
    }
}

fn value(cell: Cell<'_>) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Integer(number) => json!(number),
        Cell::Real(number) => json!(number),
        Cell::Text(bytes) => json!(String::from_utf8_lossy(bytes)),
        Cell::Blob(bytes) => json!(bytes),
    }
}
