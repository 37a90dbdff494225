//! `jadpo build`: an app file becomes folders that can be deployed.

use std::path::{Path, PathBuf};

use crate::build::{self, BuildError, Folder, Worker, Written};
use jadpo_core::program::Platform;
use serde_json::json;

use super::load::{self, Load};
use super::output::{self, Exit};

/// Arguments of `jadpo build`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The app file, or a program.json
    #[arg(default_value = "app.jadpo")]
    file: PathBuf,
    /// Build only this deployable
    #[arg(long, value_name = "NAME")]
    deployable: Option<String>,
    /// Where the folders go, one per deployable and named like it
    #[arg(long, value_name = "DIR", default_value = "build")]
    out: PathBuf,
    /// A Worker of your own, as built from a host crate with linked functions
    #[arg(long, value_name = "DIR")]
    worker: Option<PathBuf>,
    /// Print one JSON object in place of text
    #[arg(long)]
    json: bool,
}

/// Builds what was asked for and says what to do next. Nothing is written if the app file has a problem.
pub(crate) fn run(args: &Args) -> Exit {
    let program = match load::program(&args.file, args.deployable.as_deref(), args.json) {
        Load::Program(program) => program,
        Load::Reported(exit) => return exit,
    };
    let built = worker(args.worker.as_deref())
        .and_then(|worker| build::folders(&program, args.deployable.as_deref(), worker.as_ref()))
        .and_then(|folders| {
            let placed: Vec<_> =
                folders.into_iter().map(|folder| (args.out.join(&folder.deployable), folder)).collect();
            Ok((build::write(&placed)?, placed))
        });
    match built {
        Ok((written, placed)) if args.json => print_json(&written, &placed),
        Ok((written, placed)) => print_text(&written, &placed),
        Err(error) => return failed(&error, args.json),
    }
    Exit::Done
}

fn worker(dir: Option<&Path>) -> Result<Option<Worker>, BuildError> {
    dir.map_or_else(|| Ok(Worker::embedded()), |dir| Worker::from_dir(dir).map(Some))
}

fn failed(error: &BuildError, as_json: bool) -> Exit {
    let exit = if error.is_input() { Exit::Wrong } else { Exit::Failed };
    if as_json {
        output::line(&output::problem_json(error.code(), &error.to_string(), error.help().as_deref()).to_string());
    } else {
        output::error(&error.to_string(), error.help().as_deref());
    }
    exit
}

fn print_json(written: &[Written], placed: &[(PathBuf, Folder)]) {
    let deployables: Vec<_> = written
        .iter()
        .zip(placed)
        .map(|(written, (_, folder))| {
            let files: Vec<_> = written
                .files
                .iter()
                .map(|(path, (bytes, sha256))| json!({"path": path, "bytes": bytes, "sha256": sha256}))
                .collect();
            let kept: Vec<_> = written.kept.iter().map(|(path, kept)| json!({"path": path, "kept_as": kept})).collect();
            json!({
                "name": folder.deployable,
                "target": folder.target,
                "folder": written.path,
                "files": files,
                "removed": written.removed,
                "changed_by_hand": kept,
                "steps": folder.steps,
            })
        })
        .collect();
    output::line(&json!({"ok": true, "deployables": deployables}).to_string());
}

fn print_text(written: &[Written], placed: &[(PathBuf, Folder)]) {
    for (written, (_, folder)) in written.iter().zip(placed) {
        let size: usize = written.files.values().map(|(bytes, _)| bytes).sum();
        let platform = match folder.target {
            Platform::Workers => "Workers",
            Platform::Native => "native",
        };
        output::line(&format!(
            "{BOLD}{}{RESET} ({platform}) -> {}: {} files, {} KB",
            folder.deployable,
            written.path.display(),
            written.files.len(),
            size.div_ceil(1000)
        ));
        for (path, kept) in &written.kept {
            output::line(&format!("  {path} had been changed since the last build; its text is kept in {kept}"));
        }
        for path in &written.removed {
            output::line(&format!("  removed {path}, which an earlier build wrote"));
        }
        print_steps(written, folder);
    }
}

fn print_steps(written: &Written, folder: &Folder) {
    output::line("\n  next, in the folder:");
    output::line(&format!("    cd {}", written.path.display()));
    let mut why = "";
    for step in &folder.steps {
        if step.why != why {
            why = &step.why;
            output::line(&format!("    {DIM}# {why}{RESET}"));
        }
        output::line(&format!("    {}", step.run));
    }
    output::line("");
}

const BOLD: &str = "\u{1b}[1m";
const DIM: &str = "\u{1b}[2m";
const RESET: &str = "\u{1b}[0m";
