//! Where things are: the clone, its build folders, the tool cache.

use crate::problem::{Problem, Result};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The clone that xtask was started from.
pub(crate) struct Workspace {
    root: PathBuf,
    cache: PathBuf,
}

impl Workspace {
    /// The workspace that holds this xtask, and the cache that the environment names.
    ///
    /// # Errors
    /// When xtask was not started by cargo, or no cache folder can be named.
    pub(crate) fn find() -> Result<Self> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR")
            .ok_or_else(|| Problem::usage("xtask was not started by cargo").help("run it as `cargo xtask …`"))?;
        let root = Path::new(&manifest)
            .parent()
            .ok_or_else(|| Problem::new("xtask's package has no parent folder"))?
            .to_path_buf();
        Ok(Self { root, cache: cache_folder()? })
    }

    /// A path inside the clone.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.root.join(inside)
    }

    /// The folder of tools that every clone of this user shares.
    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// Where wasm-target builds go: never the native builds' folder, so that neither throws out the other's work.
    pub(crate) fn wasm_target_dir(&self) -> PathBuf {
        self.root.join("target/wasm")
    }

    /// The version of a package in Cargo.lock.
    ///
    /// # Errors
    /// When Cargo.lock cannot be read or does not hold the package.
    pub(crate) fn locked_version(&self, package: &str) -> Result<String> {
        let path = self.path("Cargo.lock");
        let text = fs::read_to_string(&path).map_err(|e| Problem::io("reading Cargo.lock", &e))?;
        let lock: toml::Table = text.parse().map_err(|e| Problem::new(format!("Cargo.lock cannot be read: {e}")))?;
        let packages = lock.get("package").and_then(toml::Value::as_array);
        packages
            .into_iter()
            .flatten()
            .find(|p| p.get("name").and_then(toml::Value::as_str) == Some(package))
            .and_then(|p| p.get("version").and_then(toml::Value::as_str))
            .map(str::to_owned)
            .ok_or_else(|| {
                Problem::new(format!("Cargo.lock holds no package {package}"))
                    .help("take Cargo.lock as it is committed: `git checkout Cargo.lock`")
            })
    }
}

fn cache_folder() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("JADPO_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("jadpo")))
        .or_else(|| env::home_dir().map(|dir| dir.join(".cache/jadpo")))
        .ok_or_else(|| Problem::new("no home folder to keep tools in").help("set JADPO_CACHE to a folder"))?;
    std::path::absolute(&cache).map_err(|e| Problem::io(format!("finding the cache folder {}", cache.display()), &e))
}
