//! The log: one JSON object a line on standard error, the time first.

use std::io::Write;

use jadpo_core::host::LogEntry;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::host::now_ms;

/// Writes a line. A log that cannot be written is no reason to stop.
pub fn write(entry: &LogEntry) {
    let rest = entry.to_json();
    let rest = rest.strip_prefix('{').unwrap_or(&rest);
    let line = format!("{{\"time\":\"{}\",{rest}\n", rfc3339(now_ms()));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// A time in milliseconds since 1970 as `2026-11-30T12:00:00.000Z`.
#[must_use]
pub fn rfc3339(at_ms: i64) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_ms) * 1_000_000)
        .ok()
        .and_then(|at| at.format(&Rfc3339).ok())
        .unwrap_or_else(|| format!("{at_ms} ms"))
}
