//! `cargo xtask bench`: figures, each beside a peer in the same run.

mod broker;
mod receive;

use crate::problem::Result;
use crate::workspace::Workspace;

/// Measures, always beside a peer or a limit in the same run, since machines differ and drift.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Broker(broker::Args),
    Receive(receive::Args),
}

/// Runs the command.
///
/// # Errors
/// When something does not build, or a run does not end.
pub(crate) fn command(ws: &Workspace, args: &Args) -> Result<()> {
    match &args.what {
        What::Broker(args) => broker::command(ws, args),
        What::Receive(args) => receive::command(ws, args),
    }
}
