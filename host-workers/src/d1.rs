//! The store, on D1: one `batch()` for each batch of statements.

use jadpo_core::store::{Row, Rows, Statement, StoreError, Value, classify};
use js_sys::{Array, Object, Uint8Array};
use wasm_bindgen::prelude::*;
use worker::worker_sys::{D1Database, D1PreparedStatement, D1Result};

use crate::js;

/// How long an answer is waited for. D1 ends a query after 30 s itself.
const LIMIT_MS: f64 = 31_000.0;

/// Runs the statements as one transaction.
///
/// # Errors
/// Sorted by D1's words; no answer in time counts as unavailable, and the batch may have committed.
pub(crate) async fn batch(database: &D1Database, statements: &[Statement]) -> Result<Vec<Rows>, StoreError> {
    if statements.is_empty() {
        return Ok(Vec::new()); // D1 refuses an empty batch
    }
    run(database, statements).await.map_err(|error| classify(&js::words(&error)))
}

async fn run(database: &D1Database, statements: &[Statement]) -> Result<Vec<Rows>, JsValue> {
    let prepared: Array =
        statements.iter().map(|each| prepare(database, each).map(JsValue::from)).collect::<Result<_, _>>()?;
    let answer = js::within(LIMIT_MS, &database.batch(prepared)?).await?;
    let results: Array = answer.dyn_into().map_err(|_| js_sys::Error::new("D1 gave no list of results"))?;
    if results.length() as usize != statements.len() {
        return Err(js_sys::Error::new("D1 gave another number of results than statements").into());
    }
    results.iter().map(|result| rows(&result.unchecked_into())).collect()
}

fn prepare(database: &D1Database, statement: &Statement) -> Result<D1PreparedStatement, JsValue> {
    let prepared = database.prepare(statement.sql)?;
    if statement.params.is_empty() {
        return Ok(prepared);
    }
    prepared.bind(statement.params.iter().map(bound).collect())
}

/// A value as D1 takes it. It knows no `BigInt`, so a whole number goes as JavaScript's, which columns of INTEGER
/// affinity store as an integer.
#[expect(clippy::cast_precision_loss, reason = "the core keeps whole numbers within 2^53")]
fn bound(value: &Value) -> JsValue {
    match value {
        Value::Null => JsValue::NULL,
        Value::Integer(number) => JsValue::from_f64(*number as f64),
        Value::Real(number) => JsValue::from_f64(*number),
        Value::Text(text) => JsValue::from_str(text),
        Value::Blob(bytes) => Uint8Array::from(bytes.as_slice()).into(),
    }
}

fn rows(result: &D1Result) -> Result<Rows, JsValue> {
    let meta = JsValue::from(result.meta()?);
    let rows = result.results()?.unwrap_or_default();
    Ok(Rows {
        rows: rows.iter().map(|row| self::row(&row)).collect(),
        changes: count(&meta, "changes"),
        rows_written: count(&meta, "rows_written"),
    })
}

/// A row by position. D1's `batch()` gives rows as objects, whose fields stand in the order of the columns as long
/// as no name is a number and none comes twice: the core's statements name every column.
fn row(row: &JsValue) -> Row {
    row.dyn_ref::<Object>().map_or_else(|| Row(Vec::new()), |row| Row(Object::values(row).iter().map(read).collect()))
}

/// A column's value. Bytes come back as an array of numbers, or as a buffer from some versions.
fn read(value: JsValue) -> Value {
    if let Some(number) = value.as_f64() {
        return number_of(number);
    }
    if let Some(text) = value.as_string() {
        return Value::Text(text);
    }
    if value.is_object() {
        return Value::Blob(Uint8Array::new(&value).to_vec());
    }
    Value::Null
}

#[expect(clippy::cast_possible_truncation, reason = "checked: it is whole and within 2^53")]
fn number_of(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0 {
        Value::Integer(number as i64)
    } else {
        Value::Real(number)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of rows")]
fn count(meta: &JsValue, name: &str) -> u64 {
    js::get(meta, name).as_f64().unwrap_or_default() as u64
}

#[cfg(test)]
mod tests;
