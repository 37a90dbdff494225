//! The command line: one file per subcommand, what they share in [`output`].

mod build;
mod check;
mod d1;
mod deliveries;
mod deployable;
mod dev;
mod diagnostics;
mod load;
mod output;
mod place;
mod programs;
mod queues;
mod running;
mod serve;
mod spans;
mod tokens;
mod triggers;
mod webhooks;
mod words;
mod workers;
mod wrangler;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};

use crate::functions::Linked;
use crate::workerd::child;
use output::Exit;

/// jadpo receives queues without losing a message.
#[derive(Parser)]
#[command(name = "jadpo", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// One variant per subcommand; each has its own file, with its `Args` and a `run` that returns an [`Exit`].
#[derive(Subcommand)]
enum Command {
    /// Check an app file or a Worker's Wrangler file and report every problem in it
    Check(check::Args),
    /// Write a folder for each deployable, ready to be deployed
    Build(build::Args),
    /// Run everything that is declared on this machine: queues, functions, webhooks, schedules
    Dev(dev::Args),
    /// Run a native deployable: its queues, webhooks and schedules, the tick, and the operator's endpoint
    Serve(serve::Args),
    /// Queues and their messages: list, send, look at, put dead letters back, pause, empty, delete
    Queues(queues::Args),
    /// What runs functions, a queue or a schedule: list, enable, disable
    Triggers(triggers::Args),
    /// The addresses that outside systems post to: list, rotate
    Webhooks(webhooks::Args),
    /// What clients of the Queues API show: create, list, revoke
    Tokens(tokens::Args),
    /// D1 databases of Workers on this machine: list, apply migrations, run SQL
    D1(d1::Args),
    /// List, show and retry what is parked or has failed
    Deliveries(deliveries::Args),
    /// For jadpo itself: becomes workerd, which then dies with whoever started it
    #[command(name = child::BECOME, hide = true)]
    Become {
        /// The parent's process id, the program, and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

/// Parses the arguments and runs the subcommand, with the functions that the binary brings along. A usage error exits
/// with 2, as clap does.
pub fn main(linked: Linked) -> ExitCode {
    // Past the limit of a file's size a write is to fail, as on a full disk; without a handler the process dies. What
    // the handler sets is of no interest, and a system that cannot have one is no worse off.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let exit = match Cli::parse().command {
        Command::Check(args) => check::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Dev(args) => dev::run(&args, &linked),
        Command::Serve(args) => serve::run(&args, &linked),
        Command::Queues(args) => queues::run(&args),
        Command::Triggers(args) => triggers::run(&args),
        Command::Webhooks(args) => webhooks::run(&args),
        Command::Tokens(args) => tokens::run(&args),
        Command::D1(args) => d1::run(&args),
        Command::Deliveries(args) => deliveries::run(&args),
        Command::Become { words } => return child::become_program(&words),
    };
    output::ended(exit).into()
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
