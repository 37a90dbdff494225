//! The store's files: made for nobody but their owner, and looked at while they are open. A file that is deleted or
//! replaced under a process takes whatever is written to it and keeps nothing for the next one.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::OpenError;

/// Who may read and write a file that is made: it holds messages, and the tokens of webhooks. SQLite gives its other
/// files the same.
pub(super) const MODE: u32 = 0o600;
/// The same for a folder that is made for it.
const FOLDER_MODE: u32 = 0o700;
/// What SQLite's log begins with, but for the last bit.
const LOG_BEGINS: u32 = 0x377f_0682;

/// Makes the store's file, empty, and its folder, if they are not there.
///
/// # Errors
/// [`OpenError::Unusable`].
pub(super) fn make(store: &Path) -> Result<(), OpenError> {
    if let Some(folder) = store.parent() {
        let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
        made.map_err(|error| OpenError::io(folder, &error))?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(MODE).open(store) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(OpenError::io(store, &error)),
        _ => Ok(()),
    }
}

/// The file's path with this behind it.
pub(super) fn beside(store: &Path, ending: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    pub(super) fn at(path: &Path) -> std::io::Result<Self> {
        std::fs::metadata(path).map(|metadata| Self::of(&metadata))
    }
}

/// The files of an open store.
#[derive(Debug)]
pub(super) struct Files {
    store: (PathBuf, FileId),
    /// SQLite's log, which is there for as long as the store is open. SQLite has no locks on it that closing this
    /// descriptor would give up.
    log: Option<(PathBuf, FileId, File)>,
}

impl Files {
    /// Notes which files were just opened.
    ///
    /// # Errors
    /// If the file is gone already.
    pub(super) fn opened(store: &Path) -> std::io::Result<Self> {
        let path = std::path::absolute(store)?;
        let id = FileId::at(&path)?;
        let log = path.canonicalize().map(|path| beside(&path, "-wal")).and_then(|path| {
            let file = File::open(&path)?;
            let id = FileId::of(&file.metadata()?);
            Ok((path, id, file))
        });
        Ok(Self { store: (path, id), log: log.ok() })
    }

    /// Whether they still stand where they stood: what is written is found by whoever opens the store next.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub(super) fn check(&self) -> Result<(), String> {
        let (path, id) = &self.store;
        still_there("its file", path, *id)?;
        let Some((path, id, file)) = &self.log else { return Ok(()) };
        still_there("its log", path, *id)?;
        let mut begins = [0; 4];
        // A log that cannot be read tells nothing; SQLite will, if it needs it.
        let Ok(read) = file.read_at(&mut begins, 0) else { return Ok(()) };
        if read == begins.len() && u32::from_be_bytes(begins) & !1 != LOG_BEGINS {
            return Err(format!("its log `{}` was overwritten or cut off under it; {START_ANEW}", path.display()));
        }
        Ok(())
    }
}

const START_ANEW: &str = "nothing more is kept until this process is started anew";
const BACK_OR_ANEW: &str = "nothing more is kept until it is back, or this process is started anew";

fn still_there(what: &str, path: &Path, id: FileId) -> Result<(), String> {
    match FileId::at(path) {
        Ok(now) if now == id => Ok(()),
        Ok(_) => Err(format!("{what} `{}` was replaced by another under it; {BACK_OR_ANEW}", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(format!("{what} `{}` was deleted or moved under it; {BACK_OR_ANEW}", path.display()))
        }
        Err(error) => Err(format!("{what} `{}` cannot be looked at: {error}", path.display())),
    }
}
