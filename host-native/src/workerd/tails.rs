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

type Handler = (String, What);

/// What was at work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Batch(String),
    Cron,
    /// By its method and path.
    Fetch(String),
}

/// How long it is kept what was thrown, where many things throw.
const THROWN_KEPT: Duration = Duration::from_secs(10);
const THROWN_MANY: usize = 100;

/// What a tail Worker hands over.
#[derive(Deserialize)]
struct Told {
    worker: String,
    during: String,
    /// The queue whose batch it was, if it was one.
    queue: Option<String>,
    /// What was at work: `queue`, `scheduled`, `fetch`, or another thing.
    #[serde(default)]
    kind: String,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    level: String,
    text: String,
    #[serde(default)]
    threw: bool,
}

impl Told {
    fn what(&self) -> Option<What> {
        match (self.kind.as_str(), &self.queue) {
            ("queue", Some(queue)) => Some(What::Batch(queue.clone())),
            ("scheduled", _) => Some(What::Cron),
            ("fetch", _) => Some(What::Fetch(self.during.clone())),
            _ => None,
        }
    }
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
            let thrown = line.threw.then(|| told.what()).flatten().map(|what| (what, text.clone().into_owned()));
            let event = if line.threw { "worker.threw" } else { "worker.log" };
            let fields = vec![
                ("worker", told.worker.as_str().into()),
                ("during", told.during.as_str().into()),
                ("text", text.into()),
            ];
            log::write(&LogEntry { level, event, fields });
            // Whoever waits for it writes a line too, and that comes after this one.
            if let Some((what, text)) = thrown {
                self.thrown.note((told.worker.clone(), what), text);
            }
        }
    }

    /// What a handler of requests threw since then, with its stack; waited for a little.
    pub(super) async fn thrown_by_fetch(&self, worker: &str, during: &str, since: Instant) -> Option<String> {
        self.thrown_by((worker.to_owned(), What::Fetch(during.to_owned())), since).await
    }

    /// What the handler of a queue's batches, or of crons if there is no queue, threw since then; waited for a little.
    pub(super) async fn thrown(&self, worker: &str, queue: Option<&str>, since: Instant) -> Option<String> {
        let what = queue.map_or(What::Cron, |queue| What::Batch(queue.to_owned()));
        let thrown = self.thrown_by((worker.to_owned(), what), since).await?;
        let first = thrown.lines().next().unwrap_or_default();
        Some(first.strip_prefix("Uncaught ").unwrap_or(first).to_owned())
    }

    async fn thrown_by(&self, of: Handler, since: Instant) -> Option<String> {
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
    fn note(&self, of: Handler, text: String) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() >= THROWN_MANY {
            last.retain(|_, (at, _)| at.elapsed() < THROWN_KEPT);
        }
        last.insert(of, (Instant::now(), text));
        drop(last);
        self.more.notify_waiters();
    }

    fn since(&self, of: &Handler, since: Instant) -> Option<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.get(of).filter(|(at, _)| *at >= since).map(|(_, text)| text.clone())
    }
}
