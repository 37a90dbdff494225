//! Puts the Worker into the binary, so that `jadpo build` needs no Rust: from `JADPO_WORKER_DIR`, which
//! `cargo xtask build` sets, else from `dist/worker` if it was built. Without one the binary is whole but for that.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=JADPO_WORKER_DIR");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let built = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../dist/worker");
    let dir = match env::var_os("JADPO_WORKER_DIR") {
        Some(dir) => Some(PathBuf::from(dir)),
        None => built.join("worker.js").exists().then_some(built),
    };
    let mut list = String::from("&[\n");
    if let Some(dir) = dir {
        println!("cargo::rerun-if-changed={}", dir.display());
        for name in ["worker.js", "worker.wasm"] {
            let from = dir.join(name);
            let to = out.join(name);
            fs::copy(&from, &to).map_err(|e| format!("the Worker's {} cannot be read: {e}", from.display()))?;
            writeln!(list, "    ({name:?}, include_bytes!({to:?})),")?;
        }
    }
    list.push(']');
    fs::write(out.join("embedded_worker.rs"), list)?;
    Ok(())
}
