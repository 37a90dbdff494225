//! Folders on disk. Only what `jadpo build` wrote is ever replaced or removed; a manifest in each folder says what
//! that is, with a checksum, so that a file changed by hand since is kept beside the new one.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{BuildError, Folder};

/// The manifest's name in each folder.
pub const MANIFEST: &str = ".jadpo-build.json";

/// What was done to one folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// The folder.
    pub path: PathBuf,
    /// Size in bytes and SHA-256 in hex of each file, by its path in the folder.
    pub files: BTreeMap<String, (usize, String)>,
    /// Files of an earlier build that this one no longer has, now removed.
    pub removed: Vec<String>,
    /// Files that were changed since the last build: where their changed text is kept now.
    pub kept: Vec<(String, String)>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Manifest {
    /// SHA-256 by path.
    files: BTreeMap<String, String>,
}

/// Writes each folder to its path. All of them are checked and written out beside their place first, and then moved
/// file by file, the file that a deploy starts from last.
///
/// # Errors
/// [`BuildError::NotOurs`] if a file of somebody else is in the way, before anything is changed; else
/// [`BuildError::Io`].
pub fn write(folders: &[(PathBuf, Folder)]) -> Result<Vec<Written>, BuildError> {
    let plans = folders.iter().map(|(path, folder)| Plan::new(path, folder)).collect::<Result<Vec<_>, _>>()?;
    let staged = plans.iter().try_for_each(Plan::stage);
    let written = staged.and_then(|()| plans.iter().map(Plan::carry_out).collect());
    for plan in &plans {
        match fs::remove_dir_all(&plan.staging) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return written.and(Err(BuildError::Io { doing: "remove", path: plan.staging.clone(), error }));
            }
            _ => {}
        }
    }
    written
}

/// What will happen to one folder.
struct Plan<'a> {
    folder: &'a Folder,
    path: &'a Path,
    /// Where the files are written before they are moved: in the folder itself, so that moving is renaming.
    staging: PathBuf,
    manifest: Manifest,
    /// Files of ours that somebody changed.
    changed: Vec<String>,
    /// Files of ours that are no longer wanted.
    stale: Vec<String>,
}

impl<'a> Plan<'a> {
    fn new(path: &'a Path, folder: &'a Folder) -> Result<Self, BuildError> {
        let staging = path.join(format!(".jadpo-build-{}", std::process::id()));
        let before = read_manifest(path)?;
        let files = folder.files.iter().map(|(name, bytes)| (name.clone(), checksum(bytes))).collect();
        let manifest = Manifest { files };
        let mut changed = Vec::new();
        for (name, new) in &manifest.files {
            let found = on_disk(&path.join(name))?;
            match (found, before.files.get(name)) {
                (Some(found), _) if &found == new => {}
                (Some(found), Some(ours)) if &found != ours => changed.push(name.clone()),
                (Some(_), None) => return Err(BuildError::NotOurs { path: path.join(name) }),
                (Some(_), Some(_)) | (None, _) => {}
            }
        }
        let mut stale = Vec::new();
        for (name, ours) in &before.files {
            let wanted = manifest.files.contains_key(name) || !stays_inside(name);
            if !wanted && on_disk(&path.join(name))?.as_ref() == Some(ours) {
                stale.push(name.clone());
            }
        }
        Ok(Self { folder, path, staging, manifest, changed, stale })
    }

    fn stage(&self) -> Result<(), BuildError> {
        for (name, bytes) in &self.folder.files {
            write_file(&self.staging.join(name), bytes)?;
        }
        let mut manifest = serde_json::to_vec_pretty(&self.manifest).map_err(BuildError::Serialize)?;
        manifest.push(b'\n');
        write_file(&self.staging.join(MANIFEST), &manifest)
    }

    fn carry_out(&self) -> Result<Written, BuildError> {
        let mut written = Written { path: self.path.to_owned(), ..Written::default() };
        for name in &self.changed {
            let kept = free_name(self.path, name);
            rename(&self.path.join(name), &self.path.join(&kept))?;
            written.kept.push((name.clone(), kept));
        }
        // The manifest first, so that a build that is cut short leaves no file that the next one takes for somebody
        // else's; the Wrangler file, last by its name, so that what it describes is there before it.
        rename_into(&self.staging, self.path, MANIFEST)?;
        for (name, bytes) in &self.folder.files {
            rename_into(&self.staging, self.path, name)?;
            let checksum = self.manifest.files.get(name).cloned().unwrap_or_default();
            written.files.insert(name.clone(), (bytes.len(), checksum));
        }
        for name in &self.stale {
            let path = self.path.join(name);
            fs::remove_file(&path).map_err(|error| BuildError::Io { doing: "remove", path, error })?;
            written.removed.push(name.clone());
        }
        Ok(written)
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    make_parent(path)?;
    fs::write(path, bytes).map_err(|error| BuildError::Io { doing: "write", path: path.to_owned(), error })
}

fn rename_into(from: &Path, to: &Path, name: &str) -> Result<(), BuildError> {
    let to = to.join(name);
    make_parent(&to)?;
    rename(&from.join(name), &to)
}

fn rename(from: &Path, to: &Path) -> Result<(), BuildError> {
    fs::rename(from, to).map_err(|error| BuildError::Io { doing: "write", path: to.to_owned(), error })
}

fn make_parent(path: &Path) -> Result<(), BuildError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let io = |error| BuildError::Io { doing: "make the folder", path: parent.to_owned(), error };
    fs::create_dir_all(parent).map_err(io)
}

/// The manifest of the last build; an empty one if there is none, or none that can be read.
fn read_manifest(folder: &Path) -> Result<Manifest, BuildError> {
    let path = folder.join(MANIFEST);
    match fs::read(&path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Manifest::default()),
        Err(error) => Err(BuildError::Io { doing: "read", path, error }),
    }
}

fn on_disk(path: &Path) -> Result<Option<String>, BuildError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(checksum(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BuildError::Io { doing: "read", path: path.to_owned(), error }),
    }
}

fn checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a path from a manifest, which anyone may have edited, stays inside its folder.
fn stays_inside(name: &str) -> bool {
    Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
}

/// A name that no file has, for a file that was changed by hand.
fn free_name(folder: &Path, name: &str) -> String {
    let mut free = format!("{name}.changed");
    let mut number = 2;
    while folder.join(&free).exists() {
        free = format!("{name}.changed-{number}");
        number += 1;
    }
    free
}
