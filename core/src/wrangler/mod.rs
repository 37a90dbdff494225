//! The Wrangler file: what Cloudflare is told about a deployable.

mod file;
mod steps;

use std::collections::BTreeMap;
use std::fmt;

pub use file::{Consumer, D1Database, Observability, Queues, Rule, Service, Triggers, WranglerFile};
pub use steps::{Step, environment, steps};

use crate::bindings;
use crate::program::{Connection, Deployable, Platform, Program, Target, Trigger};

/// The day whose runtime behaviour a Worker asks for. Past 2024-03-18, from which on a queue's default content type
/// is JSON, and past 2026-03-12, from which on a queue's errors carry their codes.
pub const COMPATIBILITY_DATE: &str = "2026-11-01";
/// Answers count when the handler ends, not when the deliveries after it do.
pub const COMPATIBILITY_FLAGS: [&str; 1] = ["queue_consumer_no_wait_for_wait_until"];
/// Messages in a batch: as many as one receive asks a queue for.
pub const BATCH_SIZE_MAX: u32 = 10;
/// Seconds that a batch waits to fill.
pub const BATCH_WAIT_S: u32 = 5;
/// Retries of a message, about 22 hours on [`crate::queue::retry_delay_s`]: longer than a deploy's migration, shorter
/// than the 24 hours that a queue keeps a message on the Free plan.
pub const RETRIES_MAX: u32 = 30;
/// Retries of a dead letter: Cloudflare's most, since nothing comes after them.
pub const DEAD_LETTER_RETRIES_MAX: u32 = 100;
/// What is uploaded, file by file as it was built: a bundler would find fault with the generated script, and what was
/// tested is what runs. A single star does not reach into folders, so nothing of `node_modules` comes along.
const MODULES: [(&str, &str); 3] = [("ESModule", "*.js"), ("CompiledWasm", "*.wasm"), ("Text", "program.json")];
/// How often the tick runs on Workers: every minute.
pub const TICK_CRON: &str = "* * * * *";
/// A Worker's name has at most this many characters where it is part of a host name.
pub const WORKER_NAME_LEN_MAX: usize = 63;

/// Why a deployable has no Wrangler file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WranglerError {
    /// The app has no deployable of this name.
    Unknown {
        /// The name.
        deployable: String,
    },
    /// It does not run on Workers.
    NotWorkers {
        /// Its name.
        deployable: String,
    },
    /// The Worker's name would be too long.
    NameTooLong {
        /// The deployable's name.
        deployable: String,
        /// What the Worker would be called.
        worker: String,
    },
    /// Two deployables would be the same Worker.
    SameWorker {
        /// Both deployables' names.
        deployables: [String; 2],
        /// What both would be called.
        worker: String,
    },
    /// Two deployables would consume one queue.
    SameQueue {
        /// Both deployables' names.
        deployables: [String; 2],
        /// The queue's name.
        queue: String,
    },
}

impl fmt::Display for WranglerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { deployable } => write!(f, "the app has no deployable `{deployable}`"),
            Self::NotWorkers { deployable } => {
                write!(f, "the deployable `{deployable}` does not run on Workers, so it has no Wrangler file")
            }
            Self::NameTooLong { deployable, worker } => write!(
                f,
                "the deployable `{deployable}` would be the Worker `{worker}`, which is longer than \
                 {WORKER_NAME_LEN_MAX} characters; shorten the app's or the deployable's name"
            ),
            Self::SameWorker { deployables: [one, other], worker } => write!(
                f,
                "the deployables `{one}` and `{other}` would both be the Worker `{worker}`; rename one of them"
            ),
            Self::SameQueue { deployables: [one, other], queue } => write!(
                f,
                "the deployables `{one}` and `{other}` would both consume the queue `{queue}`, and a queue has one \
                 consumer; keep `Trigger.subscribers` in one of them"
            ),
        }
    }
}

impl std::error::Error for WranglerError {}

/// What a deployable's Worker is called: the app's name, a dash and the deployable's, as a host name takes it.
#[must_use]
pub fn worker_name(app: &str, deployable: &str) -> String {
    format!("{app}-{deployable}").to_lowercase().replace('_', "-")
}

/// What keeps the app's Workers from living beside each other in one account: the same name, or the same queue.
#[must_use]
pub fn conflicts(program: &Program) -> Vec<WranglerError> {
    let mut found = Vec::new();
    let mut workers: BTreeMap<String, &String> = BTreeMap::new();
    let mut consumers: BTreeMap<String, &String> = BTreeMap::new();
    for (name, deployable) in &program.deployables {
        if deployable.target != Platform::Workers {
            continue;
        }
        let worker = worker_name(&program.app, name);
        if let Some(other) = workers.insert(worker.clone(), name) {
            found.push(WranglerError::SameWorker { deployables: [other.clone(), name.clone()], worker });
        }
        for Consumer { queue, .. } in consumers_of(program, deployable) {
            match consumers.get(&queue) {
                Some(other) => {
                    let deployables = [(*other).clone(), name.clone()];
                    found.push(WranglerError::SameQueue { deployables, queue });
                }
                None => drop(consumers.insert(queue, name)),
            }
        }
    }
    found
}

/// The Wrangler file of one deployable. Its entry is the program's: consumers only where it runs subscribers, a cron
/// trigger only where it runs the tick, an address only where it answers HTTP.
///
/// # Errors
/// [`WranglerError`] if there is no such deployable on Workers, or its name does not fit.
pub fn wrangler_file(program: &Program, deployable: &str) -> Result<WranglerFile, WranglerError> {
    let found = program.deployables.get(deployable);
    let spec = found.ok_or_else(|| WranglerError::Unknown { deployable: deployable.to_owned() })?;
    if spec.target != Platform::Workers {
        return Err(WranglerError::NotWorkers { deployable: deployable.to_owned() });
    }
    let worker = worker_name(&program.app, deployable);
    if worker.len() > WORKER_NAME_LEN_MAX {
        return Err(WranglerError::NameTooLong { deployable: deployable.to_owned(), worker });
    }
    let consumers = consumers_of(program, spec);
    Ok(WranglerFile {
        schema: "node_modules/wrangler/config-schema.json",
        main: "index.js",
        compatibility_date: COMPATIBILITY_DATE,
        compatibility_flags: COMPATIBILITY_FLAGS.to_vec(),
        workers_dev: has(spec, Trigger::Http),
        preview_urls: false,
        keep_vars: true,
        no_bundle: true,
        rules: MODULES.iter().map(|(kind, glob)| Rule { kind, globs: vec![glob], fallthrough: false }).collect(),
        d1_databases: vec![D1Database {
            binding: bindings::STORE,
            database_name: program.app.clone(),
            migrations_dir: "migrations",
        }],
        queues: (!consumers.is_empty()).then_some(Queues { consumers }),
        triggers: Triggers { crons: if has(spec, Trigger::Tick) { vec![TICK_CRON] } else { Vec::new() } },
        services: services_of(program, spec, &worker),
        observability: Observability { enabled: true },
        name: worker,
    })
}

fn has(deployable: &Deployable, trigger: Trigger) -> bool {
    deployable.triggers.contains(&trigger)
}

fn consumers_of(program: &Program, deployable: &Deployable) -> Vec<Consumer> {
    if !has(deployable, Trigger::Subscribers) {
        return Vec::new();
    }
    let mut consumers = Vec::new();
    for connection in program.connections.values() {
        if let Connection::CloudflareQueues { queue, dead_letter_queue } = connection {
            consumers.push(consumer(queue, RETRIES_MAX, Some(dead_letter_queue)));
            consumers.push(consumer(dead_letter_queue, DEAD_LETTER_RETRIES_MAX, None));
        }
    }
    consumers
}

fn consumer(queue: &str, max_retries: u32, dead_letter_queue: Option<&String>) -> Consumer {
    Consumer {
        queue: queue.to_owned(),
        max_batch_size: BATCH_SIZE_MAX,
        max_batch_timeout: BATCH_WAIT_S,
        max_retries,
        dead_letter_queue: dead_letter_queue.cloned(),
    }
}

/// Only what delivers calls others; the tick of a Worker without subscribers delivers nothing.
fn services_of(program: &Program, deployable: &Deployable, worker: &str) -> Vec<Service> {
    if !has(deployable, Trigger::Subscribers) {
        return Vec::new();
    }
    let mut services = vec![Service {
        binding: bindings::SELF.to_owned(),
        service: worker.to_owned(),
        entrypoint: Some(bindings::DELIVERIES_ENTRYPOINT),
    }];
    for (name, subscriber) in &program.subscribers {
        if let Target::Service(service) = &subscriber.target {
            services.push(Service {
                binding: bindings::service_binding(name),
                service: service.clone(),
                entrypoint: None,
            });
        }
    }
    services
}

#[cfg(test)]
mod tests;
