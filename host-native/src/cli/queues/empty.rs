//! `jadpo queues purge`, `delete` and `remove`: what cannot be undone is asked for twice.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};

use jadpo_core::admin::queues::REMOVE_MAX;
use serde_json::json;

use super::super::output::{self, Exit};
use super::super::words::{bytes, count, plain};
use crate::operator::{Operator, OperatorError};

/// Arguments of `jadpo queues purge` and `delete`.
#[derive(clap::Args)]
#[command(after_help = "\
It asks before it does, and where there is no terminal to ask on it does nothing without --force.
With --json: {\"queue\", \"messages\", \"bytes\"}, how much was removed; of delete also \"declared\", whether the app \
declares the queue, and \"worker\", the Worker that runs and sends to it: then it comes back. A queue that a running Worker \
consumes is not deleted.")]
pub(super) struct Args {
    /// The queue
    name: String,
    /// Do not ask
    #[arg(long)]
    force: bool,
}

/// Arguments of `jadpo queues remove`.
#[derive(clap::Args)]
#[command(after_help = "\
For a message that is not to be delivered ever: a dead letter that can never succeed, as a rule. Whatever state it is in, \
it is gone. It asks before it does, and where there is no terminal to ask on it does nothing without --force.

Example:
  jadpo queues remove jobs-dead 6f0c9a1b2c3d4e5f60718293a4b5c6d7

With --json: {\"queue\", \"removed\", \"unknown\": [ids that the queue does not hold]}.")]
pub(super) struct RemoveArgs {
    /// The queue that holds them: of dead letters, the dead-letter queue
    name: String,
    /// The messages' ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Do not ask
    #[arg(long)]
    force: bool,
}

pub(super) async fn remove(args: &RemoveArgs, operator: &Operator, as_json: bool) -> Result<Exit, OperatorError> {
    let queue = operator.queue(&args.name).await?;
    let mut unknown: BTreeSet<String> = args.ids.iter().cloned().collect();
    let refs = operator.find(&queue.name, &mut unknown).await?;
    let name = plain(&queue.name);
    let what = format!("remove {} from {name}", count(refs.len() as u64, "message"));
    if !refs.is_empty() && !args.force && !agreed(&what)? {
        return Ok(Exit::Failed);
    }
    let mut removed = 0;
    for refs in refs.chunks(REMOVE_MAX) {
        removed += operator.remove(&queue.name, refs.to_vec()).await?.removed;
    }
    // What was found and is gone before it was removed was taken, and is nobody's mistake.
    let exit = if unknown.is_empty() { Exit::Done } else { Exit::Failed };
    if as_json {
        output::line(&json!({"queue": queue.name, "removed": removed, "unknown": unknown}).to_string());
        return Ok(exit);
    }
    output::line(&format!("{} removed from {name}", count(removed, "message")));
    if !unknown.is_empty() {
        let ids: Vec<String> = unknown.iter().map(|id| plain(id)).collect();
        let help = format!("`jadpo queues peek {name}` shows what it holds");
        output::error(&format!("{name} holds no message {}", ids.join(", ")), Some(&help));
    }
    Ok(exit)
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
        let (messages, bytes, declared) = (emptied.messages, emptied.bytes, emptied.declared);
        let worker = emptied.worker;
        let told =
            json!({"queue": args.name, "messages": messages, "bytes": bytes, "declared": declared, "worker": worker});
        output::line(&told.to_string());
        return Ok(Exit::Done);
    }
    let (messages, size) = (count(emptied.messages, "message"), bytes(emptied.bytes));
    output::line(&format!("{} is deleted, with {messages}, {size}", plain(&args.name)));
    if let Some(worker) = &emptied.worker {
        let worker = plain(worker);
        output::line(&format!("the Worker {worker} runs and sends to it, so it is made again, empty, within a second"));
    }
    if emptied.declared {
        output::line(
            "the app declares it, so it comes back, empty: when a server starts, or at once where one runs the app; \
             take it out of the app file to be rid of it",
        );
    }
    Ok(Exit::Done)
}

/// Whether it is to be done. The question names what is lost, so that a slip in the name shows.
async fn sure(args: &Args, operator: &Operator, what: impl Fn(&str) -> String) -> Result<bool, OperatorError> {
    if args.force {
        return Ok(true);
    }
    let queue = operator.queue(&args.name).await?;
    agreed(&what(&count(queue.messages, "message")))
}

/// Whether a person agrees that it is done; where there is nobody to ask, that is a refusal.
pub(in crate::cli) fn agreed(what: &str) -> Result<bool, OperatorError> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(OperatorError::input(
            format!("this would {what}, and there is nobody to ask"),
            Some("say --force if it is meant"),
        )
        .coded("not_confirmed"));
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
