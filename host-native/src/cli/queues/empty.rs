//! `jadpo queues purge` and `delete`: what cannot be undone is asked for twice.

use std::io::{IsTerminal, Write};

use serde_json::json;

use super::super::output::{self, Exit};
use super::super::words::{bytes, count, plain};
use crate::operator::{Operator, OperatorError};

/// Arguments of `jadpo queues purge` and `delete`.
#[derive(clap::Args)]
#[command(after_help = "\
It asks before it does, and where there is no terminal to ask on it does nothing without --force.
With --json: {\"queue\", \"messages\", \"bytes\"}, how much was removed.")]
pub(super) struct Args {
    /// The queue
    name: String,
    /// Do not ask
    #[arg(long)]
    force: bool,
}

pub(super) async fn purge(args: &Args, operator: &Operator, as_json: bool) -> Result<Exit, OperatorError> {
    let what = |waiting: &str| format!("remove {waiting} from {}", plain(&args.name));
    if !sure(args, operator, what).await? {
        return Ok(Exit::Failed);
    }
    let emptied = operator.purge(&args.name).await?;
    if as_json {
        output::line(&json!({"queue": args.name, "messages": emptied.messages, "bytes": emptied.bytes}).to_string());
    } else {
        let (messages, size) = (count(emptied.messages, "message"), bytes(emptied.bytes));
        output::line(&format!("{} is empty: {messages} removed, {size}", plain(&args.name)));
    }
    Ok(Exit::Done)
}

pub(super) async fn delete(args: &Args, operator: &Operator, as_json: bool) -> Result<Exit, OperatorError> {
    let what = |waiting: &str| format!("delete the queue {} with {waiting}", plain(&args.name));
    if !sure(args, operator, what).await? {
        return Ok(Exit::Failed);
    }
    let emptied = operator.delete(&args.name).await?;
    if as_json {
        output::line(&json!({"queue": args.name, "messages": emptied.messages, "bytes": emptied.bytes}).to_string());
    } else {
        let (messages, size) = (count(emptied.messages, "message"), bytes(emptied.bytes));
        output::line(&format!("{} is deleted, with {messages}, {size}", plain(&args.name)));
    }
    Ok(Exit::Done)
}

/// Whether it is to be done. The question names what is lost, so that a slip in the name shows.
async fn sure(args: &Args, operator: &Operator, what: impl Fn(&str) -> String) -> Result<bool, OperatorError> {
    if args.force {
        return Ok(true);
    }
    let queue = operator.queue(&args.name).await?;
    let what = what(&count(queue.messages, "message"));
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(OperatorError::input(
            format!("this would {what}, and there is nobody to ask"),
            Some("say --force if it is meant"),
        ));
    }
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "{what}, for good? [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    let _ = std::io::stdin().read_line(&mut answer);
    let yes = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if !yes {
        output::note("nothing was done");
    }
    Ok(yes)
}
