//! How items look on a terminal.

use std::io::Write;

use crate::host::now_ms;
use crate::log::rfc3339;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use comfy_table::{ContentArrangement, Table, presets};
use jadpo_core::admin::{Item, Kind, Retried};

use super::super::output::{self, Exit};

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
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["id", "reason", "from", "for", "tries", "since", "what is wrong"]);
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
            ago(now_ms() - item.since_ms),
            plain(&shortened(&item.detail, DETAIL_SHOWN_CHARS)),
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
    fields.push(("since", format!("{} ({} ago)", rfc3339(item.since_ms), ago(now_ms() - item.since_ms))));
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

/// Text that somebody sent, with what could steer a terminal made visible.
fn plain(text: &str) -> String {
    let steers = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().flat_map(|c| if steers(c) { c.escape_unicode().collect::<Vec<_>>() } else { vec![c] }).collect()
}

fn shortened(text: &str, chars_max: usize) -> String {
    let mut short: String = text.chars().take(chars_max).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// A span of time in its largest unit.
fn ago(span_ms: i64) -> String {
    let seconds = span_ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_is_made_visible() {
        assert_eq!(plain("a\u{1b}[31mred\u{202e}"), "a\\u{1b}[31mred\\u{202e}");
        assert_eq!(plain("Größe 5 ✓"), "Größe 5 ✓");
    }

    #[test]
    fn spans_are_told_in_their_largest_unit() {
        let told: Vec<String> = [-5, 59_999, 60_000, 7_200_000, 172_800_000].map(ago).into();
        assert_eq!(told, ["0 s", "59 s", "1 min", "2 h", "2 d"]);
    }
}
