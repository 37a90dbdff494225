//! Bindings to what jadpo has beside queues: Workers, D1 databases, Durable Objects, the version's metadata.

use std::collections::BTreeMap;

use super::at::{At, Table};
use super::note::Found;
use super::{Database, DurableObject, Service, quote};

const DATABASE: [&str; 10] = [
    "binding",
    "database_name",
    "database_id",
    "jurisdiction",
    "preview_database_id",
    "migrations_table",
    "migrations_dir",
    "migrations_pattern",
    "database_internal_env",
    "remote",
];

const BINDING: &str = "write what the Worker calls it: `\"binding\": \"NAME\"` is `env.NAME`";

/// Reads `services`.
pub(super) fn workers(found: &mut Found, at: &At<'_>) -> Option<Vec<Service>> {
    let entries = at.list(found)?;
    let entries: Vec<_> = entries.iter().filter_map(|at| at.table(found)).collect();
    Some(entries.iter().filter_map(|entry| service(found, entry)).collect())
}

fn service(found: &mut Found, entry: &Table<'_>) -> Option<Service> {
    entry.unknown(found, &["binding", "service", "entrypoint", "props", "remote", "environment", "dev"], false);
    let binding = entry.required(found, "binding", BINDING);
    let service =
        entry.required(found, "service", "write the name of the Worker that it calls: `\"service\": \"auth\"`");
    let entrypoint = entry.text(found, "entrypoint").filter(|name| !name.is_empty());
    if let Some(at) = entry.get("environment")
        && let Some(environment) = at.text(found).filter(|name| !name.is_empty())
    {
        let named = service.map(|name| format!("{name}-{environment}"));
        let help = format!("write the Worker's whole name instead: `\"service\": \"{}\"`", named.unwrap_or_default());
        at.refuse(found, format!("`{}`: a Worker has no environments that could be named apart", at.path), help);
    }
    if let Some(at) = entry.get("dev") {
        let help = "leave it out, and run the Worker that it stands for: `--worker PATH`";
        at.refuse(found, format!("`{}` is a plugin of Wrangler's development server", at.path), help);
    }
    remote(found, entry, "run the Worker here: `--worker PATH`");
    let props = entry.get("props").and_then(|at| at.table(found)).map(|props| props.at.value.json());
    Some(Service {
        binding: binding?.to_owned(),
        service: service?.to_owned(),
        entrypoint: entrypoint.map(str::to_owned),
        props,
    })
}

fn remote(found: &mut Found, entry: &Table<'_>, instead: &str) {
    if entry.truth(found, "remote") == Some(true)
        && let Some(at) = entry.get("remote")
    {
        let help = format!("leave it out for the environment that runs here; {instead}");
        at.refuse(
            found,
            format!("`{}` asks for what runs at Cloudflare, and jadpo does not call there", at.path),
            help,
        );
    }
}

/// Reads `d1_databases`.
pub(super) fn databases(found: &mut Found, at: &At<'_>) -> Option<Vec<Database>> {
    let entries = at.list(found)?;
    let entries: Vec<_> = entries.iter().filter_map(|at| at.table(found)).collect();
    Some(entries.iter().filter_map(|entry| database(found, entry)).collect())
}

fn database(found: &mut Found, entry: &Table<'_>) -> Option<Database> {
    entry.unknown(found, &DATABASE, false);
    let binding = entry.required(found, "binding", BINDING);
    let mut text = |key| entry.text(found, key).filter(|text| !text.is_empty()).map(str::to_owned);
    let (name, id, preview) = (text("database_name"), text("database_id"), text("preview_database_id"));
    let (dir, table, pattern) = (text("migrations_dir"), text("migrations_table"), text("migrations_pattern"));
    let (_, _) = (text("jurisdiction"), text("database_internal_env"));
    let migrations_dir = dir.unwrap_or_else(|| "migrations".to_owned());
    if let Some(at) = entry.get("migrations_pattern")
        && pattern.is_some_and(|pattern| pattern != format!("{}/*.sql", migrations_dir.trim_end_matches('/')))
    {
        let help = "leave it out, and keep the migrations in one folder: `\"migrations_dir\": \"migrations\"`";
        at.refuse(found, format!("`{}`: jadpo reads the `.sql` files of `migrations_dir` itself", at.path), help);
    }
    remote(found, entry, "the database is then a file of jadpo's");
    Some(Database {
        binding: binding?.to_owned(),
        name,
        id: preview.or(id),
        migrations_dir,
        migrations_table: table.unwrap_or_else(|| "d1_migrations".to_owned()),
    })
}

/// Reads `durable_objects`.
pub(super) fn objects(found: &mut Found, at: &At<'_>) -> Option<Vec<DurableObject>> {
    let table = at.table(found)?;
    table.unknown(found, &["bindings", "code_update_strategy"], false);
    let entries = table.get("bindings").map(|at| at.tables(found)).unwrap_or_default();
    Some(entries.iter().filter_map(|entry| object(found, entry)).collect())
}

fn object(found: &mut Found, entry: &Table<'_>) -> Option<DurableObject> {
    entry.unknown(found, &["name", "class_name", "script_name", "environment"], false);
    let binding = entry.required(found, "name", "write what the Worker calls it: `\"name\": \"ROOM\"` is `env.ROOM`");
    let class = entry.required(found, "class_name", "write the class that is exported: `\"class_name\": \"Room\"`");
    let script = entry.text(found, "script_name").filter(|name| !name.is_empty());
    if let Some(at) = entry.get("environment")
        && let Some(environment) = at.text(found)
    {
        match script {
            None => at.wrong(found, format!("`{}` without `script_name`", at.path), "leave it out"),
            Some(script) => {
                let help = format!("write the Worker's whole name: `\"script_name\": \"{script}-{environment}\"`");
                at.refuse(found, format!("`{}`: a Worker has no environments to name apart", at.path), help);
            }
        }
    }
    Some(DurableObject { binding: binding?.to_owned(), class: class?.to_owned(), script: script.map(str::to_owned) })
}

/// The classes of Durable Objects that the Worker defines, each with whether it has SQL.
pub(super) type Classes = BTreeMap<String, bool>;

/// Reads `migrations`: the classes that are there after the last of them.
pub(super) fn migrations(found: &mut Found, at: &At<'_>) -> Option<Classes> {
    let mut classes = Classes::new();
    if at.is_null() {
        return Some(classes);
    }
    for entry in at.tables(found) {
        let known =
            ["tag", "new_classes", "new_sqlite_classes", "renamed_classes", "transferred_classes", "deleted_classes"];
        entry.unknown(found, &known, false);
        entry.required(found, "tag", "write a name that no other migration has: `\"tag\": \"v1\"`");
        migration(found, &entry, &mut classes);
    }
    Some(classes)
}

fn migration(found: &mut Found, entry: &Table<'_>, classes: &mut Classes) {
    let texts = |found: &mut Found, key| entry.get(key).and_then(|at| at.texts(found)).unwrap_or_default();
    for (at, class) in texts(found, "deleted_classes") {
        if classes.remove(class).is_none() {
            missing(found, &at, class);
        }
    }
    for moved in entry.get("renamed_classes").map(|at| at.tables(found)).unwrap_or_default() {
        let from = moved.required(found, "from", "write the class's old name");
        let to = moved.required(found, "to", "write the class's new name");
        let (Some(from), Some(to)) = (from, to) else { continue };
        match classes.remove(from) {
            Some(has_sql) => drop(classes.insert(to.to_owned(), has_sql)),
            None => missing(found, &moved.at, from),
        }
    }
    for moved in entry.get("transferred_classes").map(|at| at.tables(found)).unwrap_or_default() {
        moved.required(found, "from", "write the class's old name");
        moved.required(found, "from_script", "write the Worker that had it");
        // What it was there is not in this file; with SQL it can do all that it could without.
        if let Some(to) = moved.required(found, "to", "write the class's new name") {
            classes.insert(to.to_owned(), true);
        }
    }
    for (key, has_sql) in [("new_classes", false), ("new_sqlite_classes", true)] {
        for (at, class) in texts(found, key) {
            if classes.insert(class.to_owned(), has_sql).is_some() {
                let message = format!("the class {} is there already when `{}` makes it", quote(class), at.path);
                at.refuse(found, message, "leave it out of this migration");
            }
        }
    }
}

fn missing(found: &mut Found, at: &At<'_>, class: &str) {
    let message = format!("no migration before `{}` makes the class {}", at.path, quote(class));
    at.refuse(found, message, "write its old name as an earlier migration made it");
}

/// Reads `exports`, which says of classes what they are now.
pub(super) fn exports(found: &mut Found, at: &At<'_>) -> Option<Classes> {
    let mut classes = Classes::new();
    if at.is_null() {
        return Some(classes);
    }
    for (name, at) in at.table(found)?.all() {
        let Some(entry) = at.table(found) else { continue };
        match entry.required(found, "type", "write \"durable-object\" or \"worker\"") {
            Some("durable-object") => {
                let state = entry.text(found, "state").unwrap_or("created");
                if matches!(state, "deleted" | "renamed" | "transferred") {
                    continue;
                }
                match entry.required(found, "storage", "write \"sqlite\" or \"legacy-kv\"") {
                    Some("sqlite") => drop(classes.insert(name.to_owned(), true)),
                    Some("legacy-kv") => drop(classes.insert(name.to_owned(), false)),
                    Some(other) => {
                        let message = format!("`{}.storage` is {}", at.path, quote(other));
                        at.wrong(found, message, "write \"sqlite\" or \"legacy-kv\"");
                    }
                    None => {}
                }
            }
            Some("worker") | None => {}
            Some("workflow") => {
                let help = "send the steps through queues, which jadpo has";
                at.refuse(found, format!("jadpo has no workflows: `{}`", at.path), help);
            }
            Some(other) => {
                let message = format!("`{}.type` is {}", at.path, quote(other));
                at.wrong(found, message, "write \"durable-object\" or \"worker\"");
            }
        }
    }
    Some(classes)
}

/// Reads `version_metadata`: what the binding is called.
pub(super) fn version(found: &mut Found, at: &At<'_>) -> Option<String> {
    let table = at.table(found)?;
    table.unknown(found, &["binding"], false);
    table.required(found, "binding", BINDING).map(str::to_owned)
}
