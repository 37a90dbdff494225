//! `cargo xtask setup`: the tools that cargo alone does not bring.
//!
//! Each tool is one folder of the cache, named by tool and version, and is there whole or not at all. What is there
//! is not looked at again, so a set-up with nothing to do takes no time, and other commands simply call [`ready`].

mod cache;
mod cargo_tools;
mod debian;
mod node;
mod python;
mod wasm_target;

pub(crate) use wasm_target::TRIPLE;

use crate::problem::Result;
use crate::run;
use crate::workspace::Workspace;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Gets the tools that this machine misses. The other commands do it by themselves.
///
/// A Wasm target for the compiler, wasm-bindgen with its test runner at Cargo.lock's version, worker-build, and the npm
/// packages of host-workers/e2e with a node that is new enough for them.
#[derive(clap::Args)]
#[command(after_help = "The Wasm target comes by one of two roads. `rustup`: rustup adds it to the toolchain in use. \
    `debian`: the packages rustc-web, cargo-web and rust-web-src, with a standard library built once. The machine \
    decides; JADPO_WASM_ROAD=rustup or =debian decides for it.\n\n\
    To use the tools by hand: eval \"$(cargo xtask setup --env)\"")]
pub(crate) struct Args {
    /// Print shell lines that put the tools on the PATH of this shell, for use with `eval`.
    #[arg(long)]
    env: bool,
}

/// The tools, all there.
pub(crate) struct Tools {
    wasm: wasm_target::WasmTarget,
    programs: cargo_tools::CargoTools,
    node: PathBuf,
    node_modules: PathBuf,
    /// Where steps put what they print.
    logs: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// When a tool cannot be got.
pub(crate) fn command(ws: &Workspace, args: &Args) -> Result<()> {
    let tools = ready(ws)?;
    if args.env {
        // Not what would also change this shell's native builds or the manners of other programs.
        let only_ours = |name: &str| !["CARGO_TARGET_DIR", "CI", "RUST_LIB_BACKTRACE"].contains(&name);
        for (name, value) in tools.environment(ws).into_iter().filter(|(name, _)| only_ours(name)) {
            anstream::println!("export {name}='{}'", value.to_string_lossy());
        }
        return Ok(());
    }
    anstream::println!("Everything is set up. Tools: {}", ws.cache().display());
    anstream::println!("  Wasm target   {}", tools.wasm.description());
    anstream::println!("  wasm-bindgen  {}", tools.programs.wasm_bindgen.display());
    anstream::println!("  worker-build  {}", tools.programs.worker_build.display());
    anstream::println!("  node          {}", tools.node.display());
    anstream::println!("  npm packages  {}", tools.node_modules.display());
    Ok(())
}

/// The tools, got first where they are missing.
///
/// # Errors
/// When a tool cannot be got: which, why, and what to do.
pub(crate) fn ready(ws: &Workspace) -> Result<Tools> {
    let cache = cache::Cache::open(ws.cache())?;
    let (node, node_modules) = node::ready(ws, &cache)?;
    Ok(Tools {
        wasm: wasm_target::ready(&cache)?,
        programs: cargo_tools::ready(ws, &cache)?,
        node,
        node_modules,
        logs: cache.logs(),
    })
}

impl Tools {
    /// cargo for `--target wasm32-unknown-unknown`, with the test runner and a target folder of its own.
    pub(crate) fn wasm_cargo(&self, ws: &Workspace) -> Command {
        self.prepared(ws, "cargo")
    }

    /// worker-build, which calls `rustc` and `cargo` by their names and downloads what it is not pointed to.
    pub(crate) fn worker_build(&self, ws: &Workspace) -> Command {
        self.prepared(ws, &self.programs.worker_build)
    }

    /// The node that runs workerd's tools.
    pub(crate) fn node(&self, ws: &Workspace) -> Command {
        self.prepared(ws, &self.node)
    }

    /// Whether clippy can read this Wasm target's standard library: only when both are of one toolchain.
    pub(crate) fn clippy_reads_wasm(&self) -> bool {
        self.wasm.is_of_native_toolchain()
    }

    /// The file that a step's output goes to.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    fn prepared(&self, ws: &Workspace, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = run::command(program);
        command.current_dir(ws.path("")).env_remove("RUSTC").env_remove("CARGO");
        command.envs(self.environment(ws));
        command
    }

    /// The environment in which `cargo`, `rustc`, `node` and the npm packages' programs are the ones set up here.
    fn environment(&self, ws: &Workspace) -> Vec<(&'static str, OsString)> {
        let mut path: Vec<PathBuf> = Vec::new();
        path.extend(self.wasm.programs().map(Path::to_path_buf));
        path.extend(
            [&self.node, &self.programs.wasm_bindgen].into_iter().filter_map(|p| p.parent().map(Path::to_path_buf)),
        );
        path.push(self.node_modules.join(".bin"));
        path.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
        let runner = self.programs.wasm_bindgen.with_file_name("wasm-bindgen-test-runner");
        let bin = |name: &str| self.node_modules.join(".bin").join(name).into_os_string();
        vec![
            ("PATH", std::env::join_paths(path).unwrap_or_default()),
            ("CARGO_TARGET_DIR", ws.wasm_target_dir().join(self.wasm.key()).into_os_string()),
            ("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER", runner.into_os_string()),
            ("WASM_BINDGEN_BIN", self.programs.wasm_bindgen.clone().into_os_string()),
            ("ESBUILD_BIN", bin("esbuild")),
            ("WASM_OPT_BIN", bin("wasm-opt")),
            // Nothing here may phone home or wait for an answer.
            ("WRANGLER_SEND_METRICS", "false".into()),
            ("CI", "true".into()),
            // A tool's own call stack says nothing to whoever builds with it.
            ("RUST_LIB_BACKTRACE", "0".into()),
        ]
    }
}

/// The queues that ours is measured beside. A bench does without those that do not install, so that is said, no more.
pub(crate) fn bench_peers(ws: &Workspace) {
    let is_here = |program: &str| run::ask(run::command(program).arg("-v")).is_some();
    if is_here("redis-server") && is_here("beanstalkd") {
        return;
    }
    let installed =
        cache::Cache::open(ws.cache()).and_then(|cache| debian::install(&cache, &["redis-server", "beanstalkd"]));
    if let Err(problem) = installed {
        run::say(&format!("- measured without peers that are not here: {problem}"));
    }
}

/// A Python that has Cloudflare's SDK, which the end-to-end tests of the API use.
///
/// # Errors
/// When it cannot be got.
pub(crate) fn python(ws: &Workspace) -> Result<PathBuf> {
    python::ready(ws, &cache::Cache::open(ws.cache())?)
}

/// cargo for a native build, without asking for any tool.
pub(crate) fn native_cargo(ws: &Workspace) -> Command {
    let mut command = run::command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(ws.path("")).env("CARGO_TARGET_DIR", ws.path("target"));
    command
}
