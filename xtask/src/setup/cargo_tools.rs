//! Tools that come as Rust sources: wasm-bindgen with its test runner, and worker-build.

use super::cache::Cache;
use crate::problem::{Problem, Result};
use crate::run;
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};

/// The worker-build that fits the `worker` crate's 0.8.
const WORKER_BUILD: &str = "0.8.7";

/// The programs only move a few hundred kilobytes about, so they are built for a short wait, not for speed.
const QUICK_RELEASE: [(&str, &str); 5] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    ("CARGO_PROFILE_RELEASE_STRIP", "symbols"),
];

/// `wasm-bindgen`, with `wasm-bindgen-test-runner` beside it, at the exact version of the library in Cargo.lock: the
/// two refuse to work together otherwise.
///
/// # Errors
/// When cargo cannot install it.
pub(super) fn wasm_bindgen(ws: &Workspace, cache: &Cache) -> Result<PathBuf> {
    let version = ws.locked_version("wasm-bindgen")?;
    Ok(installed(cache, "wasm-bindgen-cli", &version)?.join("wasm-bindgen"))
}

/// `worker-build`, which turns the Worker crate into one JS file and one Wasm file.
///
/// # Errors
/// When cargo cannot install it.
pub(super) fn worker_build(cache: &Cache) -> Result<PathBuf> {
    Ok(installed(cache, "worker-build", WORKER_BUILD)?.join("worker-build"))
}

fn installed(cache: &Cache, package: &str, version: &str) -> Result<PathBuf> {
    let folder = cache.folder(&format!("{package}-{version}"), |into| {
        let title = format!("{package} {version}: cargo install, about two minutes");
        install(cache, package, version, into, &title, true).or_else(|problem| {
            // A lock file may name a version that was withdrawn since; then cargo chooses.
            if !problem.mentions("failed to select a version") {
                return Err(problem);
            }
            run::say(&format!("  {package}'s own lock file does not resolve any more; without it:"));
            install(cache, package, version, into, &title, false)
        })
    })?;
    Ok(folder.join("bin"))
}

fn install(cache: &Cache, package: &str, version: &str, into: &Path, title: &str, locked: bool) -> Result<()> {
    // From the cache folder, so that neither this clone's cargo configuration nor its toolchain file is in the way.
    let mut cargo = run::command("cargo");
    cargo.current_dir(into).arg("install").arg("--root").arg(into).args(["--version", version, package]);
    if locked {
        cargo.arg("--locked");
    }
    cargo.envs(QUICK_RELEASE).env("CARGO_TARGET_DIR", into.join("target")).env_remove("RUSTC_WRAPPER");
    run::step(title, &mut cargo, &cache.log(&format!("install-{package}")))
        .map_err(|p| p.help("check that cargo reaches its registry, then run the command again"))?;
    std::fs::remove_dir_all(into.join("target")).map_err(|e| Problem::io(format!("cleaning up after {package}"), &e))
}
