//! A Wrangler file as Wrangler reads it, and refused where jadpo could not keep what it asks for.

use std::collections::BTreeMap;

use super::at::{At, Limits, Table};
use super::keys::{KEYS, REMOVED, TOP_KEYS};
use super::note::{Found, Note};
use super::queues::{self, Queues};
use super::scope::Scope;
use super::tree::{Kind, Value};
use super::{Var, Worker, code, json, quote, services, toml};
use crate::cron::Cron;

/// Most bytes of a Wrangler file.
pub const FILE_LEN_MAX: usize = 1024 * 1024;
/// Characters of a Worker's name, at most: Cloudflare makes a part of a host's name of it.
const NAME_LEN_MAX: usize = 63;

/// Schedules of one Worker, at most: what Cloudflare takes of a whole account.
const CRONS_MAX: usize = 250;

/// The keys that are read here.
pub(super) const READ: [&str; 29] = [
    "name",
    "main",
    "compatibility_date",
    "compatibility_flags",
    "no_bundle",
    "find_additional_modules",
    "base_dir",
    "rules",
    "define",
    "tsconfig",
    "jsx_factory",
    "jsx_fragment",
    "minify",
    "keep_names",
    "build",
    "triggers",
    "migrations",
    "exports",
    "vars",
    "secrets",
    "queues",
    "services",
    "d1_databases",
    "durable_objects",
    "version_metadata",
    "alias",
    "dev",
    "env",
    "$schema",
];

/// Which language a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `wrangler.json` and `wrangler.jsonc`: JSON with comments and trailing commas.
    Json,
    /// `wrangler.toml`.
    Toml,
}

/// A file that is right.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// The Worker.
    pub worker: Worker,
    /// What is worth knowing, in the order in which it was found.
    pub warnings: Vec<Note>,
}

/// Reads a Wrangler file's text for one of its environments; the empty name is no environment, as in Wrangler.
///
/// # Errors
/// Every problem of the file, at most [`super::NOTES_MAX`] and one that counts the rest.
pub fn read(text: &str, format: Format, environment: Option<&str>) -> Result<Given, Vec<Note>> {
    let mut found = Found::default();
    let worker = parsed(text, format, &mut found).and_then(|root| {
        let at = At { path: String::new(), value: &root, is_used: true };
        worker(&mut found, at, environment.filter(|name| !name.is_empty()))
    });
    match worker {
        Some(worker) if found.problems.is_empty() => Ok(Given { worker, warnings: found.warnings }),
        _ => Err(found.into_problems()),
    }
}

/// The text as values; places are those in the text that was given.
fn parsed(text: &str, format: Format, found: &mut Found) -> Option<Value> {
    if text.len() > FILE_LEN_MAX {
        let message = format!("the file has {} bytes, and {FILE_LEN_MAX} are the most", text.len());
        let help = Some("keep data in files of their own and import them".to_owned());
        found.problem(Note { path: String::new(), message, help, span: None });
        return None;
    }
    match format {
        Format::Json => json::parse(text, found),
        Format::Toml => toml::parse(text, found),
    }
}

fn worker(found: &mut Found, root: At<'_>, environment: Option<&str>) -> Option<Worker> {
    let Kind::Table(entries) = &root.value.kind else {
        root.wrong(
            found,
            format!("the file holds {}, and a Wrangler file is a table", root.value.kind.noun()),
            "write `{ … }`",
        );
        return None;
    };
    let top = Table { at: root.clone(), entries };
    let chosen = chosen(found, &top, environment);
    let scope = Scope { top, environment: chosen };
    unread(found, &scope);
    let name = name(found, &scope, environment);
    let code = code::read(found, &scope);
    let compatibility_date = compatibility_date(found, &scope);
    let flags = scope.inherited(found, "compatibility_flags", flags).unwrap_or_default();
    let queues = scope.own(found, "queues", |found, at| queues::read(found, &at, name.as_deref())).unwrap_or_default();
    let Queues { producers, consumers } = queues;
    let vars = scope.own(found, "vars", vars).unwrap_or_default();
    let secrets_required = scope.own(found, "secrets", secrets).unwrap_or_default();
    let crons = scope.inherited(found, "triggers", triggers).unwrap_or_default();
    let services = scope.own(found, "services", |found, at| services::workers(found, &at)).unwrap_or_default();
    let databases = scope.own(found, "d1_databases", |found, at| services::databases(found, &at)).unwrap_or_default();
    let objects = scope.own(found, "durable_objects", |found, at| services::objects(found, &at)).unwrap_or_default();
    let version_metadata = scope.own(found, "version_metadata", |found, at| services::version(found, &at));
    let port = scope.top(found, "dev", dev);
    let classes = super::classes::read(found, &scope, &objects);
    let worker = Worker {
        name: name?,
        environment: environment.map(str::to_owned),
        code: code?,
        compatibility_date: compatibility_date?,
        compatibility_flags: flags,
        vars,
        secrets_required,
        producers,
        consumers,
        crons,
        services,
        databases,
        durable_objects: objects,
        classes,
        version_metadata,
        port,
    };
    super::conflicts::within(found, &worker, &scope);
    Some(worker)
}

/// A flag by which a D1 binding speaks a protocol that only workerd speaks with itself. The platform refuses it, as it
/// does every flag of an experiment.
const D1_BY_RPC: &str = "d1_binding_jsrpc";

fn flags(found: &mut Found, at: At<'_>) -> Option<Vec<String>> {
    let flags = at.strings(found)?;
    if flags.iter().any(|flag| flag == D1_BY_RPC) {
        let help = "leave it out: D1 bindings do the same without it, but for `query()`";
        at.refuse(found, format!("`{}` has `{D1_BY_RPC}`, which jadpo's D1 cannot answer", at.path), help);
    }
    Some(flags)
}

/// The section of the environment that was asked for. A file without any environment is taken as it is, under a name of
/// its own.
fn chosen<'t>(found: &mut Found, top: &Table<'t>, environment: Option<&str>) -> Option<(String, Table<'t>)> {
    let Some(environments) = top.get("env").filter(|at| !at.is_null()) else {
        if let Some(name) = environment {
            let message =
                format!("the file has no environments, so `{}` is all of it under another name", quoted(name));
            let help = Some(format!("write `env.{}`, with what is different there", quoted(name)));
            found.warning(Note { path: "env".to_owned(), message, help, span: None });
        }
        return None;
    };
    let sections = environments.table(found)?;
    let name = environment?;
    let Some(section) = sections.get(name) else {
        let known: Vec<String> = sections.all().map(|(name, _)| quote(name)).take(20).collect();
        let help = match super::closest(name, sections.all().map(|(name, _)| name)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if known.is_empty() => "the file has none".to_owned(),
            None => format!("it has {}", known.join(", ")),
        };
        environments.wrong(found, format!("the file has no environment {}", quote(name)), help);
        return None;
    };
    Some((name.to_owned(), section.table(found)?))
}

fn quoted(name: &str) -> String {
    quote(name).trim_matches('`').to_owned()
}

/// What is not read: checked, refused, or not known.
fn unread(found: &mut Found, scope: &Scope<'_>) {
    for key in KEYS {
        let check = |found: &mut Found, at: At<'_>| -> Option<()> {
            key.check(found, &at);
            None
        };
        if key.is_inherited {
            scope.inherited(found, key.name, check)
        } else {
            scope.own(found, key.name, check)
        };
    }
    for key in TOP_KEYS {
        if let Some(at) = scope.top.get(key.name) {
            key.check(found, &at);
        }
    }
    let shared = || READ.iter().copied().chain(KEYS.iter().map(|key| key.name));
    let top: Vec<&str> = shared().chain(TOP_KEYS.iter().map(|key| key.name)).collect();
    unknown(found, &scope.top, &top);
    if let Some((_, section)) = &scope.environment {
        let own: Vec<&str> = shared().filter(|key| !["env", "alias", "dev", "$schema"].contains(key)).collect();
        unknown(found, section, &own);
    }
}

fn unknown(found: &mut Found, table: &Table<'_>, known: &[&str]) {
    for entry in table.entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
        let removed = REMOVED.iter().find(|(name, _)| *name == entry.key);
        let meant = if found.is_full() { None } else { super::closest(&entry.key, known.iter().copied()) };
        let help = match (removed, meant) {
            (Some((_, help)), _) => (*help).to_owned(),
            (None, Some(meant)) => format!("did you mean `{meant}`?"),
            (None, None)
                if TOP_KEYS.iter().any(|key| key.name == entry.key) || entry.key == "dev" || entry.key == "alias" =>
            {
                "write it at the top level: an environment has none of its own".to_owned()
            }
            (None, None) => "leave it out; Wrangler does not know it either".to_owned(),
        };
        table.unknown_key(found, entry, help, removed.is_some());
    }
}

/// What the Worker is called: an environment's own name, or the top level's and the environment's.
fn name(found: &mut Found, scope: &Scope<'_>, environment: Option<&str>) -> Option<String> {
    let valid = |found: &mut Found, at: &At<'_>| {
        let name = at.text(found)?;
        let is_first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_right = name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c == '-');
        if !is_right {
            let message = format!("{} is no Worker's name", quote(name));
            at.wrong(found, message, "write lowercase letters, digits and dashes: `\"name\": \"my-worker\"`");
        }
        is_right.then(|| name.to_owned())
    };
    let top_at = scope.top.get("name");
    let top = top_at.as_ref().and_then(|at| valid(found, at));
    let own_at = scope.environment.as_ref().and_then(|(_, section)| section.get("name")).filter(|at| !at.is_null());
    let own = own_at.as_ref().map(|at| valid(found, at));
    if own_at.is_none() && top_at.is_none() {
        scope.top.at.missing(found, "name", "write what the Worker is called: `\"name\": \"my-worker\"`");
    }
    let made = match (own, environment) {
        (Some(own), _) => own?,
        (None, Some(environment)) => format!("{}-{environment}", top?),
        (None, None) => top?,
    };
    if made.len() > NAME_LEN_MAX {
        let at = own_at.or(top_at)?;
        let message = format!("the Worker's name {} is longer than {NAME_LEN_MAX} characters", quote(&made));
        at.refuse(found, message, "write a shorter one: it becomes a part of a host's name");
        return None;
    }
    Some(made)
}

fn compatibility_date(found: &mut Found, scope: &Scope<'_>) -> Option<String> {
    const HELP: &str = "write the day whose runtime behaviour the Worker was tested with: \
        `\"compatibility_date\": \"2026-11-01\"`";
    let date = scope.inherited(found, "compatibility_date", |found, at| {
        let date = at.text(found)?;
        if !is_day(date) {
            at.wrong(found, format!("{} is no day", quote(date)), HELP);
            return None;
        }
        Some(date.to_owned())
    });
    let is_said = scope.has("compatibility_date");
    if !is_said {
        scope.top.at.missing(found, "compatibility_date", HELP);
    }
    date
}

/// Whether it is a day of the calendar, `YYYY-MM-DD`, which is the only form that workerd takes.
fn is_day(text: &str) -> bool {
    text.len() == "YYYY-MM-DD".len() && chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok()
}

fn vars(found: &mut Found, at: At<'_>) -> Option<BTreeMap<String, Var>> {
    let table = at.table(found)?;
    let mut vars = BTreeMap::new();
    for (key, at) in table.all() {
        if let Some(time) = at.value.time() {
            let time = At { value: time, ..at };
            let message = format!("`{}` holds a time without quotes, which a variable cannot be", time.path);
            time.wrong(found, message, "write it in quotes");
            continue;
        }
        let var = match &at.value.kind {
            Kind::Text(text) => Var::Text(text.clone()),
            _ => Var::Json(at.value.json()),
        };
        vars.insert(key.to_owned(), var);
    }
    Some(vars)
}

fn secrets(found: &mut Found, at: At<'_>) -> Option<Vec<String>> {
    let table = at.table(found)?;
    table.unknown(found, &["required"], false);
    table.get("required").map_or_else(|| Some(Vec::new()), |at| at.strings(found))
}

fn triggers(found: &mut Found, at: At<'_>) -> Option<Vec<String>> {
    if at.is_null() {
        return Some(Vec::new());
    }
    let table = at.table(found)?;
    table.unknown(found, &["crons", "events"], false);
    if let Some(at) = table.get("events")
        && at.list(found).is_some_and(|events| !events.is_empty())
    {
        at.refuse(found, format!("jadpo has no events of artifacts: `{}`", at.path), "leave it out");
    }
    let written = table.get("crons").and_then(|at| at.texts(found)).unwrap_or_default();
    if let Some(at) = table.get("crons").filter(|_| written.len() > CRONS_MAX) {
        let message = format!("`{}` has {} schedules, and {CRONS_MAX} are the most", at.path, written.len());
        at.refuse(found, message, "leave some out, or let one of them do the work of several");
        return None;
    }
    let mut crons: Vec<String> = Vec::new();
    for (at, cron) in written {
        if let Err(why) = Cron::parse_of_worker(cron) {
            let help = "write minute, hour, day of the month, month and day of the week, in UTC: `\"0 3 * * SUN\"`";
            at.refuse(found, format!("{} is no schedule: {why}", quote(cron)), help);
        } else if crons.iter().any(|other| other == cron) {
            at.warn(found, format!("{} is written twice, and once is what counts", quote(cron)), "leave one out");
        } else {
            crons.push(cron.to_owned());
        }
    }
    Some(crons)
}

/// Of the development server's settings only the port means something here.
fn dev(found: &mut Found, at: At<'_>) -> Option<u16> {
    const KNOWN: [&str; 10] = [
        "ip",
        "port",
        "inspector_port",
        "inspector_ip",
        "local_protocol",
        "upstream_protocol",
        "host",
        "enable_containers",
        "container_engine",
        "generate_types",
    ];
    let table = at.table(found)?;
    table.unknown(found, &KNOWN, false);
    for key in ["ip", "inspector_ip", "local_protocol", "upstream_protocol", "host", "container_engine"] {
        table.text(found, key);
    }
    for key in ["enable_containers", "generate_types"] {
        table.truth(found, key);
    }
    if let Some(at) = table.get("inspector_port") {
        at.number(found);
    }
    if let Some(at) = table.get("local_protocol").filter(|at| matches!(&at.value.kind, Kind::Text(t) if t == "https")) {
        at.warn(found, format!("`{}`: jadpo answers by HTTP", at.path), "let a proxy before jadpo speak TLS");
    }
    let ports = Limits { least: 0, most: u32::from(u16::MAX), unit: "" };
    table.count(found, "port", ports).and_then(|port| u16::try_from(port).ok())
}
