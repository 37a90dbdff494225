//! Files that a person writes, and what a build makes of them.

use jadpo_core::app::{Compiled, PROBLEMS_MAX, compile, project};
use jadpo_core::program::Program;
use jadpo_core::start::App;
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
