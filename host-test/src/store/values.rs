//! D1's types and error texts.

use jadpo_core::d1;
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
        Value::Integer(number) if !(-WHOLE_MAX..=WHOLE_MAX).contains(number) => {
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
    let message = message.unwrap_or_else(|| code.to_string());
    format!("D1_ERROR: {}", d1::text(&message, code.extended_code, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_that_javascript_cannot_hold_is_refused_whatever_its_sign() {
        for number in [i64::MIN, -WHOLE_MAX - 1, WHOLE_MAX + 1, i64::MAX] {
            assert!(bound(&Value::Integer(number)).is_err(), "{number}");
        }
        for number in [-WHOLE_MAX, 0, WHOLE_MAX] {
            assert!(bound(&Value::Integer(number)).is_ok(), "{number}");
        }
    }
}
