//! Opening a database's file.

use std::fs::{DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::error::OpenError;

/// Who may read and write a database: it holds what a Worker's users gave it. SQLite gives its other files the same.
const MODE: u32 = 0o600;
/// The same for the folder.
const FOLDER_MODE: u32 = 0o700;
/// How long to wait for another process that is writing, such as `jadpo d1` beside a server.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Statements kept prepared.
const STATEMENTS_KEPT: usize = 64;
/// Pages in memory, in KiB (a negative figure, to SQLite).
const CACHE_KIB: i32 = 8 << 10;
/// What the log's file may keep of a time in which it was longer, in bytes.
const LOG_BYTES_KEPT: u32 = 16 << 20;
/// Bytes of a page: as on D1, whose `PRAGMA page_size` says so and whose `size_after` counts them.
const PAGE_BYTES: u32 = 4_096;

/// A connection to a database, which is made if it is not there.
pub(super) fn open(file: &Path) -> Result<Connection, OpenError> {
    make(file).map_err(|error| OpenError::unusable(file, &error))?;
    let connect = || -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |mode| match mode.get_ref(0)?.as_str()? {
            "wal" => Ok(()),
            _ => {
                let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
                Err(rusqlite::Error::SqliteFailure(code, Some("it cannot have a write-ahead log here".to_owned())))
            }
        })?;
        // Commits are put on disk by `flush`, before anybody is told of them.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        super::limits::set(&connection)?;
        super::functions::add(&connection)?;
        Ok(connection)
    };
    connect().map_err(|error| OpenError::unusable(file, &error))
}

fn make(file: &Path) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(MODE).open(file) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
