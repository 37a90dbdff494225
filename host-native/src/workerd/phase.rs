//! Whether workerd runs, for everybody who asks something of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::link::Link;

/// How long after a connection broke it is waited for the word why.
const WHY_WAIT: Duration = Duration::from_secs(2);

/// What workerd does now.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// It starts, for the first time or again.
    Starting,
    /// It runs.
    Up(Up),
    /// It will not run again: the server ends.
    Ended,
}

/// A workerd that runs, until it does not.
#[derive(Debug, Clone)]
pub(super) struct Up {
    /// Takes batches and occurrences.
    pub(super) dispatcher: Link,
    /// Each Worker's HTTP, by the Worker's name.
    pub(super) workers: Arc<BTreeMap<String, Link>>,
    /// Why it ended, once it has: Cloudflare's word, and ours.
    pub(super) end: watch::Receiver<Option<(&'static str, String)>>,
}

impl Up {
    /// Why it ended; what is broken and did not end was broken off by the Worker.
    pub(super) async fn ended(&self) -> (&'static str, Option<String>) {
        let mut end = self.end.clone();
        match timeout(WHY_WAIT, end.wait_for(Option::is_some)).await {
            Ok(Ok(end)) => end.clone().map_or(("daemonDown", None), |(outcome, why)| (outcome, Some(why))),
            _ => ("daemonDown", None),
        }
    }
}

/// The phases as they follow each other.
#[derive(Debug, Clone)]
pub(super) struct Phases(pub(super) watch::Receiver<Phase>);

impl Phases {
    /// The workerd that runs, when it runs; why not, if it does not by then.
    pub(super) async fn up(&self, until: Instant) -> Result<Up, String> {
        let mut phases = self.0.clone();
        let settled = phases.wait_for(|phase| !matches!(phase, Phase::Starting));
        match timeout_at(until, settled).await {
            Ok(Ok(phase)) => match &*phase {
                Phase::Up(up) => Ok(up.clone()),
                _ => Err("the server ends".to_owned()),
            },
            Ok(Err(_)) => Err("the server ends".to_owned()),
            Err(_) => Err("workerd has not started in time".to_owned()),
        }
    }
}
