//! Keys and their values: what jadpo has not, what nobody knows, what is wrong in itself.

use expect_test::expect;

use super::{problems, warnings, with, worker};

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
