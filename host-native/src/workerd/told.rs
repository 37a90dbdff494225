//! What was said of a Worker already: a reload says again only what is another thing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use jadpo_core::host::{Level, LogEntry};
use serde_json::Value;

use crate::log;

/// What was said, for each Wrangler file as it was then. Clones mean the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Told(Arc<Mutex<BTreeMap<PathBuf, Of>>>);

/// When the file was written, and what was said of it since.
type Of = (Option<SystemTime>, BTreeSet<String>);

impl Told {
    /// Writes a line, unless the same was written since the Wrangler file last changed.
    pub(super) fn say(&self, file: &Path, level: Level, event: &'static str, fields: Vec<(&'static str, Value)>) {
        let entry = LogEntry { level, event, fields };
        let written = file.metadata().and_then(|metadata| metadata.modified()).ok();
        let is_new = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let (since, said) = all.entry(file.to_owned()).or_default();
            if *since != written {
                *since = written;
                said.clear();
            }
            said.insert(entry.to_json())
        };
        if is_new {
            log::write(&entry);
        }
    }
}
