//! Why a database could not be opened, or did not do what it was asked.

use std::fmt;
use std::path::{Path, PathBuf};

use jadpo_core::d1::{OVERLOADED, QUEUED_TOO_LONG, TIMED_OUT, TOO_LARGE, TRANSACTION_REFUSED, text};
use rusqlite::ErrorCode;

/// Why a database could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// No database has such a key.
    Key(String),
    /// The file or its folder cannot be used: what the system or SQLite said.
    Unusable {
        /// The file.
        file: PathBuf,
        /// What was said.
        why: String,
    },
}

impl OpenError {
    pub(super) fn unusable(file: &Path, error: &dyn fmt::Display) -> Self {
        Self::Unusable { file: file.to_owned(), why: error.to_string() }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, "no database can be called {key:?}"),
            Self::Unusable { file, why } => write!(f, "the database `{}` cannot be opened: {why}", file.display()),
        }
    }
}

impl std::error::Error for OpenError {}

/// Why statements were not run. Nothing of them is kept, but for [`RunError::Ended`] and [`RunError::NotOnDisk`], of
/// which that is not known. As a text it is what D1 says, without its `D1_ERROR: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunError {
    /// The file cannot be used.
    Open(OpenError),
    /// Too many requests wait already.
    Overloaded,
    /// It was not its turn in time.
    WaitedTooLong,
    /// The database's thread ended under it.
    Ended,
    /// It was done, and the disk did not take it.
    NotOnDisk(String),
    /// A statement would begin or end a transaction.
    Transaction,
    /// The statements ran for too long together.
    TimedOut,
    /// The result is too large.
    TooLarge,
    /// What D1 says of it.
    Failed(String),
}

impl RunError {
    /// What an error of SQLite's is in D1's words. `timed_out`: whether the time was over.
    pub(super) fn of(error: &rusqlite::Error, timed_out: bool) -> Self {
        let (code, message, offset) = match error {
            rusqlite::Error::SqliteFailure(code, message) => (code, message.as_deref(), None),
            rusqlite::Error::SqlInputError { error, msg, offset, .. } => {
                (error, Some(msg.as_str()), u32::try_from(*offset).ok())
            }
            // The text of a statement holds a NUL, and the like: rusqlite's own.
            other => return Self::Failed(other.to_string()),
        };
        if code.code == ErrorCode::OperationInterrupted && timed_out {
            return Self::TimedOut;
        }
        let message = message.map_or_else(|| code.to_string(), ToOwned::to_owned);
        Self::Failed(text(&message, code.extended_code, offset))
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Overloaded => f.write_str(OVERLOADED),
            Self::WaitedTooLong => f.write_str(QUEUED_TOO_LONG),
            Self::Ended => f.write_str("the database's thread ended; the next request opens it again"),
            Self::NotOnDisk(why) => write!(f, "the disk did not take what was changed, or not all of it: {why}"),
            Self::Transaction => f.write_str(TRANSACTION_REFUSED),
            Self::TimedOut => f.write_str(TIMED_OUT),
            Self::TooLarge => f.write_str(TOO_LARGE),
            Self::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for RunError {}

impl From<OpenError> for RunError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}
