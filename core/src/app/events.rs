//! `events:` — what a message's body must be.

use std::collections::BTreeMap;

use super::code::{Area, Code};
use super::problem::{closest, quote};
use super::syntax::{Block, Value, What};
use super::values::{Key, Reading};
use crate::program::{Field, Type};

const TYPES: [&str; 8] = ["Text", "Int", "Float", "Bool", "Instant", "Uuid", "Json", "Bytes"];

/// What other languages call the types.
const ALIASES: [(&str, &str); 18] = [
    ("string", "Text"),
    ("str", "Text"),
    ("varchar", "Text"),
    ("integer", "Int"),
    ("number", "Int"),
    ("bigint", "Int"),
    ("i64", "Int"),
    ("double", "Float"),
    ("decimal", "Float"),
    ("real", "Float"),
    ("boolean", "Bool"),
    ("date", "Instant"),
    ("datetime", "Instant"),
    ("timestamp", "Instant"),
    ("time", "Instant"),
    ("guid", "Uuid"),
    ("object", "Json"),
    ("any", "Json"),
];

const FIELD_LEN_MAX: usize = 256;

/// How deep records and lists nest. A record with an optional field takes four levels of program.json, and JSON
/// readers stop at 128.
const TYPE_DEPTH_MAX: u32 = 24;

pub(super) fn read(reading: &mut Reading<'_>, block: &Block) -> BTreeMap<String, Type> {
    let mut events = BTreeMap::new();
    for entry in &block.entries {
        let key = Key { area: Area::Event, name: &entry.key };
        if let What::Optional(_) = entry.value.what {
            let message = format!("event {} may not be optional: a message always has a body", quote(&entry.key));
            let help = "remove the `?`, or write `Json` for a body that may be null";
            reading.findings.problem(Code::EventValueInvalid, entry.value.span, message).help(help);
            continue;
        }
        if let Some(kind) = kind(reading, key, &entry.value, 0) {
            events.insert(entry.key.clone(), kind);
        }
    }
    events
}

fn kind(reading: &mut Reading<'_>, key: Key<'_>, value: &Value, depth: u32) -> Option<Type> {
    if depth > TYPE_DEPTH_MAX {
        let message = format!("this type is nested more than {TYPE_DEPTH_MAX} deep");
        reading.findings.problem(Code::EventValueInvalid, value.span, message).help("write `Json` for what is so deep");
        return None;
    }
    match &value.what {
        What::Optional(inner) => Some(Type::Optional(Box::new(kind(reading, key, inner, depth.max(1))?))),
        What::Block(block) => record(reading, block, depth),
        What::List(items) => {
            if let [item] = items.as_slice() {
                return Some(Type::List(Box::new(kind(reading, key, item, depth + 1)?)));
            }
            let message = format!("the list type of `{}` names {} types, and it takes one", key.name, items.len());
            let help = "write `[T]`: a list of one type, like `[Text]`; `[Json]` holds anything";
            reading.findings.problem(Code::EventValueInvalid, value.span, message).help(help);
            None
        }
        What::Name(_) => named(reading, value, depth == 0),
        _ => {
            reading.wrong_kind(key, value, "a type", "write a type, like Text, Int?, [Text] or { sku: Text }");
            None
        }
    }
}

fn record(reading: &mut Reading<'_>, block: &Block, depth: u32) -> Option<Type> {
    let mut fields = Vec::with_capacity(block.entries.len());
    let mut is_right = !block.damaged;
    for entry in &block.entries {
        if entry.key.is_empty() || entry.key.len() > FIELD_LEN_MAX {
            let message = format!("a field's name has 1 to {FIELD_LEN_MAX} bytes, and this has {}", entry.key.len());
            reading.findings.problem(Code::EventValueInvalid, entry.key_span, message).help("write the JSON key");
            is_right = false;
            continue;
        }
        match kind(reading, Key { area: Area::Event, name: &entry.key }, &entry.value, depth + 1) {
            Some(kind) => fields.push(Field { name: entry.key.clone(), kind }),
            None => is_right = false,
        }
    }
    is_right.then_some(Type::Record(fields))
}

fn named(reading: &mut Reading<'_>, value: &Value, is_whole_body: bool) -> Option<Type> {
    let name = value.name().unwrap_or_default();
    Some(match name.as_str() {
        "Text" => Type::Text,
        "Int" => Type::Int,
        "Float" => Type::Float,
        "Bool" => Type::Bool,
        "Instant" => Type::Instant,
        "Uuid" => Type::Uuid,
        "Json" => Type::Json,
        "Bytes" if is_whole_body => Type::Bytes,
        "Bytes" => {
            let message = "`Bytes` is the type of a whole body only: JSON has no bytes".to_owned();
            let help = "write `Text` for bytes in base64, or give the whole event the type: `Blob: Bytes`";
            reading.findings.problem(Code::EventValueInvalid, value.span, message).help(help);
            return None;
        }
        _ => {
            let lower = name.to_lowercase();
            let alias = ALIASES.iter().find(|(alias, _)| *alias == lower).map(|(_, meant)| *meant);
            let help = match alias.or_else(|| closest(&name, TYPES)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => {
                    "the types are Text, Int, Float, Bool, Instant, Uuid, Json, T?, [T] and { field: T }".to_owned()
                }
            };
            let message = format!("there is no type {}", quote(&name));
            reading.findings.problem(Code::EventNameUnknown, value.span, message).help(help);
            return None;
        }
    })
}
