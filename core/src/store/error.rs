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

impl StoreError {
    /// What the store said, without what kind of error it is.
    #[must_use]
    pub fn text(&self) -> &str {
        let (Self::Unavailable(text) | Self::NotCurrent(text) | Self::Refused(text)) = self;
        text
    }
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

/// Sorts an error text of `SQLite` or D1 into what follows from it.
///
/// What `SQLite` itself objects to is a refusal, unless its words say that it may pass: trying the messages one by
/// one then finds the one at fault. What comes from anywhere else (the network, D1's overload) is unavailability.
#[must_use]
pub fn classify(text: &str) -> StoreError {
    const NOT_CURRENT: [&str; 3] = ["no such table", "no such column", "has no column named"];
    const PASSING: [&str; 10] = [
        "SQLITE_BUSY",
        "SQLITE_LOCKED",
        "SQLITE_FULL",
        "SQLITE_IOERR",
        "SQLITE_NOMEM",
        "SQLITE_INTERRUPT",
        "SQLITE_CANTOPEN",
        "SQLITE_READONLY",
        "SQLITE_CORRUPT",
        "SQLITE_NOTADB",
    ];
    const REFUSED: [&str; 5] = ["SQLITE_", "constraint failed", "too big", "datatype mismatch", "D1_TYPE_ERROR"];
    let holds = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let owned = text.to_owned();
    if holds(&NOT_CURRENT) {
        StoreError::NotCurrent(owned)
    } else if !holds(&PASSING) && holds(&REFUSED) {
        StoreError::Refused(owned)
    } else {
        StoreError::Unavailable(owned)
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
        assert!(matches!(classify("D1_ERROR: database or disk is full: SQLITE_FULL"), StoreError::Unavailable(_)));
        assert!(matches!(classify("D1_ERROR: Network connection lost."), StoreError::Unavailable(_)));
    }
}
