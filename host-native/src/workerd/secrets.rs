//! A Worker's secrets: a file beside its Wrangler file, or this process's environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jadpo_core::host::Level;
use jadpo_core::workers::{Worker, dot_vars};

use super::failure::Failure;
use super::project::Loading;
use super::told::Told;

/// What was found.
pub(super) struct Secrets {
    pub(super) values: BTreeMap<String, String>,
    /// The files that were read or would be, if they were there.
    pub(super) files: Vec<PathBuf>,
}

/// Most bytes of such a file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The secrets of a Worker. In development `.dev.vars.ENVIRONMENT` replaces `.dev.vars`, and without either the `.env`
/// files count, of which a later one stands before an earlier one; all as in Wrangler. In production no such file counts:
/// secrets are those that were named, and those that the Worker requires, out of the environment.
pub(super) fn of(worker: &Worker, folder: &Path, loading: &Loading) -> Result<Secrets, Failure> {
    let files = Files::of(worker, folder);
    let mut values = BTreeMap::new();
    for file in files.that_count() {
        if loading.is_dev {
            values.extend(read(file)?);
        } else {
            passed_over(worker, file, &loading.told);
        }
    }
    if !worker.secrets_required.is_empty() {
        // As in Wrangler: who lists the secrets gets these and no others.
        values.retain(|name, _| worker.secrets_required.contains(name) || worker.vars.contains_key(name));
    }
    for name in worker.secrets_required.iter().chain(&loading.from_environment) {
        match std::env::var(name) {
            Ok(value) => drop(values.entry(name.clone()).or_insert(value)),
            Err(error) if !loading.is_dev && loading.from_environment.contains(name) => {
                let what = format!("the secret {name} cannot be taken from the environment: {error}");
                let help = format!("set the variable {name}, or leave `--secret {name}` out");
                return Err(Failure::wrong(what, help));
            }
            Err(_) => {}
        }
    }
    let lacking: Vec<&str> =
        worker.secrets_required.iter().filter(|name| !values.contains_key(*name)).map(String::as_str).collect();
    if !lacking.is_empty() {
        let what = format!("the Worker `{}` requires secrets that are not there: {}", worker.name, lacking.join(", "));
        let help = match loading.is_dev {
            true => "write NAME=VALUE into a file .dev.vars beside the Wrangler file, or set it in the environment",
            false => "set it in the environment; no file beside the Wrangler file is read in production",
        };
        return Err(Failure::wrong(what, help));
    }
    Ok(Secrets { values, files: files.dev_vars.into_iter().chain(files.env).collect() })
}

/// Where secrets may lie.
struct Files {
    /// The first of these that is there counts.
    dev_vars: Vec<PathBuf>,
    /// Without one of those all of these count.
    env: Vec<PathBuf>,
}

impl Files {
    fn of(worker: &Worker, folder: &Path) -> Self {
        let environment = worker.environment.as_deref();
        let at = |name: String| folder.join(name);
        let dev_vars = environment.map(|name| format!(".dev.vars.{name}")).into_iter().chain([".dev.vars".to_owned()]);
        let named = environment.into_iter().flat_map(|name| [format!(".env.{name}"), format!(".env.{name}.local")]);
        let env = [".env", ".env.local"].map(str::to_owned).into_iter().chain(named);
        Self { dev_vars: dev_vars.map(at).collect(), env: env.map(at).collect() }
    }

    fn that_count(&self) -> Vec<&PathBuf> {
        match self.dev_vars.iter().find(|file| file.is_file()) {
            Some(file) => vec![file],
            None => self.env.iter().filter(|file| file.is_file()).collect(),
        }
    }
}

/// Says that a file of development is not read.
fn passed_over(worker: &Worker, file: &Path, told: &Told) {
    let why = "it is for development, and is not read here; `--secret NAME` takes a secret from the environment";
    let fields =
        vec![("worker", worker.name.as_str().into()), ("file", file.display().to_string().into()), ("why", why.into())];
    told.say(file, Level::Warn, "worker.secrets", fields);
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
