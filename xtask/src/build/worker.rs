//! The Worker: two files, `worker.js` and `worker.wasm`, that fit every app.

use crate::problem::{Problem, Result};
use crate::run;
use crate::setup::Tools;
use crate::workspace::Workspace;
use std::fs;
use std::path::{Path, PathBuf};

/// The cargo profile for what goes over the wire and starts in an isolate (root Cargo.toml).
const PROFILE: &str = "worker";

/// Builds the Worker into `dist/worker` and returns that folder.
///
/// # Errors
/// When the Worker does not build.
pub(crate) fn build(ws: &Workspace, tools: &Tools) -> Result<PathBuf> {
    let out = ws.path("dist/worker");
    build_crate(ws, tools, &ws.path("host-workers"), &out)?;
    Ok(out)
}

/// Builds the example of a Worker with linked functions and returns its folder, which is no part of `dist/`.
///
/// # Errors
/// When it does not build.
pub(crate) fn build_example(ws: &Workspace, tools: &Tools) -> Result<PathBuf> {
    let out = ws.wasm_target_dir().join("example-worker");
    build_crate(ws, tools, &ws.path("host-workers/examples/audit"), &out)?;
    Ok(out)
}

/// Builds a Worker crate, ours or one that links functions to it, into the folder `out`.
///
/// # Errors
/// When it does not build.
pub(crate) fn build_crate(ws: &Workspace, tools: &Tools, package: &Path, out: &Path) -> Result<()> {
    let name = package.file_name().unwrap_or_default().to_string_lossy();
    let built = ws.wasm_target_dir().join("worker-build").join(&*name);
    let mut command = tools.worker_build(ws);
    command.current_dir(package).args(["--profile", PROFILE, "--out-dir"]).arg(&built).arg("--locked");
    command.env("RUSTFLAGS", super::remapped(ws));
    run::step(&format!("the Worker in {name}: worker-build"), &mut command, &tools.log("worker-build"))?;

    let js = read(&built.join("index.js"))?;
    let js = String::from_utf8_lossy(&js);
    // worker-build's name for the Wasm; ours says what it belongs to.
    if !js.contains("./index_bg.wasm") {
        return Err(Problem::new("worker-build's index.js does not import ./index_bg.wasm any more")
            .help("look at what it imports and follow it in xtask/src/build/worker.rs"));
    }
    let wasm = read(&built.join("index_bg.wasm"))?;
    fs::create_dir_all(out).map_err(|e| Problem::io(format!("making {}", out.display()), &e))?;
    write_if_new(&out.join("worker.js"), js.replace("./index_bg.wasm", "./worker.wasm").as_bytes())?;
    write_if_new(&out.join("worker.wasm"), &wasm)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| Problem::io(format!("reading {}", path.display()), &e))
}

/// Leaves a file with the same bytes alone, so that what embeds it is not compiled again.
fn write_if_new(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|now| now == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).map_err(|e| Problem::io(format!("writing {}", path.display()), &e))
}
