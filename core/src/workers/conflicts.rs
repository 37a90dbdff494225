//! What keeps bindings of one Worker, or Workers of one server, from living beside each other.

use std::collections::{BTreeMap, BTreeSet};

use super::at::joined;
use super::note::{Found, Note};
use super::scope::Scope;
use super::{Worker, queues, quote};

/// Ends the name of the queue that a Worker's occurrences of cron triggers go through.
const CRON_SUFFIX: &str = "-cron";
/// Ends the name of the queue of those that failed too often.
const CRON_DEAD_SUFFIX: &str = "-cron-dead";

impl Worker {
    /// The queue that its occurrences of cron triggers go through: its own name as a queue has one, and `-cron`.
    #[must_use]
    pub fn cron_queue(&self) -> String {
        format!("{}{CRON_SUFFIX}", self.name.replace('_', "-"))
    }

    /// Where an occurrence goes once its retries are spent.
    #[must_use]
    pub fn cron_dead_letter_queue(&self) -> String {
        format!("{}{CRON_DEAD_SUFFIX}", self.name.replace('_', "-"))
    }

    /// Every binding: where it is written, its name, and what it is.
    fn bindings(&self) -> Vec<(String, &str, &'static str)> {
        let mut all: Vec<(String, &str, &'static str)> =
            self.vars.keys().map(|name| (joined("vars", name), name.as_str(), "a variable")).collect();
        all.extend(listed("secrets.required", "", "a secret", self.secrets_required.iter()));
        all.extend(listed("queues.producers", ".binding", "a queue", self.producers.iter().map(|it| &it.binding)));
        all.extend(listed("services", ".binding", "a Worker", self.services.iter().map(|it| &it.binding)));
        all.extend(listed("d1_databases", ".binding", "a D1 database", self.databases.iter().map(|it| &it.binding)));
        let objects = self.durable_objects.iter().map(|it| &it.binding);
        all.extend(listed("durable_objects.bindings", ".name", "a Durable Object", objects));
        let version = self.version_metadata.iter();
        all.extend(
            version.map(|name| ("version_metadata.binding".to_owned(), name.as_str(), "the version's metadata")),
        );
        all
    }

    fn queues(&self) -> impl Iterator<Item = &str> {
        let consumed = self.consumers.iter().flat_map(|it| std::iter::once(&it.queue).chain(&it.dead_letter_queue));
        consumed.map(String::as_str).chain(self.producers.iter().map(|it| it.queue.as_str()))
    }
}

/// The names of a list of bindings, each with its path.
fn listed<'a>(
    path: &str,
    key: &str,
    what: &'static str,
    names: impl Iterator<Item = &'a String>,
) -> Vec<(String, &'a str, &'static str)> {
    names.enumerate().map(|(at, name)| (format!("{path}[{at}]{key}"), name.as_str(), what)).collect()
}

/// Two bindings of one name, and a name that leaves no room for the queue of the cron triggers.
pub(super) fn within(found: &mut Found, worker: &Worker, scope: &Scope<'_>) {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for (path, name, what) in worker.bindings() {
        if let Some(other) = seen.insert(name, what) {
            let both = if other == what { format!("twice {what}") } else { format!("{other} and {what}") };
            let message = format!("`env.{}` would be {both}", quote(name).trim_matches('`'));
            let help = Some("give each binding a name of its own".to_owned());
            found.problem(Note { path: scope.path_of(&path), message, help, span: None });
        }
    }
    if worker.crons.is_empty() {
        return;
    }
    let (cron, dead) = (worker.cron_queue(), worker.cron_dead_letter_queue());
    if let Some(why) = queues::fault(&dead) {
        let message =
            format!("occurrences of the Worker's cron triggers would go to the queue {}, and that {why}", quote(&dead));
        let help = Some("give the Worker a shorter name".to_owned());
        found.problem(Note { path: scope.path_of("name"), message, help, span: None });
    }
    if let Some(queue) = worker.queues().find(|queue| *queue == cron || *queue == dead) {
        let message =
            format!("the queue `{queue}` is the one that occurrences of this Worker's cron triggers go through");
        let help = Some("give the queue another name".to_owned());
        found.problem(Note { path: scope.path_of("queues"), message, help, span: None });
    }
}

/// What keeps these Workers from running in one server: one name twice, one queue consumed twice, a Worker or a class
/// that is bound and that none of them is. A Worker that nobody is can be stood in for, so those notes are apart, by
/// [`strangers`].
#[must_use]
pub fn conflicts(workers: &[Worker]) -> Vec<Note> {
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    let mut consumed: BTreeMap<&str, &str> = BTreeMap::new();
    for worker in workers {
        let name = &worker.name;
        if !names.insert(name) {
            let help = "give one of them another name, or run it by another server";
            found.push(note("name", format!("two Workers are called `{name}`"), help));
            continue;
        }
        for (at, consumer) in worker.consumers.iter().enumerate() {
            if let Some(other) = consumed.insert(&consumer.queue, name) {
                let message = format!("the Workers `{other}` and `{name}` both consume the queue `{}`", consumer.queue);
                let help = "leave it out of one of them: a queue has one consumer";
                found.push(note(&format!("queues.consumers[{at}].queue"), message, help));
            }
        }
    }
    found.extend(cron_queues(workers));
    found.extend(workers.iter().flat_map(|worker| classes(worker, workers)));
    found
}

/// A queue that one Worker uses and that is another's for its cron triggers; or two such queues of one name.
fn cron_queues(workers: &[Worker]) -> Vec<Note> {
    let mut found = Vec::new();
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    for worker in workers.iter().filter(|worker| !worker.crons.is_empty()) {
        for queue in [worker.cron_queue(), worker.cron_dead_letter_queue()] {
            if let Some(other) = owners.insert(queue.clone(), &worker.name).filter(|other| *other != worker.name) {
                let message = format!(
                    "the cron triggers of the Workers `{other}` and `{}` would share the queue `{queue}`",
                    worker.name
                );
                found.push(note("name", message, "give one of them another name"));
            }
        }
    }
    for worker in workers {
        for queue in worker.queues() {
            if let Some(owner) = owners.get(queue).filter(|owner| **owner != worker.name) {
                let message = format!(
                    "the Worker `{}` uses the queue `{queue}`, which is the one of the cron triggers of `{owner}`",
                    worker.name
                );
                found.push(note("queues", message, "give the queue another name"));
            }
        }
    }
    found
}

/// Durable Objects of a Worker that is here and has no such class.
fn classes(worker: &Worker, workers: &[Worker]) -> Vec<Note> {
    let mut found = Vec::new();
    for (at, object) in worker.durable_objects.iter().enumerate() {
        let Some(script) = object.script.as_deref().filter(|script| *script != worker.name) else { continue };
        let path = format!("durable_objects.bindings[{at}]");
        match workers.iter().find(|other| other.name == script) {
            None => {
                let message = format!(
                    "`env.{}` of `{}` is a class of the Worker `{script}`, which is not among those that run",
                    object.binding, worker.name
                );
                found.push(note(&path, message, "run it too: `--worker PATH`"));
            }
            Some(other) if !other.classes.contains_key(&object.class) => {
                let message = format!(
                    "the Worker `{script}` has no class `{}`, which `env.{}` of `{}` is",
                    object.class, object.binding, worker.name
                );
                found.push(note(&path, message, "write the class into its `migrations`"));
            }
            Some(_) => {}
        }
    }
    found
}

/// The Workers that are bound as services and that none of these is, each with who binds it first.
#[must_use]
pub fn strangers(workers: &[Worker]) -> Vec<Note> {
    let names: BTreeSet<&str> = workers.iter().map(|worker| worker.name.as_str()).collect();
    let mut found = Vec::new();
    for worker in workers {
        for (at, service) in worker.services.iter().enumerate() {
            if !names.contains(service.service.as_str()) {
                let message = format!(
                    "`env.{}` of `{}` is the Worker `{}`, which is not among those that run",
                    service.binding, worker.name, service.service
                );
                found.push(note(&format!("services[{at}].service"), message, "run it too: `--worker PATH`"));
            }
        }
    }
    found
}

fn note(path: &str, message: String, help: &str) -> Note {
    Note { path: path.to_owned(), message, help: Some(help.to_owned()), span: None }
}
