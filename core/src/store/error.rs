//! Why the store did not do what it was asked, and what follows from it.

use std::fmt;

/// A batch of statements that was not carried out, or whose answer was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// The store cannot be reached, is overloaded, or its answer was lost. **The batch may have committed.**
    Unavailable(String),
    /// The store lacks a table or a column that this build needs: a deploy has not migrated it yet.
    NotCurrent(String),
    /// The store refused a statement for what it holds (a constraint, a value too big). Nothing was committed.
    Refused(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(text) => write!(f, "the store is unavailable: {text}"),
            Self::NotCurrent(text) => write!(f, "the store is behind this build: {text}"),
            Self::Refused(text) => write!(f, "the store refused a statement: {text}"),
        }
    }
}

impl std::error::Error for StoreError {}

/// Sorts an error text of `SQLite` or D1 into what follows from it. Whatever is not known to be a refusal counts
/// as unavailable, since a retry harms nothing.
#[must_use]
pub fn classify(text: &str) -> StoreError {
    const NOT_CURRENT: [&str; 3] = ["no such table", "no such column", "has no column named"];
    const REFUSED: [&str; 7] = [
        "SQLITE_CONSTRAINT",
        "constraint failed",
        "SQLITE_TOOBIG",
        "too big",
        "SQLITE_MISMATCH",
        "datatype mismatch",
        "D1_TYPE_ERROR",
    ];
    let text = text.to_owned();
    if NOT_CURRENT.iter().any(|part| text.contains(part)) {
        StoreError::NotCurrent(text)
    } else if REFUSED.iter().any(|part| text.contains(part)) {
        StoreError::Refused(text)
    } else {
        StoreError::Unavailable(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d1_s_words_are_understood() {
        assert!(matches!(classify("D1_ERROR: no such table: jadpo_events: SQLITE_ERROR"), StoreError::NotCurrent(_)));
        assert!(matches!(
            classify("D1_ERROR: CHECK constraint failed: x: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_CHECK)"),
            StoreError::Refused(_)
        ));
        assert!(matches!(classify("D1_ERROR: string or blob too big: SQLITE_TOOBIG"), StoreError::Refused(_)));
        assert!(matches!(classify("D1_ERROR: Network connection lost."), StoreError::Unavailable(_)));
    }
}
