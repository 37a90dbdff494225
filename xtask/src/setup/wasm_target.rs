//! A compiler that can build for `wasm32-unknown-unknown`, by one of two roads.

use super::cache::Cache;
use super::debian;
use crate::problem::{Problem, Result};
use crate::run;
use std::path::{Path, PathBuf};

/// The target triple of the Worker.
pub(crate) const TRIPLE: &str = "wasm32-unknown-unknown";

/// The variable that chooses a road by hand.
const ROAD: &str = "JADPO_WASM_ROAD";

/// How Wasm is compiled here.
pub(super) enum WasmTarget {
    /// The toolchain in use has the target.
    Toolchain,
    /// Debian's compiler with a standard library of our building; `bin` holds its `rustc` and `cargo`.
    Debian { bin: PathBuf, version: String },
}

impl WasmTarget {
    /// A folder of `rustc` and `cargo` to put first on the PATH, where the ones there do not do.
    pub(super) fn programs(&self) -> Option<&Path> {
        match self {
            Self::Toolchain => None,
            Self::Debian { bin, .. } => Some(bin),
        }
    }

    /// A name for this compiler's build folder, so that the roads do not throw out each other's work.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Self::Toolchain => "toolchain",
            Self::Debian { .. } => "debian",
        }
    }

    pub(super) fn is_of_native_toolchain(&self) -> bool {
        matches!(self, Self::Toolchain)
    }

    /// For people.
    pub(super) fn description(&self) -> String {
        match self {
            Self::Toolchain => "of the toolchain in use".to_owned(),
            Self::Debian { bin, version } => format!("Debian's rustc {version}, in {}", bin.display()),
        }
    }
}

/// The Wasm target, added or built first where it is missing.
///
/// # Errors
/// When neither road can be gone, or the one that was asked for cannot.
pub(super) fn ready(cache: &Cache) -> Result<WasmTarget> {
    let road = std::env::var(ROAD).unwrap_or_default();
    match road.as_str() {
        "debian" => debian::wasm_target(cache),
        "rustup" => by_rustup(cache),
        "" if toolchain_has_it() => Ok(WasmTarget::Toolchain),
        // The road that was gone before: rustup, which could not help then, is not waited for again.
        "" if debian::is_built(cache) => debian::wasm_target(cache),
        "" if debian::is_possible() => by_rustup(cache).or_else(|problem| {
            run::say(&format!("- {}; going on with Debian's compiler for Wasm", problem.what()));
            debian::wasm_target(cache)
        }),
        "" => by_rustup(cache),
        other => Err(Problem::usage(format!("{ROAD}={other} names no road")).help("set it to rustup or debian")),
    }
}

fn by_rustup(cache: &Cache) -> Result<WasmTarget> {
    if toolchain_has_it() {
        return Ok(WasmTarget::Toolchain);
    }
    let help = format!("add the target {TRIPLE} to the Rust toolchain on the PATH (with rustup: `rustup target add`)");
    if run::ask(run::command("rustup").arg("--version")).is_none() {
        return Err(Problem::new(format!("the Rust toolchain has no {TRIPLE}, and there is no rustup")).help(help));
    }
    cache.hold_lock()?;
    let mut rustup = run::command("rustup");
    rustup.args(["target", "add", TRIPLE]).env("RUSTUP_MAX_RETRIES", "1");
    run::step(&format!("{TRIPLE}: rustup target add"), &mut rustup, &cache.log("rustup-target-add"))
        .map_err(|p| p.help(help.clone()))?;
    if toolchain_has_it() {
        return Ok(WasmTarget::Toolchain);
    }
    Err(Problem::new("rustup added the target to another toolchain than the rustc on the PATH is of").help(help))
}

/// Whether the compiler on the PATH has a standard library for the target.
fn toolchain_has_it() -> bool {
    let libs = run::ask(run::command("rustc").args(["--target", TRIPLE, "--print", "target-libdir"]));
    let Some(entries) = libs.and_then(|dir| std::fs::read_dir(dir).ok()) else {
        return false;
    };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
}
