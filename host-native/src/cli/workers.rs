//! What `jadpo dev` and `jadpo serve` share about Workers: the options, and what is said of those that run.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use jadpo_core::host::{Host, Level, LogEntry};
use jadpo_core::workers::{Consumer, Database, Worker};

use super::load;
use super::output;
use super::running::Stop;
use super::wrangler;
use crate::d1::{self, Databases, MigrateError};
use crate::host::NativeHost;
use crate::log;
use crate::workerd::{Named, Options, Prepared, Source, Started};

/// The options.
#[derive(clap::Args)]
pub(super) struct WorkerArgs {
    /// A Worker to run beside the queues: its folder, or its Wrangler file; may be given again
    #[arg(long = "worker", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The environment of the Wrangler files that is meant
    #[arg(long = "env", value_name = "NAME", requires = "paths")]
    environment: Option<String>,
    /// Where the first Worker answers HTTP; each next one at the next port, unless its file has a `dev.port`; port 0 takes
    /// free ones
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8787", env = "JADPO_WORKER_LISTEN")]
    worker_listen: SocketAddr,
    /// Apply the migrations of the Workers' databases before they start
    #[arg(long, requires = "paths")]
    pub(super) migrate: bool,
    /// workerd's program; else it is the one of the nearest node_modules, or is fetched by npm
    #[arg(long, value_name = "PATH", env = "JADPO_WORKERD")]
    workerd: Option<PathBuf>,
    /// esbuild's program, likewise
    #[arg(long, value_name = "PATH", env = "JADPO_ESBUILD")]
    esbuild: Option<PathBuf>,
}

/// A Worker that runs, and where it answers.
pub(super) struct Running {
    pub(super) worker: Worker,
    pub(super) at: SocketAddr,
    /// The names of its secrets.
    secrets: Vec<String>,
}

impl Running {
    /// Those that were started.
    pub(super) fn of(started: &Started) -> Vec<Self> {
        let workers = started.workers();
        let at = started.addresses().iter().map(|(_, at)| *at);
        let all = workers.into_iter().zip(at).zip(started.secrets());
        all.map(|((worker, at), secrets)| Self { worker, at, secrets }).collect()
    }
}

impl WorkerArgs {
    /// Whether a Worker is to run.
    pub(super) fn is_given(&self) -> bool {
        !self.paths.is_empty()
    }

    /// The app file that is meant; none where there are only Workers.
    ///
    /// # Errors
    /// It is a Worker's Wrangler file, which is given otherwise.
    pub(super) fn app_file(&self, named: Option<&Path>, command: &str) -> Result<Option<PathBuf>, Stop> {
        let file = match named {
            Some(file) => file,
            None if self.is_given() => return Ok(None),
            None => Path::new("app.jadpo"),
        };
        let is_workers =
            |found: &PathBuf| found.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"wrangler."));
        if let Some(found) = wrangler::found(file).filter(is_workers) {
            let what = format!("`{}` is the Wrangler file of a Worker", found.display());
            return Err(Stop::wrong(what, Some(format!("run it with `jadpo {command} --worker {}`", found.display()))));
        }
        Ok(Some(load::found(file)))
    }

    /// What is to run, if anything is, after what was built of an app; what it keeps lies beside the store.
    pub(super) fn options(
        &self,
        store: &Path,
        (is_dev, stands_in): (bool, bool),
        secrets: &[String],
        built: Vec<Source>,
    ) -> Option<Options> {
        let given = self.paths.iter().map(|file| Source { file: file.clone(), environment: self.environment.clone() });
        let is_built = !built.is_empty();
        let sources: Vec<Source> = built.into_iter().chain(given).collect();
        if sources.is_empty() {
            return None;
        }
        Some(Options {
            sources,
            tools: Named { workerd: self.workerd.clone(), esbuild: self.esbuild.clone() },
            // What was built lies in no project of anybody's.
            tools_near: is_built.then(|| PathBuf::from(".")),
            state: state_of(store),
            listen: self.worker_listen,
            is_dev,
            stands_in,
            secrets: secrets.to_vec(),
        })
    }
}

/// Where what Workers store is kept: beside the store, under its name without the ending.
pub(super) fn state_of(store: &Path) -> PathBuf {
    let mut name = store.file_stem().unwrap_or_default().to_owned();
    name.push("-workers");
    let state = store.with_file_name(name);
    // workerd runs in a folder of its own.
    std::path::absolute(&state).unwrap_or(state)
}

/// Applies the migrations of the Workers' databases, or says of each which has some that are not applied.
pub(super) async fn migrate(databases: &Databases, prepared: &Prepared, applies: bool) -> Result<(), Stop> {
    for (database, folder) in prepared.migrations() {
        if !folder.is_dir() {
            continue;
        }
        let (key, table) = (database.key(), &database.migrations_table);
        let name = database.name.as_deref().unwrap_or(&database.binding);
        let failed = |error: MigrateError| {
            let help = "what came before it is applied and stays; change the file, and start again".to_owned();
            Stop::wrong(format!("the migrations of the database `{name}`: {error}"), Some(help))
        };
        if applies {
            let applied = d1::migrate(databases, &key, &folder, table).await.map_err(failed)?;
            if !applied.now.is_empty() {
                let fields = vec![("database", name.into()), ("migrations", applied.now.join(", ").into())];
                log::write(&LogEntry { level: Level::Info, event: "d1.migrated", fields });
            }
            continue;
        }
        let all = d1::migrations(databases, &key, &folder, table).await.map_err(failed)?;
        let waiting: Vec<String> = all.into_iter().filter(|one| one.applied_at.is_none()).map(|one| one.name).collect();
        if !waiting.is_empty() {
            let why = format!("not applied: {}; --migrate applies them", waiting.join(", "));
            let fields = vec![("database", name.into()), ("why", why.into())];
            log::write(&LogEntry { level: Level::Warn, event: "d1.behind", fields });
        }
    }
    Ok(())
}

/// The Workers, for the person who started them.
pub(super) fn announce(all: &[Running]) {
    for Running { worker, at, secrets } in all {
        output::line(&format!("  worker   {BOLD}http://{at}{RESET}  {}", worker.name));
        for part in parts(worker, secrets) {
            output::line(&format!("           {part}"));
        }
    }
}

/// What a Worker has, a line for each.
fn parts(worker: &Worker, secrets: &[String]) -> Vec<String> {
    let mut parts: Vec<String> = worker.environment.iter().map(|name| format!("environment {name}")).collect();
    parts.extend(worker.consumers.iter().map(|it| format!("consumes {}: {}", it.queue, consumed(it))));
    let sends = worker.producers.iter().map(|it| {
        let delay = it.delivery_delay_s.map(|delay| format!(", {delay} s later")).unwrap_or_default();
        format!("{} (env.{}{delay})", it.queue, it.binding)
    });
    let calls = worker.services.iter().map(|service| format!("{} (env.{})", service.service, service.binding));
    let stores = worker.databases.iter().map(|it| format!("{} (env.{})", database(it), it.binding));
    let objects = worker.durable_objects.iter().map(|object| format!("{} (env.{})", object.class, object.binding));
    let lists: [(&str, Vec<String>); 6] = [
        ("sends to", sends.collect()),
        ("calls", calls.collect()),
        ("D1", stores.collect()),
        ("objects", objects.collect()),
        ("variables", worker.vars.keys().filter(|name| !secrets.contains(name)).cloned().collect()),
        ("secrets", secrets.to_vec()),
    ];
    for (what, list) in lists {
        if !list.is_empty() {
            parts.push(format!("{what} {}", list.join(", ")));
        }
    }
    if !worker.crons.is_empty() {
        parts.push(format!("cron {}", worker.crons.join(" | ")));
    }
    parts
}

/// How a Worker consumes a queue, with what holds where its file says nothing.
pub(super) fn consumed(consumer: &Consumer) -> String {
    let set = consumer.settings();
    let mut said = vec![format!("batches of {}, after {} s", set.batch_size, f64::from(set.batch_wait_ms) / 1_000.0)];
    said.extend(set.max_concurrency.map(|most| format!("{most} side by side")));
    said.push(match set.max_retries {
        0 => "no retry".to_owned(),
        1 => "1 retry".to_owned(),
        retries => format!("{retries} retries"),
    });
    if set.retry_delay_s > 0 && set.max_retries > 0 {
        said.push(format!("each {} s later", set.retry_delay_s));
    }
    said.push(match set.dead_letter_queue {
        Some(queue) => format!("then to {queue}"),
        None => "then deleted".to_owned(),
    });
    said.join(", ")
}

/// What a database is called.
pub(super) fn database(database: &Database) -> &str {
    database.name.as_deref().unwrap_or(&database.binding)
}

/// The Workers, as lines of the log.
pub(super) fn tell(host: &NativeHost, all: &[Running]) {
    for Running { worker, at, .. } in all {
        let consumes: Vec<&str> = worker.consumers.iter().map(|consumer| consumer.queue.as_str()).collect();
        let fields = vec![
            ("worker", worker.name.as_str().into()),
            ("url", format!("http://{at}").into()),
            ("consumes", consumes.into()),
            ("crons", worker.crons.clone().into()),
        ];
        host.log(LogEntry { level: Level::Info, event: "worker.ready", fields });
    }
}

const BOLD: &str = "\u{1b}[1m";
const RESET: &str = "\u{1b}[0m";
