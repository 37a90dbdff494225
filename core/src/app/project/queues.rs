//! `[[queues]]` — each is a local queue and its functions.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::DeValue;

use super::super::code::{Area, Code};
use super::super::problem::{Span, closest, quote};
use super::super::{ENTRIES_MAX, forms};
use super::functions::Functions;
use super::table::Table;
use super::{Both, VISIBILITY_MS};
use crate::local;
use crate::program::{CONCURRENCY, Connection};

/// The names of the queues that are declared, whether or not they are right.
pub(super) fn names<'t>(top: &Table<'t>) -> BTreeSet<&'t str> {
    let Some(DeValue::Array(items)) = top.get("queues").map(|value| value.get_ref()) else { return BTreeSet::new() };
    let name = |item: &'t toml::Spanned<DeValue<'t>>| item.get_ref().get("name")?.get_ref().as_str();
    items.iter().filter_map(name).collect()
}

pub(super) fn read(top: &Table<'_>, functions: &Functions, found: &mut Both) -> BTreeMap<String, Connection> {
    let mut queues = BTreeMap::new();
    let mut places: BTreeMap<&str, Span> = BTreeMap::new();
    let tables = top.tables(found, "queues");
    if let Some((over, _)) = tables.get(ENTRIES_MAX) {
        let message = format!("there are {} queues, and {ENTRIES_MAX} are the most", tables.len());
        found.of(top.file).problem(Code::FileTooMany, *over, message).help("split the project in two");
        return queues;
    }
    for (span, table) in tables {
        let name = table.get("name").and_then(|name| name.get_ref().as_str());
        let what = name.map_or_else(|| "a queue".to_owned(), |name| format!("queue {}", quote(name)));
        let table = top.inner(Area::Queue, what, span, table);
        let Some((name, connection)) = queue(&table, functions, found) else { continue };
        let at = table.text(found, "name").map_or(span, |(_, span)| span);
        if let Some(first) = places.get(name) {
            let message = format!("there is a queue {} already", quote(name));
            let said = found.of(top.file).problem(Code::QueueValueInvalid, at, message);
            said.help("give one of them another name, or make one of both").related(*first, "the first is here");
        } else {
            places.insert(name, at);
            queues.insert(name.to_owned(), connection);
        }
    }
    for (name, span) in &places {
        let dead = local::dead_letters_of(name);
        if let Some(theirs) = places.get(dead.as_str()) {
            let message = format!("{} is the dead-letter queue of {}", quote(&dead), quote(name));
            let said = found.of(top.file).problem(Code::QueueValueInvalid, *theirs, message);
            said.help("give the queue another name").related(*span, "the queue that it belongs to");
        }
    }
    queues
}

fn queue<'t>(table: &Table<'t>, functions: &Functions, found: &mut Both) -> Option<(&'t str, Connection)> {
    const ELSEWHERE: &str = "remove it: a queue has its own dead letters; see `jadpo queues dead-letters`";
    let known = ["name", "functions", "max_receives", "visibility_ms", "concurrency"];
    table.check(found, &known, &[("dead_letter_queue", ELSEWHERE)]);
    if table.get("name").is_none() {
        table.missing(found, "`name`", "add a line to it: `name = \"jobs\"`");
    }
    let name = table.formed(found, "name", "local queue's name", forms::local_queue, local::QUEUE_NAME_RULE);
    let called = called(table, functions, found);
    let max_receives = table.count(found, "max_receives", 1, local::MAX_RECEIVES_MAX);
    let visibility_ms = table.count(found, "visibility_ms", VISIBILITY_MS.0, VISIBILITY_MS.1);
    let concurrency = table.count(found, "concurrency", 1, local::CONCURRENCY_MAX);
    let name = name?;
    if called.is_empty() && table.get("functions").is_none() {
        let message = format!("nothing handles queue {}: it keeps its messages", quote(name));
        let help = "add a line to it: `functions = [\"handle-payment\"]`".to_owned();
        found.of(table.file).note(Code::NoteUnused, table.span, message, Some(help));
    }
    let connection = Connection::LocalQueue {
        queue: name.to_owned(),
        functions: called,
        max_receives: max_receives.unwrap_or(local::MAX_RECEIVES),
        visibility_ms: visibility_ms.map_or(local::VISIBILITY_MS, u64::from),
        concurrency: concurrency.unwrap_or(CONCURRENCY),
    };
    Some((name, connection))
}

fn called(table: &Table<'_>, functions: &Functions, found: &mut Both) -> Vec<String> {
    let mut called: Vec<String> = Vec::new();
    let named = table.texts(found, "functions", "[\"handle-payment\"]").unwrap_or_default();
    if let Some((_, over)) = named.get(local::FUNCTIONS_MAX) {
        let message = format!("the queue has {} functions, and {} are the most", named.len(), local::FUNCTIONS_MAX);
        let help = "let one of them send on to a second queue with the others: `{ send = \"NAME\" }`";
        found.of(table.file).problem(Code::QueueValueInvalid, *over, message).help(help);
        return called;
    }
    for (name, span) in named {
        if !functions.has(name) {
            let message = format!("function {} has no entry under [functions]", quote(name));
            let help = match closest(name, functions.names()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!(
                    "say where it is, in project.toml or dev.toml: `[functions]` and under it `{name} = \
                     \"http://127.0.0.1:3000/{name}\"`, or a program: `{name} = [\"./{name}.sh\"]`"
                ),
            };
            found.of(table.file).problem(Code::QueueNameUnknown, span, message).help(help);
        } else if called.iter().any(|known| known == name) {
            let message = format!("function {} is named twice, and it gets every message once", quote(name));
            found.of(table.file).problem(Code::QueueValueInvalid, span, message).help("remove one of them");
        } else {
            called.push(name.to_owned());
        }
    }
    called
}
