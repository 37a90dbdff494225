//! `jadpo d1`: the D1 databases of Workers on this machine.

mod execute;
mod found;
mod list;
mod migrations;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::output::{self, Exit};
use super::place;
use super::workers::state_of;
use crate::d1::Databases;
use crate::operator::OperatorError;
use found::Found;

/// Arguments of `jadpo d1`. All flags go before or after the subcommand alike.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  jadpo d1                                              the databases of the Worker in this folder
  jadpo d1 migrations apply                             bring all of them up to date
  jadpo d1 execute shop --command \"SELECT * FROM orders\"
  jadpo d1 execute shop --file seed.sql --worker apps/shop

A database is called as the Wrangler file calls it: by its name, its binding or its id. The files lie beside the store, \
so these commands work while `jadpo dev` or `jadpo serve` runs and while it does not.
Exit codes: 0 it is done, 1 it could not be done, 2 it was asked wrongly.
With --json a failure is one object too: {\"error\", \"code\", \"help\"}.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// A Worker whose databases are meant: its folder, or its Wrangler file; may be given again [default: the one here]
    #[arg(long = "worker", global = true, value_name = "PATH", help_heading = "Where")]
    workers: Vec<PathBuf>,
    /// The environment of the Wrangler files that is meant
    #[arg(long = "env", global = true, value_name = "NAME", help_heading = "Where")]
    environment: Option<String>,
    /// The store beside which the databases lie
    #[arg(long, global = true, value_name = "FILE", default_value = ".jadpo/queues.db", help_heading = "Where")]
    store: PathBuf,
    /// Answer in JSON
    #[arg(long, global = true)]
    json: bool,
    /// Taken as Wrangler takes it: jadpo's databases are always those of this machine
    #[arg(long, global = true, hide = true)]
    local: bool,
}

#[derive(Subcommand)]
enum Command {
    /// List the databases: where they are, and how their migrations stand (the default)
    List,
    /// Migrations: list, apply, create
    Migrations(migrations::Args),
    /// Run SQL, all of it or nothing
    Execute(execute::Args),
}

/// Does it and prints.
pub(crate) fn run(args: &Args) -> Exit {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::error(&format!("no runtime: {error}"), None);
            return Exit::Failed;
        }
    };
    runtime.block_on(answer(args)).unwrap_or_else(|error| place::fail(args.json, &error))
}

async fn answer(args: &Args) -> Result<Exit, OperatorError> {
    if args.local && !args.json {
        output::note("`--local` says nothing here: jadpo's databases are always those of this machine");
    }
    let databases = Databases::new(state_of(&args.store).join("d1"));
    let found = Found::all(&args.workers, args.environment.as_deref(), &databases)?;
    match &args.command {
        None | Some(Command::List) => list::run(&found, &databases, args.json).await,
        Some(Command::Migrations(inner)) => migrations::run(inner, &found, &databases, args.json).await,
        Some(Command::Execute(inner)) => execute::run(inner, &found, &databases, args.json).await,
    }
}
