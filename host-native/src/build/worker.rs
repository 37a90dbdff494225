//! The Worker that goes into a folder: the one inside this binary, or one from a folder.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use super::BuildError;
use super::wasm;

/// Name and bytes of each of the built-in Worker's files; empty if this binary has none. Made by `build.rs`.
const EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/embedded_worker.rs"));

/// A built Worker: `worker.js` and what it imports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    files: Vec<(String, Cow<'static, [u8]>)>,
    /// The folder of a custom Worker.
    dir: Option<PathBuf>,
}

impl Worker {
    /// The Worker inside this binary, if it was built with one.
    #[must_use]
    pub fn embedded() -> Option<Self> {
        if EMBEDDED.is_empty() {
            return None;
        }
        let files = EMBEDDED.iter().map(|(name, bytes)| ((*name).to_owned(), Cow::Borrowed(*bytes))).collect();
        Some(Self { files, dir: None })
    }

    /// The Worker in a folder: `worker.js`, or `index.js` as worker-build calls it, and the scripts and Wasm beside
    /// it.
    ///
    /// # Errors
    /// [`BuildError::Io`] if it cannot be read, [`BuildError::NotAWorker`] if the script or the Wasm is missing.
    pub fn from_dir(dir: &Path) -> Result<Self, BuildError> {
        let io = |path: &Path, error| BuildError::Io { doing: "read", path: path.to_owned(), error };
        let not = |why: &str| BuildError::NotAWorker { dir: dir.to_owned(), why: why.to_owned() };
        let mut files = Vec::new();
        for entry in fs::read_dir(dir).map_err(|error| io(dir, error))? {
            let path = entry.map_err(|error| io(dir, error))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let wanted = path.extension().is_some_and(|ext| ext == "js" || ext == "wasm");
            if wanted && path.is_file() {
                files.push((name.to_owned(), Cow::Owned(fs::read(&path).map_err(|error| io(&path, error))?)));
            }
        }
        let has = |name: &str| files.iter().any(|(file, _)| file == name);
        let (has_worker, has_index) = (has("worker.js"), has("index.js"));
        if !has_worker && !has_index {
            return Err(not("it has no `worker.js`"));
        }
        // The folder's own entry is called index.js, so a Worker's goes by worker.js or not at all.
        files.retain(|(name, _)| !(has_worker && name == "index.js"));
        for (name, _) in &mut files {
            if name == "index.js" {
                "worker.js".clone_into(name);
            }
        }
        files.sort();
        let worker = Self { files, dir: Some(dir.to_owned()) };
        if worker.wasm().next().is_none() {
            return Err(not("it has no Wasm"));
        }
        Ok(worker)
    }

    /// Whether it came from a folder, so that Rust functions may be linked into it.
    #[must_use]
    pub fn is_custom(&self) -> bool {
        self.dir.is_some()
    }

    /// Its files, by name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_ref()))
    }

    /// Makes sure that it exports a queue handler. A deploy would only fail at Cloudflare, with code 11001.
    ///
    /// # Errors
    /// [`BuildError::NotAWorker`] if it has none.
    pub fn receives_queues(&self) -> Result<(), BuildError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        if self.wasm().any(|bytes| wasm::exports(bytes, "queue")) {
            return Ok(());
        }
        let why = "its Wasm exports no `queue`, which a deployable that receives queues needs".to_owned();
        Err(BuildError::NotAWorker { dir: dir.clone(), why })
    }

    fn wasm(&self) -> impl Iterator<Item = &[u8]> {
        self.files().map(|(_, bytes)| bytes).filter(|bytes| bytes.starts_with(wasm::MAGIC))
    }
}
