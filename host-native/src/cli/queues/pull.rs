//! `jadpo queues pull`: whether a queue can be pulled over HTTP.

use serde_json::json;

use super::super::output::{self, Exit};
use super::super::words::plain;
use crate::api::PREFIX;
use crate::operator::{Operator, OperatorError};

/// Arguments of `jadpo queues pull`.
#[derive(clap::Args)]
#[command(after_help = "\
The same as `wrangler queues consumer http add` and `remove`. A queue has one consumer: one that the app handles cannot be \
pulled. Clients show a token; `jadpo tokens create NAME` makes one, and `jadpo dev` prints one.

With --json: the queue as `jadpo queues list --json` has it.")]
pub(super) struct Args {
    /// The queue
    name: String,
    /// Let it be pulled no more. What is set for its consumer is the default again
    #[arg(long)]
    off: bool,
}

pub(super) async fn run(args: &Args, operator: &Operator, as_json: bool) -> Result<Exit, OperatorError> {
    let queue = operator.let_pull(&args.name, !args.off).await?;
    let name = plain(&queue.name);
    if as_json {
        output::line(&json!(queue).to_string());
    } else if args.off {
        output::line(&format!("{name} is pulled no more; its messages wait"));
    } else {
        output::line(&format!("{name} can be pulled over HTTP: POST {PREFIX}/accounts/ACCOUNT/queues/{}", queue.id));
        output::line("  …/messages/pull, then …/messages/ack; `jadpo tokens` shows the account");
    }
    Ok(Exit::Done)
}
