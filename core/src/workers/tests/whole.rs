//! Whole files.

use expect_test::expect;

use super::super::{Format, read};
use super::{problems, said, warnings, worker};

const JSONC: &str = r#"{
  // Everything that jadpo has.
  "$schema": "node_modules/wrangler/config-schema.json",
  "name": "shop", "main": "src/index.ts", "compatibility_date": "2026-11-01", "compatibility_flags": ["nodejs_compat"],
  "vars": { "GREETING": "hi", "LIMITS": { "a": [1, 2.5, null] }, },
  "secrets": { "required": ["TOKEN"] },
  "queues": { "producers": [{ "binding": "JOBS", "queue": "jobs" }], "consumers": [{ "queue": "jobs" }] },
  "triggers": { "crons": ["*/5 * * * *"] },
  "services": [{ "binding": "AUTH", "service": "auth", "entrypoint": "Admin", "props": { "a": 1 } }],
  "d1_databases": [{ "binding": "DB", "database_name": "shop", "database_id": "x", "preview_database_id": "y" }],
  "durable_objects": { "bindings": [{ "name": "ROOM", "class_name": "Room" }, { "name": "LOG", "class_name": "Log", "script_name": "logs" }] },
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Room0"], "new_classes": ["Old"] },
                 { "tag": "v2", "renamed_classes": [{ "from": "Room0", "to": "Room" }], "deleted_classes": ["Old"] }],
  "rules": [{ "type": "Text", "globs": ["**/*.md"], "fallthrough": true }, { "type": "Data", "globs": ["**/*.dat"] }],
  "build": { "command": "make", "cwd": "x" }, "alias": { "a": "./b" }, "define": { "X": "1" }, "minify": true,
  "version_metadata": { "binding": "VERSION" }, "dev": { "port": 9000 }, "observability": { "enabled": true },
}"#;

const TOML: &str = r#"
name = "shop"
main = "src/index.ts"
compatibility_date = "2026-11-01"
compatibility_flags = ["nodejs_compat"]
minify = true

[vars]
GREETING = "hi"
LIMITS = { a = [1, 2.5] }

[secrets]
required = ["TOKEN"]

[[queues.producers]]
binding = "JOBS"
queue = "jobs"

[[queues.consumers]]
queue = "jobs"

[triggers]
crons = ["*/5 * * * *"]

[[services]]
binding = "AUTH"
service = "auth"
entrypoint = "Admin"
props = { a = 1 }

[[d1_databases]]
binding = "DB"
database_name = "shop"
database_id = "x"
preview_database_id = "y"

[[durable_objects.bindings]]
name = "ROOM"
class_name = "Room"

[[durable_objects.bindings]]
name = "LOG"
class_name = "Log"
script_name = "logs"

[[migrations]]
tag = "v1"
new_sqlite_classes = ["Room0"]
new_classes = ["Old"]

[[migrations]]
tag = "v2"
deleted_classes = ["Old"]
[[migrations.renamed_classes]]
from = "Room0"
to = "Room"

[[rules]]
type = "Text"
globs = ["**/*.md"]
fallthrough = true

[[rules]]
type = "Data"
globs = ["**/*.dat"]

[build]
command = "make"
cwd = "x"

[alias]
a = "./b"

[define]
X = "1"

[version_metadata]
binding = "VERSION"

[dev]
port = 9000
"#;

#[test]
fn a_whole_file_is_understood() {
    expect![[r#"
        Worker {
            name: "shop",
            environment: None,
            code: Code {
                main: "src/index.ts",
                no_bundle: false,
                base_dir: None,
                find_additional_modules: false,
                rules: [
                    Rule {
                        kind: Text,
                        globs: [
                            "**/*.md",
                        ],
                    },
                    Rule {
                        kind: Data,
                        globs: [
                            "**/*.dat",
                        ],
                    },
                    Rule {
                        kind: Text,
                        globs: [
                            "**/*.txt",
                            "**/*.html",
                            "**/*.sql",
                        ],
                    },
                    Rule {
                        kind: Wasm,
                        globs: [
                            "**/*.wasm",
                            "**/*.wasm?module",
                        ],
                    },
                ],
                alias: {
                    "a": "./b",
                },
                define: {
                    "X": "1",
                },
                tsconfig: None,
                minify: true,
                keep_names: true,
                jsx_factory: "React.createElement",
                jsx_fragment: "React.Fragment",
                build: Some(
                    Build {
                        command: "make",
                        cwd: Some(
                            "x",
                        ),
                        watch_dirs: [
                            "./src",
                        ],
                    },
                ),
            },
            compatibility_date: "2026-11-01",
            compatibility_flags: [
                "nodejs_compat",
            ],
            vars: {
                "GREETING": Text(
                    "hi",
                ),
                "LIMITS": Json(
                    Object {
                        "a": Array [
                            Number(1),
                            Number(2.5),
                            Null,
                        ],
                    },
                ),
            },
            secrets_required: [
                "TOKEN",
            ],
            producers: [
                Producer {
                    binding: "JOBS",
                    queue: "jobs",
                    delivery_delay_s: None,
                },
            ],
            consumers: [
                Consumer {
                    queue: "jobs",
                    max_batch_size: None,
                    max_batch_timeout_ms: None,
                    max_retries: None,
                    retry_delay_s: None,
                    dead_letter_queue: None,
                    max_concurrency: None,
                },
            ],
            crons: [
                "*/5 * * * *",
            ],
            services: [
                Service {
                    binding: "AUTH",
                    service: "auth",
                    entrypoint: Some(
                        "Admin",
                    ),
                    props: Some(
                        Object {
                            "a": Number(1),
                        },
                    ),
                },
            ],
            databases: [
                Database {
                    binding: "DB",
                    name: Some(
                        "shop",
                    ),
                    id: Some(
                        "y",
                    ),
                    migrations_dir: "migrations",
                    migrations_table: "d1_migrations",
                },
            ],
            durable_objects: [
                DurableObject {
                    binding: "ROOM",
                    class: "Room",
                    script: None,
                },
                DurableObject {
                    binding: "LOG",
                    class: "Log",
                    script: Some(
                        "logs",
                    ),
                },
            ],
            classes: {
                "Room": true,
            },
            version_metadata: Some(
                "VERSION",
            ),
            port: Some(
                9000,
            ),
        }"#]]
    .assert_eq(&format!("{:#?}", worker(JSONC)));
    assert_eq!(warnings(JSONC, None), "");
}

#[test]
fn the_same_in_toml_is_the_same_worker() {
    let mut from_toml = read(TOML, Format::Toml, None).unwrap_or_else(|problems| panic!("{}", said(TOML, &problems)));
    let expected = JSONC.replace("2.5, null", "2.5");
    assert_eq!(from_toml.warnings, []);
    from_toml.worker.name = "shop".to_owned();
    assert_eq!(from_toml.worker, worker(&expected));
}

#[test]
fn what_every_file_needs_is_asked_for() {
    expect![[r#"
        name @ -
          the file has no `name`
          help: write what the Worker is called: `"name": "my-worker"`
        main @ -
          the file has no `main`
          help: write the module that is the Worker's entry: `"main": "src/index.ts"`
        compatibility_date @ -
          the file has no `compatibility_date`
          help: write the day whose runtime behaviour the Worker was tested with: `"compatibility_date": "2026-11-01"`
    "#]]
    .assert_eq(&problems("{}", None));
}
