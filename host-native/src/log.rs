//! The log on standard error: one JSON object a line, the time first; or lines for a person who watches.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use jadpo_core::host::{Level, LogEntry};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::host::now_ms;

/// Whether the lines are for a person. The log is the process's, and so is this.
static FOR_PEOPLE: AtomicBool = AtomicBool::new(false);

/// From now on lines are written for a person who watches, in colours where a terminal takes them.
pub fn for_people() {
    FOR_PEOPLE.store(true, Ordering::Relaxed);
}

/// Writes a line. A log that cannot be written is no reason to stop.
pub fn write(entry: &LogEntry) {
    if FOR_PEOPLE.load(Ordering::Relaxed) {
        let _ = anstream::stderr().lock().write_all(line_for_people(entry, now_ms()).as_bytes());
        return;
    }
    let rest = entry.to_json();
    let rest = rest.strip_prefix('{').unwrap_or(&rest);
    let _ = std::io::stderr().write_all(line_of_json(rest, now_ms()).as_bytes());
}

fn line_of_json(rest: &str, at_ms: i64) -> String {
    format!("{{\"time\":\"{}\",{}\n", rfc3339(at_ms), escaped(rest))
}

/// Whether a terminal would follow a character instead of showing it: it moves the cursor, or turns what comes after it
/// to read from the other side.
pub(crate) fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The same JSON with such characters written as JSON can write any. It has no others below 0x20 but line ends, which
/// stand between its parts.
pub(crate) fn escaped(json: &str) -> Cow<'_, str> {
    let odd = |c: char| steers(c) && c >= '\u{7f}';
    if !json.contains(odd) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        // Writing to a text does not fail.
        let _ = if odd(c) { write!(text, "\\u{:04x}", u32::from(c)) } else { text.write_char(c) };
    }
    Cow::Owned(text)
}

/// A time in milliseconds since 1970 as `2026-11-30T12:00:00.000Z`.
#[must_use]
pub fn rfc3339(at_ms: i64) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_ms) * 1_000_000)
        .ok()
        .and_then(|at| at.format(&Rfc3339).ok())
        .unwrap_or_else(|| format!("{at_ms} ms"))
}

/// The time of day in UTC, what happened, and its fields: the common ones without their names, the rest with them.
fn line_for_people(entry: &LogEntry, at_ms: i64) -> String {
    let at = OffsetDateTime::from_unix_timestamp(at_ms.div_euclid(1_000)).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let mut line = format!("{DIM}{:02}:{:02}:{:02}{RESET} ", at.hour(), at.minute(), at.second());
    let colour = match entry.level {
        Level::Info => "",
        Level::Warn => YELLOW,
        Level::Error => RED,
    };
    let _ = write!(line, "{colour}{}{RESET}", entry.event);
    // The event of what a Worker logs is the same for every level.
    if entry.event == "worker.log" && entry.level != Level::Info {
        let level = if entry.level == Level::Warn { "warn" } else { "error" };
        let _ = write!(line, "  {colour}{level}{RESET}");
    }
    for (name, value) in &entry.fields {
        let text = match value {
            Value::Null => continue,
            Value::String(text) if *name == "text" => lines(text),
            Value::String(text) => one_line(text),
            other => other.to_string(),
        };
        let _ = match *name {
            "queue" | "function" | "message" | "outcome" | "url" | "worker" | "text" => write!(line, "  {text}"),
            "during" => write!(line, "  {DIM}{text}{RESET}"),
            "ms" => write!(line, "  {text} ms"),
            "error" | "why" => write!(line, "  {colour}{text}{RESET}"),
            _ => write!(line, "  {DIM}{name}{RESET} {text}"),
        };
    }
    line.push('\n');
    line
}

/// What others said, without the characters that a terminal would follow.
fn one_line(text: &str) -> String {
    text.trim_end().chars().map(|one| if steers(one) { ' ' } else { one }).collect()
}

/// What has lines, as code that threw has: each but the first below the others, and set in.
fn lines(text: &str) -> String {
    text.trim_end().split('\n').map(one_line).collect::<Vec<_>>().join("\n         ")
}

const DIM: &str = "\u{1b}[2m";
const YELLOW: &str = "\u{1b}[33m";
const RED: &str = "\u{1b}[1;31m";
const RESET: &str = "\u{1b}[0m";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_people_says_when_what_and_how_long_and_keeps_to_its_line() {
        let fields = vec![
            ("queue", "jobs".into()),
            ("function", "pay".into()),
            ("attempt", 2.into()),
            ("ms", 12.into()),
            ("status", Value::Null),
            ("error", "boom\n\u{1b}[2Jgone\u{202e}\n".into()),
        ];
        let line = line_for_people(&LogEntry { level: Level::Warn, event: "function.failed", fields }, 3_723_000);
        let plain = anstream::adapter::strip_str(&line).to_string();
        assert_eq!(plain, "01:02:03 function.failed  jobs  pay  attempt 2  12 ms  boom  [2Jgone \n");
    }

    #[test]
    fn what_a_worker_warns_of_does_not_read_as_what_it_logs() {
        let line = |level| {
            let entry = LogEntry { level, event: "worker.log", fields: vec![("text", "x".into())] };
            anstream::adapter::strip_str(&line_for_people(&entry, 0)).to_string()
        };
        let lines = [Level::Info, Level::Warn, Level::Error].map(line);
        assert_eq!(
            lines.map(|line| line.get(9..).unwrap().to_owned()),
            ["worker.log  x\n", "worker.log  warn  x\n", "worker.log  error  x\n"]
        );
    }

    #[test]
    fn a_line_of_json_steers_no_terminal_and_means_the_same() {
        let fields = vec![("error", "a\u{202e}b\u{9b}c\u{1b}".into())];
        let entry = LogEntry { level: Level::Warn, event: "function.failed", fields };
        let line = line_of_json(entry.to_json().strip_prefix('{').unwrap(), 0);
        assert!(!line.trim_end().contains(steers), "{line}");
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["error"], "a\u{202e}b\u{9b}c\u{1b}");
    }
}
