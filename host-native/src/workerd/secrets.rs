//! A Worker's secrets: a file beside its Wrangler file, or this process's environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jadpo_core::workers::{Worker, dot_vars};

use super::failure::Failure;
use super::project::Loading;

/// What was found.
pub(super) struct Secrets {
    pub(super) values: BTreeMap<String, String>,
    /// The files that were read or would be, if they were there.
    pub(super) files: Vec<PathBuf>,
}

/// Most bytes of such a file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The secrets of a Worker. `.dev.vars.ENVIRONMENT` replaces `.dev.vars`, and without either the `.env` files count, of
/// which a later one stands before an earlier one; all as in Wrangler.
pub(super) fn of(worker: &Worker, folder: &Path, loading: &Loading) -> Result<Secrets, Failure> {
    let environment = worker.environment.as_deref();
    let named = environment.map(|environment| folder.join(format!(".dev.vars.{environment}")));
    let plain = folder.join(".dev.vars");
    let env: Vec<PathBuf> = [".env", ".env.local"]
        .map(str::to_owned)
        .into_iter()
        .chain(environment.into_iter().flat_map(|name| [format!(".env.{name}"), format!(".env.{name}.local")]))
        .map(|name| folder.join(name))
        .collect();
    let mut values = BTreeMap::new();
    let dev_vars = named.iter().chain([&plain]).find(|file| file.is_file());
    match dev_vars {
        Some(file) => values.extend(read(file)?),
        None => {
            for file in env.iter().filter(|file| file.is_file()) {
                values.extend(read(file)?);
            }
        }
    }
    if !worker.secrets_required.is_empty() {
        // As in Wrangler: who lists the secrets gets these and no others.
        values.retain(|name, _| worker.secrets_required.contains(name) || worker.vars.contains_key(name));
    }
    for name in worker.secrets_required.iter().chain(&loading.from_environment) {
        if let Ok(value) = std::env::var(name) {
            values.entry(name.clone()).or_insert(value);
        }
    }
    let lacking: Vec<&str> =
        worker.secrets_required.iter().filter(|name| !values.contains_key(*name)).map(String::as_str).collect();
    if !lacking.is_empty() {
        let what = format!("the Worker `{}` requires secrets that are not there: {}", worker.name, lacking.join(", "));
        let help = "write NAME=VALUE into a file .dev.vars beside the Wrangler file, or set it in the environment";
        return Err(Failure::wrong(what, help));
    }
    let files = named.into_iter().chain([plain]).chain(env).collect();
    Ok(Secrets { values, files })
}

fn read(file: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let unread = |why: String| Failure::wrong(format!("{} cannot be read: {why}", file.display()), "");
    let size = file.metadata().map_err(|error| unread(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(unread(format!("it has {size} bytes, and there may be {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| unread(error.to_string()))?;
    dot_vars(&text).map_err(|note| {
        let what = format!("{}: {}{}", file.display(), note.path, note.message);
        Failure::wrong(what, note.help.unwrap_or_else(|| "a line is NAME=VALUE".to_owned()))
    })
}
