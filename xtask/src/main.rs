//! `cargo xtask`: everything that this repository is built and checked with. One file or folder per command.

mod bench;
mod build;
mod demo;
mod problem;
mod run;
mod setup;
mod test;
#[cfg(test)]
mod tidy;
mod torture;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Sets up this machine, builds what is released, and checks it.
///
/// On a fresh clone nothing has to be prepared by hand: every command first gets the tools it misses.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
#[command(after_help = "Tools are kept outside the clone, one folder per tool and version, in $JADPO_CACHE, \
    else $XDG_CACHE_HOME/jadpo, else ~/.cache/jadpo. Exit codes: 0 done, 1 it failed, 2 the usage is wrong.")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Setup(setup::Args),
    Build(build::Args),
    Demo(demo::Args),
    Bench(bench::Args),
    Test(test::Args),
    Torture(torture::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = workspace::Workspace::find().and_then(|ws| match args.command {
        Command::Setup(args) => setup::command(&ws, &args),
        Command::Build(args) => build::command(&ws, &args),
        Command::Bench(args) => bench::command(&ws, &args),
        Command::Demo(args) => demo::command(&ws, &args),
        Command::Test(args) => test::command(&ws, &args),
        Command::Torture(args) => torture::command(&ws, &args),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            anstream::eprintln!("{problem}");
            ExitCode::from(problem.exit)
        }
    }
}
