//! What the subcommands share: exit codes, and how an error is said to a person.

use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::log::escaped;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done = 0,
    /// It was asked rightly and could not.
    Failed = 1,
    /// The input or the usage is wrong: a problem in the app file, a missing file, a refusal.
    Wrong = 2,
}

/// Says what happened, to what, and what to do, on standard error.
pub(crate) fn error(what: &str, help: Option<&str>) {
    let mut stderr = anstream::stderr().lock();
    // Nobody is there to be told that nobody can be told.
    let _ = writeln!(stderr, "{RED}error{RESET}: {what}");
    if let Some(help) = help {
        let _ = writeln!(stderr, "{CYAN}help{RESET}: {help}");
    }
}

/// Says that something is refused, by its code and in the words that `jadpo check` has for it.
pub(crate) fn refusal(code: &str, what: &str, help: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = writeln!(stderr, "{RED}error[{code}]{RESET}: {what}");
    let _ = writeln!(stderr, "{CYAN}help{RESET}: {help}");
}

/// The same as one JSON object, in the form that `jadpo check --json` has for problems.
pub(crate) fn problem_json(code: &str, what: &str, help: Option<&str>) -> Value {
    json!({"ok": false, "problems": [{"code": code, "message": what, "help": help, "severity": "error"}]})
}

/// Prints a line on standard output. Whoever closed it, as `head` does, has seen enough: that is no failure. Any other
/// failure is told at the end, by [`ended`].
pub(crate) fn line(text: &str) {
    let mut stdout = anstream::stdout().lock();
    // Text for people has nothing left in it that steers; so this is for JSON, and leaves its meaning.
    let written = writeln!(stdout, "{}", escaped(text)).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            // The first is enough.
            let _ = UNWRITTEN.set(error.to_string());
        }
        _ => {}
    }
}

/// Why something could not be printed.
static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// How a command ended, with what was to be printed considered: what nobody could read was not done.
pub(crate) fn ended(exit: Exit) -> Exit {
    let Some(why) = UNWRITTEN.get() else { return exit };
    error(&format!("what was to be printed could not be written: {why}"), None);
    if exit == Exit::Done { Exit::Failed } else { exit }
}

/// Says something on standard error that is no error: what is being done, or what to do next.
pub(crate) fn note(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

const RED: &str = "\u{1b}[1;31m";
const CYAN: &str = "\u{1b}[1;36m";
const RESET: &str = "\u{1b}[0m";
