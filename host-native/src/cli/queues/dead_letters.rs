//! `jadpo queues dead-letters`.

use super::super::output::{self, Exit};
use super::super::words::{self, brief, count, plain, span};
use super::peek;
use crate::host::now_ms;
use crate::operator::{Looked, Operator, OperatorError};

/// Characters of an error and of a body in a table.
const ERROR_SHOWN_CHARS: usize = 200;
const PREVIEW_SHOWN_CHARS: usize = 60;

/// Arguments of `jadpo queues dead-letters`.
#[derive(clap::Args)]
#[command(after_help = "\
A message dies when it was delivered max_receives times and never done. It waits in the queue's dead-letter queue until \
it is put back (jadpo queues redrive NAME) or removed (jadpo queues remove NAME-dead ID, or purge NAME-dead for all).

With --json: {\"queue\", \"messages\": […], \"more\"}, where queue is the dead-letter queue, and each message has id, \
ref, sent_at_ms, content_type, bytes, preview, body_base64, meta and dead {queue, attempts, first_at_ms, died_at_ms, \
reason, error}.")]
pub(super) struct Args {
    /// The queue that they died in, or the dead-letter queue itself
    name: String,
    /// List so many at most
    #[arg(long, value_name = "MESSAGES", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Show all that is known of each, and its whole body
    #[arg(long)]
    full: bool,
}

pub(super) async fn run(args: &Args, operator: &Operator, as_json: bool) -> Result<Exit, OperatorError> {
    let looked = operator.dead_letters(&args.name, args.limit as usize, args.full || as_json).await?;
    if as_json {
        peek::print_json(&looked);
    } else if looked.messages.is_empty() {
        output::line(&format!("{} has no dead letters", plain(&args.name)));
    } else if args.full {
        looked.messages.iter().for_each(peek::whole);
    } else {
        list(&args.name, &looked);
    }
    Ok(Exit::Done)
}

/// Few columns of more lines: an id is to be copied whole, and the error is to have the room.
fn list(name: &str, looked: &Looked) {
    let mut table = words::table(["id, and when it died", "in, and of what", "error", "body"]);
    let now_ms = now_ms();
    for message in &looked.messages {
        let (died, what, error) = match &message.dead {
            Some(dead) => (
                format!("{} ago", span(now_ms - dead.died_at_ms)),
                format!("{}\n{}, {}", plain(&dead.queue), plain(&dead.reason), count(dead.attempts.into(), "attempt")),
                brief(dead.error.as_deref().unwrap_or_default(), ERROR_SHOWN_CHARS),
            ),
            // It was sent here like to any other queue.
            None => ("did not die".to_owned(), "sent here".to_owned(), String::new()),
        };
        let body = brief(&message.preview, PREVIEW_SHOWN_CHARS);
        table.add_row([format!("{}\n{died}", plain(&message.id)), what, error, body]);
    }
    words::unbroken(&mut table, &[0, 1]);
    output::line(&table.to_string());
    let (shown, name) = (count(looked.messages.len() as u64, "dead letter"), plain(name));
    let more = if looked.more { "; --limit shows more" } else { "" };
    output::line(&format!("{shown}{more}; whole bodies: --full; to put them back: jadpo queues redrive {name}"));
}
