//! Opening the file and bringing it up to date.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jadpo_core::broker;
use jadpo_core::store::schema::{MIGRATIONS, Migration};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::files;

/// The mark of our files: `jadp`, where SQLite keeps such a mark.
const APPLICATION_ID: i32 = 0x6a61_6470;
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
    /// The file is something else.
    Foreign {
        /// The file.
        path: PathBuf,
        /// How it shows.
        why: String,
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
            Self::Foreign { path, why } => write!(f, "`{}` is no store of jadpo's: {why}", path.display()),
            Self::Unusable { path, why } => write!(f, "`{}` cannot be used as a store: {why}", path.display()),
            Self::Migration { path, name, why } => {
                write!(f, "the store `{}` could not be brought up to date by {name}: {why}", path.display())
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// A connection to a store that is there. Nothing in its file is changed by that, of whatever version it is.
pub(super) fn existing(path: &Path) -> Result<Connection, OpenError> {
    if !path.exists() {
        return Err(OpenError::Missing(path.to_owned()));
    }
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    match whose(&connection, path)? {
        Whose::Ours { .. } => {}
        Whose::Nobodys => return Err(OpenError::Foreign { path: path.to_owned(), why: "it is empty".to_owned() }),
    }
    set_up(&connection).map_err(|error| OpenError::io(path, &error))?;
    Ok(connection)
}

/// A connection to a file that is there or made, at this build's version.
pub(super) fn create_and_migrate(path: &Path, durability: Durability) -> Result<Connection, OpenError> {
    let unusable = |error: rusqlite::Error| OpenError::io(path, &error);
    files::make(path)?;
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let whose = whose(&connection, path)?;
    if whose == Whose::Nobodys {
        connection.pragma_update(None, "page_size", PAGE_BYTES).map_err(unusable)?;
    }
    set_up(&connection).map_err(unusable)?;
    connection.pragma_update(None, "journal_mode", "WAL").map_err(unusable)?;
    if whose != (Whose::Ours { marked: true }) {
        connection.pragma_update(None, "application_id", APPLICATION_ID).map_err(unusable)?;
    }
    if durability == Durability::Relaxed {
        connection.pragma_update(None, "synchronous", "NORMAL").map_err(unusable)?;
    }
    bring_up(&mut connection, path, "jadpo_schema", MIGRATIONS)?;
    bring_up(&mut connection, path, "jadpo_broker", broker::schema::MIGRATIONS)?;
    Ok(connection)
}

/// Refuses a file that is something else, before anything is done with it or beside it.
pub(super) fn refuse_foreign(path: &Path) -> Result<(), OpenError> {
    whose(&connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?, path).map(drop)
}

/// Runs what is missing of a list of migrations; `table` is the one that holds the list's version.
fn bring_up(
    connection: &mut Connection,
    path: &Path,
    table: &'static str,
    migrations: &[Migration],
) -> Result<(), OpenError> {
    for migration in migrations {
        migrate(connection, table, migration).map_err(|error| OpenError::Migration {
            path: path.to_owned(),
            name: migration.file_name,
            why: error.to_string(),
        })?;
    }
    Ok(())
}

fn connect(path: &Path, mode: OpenFlags) -> Result<Connection, OpenError> {
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    let connection = connection.and_then(|connection| connection.busy_timeout(BUSY_TIMEOUT).map(|()| connection));
    connection.map_err(|error| OpenError::io(path, &error))
}

/// What holds for a connection, whatever the file.
fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// A store, of whatever version. One that a build before the mark made has only our tables, as has one that
    /// Wrangler made.
    Ours { marked: bool },
    /// There is nothing in it.
    Nobodys,
}

/// # Errors
/// [`OpenError::Foreign`] if it is somebody else's.
fn whose(connection: &Connection, path: &Path) -> Result<Whose, OpenError> {
    // All that the first migration made, at once: one name alone may be another program's too.
    const TABLES: &str = "SELECT count(*), coalesce(sum(type = 'table' AND name IN ('jadpo_schema', 'jadpo_received', \
        'jadpo_events', 'jadpo_deliveries', 'jadpo_parked_messages')), 0) = 5 FROM sqlite_master";
    let look = || -> rusqlite::Result<(i32, i64, bool)> {
        let mark = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let (tables, has_ours) = connection.query_row(TABLES, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok((mark, tables, has_ours))
    };
    let foreign = |why: String| OpenError::Foreign { path: path.to_owned(), why };
    match look() {
        Ok((APPLICATION_ID, ..)) => Ok(Whose::Ours { marked: true }),
        Ok((0, 0, _)) => Ok(Whose::Nobodys),
        Ok((0, _, true)) => Ok(Whose::Ours { marked: false }),
        Ok(_) => Err(foreign("it is a database of another program's".to_owned())),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => Err(foreign(error.to_string())),
        Err(error) => Err(OpenError::io(path, &error)),
    }
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

/// Runs a migration that the store has not seen yet. It writes the new version itself, as it does where Wrangler
/// applies it. Somebody else may be doing the same: who comes second finds it done.
fn migrate(connection: &mut Connection, table: &'static str, migration: &Migration) -> rusqlite::Result<()> {
    if version(connection, table)? >= migration.version {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if version(&transaction, table)? < migration.version {
        transaction.execute_batch(migration.sql)?;
    }
    transaction.commit()
}
