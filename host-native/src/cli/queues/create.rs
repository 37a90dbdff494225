//! `jadpo queues create`.

use jadpo_core::admin::queues::NewQueue;
use serde_json::json;

use super::super::output::{self, Exit};
use super::super::spans::{millis, seconds};
use super::super::words::plain;
use crate::operator::{Operator, OperatorError};

/// Arguments of `jadpo queues create`. What is not given is the broker's default.
#[derive(clap::Args)]
#[command(after_help = "\
Lengths of time are written 30s, 5m, 2h, 4d, or in seconds. A queue that an app declares is made when the app starts, \
so nothing needs to be made by hand for it. If there is no store yet, it is made.

Examples:
  jadpo queues create jobs --max-receives 3 --dead-letter-queue jobs-dead
  jadpo queues create slow --visibility 10m --retention 14d

With --json: the queue as `jadpo queues list --json` has it.")]
pub(super) struct Args {
    /// Its name: lowercase letters, digits and dashes, 63 at most
    name: String,
    /// Deliveries before a message is dead-lettered, 1 to 101 [default: 4]
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(1..=101))]
    max_receives: Option<u32>,
    /// Where messages go that were delivered so often; without one they are deleted then
    #[arg(long, value_name = "QUEUE")]
    dead_letter_queue: Option<String>,
    /// How long a consumer may take for a message before it is handed over again [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = millis)]
    visibility: Option<u32>,
    /// How long a message is kept, 1m to 14d [default: 4d]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    retention: Option<u32>,
    /// How long a message waits that is sent without a delay [default: 0]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    delay: Option<u32>,
    /// How long a message waits that a consumer gives back [default: 0]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    retry_delay: Option<u32>,
    /// Messages handed over at once, 1 to 100 [default: 10]
    #[arg(long, value_name = "MESSAGES")]
    batch_size: Option<u32>,
    /// How long to wait for a batch to fill, up to 1m [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = millis)]
    batch_wait: Option<u32>,
    /// Batches handed over side by side, 1 to 250
    #[arg(long, value_name = "BATCHES")]
    concurrency: Option<u32>,
    /// Let it be pulled over HTTP
    #[arg(long)]
    http_pull: bool,
    /// Hand over nothing until it is resumed
    #[arg(long)]
    paused: bool,
}

pub(super) async fn run(args: &Args, operator: &Operator, as_json: bool) -> Result<Exit, OperatorError> {
    let new = NewQueue {
        name: args.name.clone(),
        delivery_delay_s: args.delay,
        retention_s: args.retention,
        batch_size: args.batch_size,
        batch_wait_ms: args.batch_wait,
        max_retries: args.max_receives.map(|times| times - 1),
        retry_delay_s: args.retry_delay,
        visibility_ms: args.visibility,
        max_concurrency: args.concurrency,
        dead_letter_queue: args.dead_letter_queue.clone(),
        paused: args.paused,
        http_pull: args.http_pull,
    };
    let queue = operator.create(&new).await?;
    if as_json {
        output::line(&json!(queue).to_string());
    } else {
        let name = plain(&queue.name);
        output::line(&format!("there is a queue {name} now; send to it: jadpo queues send {name} BODY"));
    }
    Ok(Exit::Done)
}
