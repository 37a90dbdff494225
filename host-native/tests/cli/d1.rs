//! `jadpo d1`.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::jadpo;

/// A folder with a Worker that has two databases, the first with migrations.
fn shop() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let databases = json!([
        {"binding": "DB", "database_name": "orders", "database_id": "0a-1"},
        {"binding": "LOG", "database_name": "log", "migrations_dir": "log-migrations", "migrations_table": "done"},
    ]);
    let config = json!({"name": "shop", "main": "w.js", "compatibility_date": "2026-08-01", "d1_databases": databases});
    fs::write(dir.path().join("wrangler.json"), config.to_string()).unwrap();
    migration(dir.path(), "migrations/0001_orders.sql", "CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT);");
    dir
}

fn migration(dir: &Path, file: &str, sql: &str) {
    let file = dir.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, sql).unwrap();
}

#[track_caller]
fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn databases_are_listed_and_none_is_made_by_that() {
    let dir = shop();
    let listed = json(&jadpo(dir.path(), &["d1", "--json"]));
    let brief = |one: &Value| json!([one["name"], one["key"], one["bindings"], one["bytes"], one["migrations"]]);
    let brief: Vec<Value> = listed["databases"].as_array().unwrap().iter().map(brief).collect();
    let none = json!({"applied": 0, "waiting": 0});
    assert_eq!(
        brief,
        [
            json!(["orders", "0a-1", ["shop.DB"], null, {"applied": 0, "waiting": 1}]),
            json!(["log", "log", ["shop.LOG"], null, none]),
        ]
    );
    assert!(!dir.path().join(".jadpo").exists());
}

#[test]
fn migrations_of_all_databases_are_applied_and_then_there_is_nothing_to_apply() {
    let dir = shop();
    migration(dir.path(), "log-migrations/1.sql", "CREATE TABLE lines (text);");
    let applied = json(&jadpo(dir.path(), &["d1", "migrations", "apply", "--json"]));
    assert_eq!(
        applied,
        json!({"databases": [
            {"name": "orders", "before": [], "applied": ["0001_orders.sql"]},
            {"name": "log", "before": [], "applied": ["1.sql"]},
        ]})
    );
    let again = String::from_utf8(jadpo(dir.path(), &["d1", "migrations", "apply"]).stdout).unwrap();
    assert_eq!(again, "orders: nothing to apply (1 applied before)\nlog: nothing to apply (1 applied before)\n");
    let listed = json(&jadpo(dir.path(), &["d1", "migrations", "list", "LOG", "--json"]));
    assert_eq!(listed["databases"][0]["migrations"][0]["name"], "1.sql");
    let names = jadpo(dir.path(), &["d1", "execute", "log", "--command", "SELECT name FROM done", "--json"]);
    assert_eq!(json(&names)[0]["results"], json!([{"name": "1.sql"}]));
}

#[test]
fn a_migration_that_fails_is_told_with_its_place_and_keeps_what_came_before() {
    let dir = shop();
    migration(dir.path(), "migrations/0002_bad.sql", "-- nothing\nCREATE TABLE x (a);\nINSERT INTO nope VALUES (1);");
    let failed = jadpo(dir.path(), &["d1", "migrations", "apply", "orders"]);
    assert_eq!(failed.status.code(), Some(1));
    let (out, err) = (String::from_utf8(failed.stdout).unwrap(), String::from_utf8(failed.stderr).unwrap());
    assert!(out.contains("0001_orders.sql"), "{out}");
    let expected = "orders: the migration `0002_bad.sql` failed at line 3: no such table: nope";
    assert!(err.contains(expected), "{err}");
    let left = jadpo(dir.path(), &["d1", "execute", "orders", "--command", "SELECT count(*) c FROM orders", "--json"]);
    assert_eq!(json(&left)[0]["results"], json!([{"c": 0}]));
}

#[test]
fn statements_are_run_together_or_not_at_all() {
    let dir = shop();
    jadpo(dir.path(), &["d1", "migrations", "apply"]);
    fs::write(dir.path().join("seed.sql"), "INSERT INTO orders (what) VALUES ('a;b');\nSELECT * FROM orders;").unwrap();
    let ran = json(&jadpo(dir.path(), &["d1", "execute", "DB", "--file", "seed.sql", "--json"]));
    assert_eq!(ran[0]["meta"]["changes"], 1);
    assert_eq!(ran[1]["results"], json!([{"id": 1, "what": "a;b"}]));
    let failed = jadpo(dir.path(), &["d1", "execute", "DB", "--command", "DELETE FROM orders; SELEC"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8(failed.stderr).unwrap().contains("near \"SELEC\": syntax error"));
    let refused = jadpo(dir.path(), &["d1", "execute", "DB", "--command", "ATTACH 'x' AS y", "--json"]);
    assert_eq!(json(&refused)["code"], "sql_failed");
    let kept = jadpo(dir.path(), &["d1", "execute", "0a-1", "--command", "SELECT what FROM orders", "--json"]);
    assert_eq!(json(&kept)[0]["results"], json!([{"what": "a;b"}]));
}

#[test]
fn a_migration_is_made_as_wrangler_makes_it_and_its_local_is_taken() {
    let dir = shop();
    let make = |words: &str| jadpo(dir.path(), &["d1", "migrations", "create", "orders", words, "--json", "--local"]);
    assert!(make("add a column/x").status.success());
    let file = dir.path().join("migrations/0002_add_a_column_x.sql");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("-- Migration number: 0002 \t 20"), "{text}");
    fs::write(&file, "ALTER TABLE orders ADD COLUMN x;").unwrap();
    let applied = jadpo(dir.path(), &["d1", "migrations", "apply", "orders", "--local"]);
    assert!(applied.status.success());
    assert!(String::from_utf8(applied.stderr).unwrap().contains("`--local` says nothing here"));
    assert!(make("next").status.success());
    assert!(dir.path().join("migrations/0003_next.sql").is_file());
    assert_eq!(make("").status.code(), Some(2));
}

#[test]
fn a_check_shows_what_holds_where_a_wrangler_file_says_nothing() {
    let dir = shop();
    let consumers = json!([
        {"queue": "jobs", "max_retries": 1, "retry_delay": 5, "max_concurrency": 2},
        {"queue": "mail", "dead_letter_queue": "lost"},
    ]);
    let databases = json!([{"binding": "DB", "database_name": "orders", "database_id": "0a-1"}]);
    let config = json!({"name": "shop", "main": "w.js", "compatibility_date": "2026-08-01", "d1_databases": databases,
        "queues": {"consumers": consumers}});
    fs::write(dir.path().join("wrangler.json"), config.to_string()).unwrap();
    let shown = String::from_utf8(jadpo(dir.path(), &["check", "wrangler.json"]).stdout).unwrap();
    for line in [
        "jobs: batches of 10, after 5 s, 2 side by side, 1 retry, each 5 s later, then deleted",
        "mail: batches of 10, after 5 s, 3 retries, then to lost",
        "orders by env.DB",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn what_is_asked_wrongly_says_what_there_is() {
    let dir = shop();
    let unknown = jadpo(dir.path(), &["d1", "execute", "nope", "--command", "SELECT 1", "--json"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert_eq!(json(&unknown)["help"], "there is orders, log; name the Worker that has another with --worker");
    let no_worker = jadpo(dir.path(), &["d1", "--worker", "nowhere"]);
    assert_eq!(no_worker.status.code(), Some(2));
    fs::write(dir.path().join("wrangler.json"), "{").unwrap();
    assert_eq!(jadpo(dir.path(), &["d1"]).status.code(), Some(2));
}

#[test]
fn without_a_wrangler_file_the_files_that_are_there_are_meant() {
    let dir = shop();
    jadpo(dir.path(), &["d1", "migrations", "apply", "orders"]);
    let elsewhere = tempfile::tempdir().unwrap();
    let store = dir.path().join(".jadpo/queues.db");
    let args = ["d1", "execute", "0a-1", "--command", "SELECT count(*) c FROM orders", "--json", "--store"];
    let found = jadpo(elsewhere.path(), &[&args[..], &[store.to_str().unwrap()]].concat());
    assert_eq!(json(&found)[0]["results"], json!([{"c": 0}]));
}
