//! Whole files.

use expect_test::expect;

use super::super::{Format, read};
use super::{given, problems, said, warnings, with, worker};

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

#[test]
fn bindings_that_jadpo_has_not_are_refused_by_name_all_in_one_run() {
    let text = with(
        r#""kv_namespaces": [{ "binding": "KV" }], "r2_buckets": [{ "binding": "R2" }], "ai": { "binding": "AI" },
        "assets": { "directory": "public" }, "workflows": [], "send_email": [{ "name": "MAIL" }],
        "services": [{ "binding": "S", "service": "s", "remote": true, "environment": "e" }],
        "d1_databases": [{ "binding": "D", "remote": true, "migrations_pattern": "x/*/m.sql" }]"#,
    );
    expect![[r#"
        kv_namespaces @ [{ "binding": "KV" }]
          jadpo has no KV namespaces: `kv_namespaces`
          help: keep the data in a D1 database or a Durable Object, which jadpo has, or leave the binding out of the environment that runs here (`--env`)
        r2_buckets @ [{ "binding": "R2" }]
          jadpo has no R2 buckets: `r2_buckets`
          help: leave it out of the environment that runs here (`--env`), and call the service over HTTP
        ai @ { "binding": "AI" }
          jadpo has no Workers AI: `ai`
          help: leave it out of the environment that runs here (`--env`), and call the service over HTTP
        assets @ { "directory": "public" }
          jadpo has no static assets: `assets`
          help: serve them by a web server before jadpo, or from the Worker
        send_email @ [{ "name": "MAIL" }]
          jadpo has no email to send: `send_email`
          help: leave it out of the environment that runs here (`--env`), and call the service over HTTP
        services[0].remote @ true
          `services[0].remote` asks for what runs at Cloudflare, and jadpo does not call there
          help: leave it out for the environment that runs here; run the Worker here: `--worker PATH`
        services[0].environment @ "e"
          `services[0].environment`: a Worker has no environments that could be named apart
          help: write the Worker's whole name instead: `"service": "s-e"`
        d1_databases[0].remote @ true
          `d1_databases[0].remote` asks for what runs at Cloudflare, and jadpo does not call there
          help: leave it out for the environment that runs here; the database is then a file of jadpo's
        d1_databases[0].migrations_pattern @ "x/*/m.sql"
          `d1_databases[0].migrations_pattern`: jadpo reads the `.sql` files of `migrations_dir` itself
          help: leave it out, and keep the migrations in one folder: `"migrations_dir": "migrations"`
    "#]].assert_eq(&problems(&text, None));
}

#[test]
fn keys_that_nobody_knows_are_warned_of_and_removed_ones_refused() {
    let text = with(r#""compatability_flags": [], "whatever": 1, "dev": { "prot": 1 }"#);
    expect![[r#"
        compatability_flags @ "compatability_flags"
          the file takes no `compatability_flags`, so it does nothing
          help: did you mean `compatibility_flags`?
        whatever @ "whatever"
          the file takes no `whatever`, so it does nothing
          help: leave it out; Wrangler does not know it either
        dev.prot @ "prot"
          `dev` takes no `prot`, so it does nothing
          help: did you mean `port`?
    "#]]
    .assert_eq(&warnings(&text, None));
    expect![[r#"
        node_compat @ "node_compat"
          the file takes no `node_compat`
          help: write `nodejs_compat` into `compatibility_flags`
        legacy_env @ "legacy_env"
          the file takes no `legacy_env`
          help: leave it out: every environment is a Worker of its own, `NAME-ENVIRONMENT`
    "#]]
    .assert_eq(&problems(&with(r#""node_compat": true, "legacy_env": false"#), None));
}

#[test]
fn what_is_about_the_way_to_cloudflare_is_passed_over_but_must_be_of_its_kind() {
    let text = with(
        r#""account_id": "x", "workers_dev": true, "routes": ["a.example/*"], "placement": { "mode": "smart" },
        "observability": { "enabled": true }, "limits": { "cpu_ms": 50 }, "keep_vars": true"#,
    );
    assert_eq!(warnings(&text, None), "");
    expect![[r#"
        workers_dev @ "yes"
          `workers_dev` is a text, and it takes true or false
          help: write `true` or `false`, without quotes
        routes @ {}
          `routes` is a table, and it takes a list
          help: write `[…]`, in TOML `[[…]]` for tables
        kv_namespaces @ {}
          `kv_namespaces` is a table, and it takes a list
          help: write `[…]`, in TOML `[[…]]` for tables
    "#]]
    .assert_eq(&problems(&with(r#""workers_dev": "yes", "routes": {}, "kv_namespaces": {}"#), None));
}

#[test]
fn two_bindings_of_one_name_are_refused() {
    let text = with(
        r#""vars": { "X": "1", "Y": 1 }, "queues": { "producers": [{ "binding": "X", "queue": "q" }] },
        "d1_databases": [{ "binding": "D" }, { "binding": "D" }], "secrets": { "required": ["Y"] }"#,
    );
    expect![[r#"
        secrets.required[0] @ -
          `env.Y` would be a variable and a secret
          help: give each binding a name of its own
        queues.producers[0].binding @ -
          `env.X` would be a variable and a queue
          help: give each binding a name of its own
        d1_databases[1].binding @ -
          `env.D` would be twice a D1 database
          help: give each binding a name of its own
    "#]]
    .assert_eq(&problems(&text, None));
}

#[test]
fn values_of_the_wrong_kind_and_form_are_refused() {
    let text = r#"{ "name": "My Worker", "main": "", "compatibility_date": "2026-02-30", "compatibility_flags": "x",
        "vars": ["a"], "triggers": { "crons": "* * * * *" }, "dev": { "port": 70000 }, "rules": [{ "type": "Wasm" }],
        "durable_objects": { "bindings": [{ "name": "A" }] }, "migrations": [{ "renamed_classes": [{ "from": "x" }] }],
        "define": { "X": 1 }, "env": [] }"#;
    expect![[r#"
        name @ "My Worker"
          `My Worker` is no Worker's name
          help: write lowercase letters, digits and dashes: `"name": "my-worker"`
        main @ ""
          `main` is empty
          help: write the module that is the Worker's entry
        compatibility_date @ "2026-02-30"
          `2026-02-30` is no day
          help: write the day whose runtime behaviour the Worker was tested with: `"compatibility_date": "2026-11-01"`
        compatibility_flags @ "x"
          `compatibility_flags` is a text, and it takes a list
          help: write `[…]`, in TOML `[[…]]` for tables
        vars @ ["a"]
          `vars` is a list, and it takes a table
          help: write `{ … }`, in TOML `[…]` and its keys under it
        triggers.crons @ "* * * * *"
          `triggers.crons` is a text, and it takes a list
          help: write `[…]`, in TOML `[[…]]` for tables
        dev.port @ 70000
          `dev.port` is 70000, and it takes a whole number from 0 to 65535
          help: write a whole number of from 0 to 65535
        rules[0] @ { "type": "Wasm" }
          `rules[0].type` is `Wasm`, which is no kind of module here
          help: write one of ESModule, CommonJS, CompiledWasm, Text, Data
        rules[0] @ { "type": "Wasm" }
          `rules[0]` has no `globs`
          help: write `"globs": ["**/*.txt"]`
        durable_objects.bindings[0] @ { "name": "A" }
          `durable_objects.bindings[0]` has no `class_name`
          help: write the class that is exported: `"class_name": "Room"`
        migrations[0] @ { "renamed_classes": [{ "from": "x" }] }
          `migrations[0]` has no `tag`
          help: write a name that no other migration has: `"tag": "v1"`
        migrations[0].renamed_classes[0] @ { "from": "x" }
          `migrations[0].renamed_classes[0]` has no `to`
          help: write the class's new name
        define.X @ 1
          `define.X` is a number, and it takes a text
          help: write it in quotes
        env @ []
          `env` is a list, and it takes a table
          help: write `{ … }`, in TOML `[…]` and its keys under it
    "#]]
    .assert_eq(&problems(text, None));
}

#[test]
fn a_classes_history_must_make_sense() {
    let text = with(
        r#""migrations": [{ "tag": "1", "new_classes": ["A"], "new_sqlite_classes": ["A"], "deleted_classes": ["B"],
        "renamed_classes": [{ "from": "C", "to": "D" }] }], "exports": { "A": { "type": "durable-object", "storage": "x" } }"#,
    );
    expect![[r#"
        migrations[0].new_sqlite_classes[0] @ "A"
          the class `A` is there already when `migrations[0].new_sqlite_classes[0]` makes it
          help: leave it out of this migration
        migrations[0].deleted_classes[0] @ "B"
          no migration before `migrations[0].deleted_classes[0]` makes the class `B`
          help: write its old name as an earlier migration made it
        migrations[0].renamed_classes[0] @ { "from": "C", "to": "D" }
          no migration before `migrations[0].renamed_classes[0]` makes the class `C`
          help: write its old name as an earlier migration made it
        exports.A @ { "type": "durable-object", "storage": "x" }
          `exports.A.storage` is `x`
          help: write "sqlite" or "legacy-kv"
    "#]]
    .assert_eq(&problems(&text, None));
    let text = with(
        r#""exports": { "A": { "type": "durable-object", "storage": "sqlite" }, "default": { "type": "worker" },
        "B": { "type": "durable-object", "state": "deleted" }, "C": { "type": "durable-object", "storage": "legacy-kv" } }"#,
    );
    assert_eq!(format!("{:?}", worker(&text).classes), r#"{"A": true, "C": false}"#);
    let text = with(r#""durable_objects": { "bindings": [{ "name": "A", "class_name": "A" }] }"#);
    expect![[r#"
        durable_objects @ { "bindings": [{ "name": "A", "class_name": "A" }] }
          the Durable Object class `A` is in no migration, so it has no SQL storage
          help: write `"migrations": [{ "tag": "v1", "new_sqlite_classes": ["A"] }]`
    "#]]
    .assert_eq(&warnings(&text, None));
}

#[test]
fn a_rule_ends_those_of_its_kind_after_it() {
    let text = with(
        r#""rules": [{ "type": "Text", "globs": ["a"], "fallthrough": true }, { "type": "Text", "globs": ["b"] },
        { "type": "Text", "globs": ["c"] }, { "type": "CompiledWasm", "globs": ["d"], "fallthrough": false }]"#,
    );
    expect![[r#"[Rule { kind: Text, globs: ["a"] }, Rule { kind: Text, globs: ["b"] }, Rule { kind: Wasm, globs: ["d"] }, Rule { kind: Data, globs: ["**/*.bin"] }]"#]].assert_eq(&format!("{:?}", worker(&text).code.rules));
    expect![[r#"
        rules[2] @ { "type": "Text", "globs": ["c"] }
          `rules[2]` is not reached: `rules[1]` is of the same kind and comes first
          help: write `"fallthrough": true` into `rules[1]`
    "#]]
    .assert_eq(&warnings(&text, None));
}

#[test]
fn a_key_written_twice_counts_as_it_is_written_last_and_that_is_said() {
    let text = with(r#""minify": 5, "minify": true"#);
    assert!(worker(&text).code.minify);
    expect![[r#"
        file @ "minify"
          `minify` is written twice, and what is written last counts
          help: leave one of them out
    "#]]
    .assert_eq(&warnings(&text, None));
}

#[test]
fn what_is_no_json_or_toml_is_said_once() {
    for (text, expected) in [
        (
            "",
            expect![[r#"
                file @ -
                  the file is empty
                  help: write `{ "name": "…", "main": "src/index.ts", "compatibility_date": "…" }`
            "#]],
        ),
        (
            "// nothing\n",
            expect![[r#"
                file @ -
                  the file is empty
                  help: write `{ "name": "…", "main": "src/index.ts", "compatibility_date": "…" }`
            "#]],
        ),
        (
            "[]",
            expect![[r#"
                file @ []
                  the file holds a list, and a Wrangler file is a table
                  help: write `{ … }`
            "#]],
        ),
        (
            "{ \"name\": \"a\" \"main\": \"b\" }",
            expect![[r#"
                file @ nothing
                  the file is no JSON: expected comma
                  help: write it as JSON; comments and a comma after the last entry are allowed
            "#]],
        ),
        (
            "{ \"vars\": { \"A\": [{} {}] } }",
            expect![[r#"
                file @ nothing
                  the file is no JSON: expected comma
                  help: write it as JSON; comments and a comma after the last entry are allowed
            "#]],
        ),
        (
            "{ name: 'a' }",
            expect![[r#"
                file @ name
                  the file is no JSON: expected string for object property
                  help: write it as JSON; comments and a comma after the last entry are allowed
            "#]],
        ),
        (
            "{ \"a\": 1e999 }",
            expect![[r#"
                file @ 1e999
                  the number is larger than any that JSON carries
                  help: -
            "#]],
        ),
        (
            "{ \"a\": ",
            expect![[r#"
                file @ nothing
                  the file is no JSON: expected value after colon in object property
                  help: write it as JSON; comments and a comma after the last entry are allowed
            "#]],
        ),
    ] {
        expected.assert_eq(&problems(text, None));
    }
    let toml = "name = w\nmain = \"w.js\"\n";
    expect![[r#"
        file @ w
          the file is no TOML: string values must be quoted, expected literal string
          help: write it as TOML: `key = "text"`, `key = 3`, `key = ["a", "b"]`, `[table]`
    "#]]
    .assert_eq(&said(toml, &read(toml, Format::Toml, None).unwrap_err()));
    let toml = "name = \"w\"\nmain = \"w.js\"\ncompatibility_date = 2026-11-01\n[vars]\nA = 2026-11-01\nB = inf\n";
    expect![[r#"
        file @ inf
          the number is no finite one
          help: write it in quotes
    "#]]
    .assert_eq(&said(toml, &read(toml, Format::Toml, None).unwrap_err()));
}

#[test]
fn a_whole_number_that_json_writes_in_another_way_is_that_number() {
    let text = with(r#""vars": { "A": 1e3, "B": -0.5, "C": 9007199254740993 }"#);
    expect![[r#"{"A": Json(Number(1000)), "B": Json(Number(-0.5)), "C": Json(Number(9007199254740993))}"#]]
        .assert_eq(&format!("{:?}", given(&text, None).worker.vars));
}

#[test]
fn a_schedule_that_never_comes_is_refused_and_cloudflares_own_forms_are_not() {
    let text = with(r#""triggers": { "crons": ["0 3 * * 8", "* * * *", "0 0 30 2 *", 5, ""] }"#);
    expect![[r#"
        triggers.crons[0] @ "0 3 * * 8"
          `0 3 * * 8` is no schedule: number out of bounds
          help: write minute, hour, day of the month, month and day of the week, in UTC: `"0 3 * * SUN"`
        triggers.crons[1] @ "* * * *"
          `* * * *` is no schedule: a schedule has five fields, and this has 4
          help: write minute, hour, day of the month, month and day of the week, in UTC: `"0 3 * * SUN"`
        triggers.crons[2] @ "0 0 30 2 *"
          `0 0 30 2 *` is no schedule: no such day ever comes
          help: write minute, hour, day of the month, month and day of the week, in UTC: `"0 3 * * SUN"`
        triggers.crons[3] @ 5
          `triggers.crons[3]` is a number, and it takes a text
          help: write it in quotes
        triggers.crons[4] @ ""
          `` is no schedule: a schedule has five fields, and this has 0
          help: write minute, hour, day of the month, month and day of the week, in UTC: `"0 3 * * SUN"`
    "#]]
    .assert_eq(&problems(&text, None));
    let text =
        with(r#""triggers": { "crons": ["59 23 LW * *", "0 0 * * 7#2", "*/30 * * * MON-FRI", "59 23 LW * *"] }"#);
    assert_eq!(worker(&text).crons, ["59 23 LW * *", "0 0 * * 7#2", "*/30 * * * MON-FRI"]);
    expect![[r#"
        triggers.crons[3] @ "59 23 LW * *"
          `59 23 LW * *` is written twice, and once is what counts
          help: leave one out
    "#]]
    .assert_eq(&warnings(&text, None));
}

#[test]
fn a_flag_by_which_d1_speaks_another_protocol_is_refused() {
    let told = problems(&with(r#""compatibility_flags": ["nodejs_compat", "d1_binding_jsrpc"]"#), None);
    assert!(told.starts_with("compatibility_flags @ "), "{told}");
    assert!(told.contains("`compatibility_flags` has `d1_binding_jsrpc`, which jadpo's D1 cannot answer"), "{told}");
}
