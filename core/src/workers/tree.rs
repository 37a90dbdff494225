//! A Wrangler file's values with their places, whichever language it is written in.

use std::ops::Range;

use serde_json::{Map, Number, Value as Json};

/// Levels of tables and lists within each other, at most. Wrangler's own keys need 7; a variable may hold any JSON.
pub(super) const DEPTH_MAX: usize = 64;

/// A value.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) kind: Kind,
    /// Its bytes in the text.
    pub(super) span: Range<usize>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    /// A date or time without quotes, which only TOML has.
    Time(String),
    List(Vec<Value>),
    Table(Vec<Entry>),
}

/// A key with its value. A key occurs once in a table.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) value: Value,
}

impl Kind {
    /// What it is, for a message.
    pub(super) fn noun(&self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool(_) => "a truth value",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "a text",
            Kind::Time(_) => "a time without quotes",
            Kind::List(_) => "a list",
            Kind::Table(_) => "a table",
        }
    }
}

impl Value {
    /// The value as JSON. What has no JSON, a time of TOML, is its text: the caller refuses it first where it matters.
    pub(super) fn json(&self) -> Json {
        match &self.kind {
            Kind::Null => Json::Null,
            Kind::Bool(is_true) => Json::Bool(*is_true),
            Kind::Number(number) => Json::Number(number.clone()),
            Kind::Text(text) | Kind::Time(text) => Json::String(text.clone()),
            Kind::List(items) => items.iter().map(Value::json).collect(),
            Kind::Table(entries) => {
                Json::Object(entries.iter().map(|e| (e.key.clone(), e.value.json())).collect::<Map<_, _>>())
            }
        }
    }

    /// The place of the first time of TOML in it.
    pub(super) fn time(&self) -> Option<&Value> {
        match &self.kind {
            Kind::Time(_) => Some(self),
            Kind::List(items) => items.iter().find_map(Value::time),
            Kind::Table(entries) => entries.iter().find_map(|entry| entry.value.time()),
            _ => None,
        }
    }
}

/// A number as it is written; whole where it can be, as JavaScript prints it.
pub(super) fn number(text: &str) -> Option<Number> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(Number::from(whole));
    }
    let float: f64 = text.parse().ok()?;
    // Of what is whole and exact, 1e3 is 1000: JavaScript knows one kind of number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() == 0.0 && float.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        return Some(Number::from(float as i64));
    }
    Number::from_f64(float)
}
