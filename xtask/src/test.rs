//! `cargo xtask test`: every check there is, each part tried whatever the others say.

use crate::build;
use crate::problem::{Problem, Result};
use crate::run;
use crate::setup::{self, Tools};
use crate::workspace::Workspace;
use clap::ValueEnum;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Checks everything: format and lints, native tests, Wasm tests, end-to-end tests in workerd.
///
/// Every part runs even when an earlier one failed; the end says which did.
#[derive(clap::Args)]
#[command(
    after_help = "The end-to-end tests (*.test.mjs in host-workers/e2e and host-native/e2e) find what was built by variables: \
    JADPO_WORKER_DIR is the folder of worker.js and worker.wasm, JADPO_EXAMPLE_WORKER_DIR that of the example with \
    linked functions, JADPO_BIN the jadpo binary with that Worker inside, JADPO_PYTHON a Python with Cloudflare's SDK. \
    They run on the node that set-up found, so process.execPath is new enough for wrangler."
)]
pub(crate) struct Args {
    /// Run only these parts (a list or repeated).
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
}

/// One part of the checks, in the order in which they run: what is quick to fail comes first.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// cargo fmt --check, clippy without warnings, natively and for Wasm.
    Lint,
    /// The Worker builds; wanted by the end-to-end tests, and by native tests where it is there.
    Worker,
    /// cargo test of the native crates.
    Native,
    /// The Worker's own tests, compiled to Wasm and run in node.
    Wasm,
    /// The built Worker in workerd, with D1 and a queue in front; the native server's API, with Cloudflare's own clients.
    E2e,
}

impl Part {
    fn title(self) -> &'static str {
        match self {
            Self::Lint => "format and lints",
            Self::Worker => "the Worker",
            Self::Native => "native tests",
            Self::Wasm => "Wasm tests",
            Self::E2e => "end-to-end tests",
        }
    }

    fn run(self, ws: &Workspace, tools: &Tools) -> Result<()> {
        match self {
            Self::Lint => lint(ws, tools),
            Self::Worker => build::worker::build(ws, tools).map(drop),
            Self::Native => native(ws),
            Self::Wasm => wasm(ws, tools),
            Self::E2e => end_to_end(ws, tools),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// When a tool cannot be got, or a part failed.
pub(crate) fn command(ws: &Workspace, args: &Args) -> Result<()> {
    let tools = setup::ready(ws)?;
    let chosen = |part: &Part| {
        let needed = *part == Part::Worker && args.only.contains(&Part::E2e);
        args.only.is_empty() || args.only.contains(part) || needed
    };
    let mut outcomes: Vec<(Part, Duration, bool)> = Vec::new();
    for part in Part::value_variants().iter().copied().filter(chosen) {
        run::say(&format!("\n\x1b[1m== {}\x1b[0m", part.title()));
        let started = Instant::now();
        let worker_failed = outcomes.iter().any(|(part, _, ok)| *part == Part::Worker && !ok);
        let outcome = if part == Part::E2e && worker_failed {
            Err(Problem::new("the Worker did not build, and an older one must not be tested in its place"))
        } else {
            part.run(ws, &tools)
        };
        if let Err(problem) = &outcome {
            run::say(&problem.to_string());
        }
        outcomes.push((part, started.elapsed(), outcome.is_ok()));
    }
    summary(&outcomes)
}

fn summary(outcomes: &[(Part, Duration, bool)]) -> Result<()> {
    run::say("\n\x1b[1m== summary\x1b[0m");
    for (part, time, ok) in outcomes {
        let mark = if *ok { "\x1b[32mpassed\x1b[0m" } else { "\x1b[31mFAILED\x1b[0m" };
        run::say(&format!("{mark}  {}, {}", part.title(), run::seconds(*time)));
    }
    let failed: Vec<&str> = outcomes.iter().filter(|(_, _, ok)| !ok).map(|(part, _, _)| part.title()).collect();
    if failed.is_empty() { Ok(()) } else { Err(Problem::new(format!("failed: {}", failed.join(", ")))) }
}

fn lint(ws: &Workspace, tools: &Tools) -> Result<()> {
    let format = run::through(setup::native_cargo(ws).args(["fmt", "--all", "--check"]));
    let warnings = ["--", "--deny", "warnings"];
    let native = ["clippy", "--quiet", "--locked", "--all-targets"];
    let native = run::through(build::with_worker(ws).args(native).args(warnings));
    let ours = ["--package", "jadpo-host-workers", "--package", "jadpo-example-audit", "--lib", "--tests"];
    // The Worker's crates compile for Wasm alone: JavaScript's values cannot leave their thread.
    let mut cargo = tools.wasm_cargo(ws);
    let worker = if tools.clippy_reads_wasm() {
        cargo.args(["clippy", "--quiet", "--locked", "--target", setup::TRIPLE]).args(ours).args(warnings)
    } else {
        // clippy belongs to the native toolchain and cannot read another compiler's standard library.
        run::say("clippy has no Wasm target here: the Worker's crates are checked by the compiler alone");
        cargo.args(["check", "--quiet", "--locked", "--target", setup::TRIPLE]).args(ours)
    };
    let worker = run::through(worker);
    format.and(native).and(worker)
}

fn native(ws: &Workspace) -> Result<()> {
    run::through(build::with_worker(ws).args(["test", "--locked", "--no-fail-fast"]))
}

fn wasm(ws: &Workspace, tools: &Tools) -> Result<()> {
    let args = ["test", "--locked", "--no-fail-fast", "--package", "jadpo-host-workers", "--lib", "--tests"];
    run::through(tools.wasm_cargo(ws).args(args).args(["--target", setup::TRIPLE]))
}

fn end_to_end(ws: &Workspace, tools: &Tools) -> Result<()> {
    let tests = end_to_end_files(ws)?;
    let jadpo = build::debug_binary(ws, tools)?;
    let example = build::worker::build_example(ws, tools)?;
    let python = setup::python(ws)?;
    let mut node = tools.node(ws);
    // Side by side on any machine: what takes their time is waiting, for a retry, a timeout or a claim's end.
    node.args(["--test", "--test-reporter=spec", "--test-concurrency=4"])
        .args(tests)
        .env("JADPO_WORKER_DIR", ws.path("dist/worker"));
    run::through(node.env("JADPO_EXAMPLE_WORKER_DIR", example).env("JADPO_BIN", jadpo).env("JADPO_PYTHON", python))
}

/// The folders that hold end-to-end tests: of the Worker in workerd, of the native server with others' clients, and of
/// Workers that run beside it.
const END_TO_END: [&str; 3] = ["host-workers/e2e", "host-native/e2e", "host-native/e2e/workers"];

/// The test files; a folder without one is a failure, for a check that finds nothing to do must not pass.
fn end_to_end_files(ws: &Workspace) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for name in END_TO_END {
        let folder = ws.path(name);
        let entries = fs::read_dir(&folder).map_err(|e| Problem::io(format!("reading {}", folder.display()), &e))?;
        let mut tests: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        tests.retain(|path| path.to_string_lossy().ends_with(".test.mjs"));
        tests.sort();
        if tests.is_empty() {
            return Err(Problem::new(format!("{name} holds no *.test.mjs")).help("restore the end-to-end tests"));
        }
        all.extend(tests);
    }
    Ok(all)
}
