//! The store, on D1: one `batch()` for each batch of statements.

use jadpo_core::store::{Row, Rows, Statement, StoreError, Value, classify};
use js_sys::Uint8Array;
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::Value as Json;
use wasm_bindgen::prelude::*;
use worker::worker_sys::D1Database;

use crate::js;

/// How long an answer is waited for. D1 ends a query after 30 s itself.
const LIMIT_MS: f64 = 31_000.0;
/// Text of more bytes than this crosses to JavaScript by itself and not inside JSON, where it would be held twice.
const INSIDE_BYTES_MAX: usize = 8_192;

/// Runs the statements as one transaction.
///
/// # Errors
/// Sorted by D1's words; no answer in time counts as unavailable, and the batch may have committed.
pub(crate) async fn batch(database: &D1Database, statements: &[Statement]) -> Result<Vec<Rows>, StoreError> {
    if statements.is_empty() {
        return Ok(Vec::new()); // D1 refuses an empty batch
    }
    let described = serde_json::to_string(&Described(statements))
        .map_err(|error| StoreError::Refused(format!("the statements cannot be written down: {error}")))?;
    let apart = statements.iter().flat_map(|statement| &statement.params).filter_map(apart).collect();
    let answer = js::run_batch(database, &described, &apart, LIMIT_MS).await;
    let text = answer.map_err(|error| classify(&js::words(&error)))?.as_string().unwrap_or_default();
    rows(&text)
        .filter(|rows| rows.len() == statements.len())
        .ok_or_else(|| StoreError::Unavailable("D1 gave an answer of another form".to_owned()))
}

/// The value as JavaScript holds it, if it crosses by itself.
fn apart(value: &Value) -> Option<JsValue> {
    match value {
        Value::Text(text) if text.len() > INSIDE_BYTES_MAX => Some(JsValue::from_str(text)),
        Value::Blob(bytes) => Some(Uint8Array::from(bytes.as_slice()).into()),
        _ => None,
    }
}

/// Statements as `runBatch` in js/d1.js takes them.
struct Described<'a>(&'a [Statement]);

impl Serialize for Described<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut index = 0;
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for Statement { sql, params } in self.0 {
            let params: Vec<Parameter<'_>> = params.iter().map(|value| Parameter::of(value, &mut index)).collect();
            list.serialize_element(&(*sql, params))?;
        }
        list.end()
    }
}

/// A parameter inside the JSON. D1 knows no `BigInt`, so a whole number goes as JavaScript's, which columns of INTEGER
/// affinity store as an integer; the core keeps it within 2^53.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Parameter<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
    Apart([usize; 1]),
}

impl<'a> Parameter<'a> {
    /// `next` counts the values that cross by themselves, in [`apart`]'s order.
    fn of(value: &'a Value, next: &mut usize) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(number) => Self::Integer(*number),
            Value::Real(number) => Self::Real(*number),
            Value::Text(text) if text.len() <= INSIDE_BYTES_MAX => Self::Text(text),
            Value::Text(_) | Value::Blob(_) => {
                *next += 1;
                Self::Apart([*next - 1])
            }
        }
    }
}

/// What came back; `None` if it is not of the form that js/d1.js gives.
fn rows(text: &str) -> Option<Vec<Rows>> {
    let results: Vec<(Vec<Vec<Json>>, f64, f64)> = serde_json::from_str(text).ok()?;
    let rows = |(rows, changes, rows_written): (Vec<Vec<Json>>, f64, f64)| Rows {
        rows: rows.into_iter().map(|row| Row(row.into_iter().map(read).collect())).collect(),
        changes: count(changes),
        rows_written: count(rows_written),
    };
    Some(results.into_iter().map(rows).collect())
}

fn read(value: Json) -> Value {
    match value {
        Json::String(text) => Value::Text(text),
        Json::Number(number) => number.as_i64().map_or_else(|| real(number.as_f64()), Value::Integer),
        Json::Bool(yes) => Value::Integer(yes.into()),
        Json::Array(bytes) => Value::Blob(bytes.iter().filter_map(byte).collect()),
        Json::Null | Json::Object(_) => Value::Null,
    }
}

fn real(number: Option<f64>) -> Value {
    number.map_or(Value::Null, Value::Real)
}

fn byte(number: &Json) -> Option<u8> {
    number.as_u64().and_then(|number| u8::try_from(number).ok())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of rows")]
fn count(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests;
