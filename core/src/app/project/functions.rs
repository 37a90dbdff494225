//! `[functions]` — where a function is: an address, a program, a linked function, or another queue.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::DeValue;

use super::super::code::{Area, Code};
use super::super::problem::{Span, closest, quote};
use super::super::scheduled::Scheduled;
use super::super::{forms, loops};
use super::table::{Table, Value, json, kind, span_of};
use super::{Both, File, Place};
use crate::local::BODY_BYTES_MAX;
use crate::program::{Connection, Function, Target, Written};

const ADDRESS_RULE: &str = "write an address like `http://127.0.0.1:3000/handle-payment`";
const TARGETS: &str = "write an address, `\"http://127.0.0.1:3000/…\"`; a program, `[\"./pay.sh\"]`; or a table with one \
    of `call`, `exec`, `run` and `send`";
const NAME_LEN_MAX: usize = 64;

/// The functions of both files.
#[derive(Default)]
pub(super) struct Functions {
    right: BTreeMap<String, Function>,
    places: BTreeMap<String, Place>,
    /// Whether something could not be read that may be a function.
    damaged: bool,
}

impl Functions {
    /// Whether there is a function of this name, be it right or not.
    pub(super) fn has(&self, name: &str) -> bool {
        self.damaged || self.places.contains_key(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    pub(super) fn into_functions(self) -> BTreeMap<String, Function> {
        self.right
    }
}

/// Reads the functions of both files. A developer's own stands before the project's of the same name.
pub(super) fn read(project: &Table<'_>, dev: &Table<'_>, queues: &BTreeSet<&str>, found: &mut Both) -> Functions {
    let mut functions = Functions { damaged: project.damaged || dev.damaged, ..Functions::default() };
    for top in [project, dev] {
        let Some(table) = top.table(found, "functions", Area::Function, "[functions]") else { continue };
        for (name, span, value) in table.entries() {
            if !is_name(name) {
                let message = format!("{} is not a function's name", quote(name));
                let said = found.of(table.file).problem(Code::SyntaxNameInvalid, span, message);
                said.help("names have at most 64 letters, digits, dashes and underscores, and start with a letter");
                continue;
            }
            functions.places.insert(name.to_owned(), (table.file, span));
            if let Some(function) = function(&table, name, value, queues, found) {
                functions.right.insert(name.to_owned(), function);
            }
        }
    }
    functions
}

/// Checks what shows only when all is read: schedules' queues, messages sent round, and what nothing calls.
pub(super) fn check(functions: &Functions, connections: &BTreeMap<String, Connection>, found: &mut Both) {
    let mut scheduled = Scheduled::default();
    let place = |name: &str| functions.places.get(name).copied().unwrap_or((File::Project, Span::default()));
    for (name, function) in &functions.right {
        let (file, span) = place(name);
        if let Some(wrong) = scheduled.add(name, function, (file, span)) {
            let said = found.of(file).problem(Code::FunctionValueInvalid, span, wrong.message).help(wrong.help);
            if let Some((_, first)) = wrong.first.filter(|(other, _)| *other == file) {
                said.related(first, "the first is here");
            }
        }
    }
    for (name, message) in loops::found(connections, &functions.right) {
        let (file, span) = place(&name);
        found.of(file).problem(Code::FunctionValueInvalid, span, message).help(loops::HELP);
    }
    let called: BTreeSet<&String> = connections.values().flat_map(called_by).collect();
    for (name, function) in &functions.right {
        if !called.contains(name) && function.schedule.is_none() {
            let (file, span) = place(name);
            let help = "name it in a queue's `functions`, or give it a `schedule`".to_owned();
            found.of(file).note(Code::NoteUnused, span, format!("nothing calls function {}", quote(name)), Some(help));
        }
    }
}

fn called_by(connection: &Connection) -> &[String] {
    match connection {
        Connection::LocalQueue { functions, .. } => functions,
        _ => &[],
    }
}

fn is_name(text: &str) -> bool {
    text.len() <= NAME_LEN_MAX
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn function(
    table: &Table<'_>,
    name: &str,
    value: &Value<'_>,
    queues: &BTreeSet<&str>,
    found: &mut Both,
) -> Option<Function> {
    let bare = |target| Function { target, schedule: None, body: None };
    match value.get_ref() {
        DeValue::String(address) => call(table, address, span_of(value), found).map(bare),
        DeValue::Array(_) => exec(table, name, value, found).map(bare),
        DeValue::Table(fields) => {
            let what = format!("function {}", quote(name));
            let fields = table.inner(Area::Function, what, span_of(value), fields);
            in_full(&fields, queues, found)
        }
        other => {
            let message = format!("function {} is {}", quote(name), kind(other));
            found.of(table.file).problem(Code::FunctionValueInvalid, span_of(value), message).help(TARGETS);
            None
        }
    }
}

/// A function that is a table.
fn in_full(fields: &Table<'_>, queues: &BTreeSet<&str>, found: &mut Both) -> Option<Function> {
    const WAYS: [&str; 4] = ["call", "exec", "run", "send"];
    let service = ("service", "a function runs natively, where there are no service bindings: use `call`");
    fields.check(found, &["call", "exec", "run", "send", "schedule", "body"], &[service]);
    let schedule = fields.formed(
        found,
        "schedule",
        "schedule",
        forms::schedule,
        "its fields are minute, hour, day of the month, month and day of the week, in UTC: \"0 * * * *\"",
    );
    let body = fields.get("body").map(|value| body(fields, value, found));
    let mut ways = WAYS.iter().filter(|way| fields.get(way).is_some());
    let Some(way) = ways.next() else {
        fields.missing(
            found,
            "target, one of `call`, `exec`, `run` and `send`",
            "add one line to it: `call = \"http://127.0.0.1:3000/…\"`",
        );
        return None;
    };
    if let Some(other) = ways.next() {
        let message = format!("{} has `{way}` and `{other}`", fields.what);
        let said = found.of(fields.file).problem(Code::FunctionKeyInvalid, fields.span, message);
        said.help("keep one of them; for both, write a second function");
        return None;
    }
    let target = match *way {
        "call" => {
            let (address, span) = fields.text(found, "call")?;
            call(fields, address, span, found)?
        }
        "exec" => exec(fields, "exec", fields.get("exec")?, found)?,
        "send" => send(fields, queues, found)?,
        _ => Target::Run(fields.text(found, "run")?.0.to_owned()),
    };
    if body.is_some() && fields.get("schedule").is_none() && !matches!(target, Target::Send(_)) {
        let message = format!("nothing sends the `body` of {}", fields.what);
        let help = "remove it, since the function is called with each message's own body; or give it a `schedule`";
        found.of(fields.file).problem(Code::FunctionKeyInvalid, fields.span, message).help(help);
    }
    let body = match body {
        Some(body) => Some(body?),
        None => None,
    };
    Some(Function { target, schedule: schedule.map(str::to_owned), body })
}

fn call(table: &Table<'_>, address: &str, span: Span, found: &mut Both) -> Option<Target> {
    match forms::address(address) {
        Ok(_) => Some(Target::Call(address.to_owned())),
        Err(fault) => {
            let message = format!("{} is no address: {}", quote(address), fault.why);
            let help = match fault.fixed {
                Some(fixed) => format!("write `\"{fixed}\"`; for a program, write a list: `[\"./pay.sh\"]`"),
                None => ADDRESS_RULE.to_owned(),
            };
            found.of(table.file).problem(Code::FunctionValueInvalid, span, message).help(help);
            None
        }
    }
}

fn exec(table: &Table<'_>, key: &str, value: &Value<'_>, found: &mut Both) -> Option<Target> {
    let words = table.texts_of(found, key, value, "[\"./pay.sh\"]")?;
    let names_none = words.first().is_none_or(|(word, _)| word.is_empty());
    if names_none || words.iter().any(|(word, _)| word.contains('\0')) {
        let said = found.of(table.file).problem(Code::FunctionValueInvalid, span_of(value), "this names no program");
        said.help("write the program and its arguments: `[\"./pay.sh\", \"--once\"]`");
        return None;
    }
    Some(Target::Exec(words.into_iter().map(|(word, _)| word.to_owned()).collect()))
}

fn send(fields: &Table<'_>, queues: &BTreeSet<&str>, found: &mut Both) -> Option<Target> {
    let (queue, span) = fields.text(found, "send")?;
    if !queues.contains(queue) && !fields.damaged {
        let message = format!("there is no queue {}", quote(queue));
        let help = match closest(queue, queues.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "declare it in project.toml: `[[queues]]` and under it its `name`".to_owned(),
        };
        found.of(fields.file).problem(Code::FunctionValueInvalid, span, message).help(help);
        return None;
    }
    Some(Target::Send(queue.to_owned()))
}

/// A text is sent as that text, and anything else as JSON.
fn body(fields: &Table<'_>, value: &Value<'_>, found: &mut Both) -> Option<Written> {
    let written = match value.get_ref() {
        DeValue::String(text) => Ok(Written::Text(text.to_string())),
        _ => json(value).map(|json| Written::Json(json.to_string())),
    };
    let (span, message, help) = match written {
        Err((span, what)) => (
            span,
            format!("`body` cannot hold {what}"),
            "write texts in quotes, numbers, truth values, lists and tables",
        ),
        Ok(Written::Text(text) | Written::Json(text)) if text.len() > BODY_BYTES_MAX => {
            let message = format!("the body has {} bytes, and a message has at most {BODY_BYTES_MAX}", text.len());
            (span_of(value), message, "send less")
        }
        Ok(written) => return Some(written),
    };
    found.of(fields.file).problem(Code::FunctionValueInvalid, span, message).help(help);
    None
}
