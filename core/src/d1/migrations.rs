//! Migrations as Wrangler applies them: which order, which table, which statements.

use std::cmp::Ordering;

use super::pieces::{Piece, pieces};

/// The ending of a migration's file.
pub const ENDING: &str = ".sql";

/// Puts migrations into the order in which they are applied: by the number that a name begins with, those without one
/// last, and by name where that leaves it open.
pub fn order(names: &mut [String]) {
    names.sort_by(|a, b| by_number(number(a), number(b)).then_with(|| a.cmp(b)));
}

fn by_number(a: Option<u64>, b: Option<u64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

/// `0012_users.sql` begins with 12, and so does `12b.sql`.
fn number(name: &str) -> Option<u64> {
    let digits = name.find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len());
    let digits = name.get(..digits).filter(|digits| !digits.is_empty())?;
    // Numbers without end are one as large as the other.
    Some(digits.parse().unwrap_or(u64::MAX))
}

/// Makes the table that remembers which were applied, if it is not there: as Wrangler makes it.
#[must_use]
pub fn make_table(table: &str) -> String {
    let table = quoted(table);
    format!(
        "CREATE TABLE IF NOT EXISTS {table}(\n\
        \t\tid         INTEGER PRIMARY KEY AUTOINCREMENT,\n\
        \t\tname       TEXT UNIQUE,\n\
        \t\tapplied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL\n\
        )"
    )
}

/// Asks for the names of those that were applied, in order, and when.
#[must_use]
pub fn list_applied(table: &str) -> String {
    format!("SELECT name, applied_at FROM {} ORDER BY id", quoted(table))
}

/// Remembers that one was applied; its name is the parameter.
#[must_use]
pub fn remember(table: &str) -> String {
    format!("INSERT INTO {} (name) VALUES (?1)", quoted(table))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The statements of a file. A dump of SQLite's is one transaction, which it is here anyhow, so its own first BEGIN and
/// COMMIT are left out.
pub fn statements(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let (mut begun, mut ended) = (false, false);
    pieces(text).filter(move |piece| {
        let left_out = match piece.sql.trim() {
            "BEGIN TRANSACTION;" => !std::mem::replace(&mut begun, true),
            "COMMIT;" if begun => !std::mem::replace(&mut ended, true),
            _ => piece.blank,
        };
        !left_out
    })
}
