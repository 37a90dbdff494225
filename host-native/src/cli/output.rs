//! What the subcommands share: exit codes, and how an error is said to a person.

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
    anstream::eprintln!("{}error{}: {what}", RED, RESET);
    if let Some(help) = help {
        anstream::eprintln!("{}help{}: {help}", CYAN, RESET);
    }
}

const RED: &str = "\u{1b}[1;31m";
const CYAN: &str = "\u{1b}[1;36m";
const RESET: &str = "\u{1b}[0m";
