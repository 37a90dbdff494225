//! `jadpo queues list`.

use jadpo_core::admin::queues::Queue;
use serde_json::json;

use super::super::output::{self, Exit};
use super::super::words::{self, bytes, count, number, plain, span};
use crate::host::now_ms;
use crate::operator::{Operator, OperatorError};

/// Arguments of `jadpo queues list`.
#[derive(clap::Args, Default)]
#[command(after_help = "\
With --json: {\"queues\": […]}, each with name, id, messages, in_flight, delayed, bytes, oldest_sent_at_ms, paused, \
dead_letter_queue, dead_letters, dead_letters_of, consumer {functions, event, http_pull, worker, worker_runs, enabled} and settings. Times are \
milliseconds since 1970.")]
pub(super) struct Args {
    /// Only queues that hold something, dead letters included
    #[arg(long)]
    busy: bool,
}

pub(super) async fn run(args: &Args, operator: &Operator, as_json: bool) -> Result<Exit, OperatorError> {
    let mut queues = operator.queues().await?;
    queues.retain(|queue| !args.busy || queue.messages + queue.dead_letters > 0);
    if as_json {
        output::line(&json!({ "queues": queues }).to_string());
        return Ok(Exit::Done);
    }
    if queues.is_empty() {
        output::line(if args.busy { "no queue holds anything" } else { "there are no queues" });
        return Ok(Exit::Done);
    }
    let header = ["queue", "messages", "in flight", "delayed", "size", "oldest", "dead letters", "state", "consumer"];
    let mut table = words::table(header);
    let now_ms = now_ms();
    for queue in &queues {
        table.add_row([
            plain(&queue.name),
            number(queue.messages),
            number(queue.in_flight),
            number(queue.delayed),
            bytes(queue.bytes),
            queue.oldest_sent_at_ms.map(|at_ms| span(now_ms - at_ms)).unwrap_or_default(),
            if queue.dead_letter_queue.is_some() { number(queue.dead_letters) } else { "-".to_owned() },
            (if queue.paused { "paused" } else { "on" }).to_owned(),
            consumer(queue),
        ]);
    }
    words::figures(&mut table, &[1, 2, 3, 4, 5, 6]);
    words::unbroken(&mut table, &[0, 4, 5]);
    output::line(&table.to_string());
    let messages: u64 = queues.iter().map(|queue| queue.messages).sum();
    output::line(&format!("{}, {}", count(queues.len() as u64, "queue"), count(messages, "message")));
    Ok(Exit::Done)
}

/// Who consumes a queue, in few words.
pub(super) fn consumer(queue: &Queue) -> String {
    let Some(consumer) = &queue.consumer else {
        return match queue.dead_letters_of.as_slice() {
            [] => "-".to_owned(),
            origins => format!("dead letters of {}", plain(&origins.join(", "))),
        };
    };
    let whom = match (&consumer.event, &consumer.worker) {
        (Some(event), _) => format!("event {}", plain(event)),
        (None, Some(worker)) if consumer.worker_runs == Some(false) => {
            format!("Worker {}, which does not run", plain(worker))
        }
        (None, Some(worker)) => format!("Worker {}", plain(worker)),
        (None, None) if consumer.http_pull => "pulled over HTTP".to_owned(),
        (None, None) => plain(&consumer.functions.join(", ")),
    };
    if consumer.enabled { whom } else { format!("{whom} (trigger disabled)") }
}
