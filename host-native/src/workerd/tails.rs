//! What Workers log, as lines of our log, each with the event that it belongs to.

use jadpo_core::host::{Level, LogEntry};
use serde::Deserialize;

use super::maps::Maps;
use crate::log;

/// What the tail Worker hands over.
#[derive(Deserialize)]
struct Told {
    worker: String,
    during: String,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    level: String,
    text: String,
    #[serde(default)]
    threw: bool,
}

/// Writes what was handed over. What cannot be read is our own mistake, and is shown as it is.
pub(super) fn tell(body: &[u8], maps: &Maps) {
    let told: Told = match serde_json::from_slice(body) {
        Ok(told) => told,
        Err(error) => {
            let text = String::from_utf8_lossy(body).into_owned();
            let fields = vec![("error", error.to_string().into()), ("text", text.into())];
            return log::write(&LogEntry { level: Level::Warn, event: "worker.log", fields });
        }
    };
    for line in told.lines {
        let level = match line.level.as_str() {
            "error" => Level::Error,
            "warn" => Level::Warn,
            _ => Level::Info,
        };
        let event = if line.threw { "worker.threw" } else { "worker.log" };
        let fields = vec![
            ("worker", told.worker.as_str().into()),
            ("during", told.during.as_str().into()),
            ("text", maps.mapped(&told.worker, &line.text).into()),
        ];
        log::write(&LogEntry { level, event, fields });
    }
}
