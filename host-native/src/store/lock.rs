//! One server per store. A second one would run the same ticks on the same rows.
//!
//! Two locks say so. One is on the database's own file, so that another name of it, as a link is, makes no difference;
//! the other is on a file beside it, which also says who has it. Both are the system's, which gives them up when the
//! process ends, however it ends.
//!
//! SQLite's own locks are of another kind, and whoever closes *any* descriptor of the file gives those up for the whole
//! process. So a descriptor that was opened here is never closed: it is kept for the next who asks for this file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::OpenError;
use super::files::{self, FileId, MODE};

/// How often, and how long apart, a lock is tried before it counts as held: who only looks whether it is held has it
/// for a moment.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// Elsewhere the two kinds of locks get into each other's way.
const LOCKS_THE_FILE: bool = cfg!(target_os = "linux");

/// The databases that this process has opened for their locks.
static DATABASES: Mutex<Vec<Database>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct Database {
    id: FileId,
    file: File,
    held: bool,
}

/// Held while a server runs on a store.
#[derive(Debug)]
pub struct StoreLock {
    _beside: File,
    database: Option<FileId>,
}

impl StoreLock {
    /// Takes the locks. The store's file is made if it is not there, and is empty then.
    ///
    /// # Errors
    /// [`OpenError::InUse`], naming the process that has it; [`OpenError::Foreign`] or [`OpenError::Unusable`].
    pub fn take(store: &Path) -> Result<Self, OpenError> {
        files::make(store)?;
        super::open::refuse_foreign(store)?;
        let unusable = |error: std::io::Error| OpenError::io(store, &error);
        let beside = lock_path(&store.canonicalize().map_err(unusable)?);
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(MODE).open(&beside);
        let mut file = open.map_err(|error| OpenError::io(&beside, &error))?;
        let free = tried(|| file.try_lock()).map_err(unusable)?;
        let database = if free && LOCKS_THE_FILE { lock_database(store).map_err(unusable)? } else { None };
        if !free || (LOCKS_THE_FILE && database.is_none()) {
            return Err(OpenError::InUse { path: store.to_owned(), holder: holder(&mut file) });
        }
        let written = file.set_len(0).and_then(|()| file.rewind());
        let written = written.and_then(|()| writeln!(file, "process {}", std::process::id()));
        let lock = Self { _beside: file, database };
        written.map(|()| lock).map_err(unusable)
    }

    /// Whether anybody has the locks.
    ///
    /// # Errors
    /// [`OpenError::Unusable`] if the files cannot be looked at.
    pub fn is_held(store: &Path) -> Result<bool, OpenError> {
        let unusable = |error: std::io::Error| OpenError::io(store, &error);
        let Ok(real) = store.canonicalize() else { return Ok(false) };
        // A server of an older build has only this one.
        if let Ok(beside) = File::open(lock_path(&real))
            && !tried(|| beside.try_lock_shared()).map_err(unusable)?
        {
            return Ok(true);
        }
        if !LOCKS_THE_FILE {
            return Ok(false);
        }
        let mut databases = databases();
        let database = database(&mut databases, store).map_err(unusable)?;
        if database.held {
            return Ok(true);
        }
        let free = tried(|| database.file.try_lock_shared()).map_err(unusable)?;
        if free {
            database.file.unlock().map_err(unusable)?;
        }
        Ok(!free)
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        let mut databases = databases();
        if let Some(database) = databases.iter_mut().find(|database| Some(database.id) == self.database) {
            database.held = false;
            // The end of the process does it otherwise.
            let _ = database.file.unlock();
        }
    }
}

/// `None` if somebody has it.
fn lock_database(store: &Path) -> std::io::Result<Option<FileId>> {
    let mut databases = databases();
    let database = database(&mut databases, store)?;
    if database.held || !tried(|| database.file.try_lock())? {
        return Ok(None);
    }
    database.held = true;
    Ok(Some(database.id))
}

/// The descriptor of this file, opened only if there is none yet.
fn database<'a>(databases: &'a mut Vec<Database>, store: &Path) -> std::io::Result<&'a mut Database> {
    let known = FileId::at(store)?;
    let index = match databases.iter().position(|database| database.id == known) {
        Some(index) => index,
        None => {
            let file = File::open(store)?;
            let id = FileId::of(&file.metadata()?);
            // Also if another file has come to stand there since: what is opened is kept.
            databases.push(Database { id, file, held: false });
            databases.iter().position(|database| database.id == id).unwrap_or_default()
        }
    };
    databases.get_mut(index).ok_or_else(|| std::io::Error::other("it is not there"))
}

fn databases() -> MutexGuard<'static, Vec<Database>> {
    DATABASES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a lock was got, after some tries.
fn tried(attempt: impl Fn() -> Result<(), TryLockError>) -> std::io::Result<bool> {
    for left in (0..TRIES).rev() {
        match attempt() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if left == 0 => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_TRIES),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}

/// Only for the message, which is as good without it.
fn holder(beside: &mut File) -> String {
    let mut holder = String::new();
    let _ = beside.read_to_string(&mut holder);
    if holder.trim().is_empty() { "unknown".to_owned() } else { holder.trim().to_owned() }
}

fn lock_path(store: &Path) -> PathBuf {
    files::beside(store, ".lock")
}
