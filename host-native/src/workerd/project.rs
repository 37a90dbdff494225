//! A Worker as it lies in a folder: its Wrangler file, its secrets and its code, ready to be run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use jadpo_core::host::{Level, LogEntry};
use jadpo_core::workers::{FILE_LEN_MAX, Format, Given, Note, Worker, read};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::process::Command;

use super::Source;
use super::bundle::{Bundling, bundle};
use super::failure::Failure;
use super::modules::{self, Bundle};
use super::secrets::{self, Secrets};
use super::told::Told;
use super::tools::{Named, Tool};
use crate::functions::Group;
use crate::log;

/// A Worker that is ready to be run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Project {
    pub(super) worker: Worker,
    /// The Wrangler file's folder.
    pub(super) folder: PathBuf,
    pub(super) bundle: Bundle,
    pub(super) secrets: BTreeMap<String, String>,
    /// The day whose behaviour it gets: the one that it asks for, or the newest that this workerd knows.
    pub(super) compatibility_date: String,
    /// What it is told of itself: a version that is the same as long as its code is.
    pub(super) version: Value,
    /// The files that say what it is, beside its sources; also those that are not there yet.
    pub(super) files: Vec<PathBuf>,
}

/// The names of a Wrangler file, in the order in which they are looked for.
const FILES: [&str; 3] = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"];

/// What loading goes by.
#[derive(Debug, Clone)]
pub(super) struct Loading {
    pub(super) tools: Named,
    /// The newest day that workerd knows.
    pub(super) newest_date: Option<String>,
    pub(super) is_dev: bool,
    /// Secrets that the environment of this process has.
    pub(super) from_environment: Vec<String>,
    /// What was said already.
    pub(super) told: Told,
}

impl Project {
    /// The classes of Durable Objects that it has, each with whether it has SQL: those of its migrations, and those that
    /// it binds to and has not listed there.
    pub(super) fn classes(&self) -> BTreeMap<String, bool> {
        let mut classes = self.worker.classes.clone();
        for object in &self.worker.durable_objects {
            if object.script.as_ref().is_none_or(|script| *script == self.worker.name) {
                classes.entry(object.class.clone()).or_insert(true);
            }
        }
        classes
    }

    pub(super) fn has_objects(&self) -> bool {
        !self.classes().is_empty()
    }

    /// Reads, builds and bundles a Worker; what comes of the bundling lies in `into`.
    pub(super) async fn load(source: &Source, loading: &Loading, into: &Path) -> Result<Self, Failure> {
        let file = found(&source.file)?;
        let Given { worker, warnings } = described(&file, source.environment.as_deref())?;
        for warning in &warnings {
            said(&loading.told, &file, warning);
        }
        // Where it is without links: so esbuild names what it reads.
        let folder = file.parent().map(Path::to_owned).unwrap_or_default();
        let folder = folder.canonicalize().unwrap_or(folder);
        if let Some(build) = &worker.code.build {
            let cwd = build.cwd.as_ref().map_or_else(|| folder.clone(), |cwd| folder.join(cwd));
            run_build(&worker, &build.command, &cwd).await?;
        }
        let Secrets { values, files: secret_files } = secrets::of(&worker, &folder, loading)?;
        let bundle = if worker.code.no_bundle {
            modules::as_they_are(&worker, &folder)?
        } else {
            let esbuild = Tool::Esbuild.find(&loading.tools, &folder).await?;
            entry_is_there(&worker, &folder)?;
            let bundling = Bundling { esbuild: &esbuild, folder: &folder, into, is_dev: loading.is_dev };
            bundle(&worker, &bundling).await?
        };
        for note in &bundle.notes {
            let fields = vec![("worker", worker.name.as_str().into()), ("text", note.as_str().into())];
            log::write(&LogEntry { level: Level::Warn, event: "worker.bundle", fields });
        }
        missing_handlers(&loading.told, &file, &worker, &bundle);
        let compatibility_date = date(&file, &worker, loading);
        let version = version(&file, &bundle);
        let files = std::iter::once(file).chain(secret_files).collect();
        Ok(Self { worker, folder, bundle, secrets: values, compatibility_date, version, files })
    }
}

/// The Wrangler file that was meant: itself, or the one in the folder.
pub(super) fn found(given: &Path) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(given).unwrap_or_else(|_| given.to_owned());
    if path.is_dir() {
        let within = FILES.iter().map(|name| path.join(name)).find(|file| file.is_file());
        return within.ok_or_else(|| {
            let what = format!("there is no Wrangler file in {}", given.display());
            Failure::wrong(what, format!("it is called {}; name it with --worker", FILES.join(", ")))
        });
    }
    if path.is_file() {
        return Ok(path);
    }
    let help = "name a Worker's folder or its Wrangler file with --worker";
    Err(Failure::wrong(format!("there is no {}", given.display()), help))
}

/// A Worker as its Wrangler file describes it, and the file's folder. Nothing is built.
pub(crate) fn describe(source: &Source) -> Result<(Worker, PathBuf), Failure> {
    let file = found(&source.file)?;
    let worker = described(&file, source.environment.as_deref())?.worker;
    Ok((worker, file.parent().map(Path::to_owned).unwrap_or_default()))
}

fn described(file: &Path, environment: Option<&str>) -> Result<Given, Failure> {
    let unread = |why: String| Failure::wrong(format!("{} cannot be read: {why}", file.display()), "");
    let size = file.metadata().map_err(|error| unread(error.to_string()))?.len();
    if size > FILE_LEN_MAX as u64 {
        return Err(unread(format!("it has {size} bytes, and a Wrangler file has at most {FILE_LEN_MAX}")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| unread(error.to_string()))?;
    let is_toml = file.extension().is_some_and(|extension| extension == "toml");
    let format = if is_toml { Format::Toml } else { Format::Json };
    read(&text, format, environment).map_err(|notes| {
        let count = notes.len();
        let told: Vec<String> = notes.iter().map(|note| in_words(&text, note)).collect();
        let problems = if count == 1 { "a problem".to_owned() } else { format!("{count} problems") };
        Failure::wrong(format!("{} has {problems}:\n{}", file.display(), told.join("\n")), "")
    })
}

/// A problem of the file: where, what, and what to do.
fn in_words(text: &str, note: &Note) -> String {
    let at = note.span.as_ref().map(|span| place(text, span.start)).unwrap_or_default();
    let path = if note.path.is_empty() { String::new() } else { format!("{}: ", note.path) };
    let help = note.help.as_ref().map(|help| format!("\n    help: {help}")).unwrap_or_default();
    format!("  {at}{path}{}{help}", note.message)
}

/// `LINE:COLUMN: ` of a place in a text.
fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{line}:{column}: ")
}

fn said(told: &Told, file: &Path, warning: &Note) {
    let Note { path, message, help, .. } = warning;
    // Most messages name the place themselves.
    let begin = if message.contains(&format!("`{path}`")) { String::new() } else { format!("{path}: ") };
    let end = help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    let text = format!("{begin}{message}{end}");
    let fields = vec![("file", file.display().to_string().into()), ("why", text.into())];
    told.say(file, Level::Warn, "worker.file", fields);
}

/// Says loudly what will fail each time: messages or occurrences for which the code has no handler.
fn missing_handlers(told: &Told, file: &Path, worker: &Worker, bundle: &Bundle) {
    let queues: Vec<&str> = worker.consumers.iter().map(|consumer| consumer.queue.as_str()).collect();
    let crons: Vec<&str> = worker.crons.iter().map(String::as_str).collect();
    let wants = [("queue", "the queue", queues, " (11001)"), ("scheduled", "the cron trigger", crons, "")];
    for (handler, of, names, code) in wants {
        if names.is_empty() || bundle.may_handle(handler) {
            continue;
        }
        let why = format!(
            "its Wrangler file has {of} {}, and its code has no `{handler}` handler: every attempt will fail{code}",
            names.join(", ")
        );
        let fields = vec![("worker", worker.name.as_str().into()), ("why", why.into())];
        told.say(file, Level::Error, "worker.no_handler", fields);
    }
}

/// What a version's binding says: an id made of the code, and when its Wrangler file was written.
fn version(file: &Path, bundle: &Bundle) -> Value {
    let mut hash = Sha256::new();
    bundle.hash(&mut hash);
    let id = uuid::Builder::from_random_bytes(first_half(&hash.finalize())).into_uuid();
    let written = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let written = written.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
    let timestamp = log::rfc3339(i64::try_from(written.as_millis()).unwrap_or_default());
    json!({"id": id.to_string(), "tag": "", "timestamp": timestamp})
}

fn first_half(hash: &[u8]) -> [u8; 16] {
    std::array::from_fn(|index| hash.get(index).copied().unwrap_or_default())
}

fn entry_is_there(worker: &Worker, folder: &Path) -> Result<(), Failure> {
    let entry = folder.join(&worker.code.main);
    if entry.is_file() {
        return Ok(());
    }
    let what = format!("the Worker `{}` has no entry: there is no {}", worker.name, entry.display());
    Err(Failure::wrong(what, "`main` in the Wrangler file names it, relative to that file"))
}

/// The day that it asks for, unless this workerd does not know it yet: then the newest that it knows, which is told.
fn date(file: &Path, worker: &Worker, loading: &Loading) -> String {
    match loading.newest_date.as_deref() {
        Some(newest) if worker.compatibility_date.as_str() > newest => {
            let why = format!(
                "it asks for the behaviour of {}, and this workerd knows that of {newest} at most, which it gets",
                worker.compatibility_date
            );
            let fields = vec![("worker", worker.name.as_str().into()), ("why", why.into())];
            loading.told.say(file, Level::Warn, "worker.date", fields);
            newest.to_owned()
        }
        _ => worker.compatibility_date.clone(),
    }
}

/// Runs the command that makes the entry. What it says is said on, so that who waits sees it.
async fn run_build(worker: &Worker, command: &str, cwd: &Path) -> Result<(), Failure> {
    let fields = vec![("worker", worker.name.as_str().into()), ("command", command.into())];
    log::write(&LogEntry { level: Level::Info, event: "worker.build", fields });
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(cwd).stdin(Stdio::null()).kill_on_drop(true);
    // What it starts ends with it if it is broken off.
    shell.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let ended = match shell.spawn() {
        Ok(child) => {
            let group = Group::of(child.id());
            let ended = child.wait_with_output().await;
            group.has_ended();
            ended
        }
        Err(error) => Err(error),
    };
    let output = ended.map_err(|error| {
        let what =
            format!("the build command of the Worker `{}` cannot be run in {}: {error}", worker.name, cwd.display());
        Failure::wrong(what, "`build.cwd` in the Wrangler file says where it is run")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.trim_end().lines().collect();
    let last = lines.iter().skip(lines.len().saturating_sub(40)).copied().collect::<Vec<_>>().join("\n");
    let how = output.status.code().map_or_else(|| "by a signal".to_owned(), |code| format!("with {code}"));
    let what = format!("the build command of the Worker `{}` ended {how}: {command}\n{last}", worker.name);
    Err(Failure::wrong(what, "run it by hand in the Worker's folder to see more"))
}
