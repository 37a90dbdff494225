//! What Workers log, as lines of our log, each with the event that it belongs to; and what their handlers threw last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jadpo_core::host::{Level, LogEntry};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::maps::Maps;
use crate::log;

/// How long what a handler threw is waited for: it comes by another road than how the handler ended.
const THROWN_WAIT: Duration = Duration::from_millis(200);

/// What the tail Workers hand over. Clones mean the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Tails {
    pub(super) maps: Maps,
    thrown: Arc<Thrown>,
}

/// What each handler threw last, by its Worker and its queue, and when.
#[derive(Debug, Default)]
struct Thrown {
    last: Mutex<BTreeMap<Handler, (Instant, String)>>,
    more: Notify,
}

type Handler = (String, Option<String>);

/// What a tail Worker hands over.
#[derive(Deserialize)]
struct Told {
    worker: String,
    during: String,
    /// The queue whose batch it was, if it was one.
    queue: Option<String>,
    /// Whether a handler of batches or of crons was at work.
    #[serde(default)]
    hands: bool,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    level: String,
    text: String,
    #[serde(default)]
    threw: bool,
}

impl Tails {
    /// Writes what was handed over. What cannot be read is our own mistake, and is shown as it is.
    pub(super) fn tell(&self, body: &[u8]) {
        let told: Told = match serde_json::from_slice(body) {
            Ok(told) => told,
            Err(error) => {
                let text = String::from_utf8_lossy(body).into_owned();
                let fields = vec![("error", error.to_string().into()), ("text", text.into())];
                return log::write(&LogEntry { level: Level::Warn, event: "worker.log", fields });
            }
        };
        for line in &told.lines {
            let level = match line.level.as_str() {
                "error" => Level::Error,
                "warn" => Level::Warn,
                _ => Level::Info,
            };
            let text = self.maps.mapped(&told.worker, &line.text);
            if line.threw && told.hands {
                self.thrown.note((told.worker.clone(), told.queue.clone()), &text);
            }
            let event = if line.threw { "worker.threw" } else { "worker.log" };
            let fields = vec![
                ("worker", told.worker.as_str().into()),
                ("during", told.during.as_str().into()),
                ("text", text.into()),
            ];
            log::write(&LogEntry { level, event, fields });
        }
    }

    /// What the handler of a queue's batches, or of crons if there is no queue, threw since then; waited for a little.
    pub(super) async fn thrown(&self, worker: &str, queue: Option<&str>, since: Instant) -> Option<String> {
        let of = (worker.to_owned(), queue.map(str::to_owned));
        let look = async {
            loop {
                let more = self.thrown.more.notified();
                tokio::pin!(more);
                more.as_mut().enable();
                if let Some(thrown) = self.thrown.since(&of, since) {
                    return thrown;
                }
                more.await;
            }
        };
        timeout(THROWN_WAIT, look).await.ok()
    }
}

impl Thrown {
    fn note(&self, of: Handler, text: &str) {
        let first = text.lines().next().unwrap_or_default();
        let first = first.strip_prefix("Uncaught ").unwrap_or(first).to_owned();
        self.last.lock().unwrap_or_else(PoisonError::into_inner).insert(of, (Instant::now(), first));
        self.more.notify_waiters();
    }

    fn since(&self, of: &Handler, since: Instant) -> Option<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.get(of).filter(|(at, _)| *at >= since).map(|(_, text)| text.clone())
    }
}
