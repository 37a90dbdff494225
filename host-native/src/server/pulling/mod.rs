//! Queues at Cloudflare, or at another server of its API, that are read over HTTP.
//!
//! Each connection has its course, which the core decides; here its requests are made, its messages received, and its
//! waits waited. It polls by itself and not with the tick: at a tick's pace a queue would give ten messages every ten
//! seconds. The tick is the floor of its rhythm: a quiet queue is asked at least as often as the server ticks.

mod call;
mod connection;
mod spent;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jadpo_core::host::Level;
use jadpo_core::pulling::{Course, Source};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Shared;
use crate::http::Client;

/// Which connections are not ready, and why.
#[derive(Debug, Default)]
pub(super) struct Standings(Mutex<BTreeMap<String, String>>);

impl Standings {
    fn set(&self, connection: &str, not_ready: Option<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match not_ready {
            Some(why) => drop(all.insert(connection.to_owned(), why)),
            None => drop(all.remove(connection)),
        }
    }

    /// Why something is not ready, in words; `None` if all is.
    pub(super) fn not_ready(&self) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let words: Vec<String> = all.iter().map(|(name, why)| format!("connection `{name}`: {why}")).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// Begins every connection of the app that is pulled from. Each runs until told to stop.
pub(super) fn begin(shared: &Shared, stopping: &watch::Receiver<bool>, work: &mut JoinSet<()>) {
    let sources = Source::all(&shared.app.program);
    if sources.is_empty() {
        return;
    }
    let client = Client::new();
    let tick_ms = shared.options.tick_every.map(|every| u64::try_from(every.as_millis()).unwrap_or(u64::MAX));
    for source in sources {
        let source = Arc::new(source);
        let fields = vec![
            ("connection", source.connection.as_str().into()),
            ("queue", source.queue_name().into()),
            ("host", source.host().into()),
            ("becomes", source.event.as_str().into()),
        ];
        shared.log(Level::Info, "pull.started", fields);
        let course = Course::new(source, tick_ms);
        shared.pulls.set(&course.source().connection, course.not_ready(0));
        work.spawn(connection::run(shared.clone(), client.clone(), course, stopping.clone()));
    }
}
