//! Why a deployable folder was not made.

use std::fmt;
use std::io;
use std::path::PathBuf;

use jadpo_core::wrangler::WranglerError;

/// What kept `jadpo build` from its work. Nothing was changed on disk, but for [`BuildError::Io`] while moving files
/// into place.
#[derive(Debug)]
pub enum BuildError {
    /// The app declares nothing to deploy.
    NoDeployables,
    /// There is no deployable of that name.
    UnknownDeployable {
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A deployable's name cannot be a folder's.
    FolderName {
        /// The name.
        deployable: String,
    },
    /// There is no Wrangler file for a deployable.
    Wrangler(Vec<WranglerError>),
    /// This binary was built without a Worker inside, and none was named.
    NoWorker,
    /// A subscriber is a linked Rust function, and the Worker inside this binary links none.
    RunNeedsOwnWorker {
        /// The deployable.
        deployable: String,
        /// The subscriber.
        subscriber: String,
        /// The function it runs.
        function: String,
    },
    /// The folder given as a Worker is none.
    NotAWorker {
        /// The folder.
        dir: PathBuf,
        /// What is missing.
        why: String,
    },
    /// A file is in the way that `jadpo build` did not write.
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// A file or folder could not be read or written.
    Io {
        /// What was being done, as `write`.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A JSON file could not be made.
    Serialize(serde_json::Error),
}

impl BuildError {
    /// Whether what was asked for is at fault, rather than the machine.
    #[must_use]
    pub fn is_input(&self) -> bool {
        !matches!(self, Self::NoWorker | Self::Io { .. } | Self::Serialize(_))
    }

    /// Its stable code, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoDeployables => "build.no_deployables",
            Self::UnknownDeployable { .. } => "build.unknown_deployable",
            Self::FolderName { .. } => "build.folder_name",
            Self::Wrangler(_) => "build.wrangler",
            Self::NoWorker => "build.no_worker",
            Self::RunNeedsOwnWorker { .. } => "build.run_needs_own_worker",
            Self::NotAWorker { .. } => "build.not_a_worker",
            Self::NotOurs { .. } => "build.file_in_the_way",
            Self::Io { .. } | Self::Serialize(_) => "build.failed",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::NoDeployables => {
                "add `deployables: { edge: { target: Target.workers, triggers: [Trigger.http, Trigger.subscribers, \
                 Trigger.tick] } }`"
                    .to_owned()
            }
            Self::UnknownDeployable { known, .. } if known.is_empty() => "the app declares none".to_owned(),
            Self::UnknownDeployable { known, .. } => format!("it has: {}", known.join(", ")),
            Self::FolderName { .. } => "use letters, digits, `_` and `-`".to_owned(),
            Self::NoWorker => "run `cargo xtask build`, whose `dist/` holds a jadpo with the Worker inside, or name a \
                               built Worker with --worker DIR"
                .to_owned(),
            Self::RunNeedsOwnWorker { function, .. } => format!(
                "link `{function}` into a host crate of your own, build it, and name its folder with --worker DIR; \
                 or reach the subscriber by `call:` or `service:`"
            ),
            Self::NotAWorker { .. } => {
                "name a folder with `worker.js` (or worker-build's `index.js`) and its `.wasm` file".to_owned()
            }
            Self::NotOurs { .. } => "move it away, or name another folder with --out".to_owned(),
            Self::Wrangler(_) | Self::Io { .. } | Self::Serialize(_) => return None,
        })
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDeployables => write!(f, "the app has no deployables, so there is nothing to build"),
            Self::UnknownDeployable { name, .. } => write!(f, "the app has no deployable `{name}`"),
            Self::FolderName { deployable } => write!(f, "the deployable `{deployable}` cannot name a folder"),
            Self::Wrangler(errors) => {
                for (index, error) in errors.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "; " };
                    write!(f, "{separator}{error}")?;
                }
                Ok(())
            }
            Self::NoWorker => write!(f, "this jadpo has no Worker inside"),
            Self::RunNeedsOwnWorker { deployable, subscriber, function } => write!(
                f,
                "the subscriber `{subscriber}` runs the Rust function `{function}`, which the built-in Worker of the \
                 deployable `{deployable}` does not have"
            ),
            Self::NotAWorker { dir, why } => write!(f, "`{}` is not a Worker: {why}", dir.display()),
            Self::NotOurs { path } => {
                write!(f, "`{}` is in the way: it was not written by `jadpo build`", path.display())
            }
            Self::Io { doing, path, error } => write!(f, "cannot {doing} `{}`: {error}", path.display()),
            Self::Serialize(error) => write!(f, "cannot write JSON: {error}"),
        }
    }
}

impl std::error::Error for BuildError {}
