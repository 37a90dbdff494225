//! `jadpo queues peek`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jadpo_core::admin::queues::{PeekedMessage, State};
use serde_json::json;

use super::super::output::{self, Exit};
use super::super::words::{self, brief, bytes, count, plain, shortened, span, when};
use crate::host::now_ms;
use crate::log::rfc3339;
use crate::operator::{Looked, Operator, OperatorError};

/// Characters of a body in a table.
const PREVIEW_SHOWN_CHARS: usize = 80;
/// Characters of a body with `--full`; as JSON it is all there.
const BODY_SHOWN_CHARS: usize = 4_000;

/// Arguments of `jadpo queues peek`.
#[derive(clap::Args)]
#[command(after_help = "\
Nothing is taken and no attempt is counted. Those that can be taken now come first, then the others by when they can.

With --json: {\"queue\", \"messages\": […], \"more\"}, each message with id, ref, state (ready, in_flight, delayed), \
for_ms, sent_at_ms, attempts, content_type, bytes and preview; with --full also body_base64 and meta.")]
pub(super) struct Args {
    /// The queue
    name: String,
    /// Look at so many messages at most
    #[arg(long, value_name = "MESSAGES", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Show all that is known of each, and its whole body
    #[arg(long)]
    full: bool,
}

pub(super) async fn run(args: &Args, operator: &Operator, as_json: bool) -> Result<Exit, OperatorError> {
    let looked = operator.peek(&args.name, args.limit as usize, args.full).await?;
    if as_json {
        print_json(&looked);
    } else if looked.messages.is_empty() {
        output::line(&format!("{} is empty", plain(&looked.queue)));
    } else if args.full {
        looked.messages.iter().for_each(whole);
    } else {
        list(&looked);
    }
    Ok(Exit::Done)
}

pub(super) fn print_json(looked: &Looked) {
    let Looked { queue, messages, more } = looked;
    output::line(&json!({"queue": queue, "messages": messages, "more": more}).to_string());
}

fn list(looked: &Looked) {
    let mut table = words::table(["id", "state", "sent", "attempts", "type", "size", "body"]);
    let now_ms = now_ms();
    for message in &looked.messages {
        table.add_row([
            plain(&message.id),
            state(message),
            format!("{} ago", span(now_ms - message.sent_at_ms)),
            message.attempts.to_string(),
            plain(&message.content_type),
            bytes(message.bytes),
            brief(&message.preview, PREVIEW_SHOWN_CHARS),
        ]);
    }
    words::figures(&mut table, &[3, 5]);
    words::unbroken(&mut table, &[0, 2, 5]);
    output::line(&table.to_string());
    let shown = count(looked.messages.len() as u64, "message");
    output::line(&if looked.more {
        format!("the first {shown}; --limit shows more, --full whole bodies")
    } else {
        format!("{shown}; --full shows whole bodies")
    });
}

fn state(message: &PeekedMessage) -> String {
    let time = message.for_ms.map(|ms| span(i64::try_from(ms).unwrap_or(i64::MAX))).unwrap_or_default();
    match message.state {
        State::Ready => "ready".to_owned(),
        State::InFlight => format!("in flight, {time} left"),
        State::Delayed => format!("delayed, {time} left"),
    }
}

/// Everything about one message.
pub(super) fn whole(message: &PeekedMessage) {
    let now_ms = now_ms();
    let mut fields = vec![
        ("id", message.id.clone()),
        ("state", state(message)),
        ("sent", when(message.sent_at_ms, now_ms)),
        ("attempts", message.attempts.to_string()),
    ];
    if let Some(dead) = &message.dead {
        fields.push(("died", when(dead.died_at_ms, now_ms)));
        fields.push(("in the queue", dead.queue.clone()));
        fields.push((
            "after",
            format!("{}, the first at {}", count(dead.attempts.into(), "attempt"), rfc3339(dead.first_at_ms)),
        ));
        fields.push(("reason", dead.reason.clone()));
        fields.push(("error", dead.error.clone().unwrap_or_default()));
    }
    fields.extend(message.progress.clone().map(|progress| ("done already", progress)));
    fields.extend(message.meta.clone().map(|meta| ("kept with it", meta)));
    fields.push(("body", format!("{}, {}", message.content_type, bytes(message.bytes))));
    for (name, value) in fields {
        output::line(&format!("{name:>13}  {}", plain(&value)));
    }
    let body = message.body_base64.as_deref().and_then(|body| BASE64.decode(body).ok()).unwrap_or_default();
    let text = if message.content_type == "v8" {
        output::line(&format!("{:>13}  a value that only a Worker reads, so here in base64", ""));
        BASE64.encode(&body)
    } else {
        String::from_utf8_lossy(&body).into_owned()
    };
    let shown = shortened(&text, BODY_SHOWN_CHARS);
    for line in shown.lines() {
        output::line(&plain(line));
    }
    if shown.len() < text.len() {
        output::line("(--json gives all of it)");
    }
    output::line("");
}
