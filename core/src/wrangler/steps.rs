//! What is left to do by hand once a deployable's folder is written, as commands to run in it.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{RETRIES_MAX, consumers_of, has};
use crate::bindings;
use crate::program::{Connection, Deployable, Platform, Program, PullQueue, Setting, Target, Trigger};
use crate::queue::RETRY_DELAY_FIRST_S;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// What it is for, in a few words.
    pub why: String,
    /// The command, to be run in the deployable's folder.
    pub run: String,
}

/// What to do after building this deployable, in order. Empty for a deployable that the app does not have.
#[must_use]
pub fn steps(program: &Program, deployable: &str) -> Vec<Step> {
    let Some(spec) = program.deployables.get(deployable) else { return Vec::new() };
    match spec.target {
        Platform::Workers => worker_steps(program, spec),
        Platform::Native => native_steps(program, spec, deployable),
    }
}

fn worker_steps(program: &Program, deployable: &Deployable) -> Vec<Step> {
    let mut steps = Vec::new();
    for consumer in consumers_of(program, deployable) {
        steps.push(step("once: make the queue", format!("npx wrangler queues create {}", consumer.queue)));
    }
    steps.push(step("once: make the store", format!("npx wrangler d1 create {} --update-config=false", program.app)));
    let migrate = format!("npx wrangler d1 migrations apply {} --remote", bindings::STORE);
    steps.push(step("before each deploy: bring the store up to date", migrate));
    if has(deployable, Trigger::Http) {
        let put = format!("npx wrangler secret put {}", bindings::ADMIN_TOKEN);
        steps.push(step("once: turn `jadpo deliveries --url` on", put));
    }
    for name in environment(program, deployable) {
        steps.push(step("once: a value that the app reads", format!("npx wrangler secret put {name}")));
    }
    steps.push(step("deploy", "npx wrangler deploy".to_owned()));
    steps
}

fn native_steps(program: &Program, deployable: &Deployable, name: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    if has(deployable, Trigger::Tick) {
        steps.extend(program.connections.values().filter_map(pull_consumer));
    }
    for program in programs(program) {
        let why = "once: a program that a function runs; the folder is the app file's";
        steps.push(step(why, format!("install -D FOLDER/{program} ./{program}")));
    }
    let is_local = |connection: &Connection| matches!(connection, Connection::LocalQueue { .. });
    if has(deployable, Trigger::Http) && program.connections.values().any(is_local) {
        let token = format!("export {}=$(openssl rand -hex 32)", bindings::ENQUEUE_TOKEN);
        steps.push(step("once: the token of those who send to queues", token));
    }
    for name in environment(program, deployable) {
        steps.push(step("a value that the app reads", format!("export {name}=…")));
    }
    steps.push(step("start it", format!("jadpo serve program.json --deployable {name}")));
    steps
}

/// The programs of the app's own folder that functions run, below that folder. They are looked for beside program.json.
fn programs(program: &Program) -> BTreeSet<&str> {
    let own = |words: &Vec<String>| words.first().is_some_and(|word| word.contains('/') && !word.starts_with('/'));
    let words = program.functions.values().filter_map(|function| match &function.target {
        Target::Exec(words) if own(words) => words.first(),
        _ => None,
    });
    words.map(|word| word.strip_prefix("./").unwrap_or(word)).collect()
}

/// Wrangler's file cannot say that a queue is read by HTTP pull: it refuses such a consumer. The command can.
fn pull_consumer(connection: &Connection) -> Option<Step> {
    let Connection::CloudflarePull { queue, batch_size, visibility_ms, .. } = connection else { return None };
    let (queue, of) = match queue {
        PullQueue::Name(name) => (name.as_str(), String::new()),
        PullQueue::Id(id) => ("QUEUE_NAME", format!(" with the id {id}")),
    };
    Some(step(
        &format!("once: let the queue{of} be read by HTTP pull"),
        format!(
            "npx wrangler queues consumer http add {queue} --batch-size {batch_size} --message-retries {RETRIES_MAX} \
             --visibility-timeout-secs {} --retry-delay-secs {RETRY_DELAY_FIRST_S} \
             --dead-letter-queue DEAD_LETTER_QUEUE_NAME",
            visibility_ms.div_ceil(1000)
        ),
    ))
}

/// The names of environment variables (on Workers: secrets) that this deployable reads, sorted.
#[must_use]
pub fn environment(program: &Program, deployable: &Deployable) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut add = |setting: &Setting| {
        if let Setting::Env(name) = setting {
            names.insert(name.clone());
        }
    };
    let native = deployable.target == Platform::Native;
    if has(deployable, Trigger::Subscribers) || native {
        for subscriber in program.subscribers.values() {
            // A service binding reaches no native host; its secret is read all the same when it signs.
            if !(native && matches!(subscriber.target, Target::Service(_))) {
                subscriber.secret.iter().for_each(&mut add);
            }
        }
    }
    if native {
        for connection in program.connections.values() {
            if let Connection::CloudflarePull { account, token, .. } = connection {
                add(account);
                add(token);
            }
        }
        for webhook in program.webhooks.values() {
            use crate::program::Verify::{Github, Shopify, Standard, Stripe};
            if let Some(Stripe(secret) | Github(secret) | Shopify(secret) | Standard(secret)) = &webhook.verify {
                add(secret);
            }
        }
    }
    names
}

fn step(why: &str, run: String) -> Step {
    Step { why: why.to_owned(), run }
}
