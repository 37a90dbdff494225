//! A database's migrations, as Wrangler applies them: the files of a folder by their names, each once and whole,
//! remembered in a table of the database's own.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use jadpo_core::d1::{Piece, Value, migrations};

use super::Databases;
use super::error::RunError;
use super::ran::Collected;
use super::run::Base;

/// Bytes of a migration's file at most.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The migrations that were there already.
    pub before: Vec<String>,
    /// Those that were applied now, in order.
    pub now: Vec<String>,
}

/// Why migrations were not all applied. Those of `applied` were, and stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrateError {
    /// The migrations that were applied now, before it failed.
    pub applied: Vec<String>,
    /// What went wrong.
    pub why: MigrateFailure,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrateFailure {
    /// The folder or a file in it cannot be read.
    Unreadable {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The database cannot be used.
    Database(RunError),
    /// A statement failed. Nothing of its file is kept.
    Statement {
        /// The migration's name.
        migration: String,
        /// The line of the file on which the statement begins, from 1.
        line: usize,
        /// Its text, cut short.
        statement: String,
        /// What D1 says of it.
        why: String,
    },
}

impl fmt::Display for MigrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            MigrateFailure::Unreadable { path, why } => write!(f, "`{}` cannot be read: {why}", path.display()),
            MigrateFailure::Database(error) => error.fmt(f),
            MigrateFailure::Statement { migration, line, statement, why } => {
                write!(f, "the migration `{migration}` failed at line {line}: {why}; the statement is `{statement}`")
            }
        }
    }
}

impl std::error::Error for MigrateError {}

/// Applies the migrations of a folder that the database does not remember. A folder that is not there has none.
///
/// # Errors
/// [`MigrateError`]: what was applied before it stays applied.
pub async fn migrate(databases: &Databases, key: &str, folder: &Path, table: &str) -> Result<Applied, MigrateError> {
    let failed = |why| MigrateError { applied: Vec::new(), why };
    let (folder, table) = (folder.to_owned(), table.to_owned());
    let database = databases.database(key).map_err(|error| failed(MigrateFailure::Database(error.into())))?;
    let outcome = database.with(move |base| Ok(apply(base, &folder, &table))).await;
    outcome.unwrap_or_else(|error| Err(failed(MigrateFailure::Database(error))))
}

/// A migration, and when the database says that it was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// The name of its file.
    pub name: String,
    /// When it was applied, as the database's clock wrote it, in UTC.
    pub applied_at: Option<String>,
    /// Its file is there.
    pub has_file: bool,
}

/// The migrations that a folder or the database knows: those that were applied, in the order in which they were, then
/// those that are to be.
///
/// # Errors
/// [`MigrateError`].
pub async fn list(
    databases: &Databases,
    key: &str,
    folder: &Path,
    table: &str,
) -> Result<Vec<Migration>, MigrateError> {
    let failed = |why| MigrateError { applied: Vec::new(), why };
    let (folder, table) = (folder.to_owned(), table.to_owned());
    let file = databases.file(key).map_err(|error| failed(MigrateFailure::Database(error.into())))?;
    if !file.exists() {
        return listed(None, &folder, &table).map_err(failed);
    }
    let database = databases.database(key).map_err(|error| failed(MigrateFailure::Database(error.into())))?;
    let outcome = database.with(move |base| Ok(listed(Some(base), &folder, &table))).await;
    outcome.unwrap_or_else(|error| Err(MigrateFailure::Database(error))).map_err(failed)
}

/// Without a database, none was applied.
fn listed(base: Option<&mut Base>, folder: &Path, table: &str) -> Result<Vec<Migration>, MigrateFailure> {
    let files = names(folder)?;
    let applied = base.map_or(Ok(Vec::new()), |base| applied(base, table)).map_err(MigrateFailure::Database)?;
    let done: BTreeSet<&String> = applied.iter().map(|(name, _)| name).collect();
    let waiting = files.iter().filter(|name| !done.contains(name));
    let waiting = waiting.map(|name| Migration { name: name.clone(), applied_at: None, has_file: true });
    let was = |(name, at): &(String, String)| Migration {
        name: name.clone(),
        applied_at: Some(at.clone()),
        has_file: files.contains(name),
    };
    Ok(applied.iter().map(was).chain(waiting).collect())
}

fn apply(base: &mut Base, folder: &Path, table: &str) -> Result<Applied, MigrateError> {
    let start = |why| MigrateError { applied: Vec::new(), why };
    let files = names(folder).map_err(start)?;
    let mut outcome = Applied { before: Vec::new(), now: Vec::new() };
    if files.is_empty() {
        return Ok(outcome);
    }
    let applied = applied(base, table).map_err(|error| start(MigrateFailure::Database(error)))?;
    outcome.before = applied.into_iter().map(|(name, _)| name).collect();
    for name in files {
        if outcome.before.contains(&name) {
            continue;
        }
        match apply_file(base, folder, &name, table) {
            Ok(()) => outcome.now.push(name),
            Err(why) => return Err(MigrateError { applied: outcome.now, why }),
        }
    }
    Ok(outcome)
}

/// The migrations of a folder, in order.
fn names(folder: &Path) -> Result<Vec<String>, MigrateFailure> {
    let unreadable =
        |error: std::io::Error| MigrateFailure::Unreadable { path: folder.to_owned(), why: error.to_string() };
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(unreadable)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.ends_with(migrations::ENDING) && entry.path().is_file() {
            names.push(name);
        }
    }
    migrations::order(&mut names);
    Ok(names)
}

/// The names of those that the database remembers, with their times. Without the table that is none.
fn applied(base: &mut Base, table: &str) -> Result<Vec<(String, String)>, RunError> {
    const IS_THERE: &str = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE";
    let mut found = Collected::default();
    base.transaction(None, |base| {
        let mut table_found = Collected::default();
        base.piece(IS_THERE, &[text(table)], &mut table_found)?;
        if table_found.done.iter().all(|ran| ran.rows.is_empty()) {
            return Ok(());
        }
        base.piece(&migrations::list_applied(table), &[], &mut found)
    })?;
    let read = |value: Option<serde_json::Value>| match value {
        Some(serde_json::Value::String(text)) => text,
        _ => String::new(),
    };
    let pair = |row: Vec<serde_json::Value>| {
        let mut row = row.into_iter();
        (read(row.next()), read(row.next()))
    };
    Ok(found.done.into_iter().flat_map(|ran| ran.rows).map(pair).collect())
}

fn text(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

/// Applies one, whole or not at all, and remembers it in the same transaction.
fn apply_file(base: &mut Base, folder: &Path, name: &str, table: &str) -> Result<(), MigrateFailure> {
    let path = folder.join(name);
    let sql = read(&path).map_err(|why| MigrateFailure::Unreadable { path, why })?;
    let mut failed: Option<(usize, String)> = None;
    let outcome = base.transaction(None, |base| {
        base.piece(&migrations::make_table(table), &[], &mut Collected::default())?;
        for piece in migrations::statements(&sql) {
            base.piece(piece.sql, &[], &mut Collected::default()).inspect_err(|_| failed = Some(place(&piece)))?;
        }
        base.piece(&migrations::remember(table), &[text(name)], &mut Collected::default())
    });
    outcome.map_err(|error| match failed {
        None => MigrateFailure::Database(error),
        Some((line, statement)) => {
            MigrateFailure::Statement { migration: name.to_owned(), line, statement, why: error.to_string() }
        }
    })
}

/// A migration's text. A mark of byte order is no part of it.
fn read(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("it has {size} bytes, and {FILE_BYTES_MAX} are the limit"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
}

/// Where a statement begins, and its text, cut short.
fn place(piece: &Piece<'_>) -> (usize, String) {
    const SHOWN: usize = 120;
    let text: Vec<&str> = piece.sql.split_whitespace().collect();
    let text = text.join(" ");
    let shown: String = text.chars().take(SHOWN).collect();
    (piece.line, if shown.len() < text.len() { format!("{shown}…") } else { shown })
}
