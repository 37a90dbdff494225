//! Which databases are meant.

use std::path::{Path, PathBuf};

use jadpo_core::workers::Database;

use crate::cli::words::plain;
use crate::d1::Databases;
use crate::operator::OperatorError;
use crate::workerd::{Source, describe};

/// A database, as the Wrangler files and the folder know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// What its file is called, without the ending.
    pub(super) key: String,
    /// Its name, else its binding, else its key.
    pub(super) name: String,
    /// `WORKER.BINDING` of each that has it.
    pub(super) bindings: Vec<String>,
    /// Every name by which it may be called.
    called: Vec<String>,
    /// The folder of its migrations, and the table that remembers them, if a Wrangler file says so.
    pub(super) migrations: Option<(PathBuf, String)>,
}

impl Found {
    /// The databases of the Workers that are named, or of the one in this folder; without one, those whose files are
    /// there.
    pub(super) fn all(
        workers: &[PathBuf],
        environment: Option<&str>,
        databases: &Databases,
    ) -> Result<Vec<Self>, OperatorError> {
        let here = [PathBuf::from(".")];
        let is_default = workers.is_empty();
        let mut found: Vec<Self> = Vec::new();
        for file in if is_default { &here[..] } else { workers } {
            let source = Source { file: file.clone(), environment: environment.map(str::to_owned) };
            match describe(&source) {
                Ok((worker, folder)) => {
                    for database in &worker.databases {
                        add(&mut found, &worker.name, database, &folder);
                    }
                }
                // A file that is there and wrong is told.
                Err(_) if is_default && !has_file(Path::new(".")) => return Ok(files(databases)),
                Err(failure) if failure.is_input => {
                    return Err(OperatorError::input(failure.what, failure.help.as_deref()).coded("worker_wrong"));
                }
                Err(failure) => return Err(OperatorError::failed(failure.what, failure.help.as_deref())),
            }
        }
        Ok(found)
    }

    /// The one that is called so.
    pub(super) fn named<'a>(found: &'a [Self], name: &str) -> Result<&'a Self, OperatorError> {
        let fits: Vec<&Self> = found.iter().filter(|one| one.called.iter().any(|called| called == name)).collect();
        match fits.as_slice() {
            [one] => Ok(one),
            [] => {
                let names: Vec<String> = found.iter().map(|one| plain(&one.name)).collect();
                let help = if names.is_empty() {
                    "there is none: name the Worker that has it with --worker".to_owned()
                } else {
                    format!("there is {}; name the Worker that has another with --worker", names.join(", "))
                };
                let what = format!("there is no database `{}`", plain(name));
                Err(OperatorError::input(what, Some(&help)).coded("database_missing"))
            }
            several => {
                let keys: Vec<&str> = several.iter().map(|one| one.key.as_str()).collect();
                let help = format!("say which by its id: {}", keys.join(", "));
                let what = format!("several databases are called `{}`", plain(name));
                Err(OperatorError::input(what, Some(&help)).coded("database_ambiguous"))
            }
        }
    }
}

fn has_file(folder: &Path) -> bool {
    ["wrangler.json", "wrangler.jsonc", "wrangler.toml"].iter().any(|name| folder.join(name).exists())
}

/// Adds a Worker's database, or another binding to one that is there.
fn add(found: &mut Vec<Found>, worker: &str, database: &Database, folder: &Path) {
    let key = database.key();
    let binding = format!("{worker}.{}", database.binding);
    let names = [database.name.as_ref(), database.id.as_ref(), Some(&database.binding), Some(&key)];
    let names: Vec<String> = names.into_iter().flatten().chain([&binding]).cloned().collect();
    if let Some(one) = found.iter_mut().find(|one| one.key == key) {
        one.bindings.push(binding);
        one.called.extend(names);
        return;
    }
    found.push(Found {
        name: database.name.clone().unwrap_or_else(|| database.binding.clone()),
        key,
        bindings: vec![binding],
        called: names,
        migrations: Some((folder.join(&database.migrations_dir), database.migrations_table.clone())),
    });
}

/// The databases whose files are there.
fn files(databases: &Databases) -> Vec<Found> {
    let entries = std::fs::read_dir(databases.folder()).into_iter().flatten().flatten();
    let mut keys: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".db").map(str::to_owned))
        .filter(|key| databases.file(key).is_ok())
        .collect();
    keys.sort();
    let one = |key: String| Found {
        name: key.clone(),
        called: vec![key.clone()],
        key,
        bindings: Vec::new(),
        migrations: None,
    };
    keys.into_iter().map(one).collect()
}
