//! D1's types and error texts.

use jadpo_core::store::Value;
use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};

/// The largest whole number that a JavaScript number holds for certain.
const WHOLE_MAX: i64 = 9_007_199_254_740_991;

/// A parameter as D1 binds it: every number is a JavaScript number, bound as REAL.
///
/// # Errors
/// The text of a type error for a whole number that JavaScript cannot hold.
pub(crate) fn bound(value: &Value) -> Result<ToSqlOutput<'_>, String> {
    Ok(match value {
        Value::Null => ToSqlOutput::Owned(SqlValue::Null),
        Value::Integer(number) if number.abs() > WHOLE_MAX => {
            return Err(format!("D1_TYPE_ERROR: {number} is past 2^53: JavaScript's numbers cannot hold it"));
        }
        #[expect(clippy::cast_precision_loss, reason = "within 2^53 nothing is lost")]
        Value::Integer(number) => ToSqlOutput::Owned(SqlValue::Real(*number as f64)),
        Value::Real(number) => ToSqlOutput::Owned(SqlValue::Real(*number)),
        Value::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        Value::Blob(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
    })
}

/// A result's value as D1 hands it back: every number as a JavaScript number, which past 2^53 is not exact.
pub(crate) fn handed_back(value: ValueRef<'_>) -> Value {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "D1 loses it too")]
        ValueRef::Integer(number) => Value::Real(number as f64),
        other => as_stored(other),
    }
}

/// A value as the file holds it.
pub(crate) fn as_stored(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// An error in D1's words: `D1_ERROR: what SQLite said: SQLITE_CODE`, the extended code of a constraint in brackets.
pub(crate) fn error_text(error: &rusqlite::Error) -> String {
    let (code, message) = match error {
        rusqlite::Error::SqliteFailure(code, message) => (code, message.clone()),
        rusqlite::Error::SqlInputError { error, msg, .. } => (error, Some(msg.clone())),
        other => return format!("D1_ERROR: {other}"),
    };
    let extended = code.extended_code;
    let message = message.unwrap_or_else(|| code.to_string());
    let name = primary_name(extended & 0xff);
    match constraint_name(extended) {
        Some(constraint) => format!("D1_ERROR: {message}: {name} (extended: SQLITE_CONSTRAINT_{constraint})"),
        None => format!("D1_ERROR: {message}: {name}"),
    }
}

/// The name of a primary result code, as <https://sqlite.org/rescode.html> lists them.
fn primary_name(code: i32) -> &'static str {
    match code {
        5 => "SQLITE_BUSY",
        6 => "SQLITE_LOCKED",
        7 => "SQLITE_NOMEM",
        8 => "SQLITE_READONLY",
        9 => "SQLITE_INTERRUPT",
        10 => "SQLITE_IOERR",
        11 => "SQLITE_CORRUPT",
        13 => "SQLITE_FULL",
        18 => "SQLITE_TOOBIG",
        19 => "SQLITE_CONSTRAINT",
        20 => "SQLITE_MISMATCH",
        21 => "SQLITE_MISUSE",
        23 => "SQLITE_AUTH",
        25 => "SQLITE_RANGE",
        _ => "SQLITE_ERROR",
    }
}

/// The last part of an extended constraint code's name, from the same list.
fn constraint_name(extended: i32) -> Option<&'static str> {
    if extended & 0xff != 19 {
        return None;
    }
    Some(match extended >> 8 {
        1 => "CHECK",
        3 => "FOREIGNKEY",
        5 => "NOTNULL",
        6 => "PRIMARYKEY",
        7 => "TRIGGER",
        8 => "UNIQUE",
        10 => "ROWID",
        12 => "DATATYPE",
        _ => return None,
    })
}
