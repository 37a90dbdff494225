//! The app file, by what its author sees: each test is a file and what `jadpo check` says of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::string_slice, clippy::panic)]

mod codes;
mod connections;
mod fuzz;
mod natively;
mod program;
mod project;
mod rest;
mod syntax;

use expect_test::Expect;
use jadpo_core::app::{Lines, compile};

/// Compares what is found in `source` with what is expected: a line per problem or note, its help under it.
#[track_caller]
fn check(source: &str, expected: Expect) {
    expected.assert_eq(&found(source));
}

/// Checks the inside of a file that is right but for what the test is about.
#[track_caller]
fn check_in_app(source: &str, expected: Expect) {
    check(&format!("app: \"shop\"\n{source}"), expected);
}

fn found(source: &str) -> String {
    let compiled = compile(source);
    assert_eq!(compiled.program.is_some(), compiled.problems.is_empty(), "a program exactly when nothing is wrong");
    let lines = Lines::new(source);
    let mut text = String::new();
    let problems = compiled.problems.iter().map(|found| (found.code, found.span, &found.message, &found.help));
    let notes = compiled.notes.iter().map(|found| (found.code, found.span, &found.message, &found.help));
    for (code, span, message, help) in problems.chain(notes) {
        let (line, column) = lines.position(span.start);
        let (_, end) = lines.position(span.end);
        text += &format!("{line}:{column}-{end} {code}: {message}\n");
        if let Some(help) = help {
            text += &format!("    {help}\n");
        }
    }
    if compiled.problems_more > 0 {
        text += &format!("and {} more\n", compiled.problems_more);
    }
    text
}
