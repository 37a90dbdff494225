//! A connection with `Driver.local_queue`: a queue in a native server's own store.

use std::collections::BTreeSet;

use super::claims::Claims;
use super::code::{Area, Code};
use super::connections::{name_written_out, visibility};
use super::fields::{Fields, optional, required};
use super::forms;
use super::names::Names;
use super::problem::quote;
use super::values::Reading;
use crate::local;
use crate::program::{CONCURRENCY, Connection};

pub(super) fn read<'a>(
    reading: &mut Reading<'_>,
    fields: Fields<'a>,
    names: &Names<'_>,
    claims: &mut Claims<'a>,
) -> Option<Connection> {
    let known = [
        required("driver", "Driver.local_queue"),
        required("queue", "\"jobs\""),
        optional("functions"),
        optional("max_receives"),
        optional("visibility"),
        optional("concurrency"),
    ];
    let refused = [
        ("domains", "remove it: the queue is in this server's own store, and nothing is reached"),
        ("dead_letter_queue", "remove it: a local queue has its own dead letters; see `jadpo queues dead-letters`"),
    ];
    fields.check(reading, &known, &refused);
    let queue = fields.entry("queue").and_then(|entry| {
        let key = fields.key("queue");
        let entry = name_written_out(reading, key, entry, "the queue is made when the server starts")?;
        let read = reading.formed(key, &entry.value, "local queue's name", forms::local_queue, local::QUEUE_NAME_RULE);
        read.map(|(text, ())| text)
    });
    if let Some(queue) = queue {
        claims.local(reading, fields.name, queue);
    }
    let functions = functions(reading, fields, names);
    let max_receives = match fields.entry("max_receives") {
        Some(entry) => reading.count(fields.key("max_receives"), &entry.value, 1, local::MAX_RECEIVES_MAX),
        None => Some(local::MAX_RECEIVES),
    };
    let visibility_ms = visibility(reading, fields);
    let concurrency = match fields.entry("concurrency") {
        Some(entry) => reading.count(fields.key("concurrency"), &entry.value, 1, local::CONCURRENCY_MAX),
        None => Some(CONCURRENCY),
    };
    Some(Connection::LocalQueue {
        queue: queue?.text.to_owned(),
        functions: functions?,
        max_receives: max_receives?,
        visibility_ms: visibility_ms?,
        concurrency: concurrency?,
    })
}

fn functions(reading: &mut Reading<'_>, fields: Fields<'_>, names: &Names<'_>) -> Option<Vec<String>> {
    let Some(entry) = fields.entry("functions") else { return Some(Vec::new()) };
    let key = fields.key("functions");
    let items = reading.list(key, &entry.value, "[handle_payment]")?;
    if let Some(over) = items.get(local::FUNCTIONS_MAX) {
        let message = format!("the queue has {} functions, and {} are the most", items.len(), local::FUNCTIONS_MAX);
        let help = "let one of them send on to a second queue with the others: `send: \"NAME\"`";
        reading.findings.problem(Code::ConnectionValueInvalid, over.span, message).help(help);
        return None;
    }
    let mut functions: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut is_right = true;
    for item in items {
        let Some(name) = reading.name(key, item, "a function") else {
            is_right = false;
            continue;
        };
        if !names.has(Area::Function, name.text) {
            is_right = false;
            let declare = || format!("declare it: `functions: {{ {}: {{ call: \"https://…\" }} }}`", name.text);
            reading.unknown(Area::Connection, name, "function", names.of(Area::Function), declare);
        } else if !seen.insert(name.text) {
            is_right = false;
            let message = format!("function {} is named twice, and it gets every message once", quote(name.text));
            reading.findings.problem(Code::ConnectionValueInvalid, name.span, message).help("remove one of them");
        } else {
            functions.push(name.text.to_owned());
        }
    }
    is_right.then_some(functions)
}
