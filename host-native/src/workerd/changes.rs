//! What is another in a Worker than it was, in words. Values of variables and secrets are nobody's to read in a log.

use std::collections::{BTreeMap, BTreeSet};

use jadpo_core::workers::Worker;

use super::project::Project;

/// A setting's value, and whether it is told.
type Setting = (String, bool);

/// What has changed from the ones to the others. Several Workers are told apart by their names.
pub(super) fn between(old: &[Project], new: &[Project]) -> Vec<String> {
    let mut all = Vec::new();
    for project in new {
        let name = &project.worker.name;
        let begin = if new.len() > 1 { format!("{name}: ") } else { String::new() };
        let Some(before) = old.iter().find(|before| before.worker.name == *name) else {
            all.push(format!("{name} is new"));
            continue;
        };
        if before.bundle.script != project.bundle.script {
            all.push(format!("{begin}code"));
        }
        let settings = differences(&settings(before), &settings(project));
        all.extend(settings.into_iter().map(|change| format!("{begin}{change}")));
    }
    let is_gone = |project: &&Project| new.iter().all(|other| other.worker.name != project.worker.name);
    all.extend(old.iter().filter(is_gone).map(|project| format!("{} is gone", project.worker.name)));
    all
}

fn differences(old: &BTreeMap<String, Setting>, new: &BTreeMap<String, Setting>) -> Vec<String> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let in_words = |name: &String| match (old.get(name), new.get(name)) {
        (Some(before), Some(after)) if before == after => None,
        (Some((before, true)), Some((after, true))) => Some(format!("{name} {before} → {after}")),
        (Some(_), Some(_)) => Some(format!("{name} changed")),
        (None, Some((value, true))) => Some(format!("{name} {value} is new")),
        (None, Some(_)) => Some(format!("{name} is new")),
        (Some(_), None) => Some(format!("{name} is gone")),
        (None, None) => None,
    };
    names.into_iter().filter_map(in_words).collect()
}

fn settings(project: &Project) -> BTreeMap<String, Setting> {
    let worker = &project.worker;
    let mut all: BTreeMap<String, Setting> = BTreeMap::new();
    let mut told = |name: &str, value: String| drop(all.insert(name.to_owned(), (value, true)));
    told("compatibility_date", worker.compatibility_date.clone());
    told("compatibility_flags", worker.compatibility_flags.join(", "));
    told("crons", worker.crons.join(" | "));
    for consumer in &worker.consumers {
        let set = consumer.settings();
        let or = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        for (name, value) in [
            ("max_batch_size", set.batch_size.to_string()),
            ("max_batch_timeout", format!("{} s", f64::from(set.batch_wait_ms) / 1_000.0)),
            ("max_retries", set.max_retries.to_string()),
            ("retry_delay", format!("{} s", set.retry_delay_s)),
            ("max_concurrency", or(set.max_concurrency.map(|most| most.to_string()))),
            ("dead_letter_queue", or(set.dead_letter_queue)),
        ] {
            told(&format!("queue {}: {name}", consumer.queue), value);
        }
    }
    for (binding, to) in bindings(worker) {
        told(&format!("env.{binding}"), to);
    }
    for (name, value) in &worker.vars {
        all.insert(format!("variable {name}"), (format!("{value:?}"), false));
    }
    for (name, value) in &project.secrets {
        all.insert(format!("secret {name}"), (value.clone(), false));
    }
    all
}

fn bindings(worker: &Worker) -> BTreeMap<&str, String> {
    let mut all = BTreeMap::new();
    for it in &worker.producers {
        let delay = it.delivery_delay_s.map(|delay| format!(", {delay} s later")).unwrap_or_default();
        all.insert(it.binding.as_str(), format!("(queue {}{delay})", it.queue));
    }
    for it in &worker.services {
        let entrypoint = it.entrypoint.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
        all.insert(&it.binding, format!("(Worker {}{entrypoint})", it.service));
    }
    all.extend(worker.databases.iter().map(|it| (it.binding.as_str(), format!("(database {})", it.key()))));
    all.extend(worker.durable_objects.iter().map(|it| (it.binding.as_str(), format!("(objects {})", it.class))));
    all
}
