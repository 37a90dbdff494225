//! Tools that come as Rust sources: wasm-bindgen with its test runner, and worker-build.

use super::cache::Cache;
use super::debian;
use crate::problem::{Problem, Result};
use crate::run;
use crate::workspace::Workspace;
use std::fs;
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

/// `wasm-bindgen` and `worker-build`.
pub(super) struct CargoTools {
    /// With `wasm-bindgen-test-runner` beside it.
    pub(super) wasm_bindgen: PathBuf,
    /// Turns the Worker crate into one JS file and one Wasm file.
    pub(super) worker_build: PathBuf,
}

/// Both tools. `wasm-bindgen` is of the exact version of the library in Cargo.lock: the two refuse to work together
/// otherwise.
///
/// # Errors
/// When cargo cannot install one.
pub(super) fn ready(ws: &Workspace, cache: &Cache) -> Result<CargoTools> {
    // Two thirds of what the one needs is what the other needs, so they share a build folder; an interrupted set-up
    // goes on where it was.
    let shared = cache.path("unfinished-cargo-install");
    let tool = |package: &str, version: &str, program: &str| {
        let folder = cache.folder(&format!("{package}-{version}"), |into| {
            if package == "worker-build" {
                needs_openssl(cache)?;
            }
            Install { cache, package, version, into, shared: &shared }.run()
        })?;
        Ok(folder.join("bin").join(program))
    };
    let tools = CargoTools {
        wasm_bindgen: tool("wasm-bindgen-cli", &ws.locked_version("wasm-bindgen")?, "wasm-bindgen")?,
        worker_build: tool("worker-build", WORKER_BUILD, "worker-build")?,
    };
    if cache.holds_lock() && shared.exists() {
        fs::remove_dir_all(&shared).map_err(|e| Problem::io(format!("removing {}", shared.display()), &e))?;
    }
    Ok(tools)
}

/// worker-build speaks TLS by the system's library, of which it needs the headers.
fn needs_openssl(cache: &Cache) -> Result<()> {
    let there = run::ask(run::command("pkg-config").args(["--exists", "openssl"])).is_some();
    if there || !cfg!(target_os = "linux") {
        return Ok(());
    }
    debian::install(cache, &["pkg-config", "libssl-dev"])
        .map_err(|p| p.help("install OpenSSL's headers and pkg-config"))
}

/// One `cargo install`.
struct Install<'a> {
    cache: &'a Cache,
    package: &'a str,
    version: &'a str,
    into: &'a Path,
    shared: &'a Path,
}

impl Install<'_> {
    fn run(&self) -> Result<()> {
        self.cargo_install(&["--locked"]).or_else(|problem| {
            // A lock file may name a version that was withdrawn since; then cargo chooses.
            if !problem.mentions("failed to select a version") {
                return Err(problem);
            }
            run::say(&format!("  the lock file of {} does not resolve any more; without it:", self.package));
            self.cargo_install(&[])
        })
    }

    fn cargo_install(&self, flags: &[&str]) -> Result<()> {
        let Self { package, version, .. } = self;
        // From the cache folder, so that neither this clone's cargo configuration nor its toolchain file is in the way.
        let mut cargo = run::command("cargo");
        cargo.current_dir(self.into).args(["install", package, "--version", version]).args(flags);
        cargo.arg("--root").arg(self.into).env("CARGO_TARGET_DIR", self.shared);
        cargo.envs(QUICK_RELEASE).env_remove("RUSTFLAGS").env_remove("CARGO_BUILD_TARGET");
        let title = format!("{package} {version}: cargo install");
        run::step(&title, &mut cargo, &self.cache.log(&format!("install-{package}")))
            .map_err(|p| p.help("see whether cargo reaches its registry, then run the command again"))
    }
}
