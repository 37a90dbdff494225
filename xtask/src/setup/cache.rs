//! The tool cache: a folder per tool and version, there whole or not at all.

use crate::problem::{Problem, Result};
use crate::run;
use std::cell::RefCell;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// The cache of one user, shared by all clones.
pub(crate) struct Cache {
    root: PathBuf,
    /// Held from the first tool that had to be made until the set-up ends.
    lock: RefCell<Option<File>>,
}

impl Cache {
    /// Opens the cache, making its folder.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).map_err(|e| {
            Problem::io(format!("making the tool cache {}", root.display()), &e)
                .help("set JADPO_CACHE to a folder that can be written")
        })?;
        Ok(Self { root: root.to_path_buf(), lock: RefCell::new(None) })
    }

    /// A path inside the cache.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.root.join(inside)
    }

    /// Whether this process made something, and so may clean up.
    pub(crate) fn holds_lock(&self) -> bool {
        self.lock.borrow().is_some()
    }

    /// Where steps put what they print.
    pub(crate) fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The log of one step.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }

    /// The folder `name`, made by `make` if it is not there yet. `make` fills a folder beside it that is renamed when
    /// it is complete, so an interrupted set-up leaves nothing that looks done; what it left is removed first.
    ///
    /// # Errors
    /// Those of `make`, or a file operation's.
    pub(crate) fn folder(&self, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let done = self.root.join(name);
        if done.is_dir() {
            return Ok(done);
        }
        self.hold_lock()?;
        if done.is_dir() {
            return Ok(done); // another xtask made it while we waited
        }
        let unfinished = self.root.join(format!("unfinished-{name}"));
        let io = |doing: &str, e: &std::io::Error| Problem::io(format!("{doing} {}", unfinished.display()), e);
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(|e| io("removing", &e))?;
        }
        fs::create_dir_all(&unfinished).map_err(|e| io("making", &e))?;
        make(&unfinished)?;
        fs::rename(&unfinished, &done).map_err(|e| io("renaming", &e))?;
        Ok(done)
    }

    /// Waits until no other xtask makes tools. The system lets go of the lock when this process ends, however it ends.
    ///
    /// # Errors
    /// When the lock file cannot be written.
    pub(crate) fn hold_lock(&self) -> Result<()> {
        if self.lock.borrow().is_some() {
            return Ok(());
        }
        let path = self.root.join("lock");
        let io = |e: std::io::Error| Problem::io(format!("locking {}", path.display()), &e);
        let file = File::create(&path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                run::say("- another xtask is setting up; waiting for it …");
                file.lock().map_err(io)?;
            }
            Err(TryLockError::Error(e)) => return Err(io(e)),
        }
        *self.lock.borrow_mut() = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(name: &str) -> Cache {
        let root = std::env::temp_dir().join(format!("jadpo-xtask-{}-{name}", std::process::id()));
        Cache::open(&root).unwrap()
    }

    fn write(path: PathBuf) -> Result<()> {
        fs::write(path, "x").unwrap();
        Ok(())
    }

    #[test]
    fn a_tool_that_was_made_is_not_made_again() {
        let cache = cache("once");
        let first = cache.folder("tool-1", |dir| write(dir.join("bin"))).unwrap();
        let second = cache.folder("tool-1", |_| panic!("made twice")).unwrap();
        assert_eq!(first, second);
        assert_eq!(fs::read(second.join("bin")).unwrap(), b"x");
        fs::remove_dir_all(&cache.root).unwrap();
    }

    #[test]
    fn an_interrupted_setup_leaves_nothing_that_looks_done() {
        let cache = cache("interrupted");
        let half = cache.folder("tool-1", |dir| {
            fs::write(dir.join("half"), "x").unwrap();
            Err(Problem::new("the power went out"))
        });
        assert!(half.is_err());
        assert!(!cache.root.join("tool-1").exists());
        let whole = cache.folder("tool-1", |dir| write(dir.join("bin"))).unwrap();
        assert!(!whole.join("half").exists(), "what the interrupted one left must not stay");
        fs::remove_dir_all(&cache.root).unwrap();
    }
}
