//! Whether workerd runs, for everybody who asks something of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::link::Link;

/// How long after a connection broke it is waited for the word why.
const WHY_WAIT: Duration = Duration::from_secs(2);

/// How long where it may be that the Worker alone broke it off.
const WORD_WAIT: Duration = Duration::from_millis(200);

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
    /// Each Worker's HTTP, in the order in which the Workers were given.
    pub(super) workers: Arc<Vec<Link>>,
    /// How many batches and requests run in it.
    pub(super) busy: Arc<watch::Sender<usize>>,
    /// Why it ended, once it has: Cloudflare's word, and ours.
    pub(super) end: watch::Receiver<Option<(&'static str, String)>>,
}

/// Something that runs in a workerd, until it is dropped.
pub(super) struct Busy(Arc<watch::Sender<usize>>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Up {
    /// Marks something that begins to run in it.
    pub(super) fn begin(&self) -> Busy {
        self.busy.send_modify(|count| *count += 1);
        Busy(self.busy.clone())
    }

    /// Until nothing runs in it any more, or so long.
    pub(super) async fn is_idle(&self, limit: Duration) {
        let _ = timeout(limit, self.busy.subscribe().wait_for(|count| *count == 0)).await;
    }

    /// As [`Up::ended`], for who does not wait long: the Worker may have broken it off itself.
    pub(super) async fn ended_soon(&self) -> (&'static str, Option<String>) {
        timeout(WORD_WAIT, self.ended()).await.unwrap_or(("canceled", None))
    }

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
