//! `jadpo deliveries`: what is parked or has failed, seen and retried.

mod view;

use clap::{Parser, Subcommand, ValueEnum};
use jadpo_core::admin::queues::Queue;
use jadpo_core::admin::{Filter, ItemId, Kind};
use serde_json::json;

use super::output::{self, Exit};
use super::place::{self, Needs, Opened, Place};
use crate::operator::{Operator, OperatorError};

/// Items listed at most when nothing is said.
const LIMIT_DEFAULT: u32 = 100;

/// Arguments of `jadpo deliveries`. All flags go before or after the subcommand alike.
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    which: Which,
}

#[derive(Subcommand)]
enum Command {
    /// List what is parked or has failed (the default)
    List,
    /// Show one item and its body
    Show {
        /// The item's id, as p12 or d34.ledger
        id: String,
        /// Write the body to standard output, byte for byte, and nothing else
        #[arg(long)]
        body: bool,
    },
    /// Have items tried again: parked messages are read anew, failed deliveries get as many attempts again
    Retry {
        /// The items' ids
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        ids: Vec<String>,
        /// Everything that fits the filters
        #[arg(long)]
        all: bool,
    },
}

/// Filters, for `list` and for `retry --all`.
#[derive(clap::Args)]
struct Which {
    /// Only this queue, its dead-letter queue included
    #[arg(long, global = true)]
    queue: Option<String>,
    /// Only this connection
    #[arg(long, global = true)]
    connection: Option<String>,
    /// Only this reason: unreadable, rejected, dead_lettered or failed
    #[arg(long, global = true)]
    reason: Option<String>,
    /// Only deliveries to this subscriber
    #[arg(long, global = true)]
    subscriber: Option<String>,
    /// Only this event
    #[arg(long, global = true)]
    event: Option<String>,
    /// Only one of the two kinds
    #[arg(long, global = true)]
    kind: Option<KindArg>,
    /// List this many at most [default: 100]
    #[arg(long, global = true, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindArg {
    /// Messages that could not become an event
    Parked,
    /// Deliveries whose attempts are spent
    Failed,
}

impl Which {
    fn filter(&self) -> Filter {
        Filter {
            kind: self.kind.map(|kind| match kind {
                KindArg::Parked => Kind::Parked,
                KindArg::Failed => Kind::Failed,
            }),
            queue: self.queue.clone(),
            connection: self.connection.clone(),
            reason: self.reason.clone(),
            subscriber: self.subscriber.clone(),
            event: self.event.clone(),
        }
    }
}

/// Asks and prints.
pub(crate) fn run(args: &Args) -> Exit {
    place::run(&args.place, Needs::Deliveries, async |opened: &Opened| answer(args, &opened.operator).await)
}

async fn answer(args: &Args, operator: &Operator) -> Result<Exit, OperatorError> {
    let filter = args.which.filter();
    match &args.command {
        None | Some(Command::List) => {
            let limit = args.which.limit.unwrap_or(LIMIT_DEFAULT);
            let (items, more) = operator.list(&filter, limit as usize).await?;
            if args.place.json {
                output::line(&json!({"items": items, "more": more}).to_string());
            } else {
                view::list(&items, more);
                view::dead_letters(&dead_letters(operator, &filter).await);
            }
            Ok(Exit::Done)
        }
        Some(Command::Show { id, body }) => {
            if ItemId::parse(id).is_none() {
                let help = if id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    "it is the id of a queue's message: `jadpo queues dead-letters NAME` lists those that died"
                } else {
                    "an id is p and a number, or d, a number, a dot and a subscriber: p12, d34.ledger"
                };
                return Err(OperatorError::input(format!("`{id}` is no id"), Some(help)));
            }
            let item = operator.show(id).await?;
            if *body {
                return Ok(view::body(&item));
            }
            if args.place.json {
                output::line(&json!(item).to_string());
            } else {
                view::item(&item);
            }
            Ok(Exit::Done)
        }
        Some(Command::Retry { ids, all }) => {
            if !all && filter != Filter::default() {
                return Err(OperatorError::input("a filter goes with --all, not with ids", None));
            }
            let retried = if *all { operator.retry_all(&filter).await? } else { operator.retry(ids).await? };
            if args.place.json {
                output::line(&json!({"retried": retried.retried, "unknown": retried.unknown}).to_string());
            } else {
                view::retried(&retried);
            }
            Ok(if retried.unknown.is_empty() { Exit::Done } else { Exit::Failed })
        }
    }
}

/// The dead letters of local queues, by the queue that they died in. They are no deliveries, and who looks for what
/// went wrong looks here first. A Worker has no queues of its own.
async fn dead_letters(operator: &Operator, filter: &Filter) -> Vec<(String, u64)> {
    if *filter != (Filter { queue: filter.queue.clone(), ..Filter::default() }) {
        return Vec::new();
    }
    let queues = operator.queues().await.unwrap_or_default();
    let is_meant = |queue: &&Queue| filter.queue.as_ref().is_none_or(|wanted| *wanted == queue.name);
    let counted = queues.iter().filter(is_meant).filter(|queue| queue.dead_letters > 0);
    counted.map(|queue| (queue.name.clone(), queue.dead_letters)).collect()
}
