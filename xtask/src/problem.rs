//! What a person reads when a command cannot go on.

use std::fmt;
use std::path::PathBuf;

/// The result of everything in xtask that can fail.
pub(crate) type Result<T> = std::result::Result<T, Problem>;

/// Something that stopped a command: what happened, what to do, and where the details are.
#[derive(Debug)]
pub(crate) struct Problem {
    what: String,
    details: Vec<String>,
    log: Option<PathBuf>,
    help: Option<String>,
    /// The exit code: 1 it failed, 2 the usage is wrong.
    pub(crate) exit: u8,
}

impl Problem {
    /// `what` says what happened to what, in one sentence without a full stop.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), details: Vec::new(), log: None, help: None, exit: 1 }
    }

    /// The same, for a command that was called with something it does not take.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self { exit: 2, ..Self::new(what) }
    }

    /// What happened, for a caller that knows another way.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// What the person can do about it.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The last lines that a child process printed, and the file with all of them.
    pub(crate) fn log(mut self, last_lines: Vec<String>, log: PathBuf) -> Self {
        self.details = last_lines;
        self.log = Some(log);
        self
    }

    /// Whether any of the printed lines holds `text`: how a caller tells one failure of a tool from another.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        self.details.iter().any(|line| line.contains(text))
    }

    /// A file operation that failed: `doing` is the verb with its object, such as "writing dist/SHA256SUMS".
    pub(crate) fn io(doing: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::new(format!("{doing} failed: {error}"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\x1b[1;31merror\x1b[0m: {}", self.what)?;
        for line in &self.details {
            write!(f, "\n  | {line}")?;
        }
        if let Some(log) = &self.log {
            write!(f, "\n  everything it printed: {}", log.display())?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  \x1b[1mwhat to do\x1b[0m: {help}")?;
        }
        Ok(())
    }
}
