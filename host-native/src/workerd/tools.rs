//! workerd and esbuild: where they are, and how they are fetched where they are not.
//!
//! Both are programs inside npm packages, one package for each platform, and neither needs node to run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use jadpo_core::host::{Level, LogEntry};
use tokio::process::Command;

use super::failure::Failure;
use crate::log;

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Workerd,
    Esbuild,
}

/// Tools that were named, by an option or a variable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// workerd's program.
    pub workerd: Option<PathBuf>,
    /// esbuild's program.
    pub esbuild: Option<PathBuf>,
}

/// The versions that are fetched where none is there.
const WORKERD_VERSION: &str = "1.20261117.1";
const ESBUILD_VERSION: &str = "0.28.2";
/// The oldest workerd that answers producers as ours are answered, by the date that is its version.
const WORKERD_OLDEST: u32 = 20_260_401;

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Workerd => "workerd",
            Self::Esbuild => "esbuild",
        }
    }

    fn version(self) -> &'static str {
        match self {
            Self::Workerd => WORKERD_VERSION,
            Self::Esbuild => ESBUILD_VERSION,
        }
    }

    /// The package that holds it for this platform.
    fn package(self) -> Option<&'static str> {
        Some(match (self, std::env::consts::OS, std::env::consts::ARCH) {
            (Self::Workerd, "linux", "x86_64") => "@cloudflare/workerd-linux-64",
            (Self::Workerd, "linux", "aarch64") => "@cloudflare/workerd-linux-arm64",
            (Self::Workerd, "macos", "x86_64") => "@cloudflare/workerd-darwin-64",
            (Self::Workerd, "macos", "aarch64") => "@cloudflare/workerd-darwin-arm64",
            (Self::Esbuild, "linux", "x86_64") => "@esbuild/linux-x64",
            (Self::Esbuild, "linux", "aarch64") => "@esbuild/linux-arm64",
            (Self::Esbuild, "macos", "x86_64") => "@esbuild/darwin-x64",
            (Self::Esbuild, "macos", "aarch64") => "@esbuild/darwin-arm64",
            _ => return None,
        })
    }

    /// Its program in a `node_modules` folder, if that has one.
    fn within(self, modules: &Path) -> Option<PathBuf> {
        let program = modules.join(self.package()?).join("bin").join(self.name());
        program.is_file().then_some(program)
    }

    /// Finds it: as it was named, or in the nearest `node_modules` from `folder` upward, or in our cache, to which it is
    /// fetched if need be.
    pub(super) async fn find(self, named: &Named, folder: &Path) -> Result<PathBuf, Failure> {
        let (option, given) = match self {
            Self::Workerd => ("--workerd", &named.workerd),
            Self::Esbuild => ("--esbuild", &named.esbuild),
        };
        if let Some(given) = given {
            return match given.is_file() {
                true => Ok(given.clone()),
                false => Err(Failure::wrong(
                    format!("there is no {} at {}", self.name(), given.display()),
                    format!("name its program with {option}, or leave that out: it is then found or fetched by npm"),
                )),
            };
        }
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let near = folder.ancestors().find_map(|folder| self.within(&folder.join("node_modules")));
        if let Some(near) = near {
            if self.is_new_enough(&near).await {
                return Ok(near);
            }
            let fields = vec![
                ("tool", self.name().into()),
                ("path", near.display().to_string().into()),
                ("why", format!("it is older than jadpo needs; {} is used", self.version()).into()),
            ];
            log::write(&LogEntry { level: Level::Warn, event: "tool.old", fields });
        }
        self.cached().await
    }

    /// Only workerd has grown what we need; esbuild has long had it.
    async fn is_new_enough(self, program: &Path) -> bool {
        self == Self::Esbuild || newest_date(program).await.is_none_or(|date| as_number(&date) >= WORKERD_OLDEST)
    }

    async fn cached(self) -> Result<PathBuf, Failure> {
        let named = format!("--{} PATH or JADPO_{}", self.name(), self.name().to_ascii_uppercase());
        let Some(package) = self.package() else {
            let what = format!("{} has no program for this platform that we know of", self.name());
            return Err(Failure::failed(what, format!("if you have one, name it with {named}")));
        };
        let cache = cache().ok_or_else(|| {
            let what = format!("there is nowhere to put {}: neither XDG_CACHE_HOME nor HOME is set", self.name());
            Failure::failed(what, format!("set one of them, or name the program with {named}"))
        })?;
        let folder = cache.join(format!("{}-{}", self.name(), self.version()));
        if let Some(program) = self.within(&folder.join("node_modules")) {
            return Ok(program);
        }
        self.fetch_once(package, &cache, &folder).await.map_err(|why| {
            let help = format!("run `npm install {}` beside the Wrangler file, or name it with {named}", self.name());
            Failure::failed(format!("{} is not here and could not be fetched: {why}", self.name()), help)
        })?;
        self.within(&folder.join("node_modules")).ok_or_else(|| {
            let what = format!("the npm package {package} {} has no program in it", self.version());
            Failure::failed(what, format!("name the program with {named}"))
        })
    }

    /// Fetches it, unless another process does so at this moment: then it is waited for.
    async fn fetch_once(self, package: &str, cache: &Path, folder: &Path) -> Result<(), String> {
        let in_words = |error: std::io::Error| format!("{}: {error}", cache.display());
        std::fs::create_dir_all(cache).map_err(in_words)?;
        let lock = std::fs::File::create(cache.join(format!("{}-{}.lock", self.name(), self.version())));
        let lock = lock.map_err(in_words)?;
        let (lock, locked) = tokio::task::spawn_blocking(move || {
            let locked = lock.lock();
            (lock, locked)
        })
        .await
        .map_err(|error| error.to_string())?;
        locked.map_err(in_words)?;
        let fetched = match self.within(&folder.join("node_modules")) {
            Some(_) => Ok(()),
            None => self.fetch(package, cache, folder).await,
        };
        drop(lock);
        fetched
    }

    /// Installs its package beside where it is to be, and moves it there whole.
    async fn fetch(self, package: &str, cache: &Path, folder: &Path) -> Result<(), String> {
        let version = self.version();
        let fields = vec![("tool", self.name().into()), ("package", format!("{package}@{version}").into())];
        log::write(&LogEntry { level: Level::Info, event: "tool.fetching", fields });
        // What is there already is of one that was broken off.
        let into = cache.join(format!("{}-{version}.part", self.name()));
        let _ = std::fs::remove_dir_all(&into);
        std::fs::create_dir_all(&into).map_err(|error| format!("{}: {error}", into.display()))?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"])
            .args(["--loglevel=error", "--prefix"])
            .arg(&into)
            .arg(format!("{package}@{version}"))
            .current_dir(&into)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let fetched = match npm.output().await {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(format!("npm says: {}", String::from_utf8_lossy(&output.stderr).trim())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err("there is no npm; it comes with Node.js".to_owned())
            }
            Err(error) => Err(format!("npm cannot be run: {error}")),
        };
        let moved = fetched.and_then(|()| {
            // A folder without its program is of no use to anybody.
            let _ = std::fs::remove_dir_all(folder);
            std::fs::rename(&into, folder).map_err(|error| format!("{}: {error}", folder.display()))
        });
        let _ = std::fs::remove_dir_all(&into);
        moved
    }
}

/// The newest compatibility date that a workerd knows, `YYYY-MM-DD`; `None` if it does not say.
pub(super) async fn newest_date(workerd: &Path) -> Option<String> {
    let mut command = Command::new(workerd);
    command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let date = said.split_whitespace().last()?;
    (date.len() == 10 && as_number(date) > 0).then(|| date.to_owned())
}

fn as_number(date: &str) -> u32 {
    date.replace('-', "").parse().unwrap_or(0)
}

fn cache() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let at = |base: PathBuf| base.join(OsStr::new("jadpo"));
    set("XDG_CACHE_HOME").map(at).or_else(|| set("HOME").map(|home| at(home.join(".cache"))))
}
