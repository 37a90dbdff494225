//! Opening the file and bringing it up to date.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jadpo_core::broker;
use jadpo_core::store::schema::{MIGRATIONS, Migration};
use rusqlite::{Connection, OpenFlags};

/// How long to wait for another process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Statements kept prepared. Their texts are static and few.
const STATEMENTS_KEPT: usize = 128;
/// Bytes of a page of a new file: half as many pages to write for bodies of a kilobyte as with SQLite's usual 4,096,
/// of which a quarter would stay empty.
const PAGE_BYTES: u32 = 8_192;
/// Pages of the log after which a commit writes them into the file: 32 MiB, so that a page that changes often is
/// written there once.
const CHECKPOINT_PAGES: u32 = 4_096;
/// What the log's file may keep of a time in which it was longer, in bytes.
const LOG_BYTES_KEPT: u32 = 64 << 20;
/// Pages in memory, in KiB (a negative figure, to SQLite): a message that is taken soon is not read from the file.
const CACHE_KIB: i32 = 32 << 10;

/// What is true when a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It is on disk.
    Full,
    /// It outlasts the process. A loss of power may take what was answered in the last moments; the file stays whole.
    Relaxed,
}

/// Why the store could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenError {
    /// There is no such file.
    Missing(PathBuf),
    /// Another process serves it.
    InUse {
        /// The file.
        path: PathBuf,
        /// What that process wrote about itself.
        holder: String,
    },
    /// The file or its folder cannot be used: what the system or SQLite said.
    Unusable {
        /// The file or folder.
        path: PathBuf,
        /// What was said.
        why: String,
    },
    /// A migration failed. The store is as it was before it.
    Migration {
        /// The store's file.
        path: PathBuf,
        /// The migration.
        name: &'static str,
        /// What SQLite said.
        why: String,
    },
}

impl OpenError {
    pub(super) fn io(path: &Path, error: &dyn fmt::Display) -> Self {
        Self::Unusable { path: path.to_owned(), why: error.to_string() }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => write!(f, "there is no store at `{}`", path.display()),
            Self::InUse { path, holder } => {
                write!(f, "the store `{}` is in use by another jadpo ({holder})", path.display())
            }
            Self::Unusable { path, why } => write!(f, "`{}` cannot be used as a store: {why}", path.display()),
            Self::Migration { path, name, why } => {
                write!(f, "the store `{}` could not be brought up to date by {name}: {why}", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// A connection to a file that is there.
pub(super) fn existing(path: &Path) -> Result<Connection, OpenError> {
    if !path.exists() {
        return Err(OpenError::Missing(path.to_owned()));
    }
    connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

/// A connection to a file that is there or made, at this build's version.
pub(super) fn create_and_migrate(path: &Path, durability: Durability) -> Result<Connection, OpenError> {
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    if durability == Durability::Relaxed {
        connection.pragma_update(None, "synchronous", "NORMAL").map_err(|error| OpenError::io(path, &error))?;
    }
    bring_up(&mut connection, path, "jadpo_schema", MIGRATIONS)?;
    bring_up(&mut connection, path, "jadpo_broker", broker::schema::MIGRATIONS)?;
    Ok(connection)
}

/// Runs what is missing of a list of migrations; `table` is the one that holds the list's version.
fn bring_up(
    connection: &mut Connection,
    path: &Path,
    table: &'static str,
    migrations: &[Migration],
) -> Result<(), OpenError> {
    let version = version(connection, table).map_err(|error| OpenError::io(path, &error))?;
    for migration in migrations.iter().filter(|migration| migration.version > version) {
        migrate(connection, migration.sql).map_err(|error| OpenError::Migration {
            path: path.to_owned(),
            name: migration.file_name,
            why: error.to_string(),
        })?;
    }
    Ok(())
}

fn connect(path: &Path, mode: OpenFlags) -> Result<Connection, OpenError> {
    let set_up = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        Ok(connection)
    };
    set_up().map_err(|error| OpenError::io(path, &error))
}

/// 0 for a store that has no such table yet.
fn version(connection: &Connection, table: &'static str) -> rusqlite::Result<u32> {
    let is_there = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";
    if connection.query_row(is_there, [table], |row| row.get::<_, bool>(0))? {
        connection.query_row(&format!("SELECT version FROM {table}"), [], |row| row.get(0))
    } else {
        Ok(0)
    }
}

/// The migration writes the new version itself, as it does where Wrangler applies it.
fn migrate(connection: &mut Connection, sql: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(sql)?;
    transaction.commit()
}
