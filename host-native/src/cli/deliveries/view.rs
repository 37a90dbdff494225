//! How items look on a terminal.

use std::io::{ErrorKind, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jadpo_core::admin::{Item, Kind, Retried};

use super::super::output::{self, Exit};
use super::super::words::{self, brief, count, plain, shortened, span};
use crate::host::now_ms;
use crate::log::rfc3339;

/// Characters of a body that `show` prints; `--body` gives all of it.
const BODY_SHOWN_CHARS: usize = 2_000;
/// Characters of a reason in the table.
const DETAIL_SHOWN_CHARS: usize = 160;

/// A table, one row an item.
pub(super) fn list(items: &[Item], more: bool) {
    if items.is_empty() {
        output::line("nothing is parked and no delivery has failed");
        return;
    }
    let mut table = words::table(["id", "reason", "from", "for", "tries", "since", "what is wrong"]);
    for item in items {
        let from = item.queue.as_deref().unwrap_or(&item.connection);
        let whom = match (&item.event, &item.subscriber) {
            (Some(event), Some(subscriber)) => format!("{event} -> {subscriber}"),
            (Some(event), None) => event.clone(),
            (None, _) => String::new(),
        };
        let marked = if item.retry_at_ms.is_some() { " (to be retried)" } else { "" };
        table.add_row([
            plain(&item.id),
            format!("{}{marked}", plain(&item.reason)),
            plain(from),
            plain(&whom),
            item.attempts.to_string(),
            span(now_ms() - item.since_ms),
            brief(&item.detail, DETAIL_SHOWN_CHARS),
        ]);
    }
    output::line(&table.to_string());
    let count = items.len();
    output::line(&if more {
        format!("{count} items, and there are more: --limit {} shows them", count * 10)
    } else {
        format!("{count} {}", if count == 1 { "item" } else { "items" })
    });
    output::line("a body: jadpo deliveries show ID; once the cause is mended: jadpo deliveries retry ID");
}

/// One item: its fields, then its body as far as it fits.
pub(super) fn item(item: &Item) {
    let kind = match item.kind {
        Kind::Parked => "a parked message",
        Kind::Failed => "a failed delivery",
    };
    let mut fields: Vec<(&str, String)> = vec![
        ("id", format!("{} ({kind})", item.id)),
        ("reason", item.reason.clone()),
        ("what is wrong", item.detail.clone()),
    ];
    let optional =
        [("queue", &item.queue), ("event", &item.event), ("key", &item.key), ("subscriber", &item.subscriber)];
    fields.push(("connection", item.connection.clone()));
    fields.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    fields.push(("message id", item.message_id.clone()));
    fields.push(("tries", item.attempts.to_string()));
    fields.push(("sent", rfc3339(item.sent_at_ms)));
    fields.push(("since", format!("{} ({} ago)", rfc3339(item.since_ms), span(now_ms() - item.since_ms))));
    if let Some(at) = item.retry_at_ms {
        fields.push(("to be retried", format!("asked for at {}; the next tick takes it up", rfc3339(at))));
    }
    for (name, value) in fields {
        output::line(&format!("{name:>14}  {}", plain(&value)));
    }
    let bytes = bytes_of(item);
    let text = String::from_utf8_lossy(&bytes);
    let shown = shortened(&text, BODY_SHOWN_CHARS);
    let nature = if item.body_base64.is_some() { "bytes, not text" } else { "bytes" };
    let rest = if shown.len() < text.len() { "; --body gives all of it" } else { "" };
    output::line(&format!("{:>14}  {} {nature}{rest}\n", "body", item.body_bytes));
    for line in shown.lines() {
        output::line(&plain(line));
    }
}

/// The body alone, byte for byte.
pub(super) fn body(item: &Item) -> Exit {
    let mut out = std::io::stdout().lock();
    match out.write_all(&bytes_of(item)).and_then(|()| out.flush()) {
        Ok(()) => Exit::Done,
        // Whoever closed it has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => {
            output::error(&format!("the body cannot be written: {error}"), None);
            Exit::Failed
        }
    }
}

/// What a retry came to.
pub(super) fn retried(retried: &Retried) {
    let count = retried.retried;
    output::line(&format!("{count} {} taken up by the next tick", if count == 1 { "item is" } else { "items are" }));
    if !retried.unknown.is_empty() {
        let ids: Vec<String> = retried.unknown.iter().map(|id| plain(id)).collect();
        let what = format!("nothing parked or failed has the id {}", ids.join(", "));
        output::error(&what, Some("`jadpo deliveries` lists what there is"));
    }
}

fn bytes_of(item: &Item) -> Vec<u8> {
    match (&item.body, &item.body_base64) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(encoded)) => BASE64.decode(encoded).unwrap_or_default(),
        (None, None) => Vec::new(),
    }
}

/// Where dead letters of local queues are to be found.
pub(super) fn dead_letters(queues: &[(String, u64)]) {
    for (queue, letters) in queues {
        let letters = count(*letters, "dead letter");
        output::line(&format!("the queue {queue} has {letters}: jadpo queues dead-letters {queue}"));
    }
}
