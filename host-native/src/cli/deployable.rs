//! Deployables for Workers, run here as they are deployed: built as `jadpo build` builds them, into a folder that goes
//! when the run ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use jadpo_core::bindings::ADMIN_TOKEN;
use jadpo_core::host::{Level, LogEntry};
use jadpo_core::program::{Platform, Program};

use super::load::{self, Load};
use super::output::{self, Exit};
use super::running::folder_of;
use crate::build::{self, BuildError, Worker};
use crate::log;
use crate::server::secrets;
use crate::workerd::{Scratch, Source, scratch};

/// The options.
#[derive(clap::Args)]
pub(super) struct DeployableArgs {
    /// Run this deployable of the app as a Worker, exactly as it is deployed, with its migrations applied; may be given
    /// again. Nothing else of the app is run
    #[arg(long = "deployable", value_name = "NAME")]
    names: Vec<String>,
    /// A Worker of your own for the deployables, as built from a host crate with linked functions
    #[arg(long, value_name = "DIR", requires = "names")]
    own_worker: Option<PathBuf>,
    /// Leave the migrations of the deployables' database to `jadpo d1 migrations apply`
    #[arg(long, requires = "names")]
    no_migrate: bool,
}

/// What stays beside an app file and a Worker reads: its secrets.
const SECRETS: [&str; 3] = [".dev.vars", ".env", ".env.local"];
/// How often it is looked whether the app file has changed.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Deployables that were built. Their folders go with it.
pub(super) struct Built {
    /// The app's name.
    pub(super) app: String,
    /// What is to be run.
    pub(super) sources: Vec<Source>,
    /// The names of the secrets that the Workers take from this process's environment.
    pub(super) secrets: Vec<String>,
    /// Whether their migrations are applied first.
    pub(super) migrates: bool,
    _following: Option<Following>,
    _scratch: Scratch,
}

/// Builds anew when the app has changed, until this goes.
struct Following {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// How the folders are made.
#[derive(Clone)]
struct Making {
    file: PathBuf,
    names: Vec<String>,
    own_worker: Option<PathBuf>,
    into: PathBuf,
}

impl DeployableArgs {
    /// Whether one was named.
    pub(super) fn is_given(&self) -> bool {
        !self.names.is_empty()
    }

    /// Builds what was named. What is wrong is said as `jadpo build` says it, `as_json` as `jadpo check --json` does.
    pub(super) fn build(&self, file: &Path, as_json: bool) -> Result<Built, Exit> {
        let scratch = scratch().map_err(|failure| {
            output::error(&failure.what, failure.help.as_deref());
            Exit::Failed
        })?;
        let mut names = self.names.clone();
        names.sort();
        names.dedup();
        let making = Making {
            file: load::found(file),
            names,
            own_worker: self.own_worker.clone(),
            into: scratch.path().join("app"),
        };
        let program = making.program(as_json)?;
        let is_native = |name: &&String| program.deployables.get(*name).is_some_and(|it| it.target == Platform::Native);
        if let Some(name) = making.names.iter().find(is_native) {
            let help =
                "leave --deployable out: what is native runs by `jadpo dev` as it is declared, and by `jadpo serve`";
            output::error(&format!("the deployable `{name}` does not run on Workers"), Some(help));
            return Err(Exit::Wrong);
        }
        making.write(&program).map_err(|error| said(&error))?;
        let folders = making.names.iter().map(|name| making.into.join(name));
        Ok(Built {
            app: program.app.clone(),
            sources: folders.map(|file| Source { file, environment: None }).collect(),
            secrets: secrets(&program).into_iter().chain([ADMIN_TOKEN.to_owned()]).collect(),
            migrates: !self.no_migrate,
            _following: Following::new(making).ok(),
            _scratch: scratch,
        })
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // One that panicked has nothing left to end.
            let _ = thread.join();
        }
    }
}

impl Following {
    fn new(making: Making) -> std::io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = thread::Builder::new().name("app".to_owned()).spawn(move || {
            let mut seen = making.seen();
            while !over.load(Ordering::Relaxed) {
                thread::park_timeout(LOOK_EVERY);
                let now = making.seen();
                if now != seen {
                    seen = now;
                    making.again();
                }
            }
        })?;
        Ok(Self { is_over, thread: Some(thread) })
    }
}

impl Making {
    fn program(&self, as_json: bool) -> Result<Program, Exit> {
        let only = match self.names.as_slice() {
            [one] => Some(one.as_str()),
            _ => None,
        };
        match load::program(&self.file, only, as_json) {
            Load::Program(program) => Ok(*program),
            Load::Reported(exit) => Err(exit),
        }
    }

    /// Writes the folders, and the secrets beside the app into each of them.
    fn write(&self, program: &Program) -> Result<(), BuildError> {
        let worker =
            self.own_worker.as_deref().map_or_else(|| Ok(Worker::embedded()), |dir| Worker::from_dir(dir).map(Some))?;
        let mut placed = Vec::new();
        for name in &self.names {
            for folder in build::folders(program, Some(name), worker.as_ref())? {
                placed.push((self.into.join(name), folder));
            }
        }
        build::write(&placed)?;
        let beside = folder_of(&self.file);
        for (folder, _) in &placed {
            for name in SECRETS {
                let (from, to) = (beside.join(name), folder.join(name));
                let io = |doing, path: &Path, error| BuildError::Io { doing, path: path.to_owned(), error };
                if from.is_file() {
                    fs::copy(&from, &to).map_err(|error| io("copy", &from, error))?;
                } else if to.exists() {
                    fs::remove_file(&to).map_err(|error| io("remove", &to, error))?;
                }
            }
        }
        Ok(())
    }

    /// Builds again after a change; what is wrong is said, and what was built stays.
    fn again(&self) {
        let Ok(program) = self.program(false) else { return };
        if let Err(error) = self.write(&program) {
            said(&error);
            return;
        }
        let fields = vec![("file", self.file.display().to_string().into())];
        log::write(&LogEntry { level: Level::Info, event: "app.built", fields });
    }

    /// When what it is made of was last written.
    fn seen(&self) -> Vec<Option<(SystemTime, u64)>> {
        let beside = folder_of(&self.file);
        let own = self.own_worker.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
        let mut own: Vec<PathBuf> = own.map(|entry| entry.path()).collect();
        own.sort();
        let files = std::iter::once(self.file.clone()).chain(SECRETS.map(|name| beside.join(name))).chain(own);
        let stamp = |file: PathBuf| file.metadata().ok().and_then(|it| Some((it.modified().ok()?, it.len())));
        files.map(stamp).collect()
    }
}

fn said(error: &BuildError) -> Exit {
    // The option of `jadpo build` has another meaning here.
    let help = error.help().map(|help| help.replace("--worker DIR", "--own-worker DIR"));
    output::error(&error.to_string(), help.as_deref());
    if error.is_input() { Exit::Wrong } else { Exit::Failed }
}
