//! A Worker as a table and as JSON.

use comfy_table::{Table, presets};
use jadpo_core::workers::{ModuleKind, Var, Worker};
use serde_json::{Value, json};

use super::super::workers::{consumed, database};

/// What the Worker is, for a person.
pub(super) fn table(worker: &Worker) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(["what", "as the file has it"]);
    let mut row = |what: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            table.add_row([what.to_owned(), lines.join("\n")]);
        }
    };
    row("Worker", vec![worker.name.clone()]);
    row("environment", worker.environment.iter().cloned().collect());
    let how = if worker.code.no_bundle { "uploaded as it is" } else { "bundled" };
    row("code", vec![format!("{}, {how}", worker.code.main)]);
    row("built by", worker.code.build.iter().map(|build| build.command.clone()).collect());
    let flags = worker.compatibility_flags.iter().map(|flag| format!(", {flag}")).collect::<String>();
    row("runtime of", vec![format!("{}{flags}", worker.compatibility_date)]);
    row("variables", worker.vars.keys().map(|name| format!("env.{name}")).collect());
    row("secrets", worker.secrets_required.iter().map(|name| format!("env.{name}")).collect());
    let sends = worker.producers.iter().map(|it| {
        let delay = it.delivery_delay_s.map(|delay| format!(", after {delay} s")).unwrap_or_default();
        format!("{} by env.{}{delay}", it.queue, it.binding)
    });
    row("sends to", sends.collect());
    row("consumes", worker.consumers.iter().map(|it| format!("{}: {}", it.queue, consumed(it))).collect());
    row("runs at", worker.crons.clone());
    let services = worker.services.iter().map(|it| {
        let entrypoint = it.entrypoint.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
        format!("{}{entrypoint} by env.{}", it.service, it.binding)
    });
    row("calls", services.collect());
    let databases = worker.databases.iter().map(|it| format!("{} by env.{}", database(it), it.binding));
    row("databases", databases.collect());
    let objects = worker.durable_objects.iter().map(|it| {
        let script = it.script.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
        format!("{}{script} by env.{}", it.class, it.binding)
    });
    row("Durable Objects", objects.collect());
    row("version by", worker.version_metadata.iter().map(|name| format!("env.{name}")).collect());
    row("port", worker.port.iter().map(u16::to_string).collect());
    table.to_string()
}

/// What the Worker is, for a program. Keys are those of the file where it has them.
pub(super) fn json(worker: &Worker) -> Value {
    let code = &worker.code;
    let vars = worker.vars.iter().map(|(name, var)| match var {
        Var::Text(text) => (name.clone(), Value::from(text.as_str())),
        Var::Json(value) => (name.clone(), value.clone()),
    });
    let rules = code.rules.iter().map(|rule| json!({"type": kind(rule.kind), "globs": rule.globs}));
    json!({
        "name": worker.name,
        "environment": worker.environment,
        "main": code.main,
        "no_bundle": code.no_bundle,
        "base_dir": code.base_dir,
        "find_additional_modules": code.find_additional_modules,
        "rules": rules.collect::<Vec<_>>(),
        "alias": code.alias,
        "define": code.define,
        "tsconfig": code.tsconfig,
        "jsx_factory": code.jsx_factory,
        "jsx_fragment": code.jsx_fragment,
        "minify": code.minify,
        "keep_names": code.keep_names,
        "build": code.build.as_ref().map(|build| {
            json!({"command": build.command, "cwd": build.cwd, "watch_dir": build.watch_dirs})
        }),
        "compatibility_date": worker.compatibility_date,
        "compatibility_flags": worker.compatibility_flags,
        "vars": vars.collect::<serde_json::Map<_, _>>(),
        "secrets": worker.secrets_required,
        "queues": queues(worker),
        "crons": worker.crons,
        "services": worker.services.iter().map(|it| {
            json!({"binding": it.binding, "service": it.service, "entrypoint": it.entrypoint, "props": it.props})
        }).collect::<Vec<_>>(),
        "d1_databases": worker.databases.iter().map(|it| {
            json!({"binding": it.binding, "key": it.key(), "database_name": it.name, "migrations_dir": it.migrations_dir,
                "migrations_table": it.migrations_table})
        }).collect::<Vec<_>>(),
        "durable_objects": worker.durable_objects.iter().map(|it| {
            json!({"name": it.binding, "class_name": it.class, "script_name": it.script})
        }).collect::<Vec<_>>(),
        "classes": worker.classes.iter().map(|(class, has_sql)| json!({"class": class, "sql": has_sql})).collect::<Vec<_>>(),
        "version_metadata": worker.version_metadata,
        "port": worker.port,
    })
}

fn queues(worker: &Worker) -> Value {
    let producers = worker
        .producers
        .iter()
        .map(|it| json!({"binding": it.binding, "queue": it.queue, "delivery_delay": it.delivery_delay_s}));
    let consumers = worker.consumers.iter().map(|it| {
        json!({
            "queue": it.queue,
            "max_batch_size": it.max_batch_size,
            "max_batch_timeout": it.max_batch_timeout_ms.map(|ms| f64::from(ms) / 1000.0),
            "max_retries": it.max_retries,
            "retry_delay": it.retry_delay_s,
            "dead_letter_queue": it.dead_letter_queue,
            "max_concurrency": it.max_concurrency,
        })
    });
    json!({"producers": producers.collect::<Vec<_>>(), "consumers": consumers.collect::<Vec<_>>()})
}

fn kind(kind: ModuleKind) -> &'static str {
    match kind {
        ModuleKind::EsModule => "ESModule",
        ModuleKind::CommonJs => "CommonJS",
        ModuleKind::Wasm => "CompiledWasm",
        ModuleKind::Text => "Text",
        ModuleKind::Data => "Data",
    }
}
