//! One server per store. A second one would run the same ticks on the same rows.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::OpenError;

/// Held while a server runs on a store; the system gives it up when the process ends, however it ends.
#[derive(Debug)]
pub struct StoreLock {
    _file: File,
}

impl StoreLock {
    /// Takes the lock beside the store's file.
    ///
    /// # Errors
    /// [`OpenError::InUse`], naming the process that has it, or [`OpenError::Unusable`].
    pub fn take(store: &Path) -> Result<Self, OpenError> {
        let path = lock_path(store);
        let unusable = |error: std::io::Error| OpenError::io(&path, &error);
        if let Some(folder) = store.parent() {
            std::fs::create_dir_all(folder).map_err(unusable)?;
        }
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only for the message, which is as good without it.
                let _ = file.read_to_string(&mut holder);
                let holder = if holder.is_empty() { "unknown".to_owned() } else { holder.trim().to_owned() };
                return Err(OpenError::InUse { path: store.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(unusable)?;
        writeln!(file, "process {}", std::process::id()).map_err(unusable)?;
        Ok(Self { _file: file })
    }
}

fn lock_path(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}
