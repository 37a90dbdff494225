//! Deployable folders: everything that a deployable needs to be deployed, as files.
//!
//! [`folders`] makes them in memory, the same bytes for the same app; [`write`] puts them on disk.

mod error;
mod wasm;
mod worker;
mod write;

use std::collections::BTreeMap;

use jadpo_core::program::{Platform, Program, Target, Trigger};
use jadpo_core::store::schema::MIGRATIONS;
use jadpo_core::wrangler::{self, Step};

pub use error::BuildError;
pub use worker::Worker;
pub use write::{MANIFEST, Written, write};

/// The Worker's entry module: it hands program.json to the Worker and exports what Cloudflare calls.
const ENTRY: &str = include_str!("../../../host-workers/entry/index.js");

/// One deployable's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// The deployable's name.
    pub deployable: String,
    /// Where it runs.
    pub target: Platform,
    /// The files by their path in the folder, with `/` between its parts.
    pub files: BTreeMap<String, Vec<u8>>,
    /// What is left to do, as commands to run in the folder.
    pub steps: Vec<Step>,
}

/// The folders of all of the app's deployables, or of the one that is named.
///
/// # Errors
/// [`BuildError`] if there is nothing to build, the app's Workers are in each other's way, or the Worker is missing
/// or lacks what the app needs.
pub fn folders(program: &Program, only: Option<&str>, worker: Option<&Worker>) -> Result<Vec<Folder>, BuildError> {
    if let Some(name) = only
        && !program.deployables.contains_key(name)
    {
        let known = program.deployables.keys().cloned().collect();
        return Err(BuildError::UnknownDeployable { name: name.to_owned(), known });
    }
    if program.deployables.is_empty() {
        return Err(BuildError::NoDeployables);
    }
    let conflicts = wrangler::conflicts(program);
    if !conflicts.is_empty() {
        return Err(BuildError::Wrangler(conflicts));
    }
    let names = program.deployables.keys().filter(|name| only.is_none_or(|only| only == name.as_str()));
    names.map(|name| folder(program, name, worker)).collect()
}

fn folder(program: &Program, name: &str, worker: Option<&Worker>) -> Result<Folder, BuildError> {
    let harmless = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(harmless) {
        return Err(BuildError::FolderName { deployable: name.to_owned() });
    }
    let target = program.deployables.get(name).map_or(Platform::Native, |deployable| deployable.target);
    let mut files = BTreeMap::new();
    let mut program_json = serde_json::to_vec_pretty(program).map_err(BuildError::Serialize)?;
    program_json.push(b'\n');
    files.insert("program.json".to_owned(), program_json);
    if target == Platform::Workers {
        worker_files(program, name, worker, &mut files)?;
    }
    Ok(Folder { deployable: name.to_owned(), target, files, steps: wrangler::steps(program, name) })
}

fn worker_files(
    program: &Program,
    name: &str,
    worker: Option<&Worker>,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> Result<(), BuildError> {
    let file = wrangler::wrangler_file(program, name).map_err(|error| BuildError::Wrangler(vec![error]))?;
    let worker = worker.ok_or(BuildError::NoWorker)?;
    let subscribes = program.deployables.get(name).is_some_and(|d| d.triggers.contains(&Trigger::Subscribers));
    if subscribes && !worker.is_custom() {
        for (subscriber, spec) in &program.subscribers {
            if let Target::Run(function) = &spec.target {
                return Err(BuildError::RunNeedsOwnWorker {
                    deployable: name.to_owned(),
                    subscriber: subscriber.clone(),
                    function: function.clone(),
                });
            }
        }
    }
    if file.queues.is_some() {
        worker.receives_queues()?;
    }
    for (path, bytes) in worker.files() {
        files.insert(path.to_owned(), bytes.to_vec());
    }
    files.insert("index.js".to_owned(), ENTRY.as_bytes().to_vec());
    for migration in MIGRATIONS {
        files.insert(format!("migrations/{}", migration.file_name), migration.sql.as_bytes().to_vec());
    }
    files.insert("wrangler.json".to_owned(), file.to_json().map_err(BuildError::Serialize)?.into_bytes());
    Ok(())
}

#[cfg(test)]
mod tests;
