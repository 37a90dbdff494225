//! `cargo xtask build`: what is released, in `dist/`.

mod artifacts;
mod source;
pub(crate) mod worker;

use crate::problem::{Problem, Result};
use crate::run;
use crate::setup::{self, Tools};
use crate::workspace::Workspace;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Writes what is released to dist/: the Worker, the jadpo binary with that Worker inside, the test host, checksums.
#[derive(clap::Args)]
#[command(after_help = "dist/worker/worker.js and worker.wasm are the Worker without an app; `jadpo build app.jadpo` \
    adds the app's program and the files of a deployment. dist/jadpo holds both files, so it needs no Rust. \
    host-native/build.rs takes them from the folder that JADPO_WORKER_DIR names, else from dist/worker. \
    dist/jadpo-host-test-VERSION.tar.gz holds the test host's sources, for a path dependency of your own tests.")]
pub(crate) struct Args {
    /// Write only dist/worker.
    #[arg(long)]
    worker_only: bool,
}

/// Runs the command.
///
/// # Errors
/// When a tool is missing and cannot be got, or something does not build.
pub(crate) fn command(ws: &Workspace, args: &Args) -> Result<()> {
    let tools = setup::ready(ws)?;
    worker::build(ws, &tools)?;
    if !args.worker_only {
        binary(ws, &tools)?;
        source::test_host(ws)?;
    }
    let files = artifacts::write_checksums(&ws.path("dist"))?;
    anstream::println!("{}", artifacts::table(&files));
    Ok(())
}

/// The `jadpo` binary in release, with dist/worker inside.
fn binary(ws: &Workspace, tools: &Tools) -> Result<()> {
    let mut cargo = setup::native_cargo(ws);
    cargo.args(["build", "--release", "--locked", "--package", "jadpo", "--bin", "jadpo"]);
    cargo.env("JADPO_WORKER_DIR", ws.path("dist/worker"));
    // The binary says the same whoever builds it wherever: no paths of this machine in its panics.
    cargo.env("RUSTFLAGS", remapped(ws));
    run::step("the jadpo binary: cargo build --release", &mut cargo, &tools.log("build-jadpo"))?;
    let name = format!("jadpo{}", std::env::consts::EXE_SUFFIX);
    fs::copy(ws.path("target/release").join(&name), ws.path("dist").join(&name))
        .map_err(|e| Problem::io("copying the jadpo binary to dist", &e))?;
    Ok(())
}

/// cargo for a native build with the Worker inside, if one was built: the same for every part, so that none compiles
/// again what another just did.
pub(crate) fn with_worker(ws: &Workspace) -> Command {
    let mut cargo = setup::native_cargo(ws);
    let worker = ws.path("dist/worker");
    if worker.join("worker.wasm").exists() {
        cargo.env("JADPO_WORKER_DIR", ws.path("dist/worker"));
    }
    cargo
}

/// Builds `jadpo` in debug, with dist/worker inside, and returns its path.
///
/// # Errors
/// When it does not build.
pub(crate) fn debug_binary(ws: &Workspace, tools: &Tools) -> Result<PathBuf> {
    let mut cargo = with_worker(ws);
    cargo.args(["build", "--locked", "--package", "jadpo", "--bin", "jadpo"]);
    run::step("the jadpo binary: cargo build", &mut cargo, &tools.log("build-jadpo-debug"))?;
    Ok(ws.path("target/debug").join(format!("jadpo{}", std::env::consts::EXE_SUFFIX)))
}

/// Builds `jadpo` in release, with dist/worker inside if it is there, and returns its path.
///
/// # Errors
/// When it does not build.
pub(crate) fn release_binary(ws: &Workspace, tools: &Tools) -> Result<PathBuf> {
    let mut cargo = with_worker(ws);
    cargo.args(["build", "--release", "--locked", "--package", "jadpo", "--bin", "jadpo"]);
    run::step("the jadpo binary: cargo build --release", &mut cargo, &tools.log("build-jadpo-release"))?;
    Ok(ws.path("target/release").join(format!("jadpo{}", std::env::consts::EXE_SUFFIX)))
}

/// Compiler flags that replace this machine's paths with fixed ones.
pub(crate) fn remapped(ws: &Workspace) -> String {
    let mut flags = vec![std::env::var("RUSTFLAGS").unwrap_or_default()];
    let cargo_home = std::env::var_os("CARGO_HOME").map(Into::into);
    let cargo_home = cargo_home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    flags.extend(cargo_home.map(|home| format!("--remap-path-prefix={}=/cargo", home.display())));
    flags.push(format!("--remap-path-prefix={}=/jadpo", ws.path("").display()));
    flags.join(" ").trim().to_owned()
}
