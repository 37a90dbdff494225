//! SQLite's mathematical functions, which D1 has (some of them only to refuse them), and which a SQLite must be compiled with to have:
//! <https://sqlite.org/lang_mathfunc.html>.

use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};

type Made = rusqlite::Result<ToSqlOutput<'static>>;
type One = fn(f64) -> f64;
type Two = fn(f64, f64) -> f64;

/// Those of one number. A result that is no number is null, as SQLite makes it.
const OF_ONE: [(&str, One); 20] = [
    ("acos", f64::acos),
    ("acosh", f64::acosh),
    ("asin", f64::asin),
    ("asinh", f64::asinh),
    ("atan", f64::atan),
    ("atanh", f64::atanh),
    ("cos", f64::cos),
    ("cosh", f64::cosh),
    ("degrees", |x| x * (180.0 / std::f64::consts::PI)),
    ("exp", f64::exp),
    ("ln", |x| logarithm(x, f64::ln)),
    ("log", |x| logarithm(x, f64::log10)),
    ("log10", |x| logarithm(x, f64::log10)),
    ("log2", |x| logarithm(x, f64::log2)),
    ("radians", |x| x * (std::f64::consts::PI / 180.0)),
    ("sin", f64::sin),
    ("sinh", f64::sinh),
    ("sqrt", f64::sqrt),
    ("tan", f64::tan),
    ("tanh", f64::tanh),
];

/// Those that leave a whole number as it is.
const ROUNDING: [(&str, One); 4] =
    [("ceil", f64::ceil), ("ceiling", f64::ceil), ("floor", f64::floor), ("trunc", f64::trunc)];

/// Those of two numbers.
const OF_TWO: [(&str, Two); 5] = [
    ("atan2", f64::atan2),
    ("log", |base, x| logarithm(x, f64::ln) / Some(base.ln()).filter(|ln| *ln > 0.0).unwrap_or(f64::NAN)),
    ("mod", |x, y| x % y),
    ("pow", f64::powf),
    ("power", f64::powf),
];

fn logarithm(x: f64, of: fn(f64) -> f64) -> f64 {
    if x > 0.0 { of(x) } else { f64::NAN }
}

/// Adds them to a connection.
pub(super) fn add(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    for (name, function) in OF_ONE {
        connection.create_scalar_function(name, 1, flags, move |context| Ok(real(number(context, 0).map(function))))?;
    }
    for (name, function) in ROUNDING {
        connection.create_scalar_function(name, 1, flags, move |context| -> Made {
            match context.get_raw(0) {
                ValueRef::Integer(whole) => Ok(ToSqlOutput::Owned(Value::Integer(whole))),
                _ => Ok(real(number(context, 0).map(function))),
            }
        })?;
    }
    for (name, function) in OF_TWO {
        connection.create_scalar_function(name, 2, flags, move |context| {
            Ok(real(number(context, 0).zip(number(context, 1)).map(|(x, y)| function(x, y))))
        })?;
    }
    connection.create_scalar_function("pi", 0, flags, |_| Ok(std::f64::consts::PI))
}

fn real(number: Option<f64>) -> ToSqlOutput<'static> {
    ToSqlOutput::Owned(number.map_or(Value::Null, Value::Real))
}

/// An argument as a number; a text is one if it reads as one.
fn number(context: &Context<'_>, index: usize) -> Option<f64> {
    match context.get_raw(index) {
        #[expect(clippy::cast_precision_loss, reason = "SQLite computes with it as this, too")]
        ValueRef::Integer(whole) => Some(whole as f64),
        ValueRef::Real(number) => Some(number),
        ValueRef::Text(text) => {
            std::str::from_utf8(text).ok()?.trim().parse().ok().filter(|number: &f64| number.is_finite())
        }
        ValueRef::Null | ValueRef::Blob(_) => None,
    }
}
