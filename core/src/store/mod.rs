//! The store, spoken to in SQL as data.
//!
//! A decision that needs the store is an atomic batch of [`Statement`]s and a function that reads the [`Rows`]
//! that come back. D1 has no interactive transaction, only such batches; `SQLite` and the test store run the same
//! ones. So the SQL that is tested is the SQL that runs on D1.

mod error;
pub mod schema;

pub use error::{StoreError, classify};

/// A value that is bound to a statement or read from a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// A whole number. Never past 2^53: D1 binds numbers as JavaScript's.
    Integer(i64),
    /// A number that is not whole. D1 also hands whole ones back like this.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// A statement and what is bound to it. The text is static: values never enter it.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// One SQL statement with parameters `?1`, `?2`, … each used.
    pub sql: &'static str,
    /// The parameters, the first for `?1`.
    pub params: Vec<Value>,
}

impl Statement {
    /// A statement with its parameters.
    #[must_use]
    pub fn new(sql: &'static str, params: Vec<Value>) -> Self {
        Self { sql, params }
    }
}

/// One row, its columns in the statement's order.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(pub Vec<Value>);

/// What one statement gave back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    /// The rows, empty for a statement that returns none.
    pub rows: Vec<Row>,
    /// Rows that the statement changed.
    pub changes: u64,
    /// Rows written as the store bills them, index entries included; 0 where the store does not say.
    pub rows_written: u64,
}

impl Row {
    /// The text in column `index`, or `None` if it is missing or no text.
    #[must_use]
    pub fn text(&self, index: usize) -> Option<&str> {
        match self.0.get(index) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The whole number in column `index`. D1 may hand it over as a real.
    #[must_use]
    pub fn integer(&self, index: usize) -> Option<i64> {
        match self.0.get(index) {
            Some(Value::Integer(number)) => Some(*number),
            #[expect(clippy::cast_possible_truncation, reason = "checked: it is whole and within 2^53")]
            Some(Value::Real(number)) if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0 => {
                Some(*number as i64)
            }
            _ => None,
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}
impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}
impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
