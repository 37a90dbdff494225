//! A Python with the packages of host-native/e2e/python: Cloudflare's own SDK, unchanged.

use super::cache::Cache;
use super::debian;
use crate::problem::{Problem, Result};
use crate::run;
use crate::workspace::Workspace;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// What is installed, each at its version.
const REQUIREMENTS: &str = "host-native/e2e/python/requirements.txt";

/// The program `python` of a virtual environment that has them.
///
/// # Errors
/// When there is no Python that makes virtual environments, or `pip install` fails.
pub(super) fn ready(ws: &Workspace, cache: &Cache) -> Result<PathBuf> {
    let requirements = ws.path(REQUIREMENTS);
    let listed = fs::read(&requirements).map_err(|e| Problem::io(format!("reading {REQUIREMENTS}"), &e))?;
    let version = run::ask(run::command("python3").arg("--version")).unwrap_or_default();
    let mut hash = Sha256::new();
    hash.update(&listed);
    hash.update(&version);
    let key: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let folder = cache.folder(&format!("python-{key}"), |into| install(cache, &requirements, into))?;
    Ok(folder.join("bin/python"))
}

/// The folder is renamed once it is complete, which such an environment outlasts: only its scripts name it.
fn install(cache: &Cache, requirements: &Path, into: &Path) -> Result<()> {
    let makes_environments = || run::ask(run::command("python3").args(["-c", "import ensurepip, venv"])).is_some();
    if !makes_environments() {
        debian::install(cache, &["python3-venv"])
            .map_err(|p| p.help("install Python 3.9 or newer with its `venv` module"))?;
    }
    let mut venv = run::command("python3");
    venv.args(["-m", "venv"]).arg(into);
    run::step("a Python environment: python3 -m venv", &mut venv, &cache.log("python-venv"))?;
    let mut pip = run::command(into.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "-r"]);
    run::step("Cloudflare's SDK for Python: pip install", pip.arg(requirements), &cache.log("pip-install"))
        .map_err(|p| p.help("check that pip reaches its index, then run the command again"))
}
