//! Files that a person writes, and what a build makes of them.

use jadpo_core::app::{Compiled, PROBLEMS_MAX, compile, project};
use jadpo_core::program::Program;
use jadpo_core::start::App;
use jadpo_core::workers::{self, Format, NOTES_MAX, Note, Worker};
use jadpo_core::wrangler;

use crate::document::fuzz;

/// What holds of every file that was read.
fn holds(source: &str, compiled: &Compiled) {
    assert!(compiled.problems.len() <= PROBLEMS_MAX && compiled.notes.len() <= PROBLEMS_MAX);
    for problem in &compiled.problems {
        assert!(source.get(problem.span.start..problem.span.end).is_some(), "{:?} is no part of it", problem.span);
        assert!(problem.message.len() < 2_000, "a message is for a person: {}", problem.message.len());
    }
}

/// What holds of every program: it outlives being written down, starts, and has Wrangler files that are JSON.
fn is_right(program: &Program) {
    let json = serde_json::to_string(program).unwrap();
    assert_eq!(&App::start(&json).unwrap().program, program);
    for deployable in program.deployables.keys() {
        if let Ok(file) = wrangler::wrangler_file(program, deployable) {
            serde_json::from_str::<serde_json::Value>(&file.to_json().unwrap()).unwrap();
        }
        let _ = wrangler::steps(program, deployable);
    }
    let _ = wrangler::conflicts(program);
}

#[test]
fn app() {
    fuzz("app", |bytes| {
        let source = String::from_utf8_lossy(bytes);
        let compiled = compile(&source);
        holds(&source, &compiled);
        assert_eq!(compiled.program.is_some(), compiled.problems.is_empty());
        compiled.program.iter().for_each(is_right);
    });
}

#[test]
fn project() {
    fuzz("project", |bytes| {
        let source = String::from_utf8_lossy(bytes);
        let (project, dev) = source.split_once("### dev.toml").unwrap_or((&source, ""));
        let read = project::compile(project, Some(dev));
        holds(project, &read.project);
        holds(dev, read.dev.as_ref().unwrap());
        read.project.program.iter().for_each(is_right);
    });
}

#[test]
fn program() {
    fuzz("program", |bytes| {
        // A program.json is ours, and yet may be cut short or written by another build.
        let _ = App::start(&String::from_utf8_lossy(bytes));
    });
}

fn noted(source: &str, notes: &[Note]) {
    assert!(notes.len() <= NOTES_MAX + 1);
    for Note { message, span, .. } in notes {
        assert!(span.clone().is_none_or(|span| source.get(span.clone()).is_some()), "{span:?} is no part of it");
        assert!(message.len() < 10_000, "a message is for a person: {}", message.len());
    }
}

/// What holds of every Worker that is taken: the broker takes its queues, and settings are within Cloudflare's limits.
fn is_taken_rightly(worker: &Worker) {
    assert!(!worker.name.is_empty() && worker.name.len() <= 63);
    let dead_letters = worker.consumers.iter().filter_map(|it| it.dead_letter_queue.as_ref());
    let queues = worker.consumers.iter().map(|it| &it.queue).chain(dead_letters);
    for queue in queues.chain(worker.producers.iter().map(|it| &it.queue)) {
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        assert!((1..=63).contains(&queue.len()) && queue.bytes().all(|b| is_plain(b) || b == b'-'), "{queue}");
        assert!(!queue.starts_with('-') && !queue.ends_with('-'), "{queue}");
    }
    for it in &worker.consumers {
        assert!(it.max_batch_size.is_none_or(|size| (1..=100).contains(&size)));
        assert!(it.max_batch_timeout_ms.is_none_or(|wait| wait <= 60_000));
        assert!(it.max_retries.is_none_or(|retries| retries <= 100));
        assert!(it.retry_delay_s.is_none_or(|delay| delay <= 86_400));
        assert!(it.max_concurrency.is_none_or(|most| (1..=250).contains(&most)));
        assert!(it.dead_letter_queue.as_ref() != Some(&it.queue));
    }
    let alone = workers::conflicts(std::slice::from_ref(worker));
    assert!(alone.iter().all(|note| note.path.starts_with("durable_objects")), "{alone:?}");
    assert!(!workers::conflicts(&[worker.clone(), worker.clone()]).is_empty(), "two Workers of one name");
}

#[test]
fn wrangler() {
    fuzz("wrangler", |bytes| {
        let source = String::from_utf8_lossy(bytes);
        for format in [Format::Json, Format::Toml] {
            for environment in [None, Some("e")] {
                match workers::read(&source, format, environment) {
                    Ok(given) => {
                        noted(&source, &given.warnings);
                        is_taken_rightly(&given.worker);
                    }
                    Err(problems) => {
                        assert!(!problems.is_empty());
                        noted(&source, &problems);
                    }
                }
            }
        }
        if let Err(note) = workers::dot_vars(&source) {
            noted(&source, &[note]);
        }
    });
}
