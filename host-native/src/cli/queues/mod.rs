//! `jadpo queues`: queues and what they hold.

mod create;
mod dead_letters;
mod empty;
mod list;
mod outbox;
mod peek;
mod pull;
mod push;
mod redrive;
mod send;
mod show;
mod watch;

use clap::{Parser, Subcommand};

use super::output::Exit;
use super::place::{self, Needs, Opened, Place};
use crate::operator::OperatorError;
pub(super) use empty::agreed;

/// Arguments of `jadpo queues`. All flags go before or after the subcommand alike.
#[derive(Parser)]
#[command(after_help = "\
Examples:
  jadpo queues                                     what there is, and how much waits
  jadpo queues send jobs '{\"kind\": \"resize\"}'      one message
  jadpo queues push jobs < jobs.ndjson             many, one on a line
  jadpo queues dead-letters jobs                   what died of it, and why
  jadpo queues redrive jobs                        put it back
  jadpo queues list --url https://queues.example.com

They look into .jadpo/queues.db, which `jadpo dev` and `jadpo serve` make, while those run and when they do not; \
--store names another file, --url a running server.
Exit codes: 0 it is done, 1 it could not be done, 2 it was asked wrongly.
With --json a failure is one object too: {\"error\", \"code\", \"help\"}.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    place: Place,
}

#[derive(Subcommand)]
enum Command {
    /// List the queues and how much they hold (the default)
    List(list::Args),
    /// Show one queue: how much it holds, who consumes it, and what is set for it
    Show(show::Args),
    /// Make a queue that no app declares
    Create(create::Args),
    /// Send a message, or the same one many times
    Send(send::Args),
    /// Send many messages: every line of a file or of standard input, or every file that is named
    Push(push::Args),
    /// Look at messages and take none
    Peek(peek::Args),
    /// List the messages that died: whose deliveries all failed
    DeadLetters(dead_letters::Args),
    /// Put dead letters back into the queues they died in, or into another
    Redrive(redrive::Args),
    /// Let a queue be pulled over HTTP, by any client of Cloudflare's Queues API
    Pull(pull::Args),
    /// Hand over no messages until the queue is resumed; it can be sent to all the same
    Pause(show::PauseArgs),
    /// Hand over messages again
    Resume(show::PauseArgs),
    /// Remove single messages, by their ids
    Remove(empty::RemoveArgs),
    /// Remove all messages of a queue
    Purge(empty::Args),
    /// Delete a queue with all its messages
    Delete(empty::Args),
}

/// Asks and prints.
pub(crate) fn run(args: &Args) -> Exit {
    let needs = match &args.command {
        None | Some(Command::List(_) | Command::Show(_) | Command::Peek(_) | Command::DeadLetters(_)) => Needs::Look,
        Some(Command::Redrive(args)) if args.only_looks() => Needs::Look,
        Some(Command::Create(_)) => Needs::Store,
        Some(_) => Needs::Change,
    };
    place::run(&args.place, needs, async |opened: &Opened| answer(args, opened).await)
}

async fn answer(args: &Args, opened: &Opened) -> Result<Exit, OperatorError> {
    let (operator, json) = (&opened.operator, args.place.json);
    match &args.command {
        None => list::run(&list::Args::default(), operator, json).await,
        Some(Command::List(args)) => list::run(args, operator, json).await,
        Some(Command::Show(args)) => show::run(args, operator, json).await,
        Some(Command::Create(args)) => create::run(args, operator, json).await,
        Some(Command::Send(args)) => send::run(args, operator, json).await,
        Some(Command::Push(args)) => push::run(args, operator, json).await,
        Some(Command::Peek(args)) => peek::run(args, operator, json).await,
        Some(Command::DeadLetters(args)) => dead_letters::run(args, operator, json).await,
        Some(Command::Redrive(args)) => redrive::run(args, opened, json).await,
        Some(Command::Pull(args)) => pull::run(args, operator, json).await,
        Some(Command::Pause(args)) => show::pause(args, true, operator, json).await,
        Some(Command::Resume(args)) => show::pause(args, false, operator, json).await,
        Some(Command::Remove(args)) => empty::remove(args, operator, json).await,
        Some(Command::Purge(args)) => empty::purge(args, operator, json).await,
        Some(Command::Delete(args)) => empty::delete(args, operator, json).await,
    }
}
