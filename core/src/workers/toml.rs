//! TOML, as `wrangler.toml` is written.

use serde_json::Number;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::note::{Found, Note};
use super::tree::{DEPTH_MAX, Entry, Kind, Value, number};

/// Reads the text; nothing, if it is no TOML, which is said.
pub(super) fn parse(text: &str, found: &mut Found) -> Option<Value> {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let range = error.span().unwrap_or(0..0);
        let (start, end) = (boundary(text, range.start), boundary(text, range.end));
        let why = error.message().lines().collect::<Vec<_>>().join(", ");
        let message = format!("the file is no TOML: {why}");
        let help = "write it as TOML: `key = \"text\"`, `key = 3`, `key = [\"a\", \"b\"]`, `[table]`".to_owned();
        found.problem(Note { path: String::new(), message, help: Some(help), span: Some(start..end.max(start)) });
    }
    if !errors.is_empty() {
        return None;
    }
    let entries = entries(table.get_ref(), 0, found)?;
    Some(Value { kind: Kind::Table(entries), span: 0..text.len() })
}

fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn entries(table: &DeTable<'_>, depth: usize, found: &mut Found) -> Option<Vec<Entry>> {
    let entries: Vec<_> = table
        .iter()
        .map(|(key, value)| {
            let value = convert(value, depth + 1, found)?;
            Some(Entry { key: key.get_ref().to_string(), key_span: key.span(), value })
        })
        .collect();
    let mut entries: Vec<Entry> = entries.into_iter().collect::<Option<_>>()?;
    entries.sort_by_key(|entry| entry.key_span.start);
    Some(entries)
}

fn convert(value: &Spanned<DeValue<'_>>, depth: usize, found: &mut Found) -> Option<Value> {
    let span = value.span();
    let mut no = |message: String, help: Option<&str>| {
        let help = help.map(str::to_owned);
        found.problem(Note { path: String::new(), message, help, span: Some(span.clone()) });
    };
    if depth > DEPTH_MAX {
        let help = "put what is nested into a file of its own and import that";
        no(format!("values are nested more than {DEPTH_MAX} deep"), Some(help));
        return None;
    }
    let kind = match value.get_ref() {
        DeValue::String(text) => Kind::Text(text.to_string()),
        DeValue::Boolean(is_true) => Kind::Bool(*is_true),
        DeValue::Datetime(time) => Kind::Time(time.to_string()),
        DeValue::Integer(written) => match i64::from_str_radix(written.as_str(), written.radix()) {
            Ok(whole) => Kind::Number(Number::from(whole)),
            Err(_) => {
                no("the number has more than 64 bits".to_owned(), Some("write it in quotes"));
                return None;
            }
        },
        DeValue::Float(written) => match number(written.as_str()) {
            Some(float) => Kind::Number(float),
            None => {
                no("the number is no finite one".to_owned(), Some("write it in quotes"));
                return None;
            }
        },
        DeValue::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| convert(item, depth + 1, found)).collect();
            Kind::List(items.into_iter().collect::<Option<_>>()?)
        }
        DeValue::Table(table) => Kind::Table(entries(table, depth, found)?),
    };
    Some(Value { kind, span })
}
