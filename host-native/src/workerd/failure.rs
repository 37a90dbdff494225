//! Why Workers cannot run, in the words of who has to do something about it.

/// What happened, to what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What happened. Several lines if a tool says where.
    pub what: String,
    /// What to do.
    pub help: Option<String>,
    /// Whether the Worker or the way it was asked for is wrong, and not this machine.
    pub is_input: bool,
}

impl Failure {
    /// The Worker, or the way it was asked for, is wrong.
    pub(super) fn wrong(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { what: what.into(), help: Some(help.into()).filter(|help| !help.is_empty()), is_input: true }
    }

    /// It was asked rightly and cannot be done.
    pub(super) fn failed(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { what: what.into(), help: Some(help.into()).filter(|help| !help.is_empty()), is_input: false }
    }
}
