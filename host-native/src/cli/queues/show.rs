//! `jadpo queues show`, `pause` and `resume`.

use jadpo_core::admin::queues::Queue;
use serde_json::json;

use super::super::output::{self, Exit};
use super::super::words::{bytes, count, number, plain, span, when};
use super::list::consumer;
use crate::host::now_ms;
use crate::operator::{Operator, OperatorError};

/// Arguments of `jadpo queues show`.
#[derive(clap::Args)]
#[command(after_help = "With --json: the queue as `jadpo queues list --json` has it.")]
pub(super) struct Args {
    /// The queue
    name: String,
}

/// Arguments of `jadpo queues pause` and `resume`.
#[derive(clap::Args)]
#[command(after_help = "With --json: the queue as `jadpo queues list --json` has it.")]
pub(super) struct PauseArgs {
    /// The queue
    name: String,
}

pub(super) async fn run(args: &Args, operator: &Operator, as_json: bool) -> Result<Exit, OperatorError> {
    let queue = operator.queue(&args.name).await?;
    if as_json {
        output::line(&json!(queue).to_string());
    } else {
        fields(&queue);
    }
    Ok(Exit::Done)
}

pub(super) async fn pause(
    args: &PauseArgs,
    paused: bool,
    operator: &Operator,
    as_json: bool,
) -> Result<Exit, OperatorError> {
    let queue = operator.pause(&args.name, paused).await?;
    if as_json {
        output::line(&json!(queue).to_string());
        return Ok(Exit::Done);
    }
    let (name, waiting) = (plain(&queue.name), count(queue.messages, "message"));
    output::line(&if paused {
        format!("{name} is paused; {waiting} in it, and what is with a consumer is left there")
    } else {
        format!("{name} hands over messages again; {waiting} in it")
    });
    Ok(Exit::Done)
}

fn fields(queue: &Queue) {
    let (now_ms, settings) = (now_ms(), &queue.settings);
    let in_seconds = |seconds: u32| span(i64::from(seconds) * 1000);
    let waiting = format!(
        "{} ({} in flight, {} delayed), {}",
        number(queue.messages),
        number(queue.in_flight),
        number(queue.delayed),
        bytes(queue.bytes)
    );
    let retries = settings.max_retries;
    let deliveries = count(u64::from(retries) + 1, "time");
    let dead = match &queue.dead_letter_queue {
        Some(dead) => format!("{} in {}", number(queue.dead_letters), plain(dead)),
        None => format!("none are kept: what failed {deliveries} is deleted"),
    };
    // Each with the name under which a Wrangler file or the API sets it.
    let retried = match retries {
        0 => "never (max_retries 0)".to_owned(),
        _ => {
            let times = count(retries.into(), "time");
            let delay = in_seconds(settings.retry_delay_s);
            format!("{times} at most (max_retries), each {delay} later (retry_delay)")
        }
    };
    let visible = format!("{} for a consumer to be done (visibility_timeout_ms)", span(settings.visibility_ms.into()));
    let batches = format!(
        "{} at most (max_batch_size), after {} (max_batch_timeout)",
        settings.batch_size,
        span(settings.batch_wait_ms.into())
    );
    let side_by_side = settings.max_concurrency.map_or("as many as there may be".to_owned(), |most| most.to_string());
    for (name, value) in [
        ("queue", format!("{}{}", plain(&queue.name), if queue.paused { " (paused)" } else { "" })),
        ("messages", waiting),
        ("oldest", queue.oldest_sent_at_ms.map_or("-".to_owned(), |at_ms| when(at_ms, now_ms))),
        ("dead letters", dead),
        ("consumer", consumer(queue)),
        ("retried", retried),
        ("visibility", visible),
        ("batches", batches),
        ("side by side", format!("{side_by_side} (max_concurrency)")),
        ("sent with delay", format!("{} (delivery_delay)", in_seconds(settings.delivery_delay_s))),
        ("kept for", format!("{} (message_retention_period)", in_seconds(settings.retention_s))),
        ("made", when(queue.created_at_ms, now_ms)),
        ("changed", when(queue.modified_at_ms, now_ms)),
        ("id", plain(&queue.id)),
    ] {
        output::line(&format!("{name:>15}  {value}"));
    }
}
