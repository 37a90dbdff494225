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
    /// What runs in it.
    pub(super) running: Arc<watch::Sender<Running>>,
    /// Why it ended, once it has.
    pub(super) end: watch::Receiver<Option<End>>,
}

/// What runs in a workerd.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Running {
    /// Batches and requests that are not answered yet.
    asked: usize,
    /// Answers that go on: bodies that are streamed, and WebSockets.
    open: usize,
    /// How many there ever were whose asker did not wait for the answer. They may run on, and nobody sees it.
    left: u64,
}

/// Why a workerd ended.
#[derive(Debug, Clone)]
pub(super) struct End {
    /// Cloudflare's word.
    pub(super) outcome: &'static str,
    /// Ours.
    pub(super) why: String,
    /// What ran in it then.
    pub(super) running: Running,
}

/// Something that runs in a workerd, until it is dropped.
pub(super) struct Busy {
    of: Arc<watch::Sender<Running>>,
    /// How many had been left when it began.
    left_before: u64,
    is_answered: bool,
}

impl Busy {
    /// It has its answer. What comes back is to be kept for as long as that goes on.
    pub(super) fn answered(mut self) -> Open {
        self.is_answered = true;
        self.of.send_modify(|running| running.open += 1);
        Open(self.of.clone())
    }

    /// Whether it was not the only one when its workerd ended.
    pub(super) fn had_company(&self, end: &End) -> bool {
        end.running.asked > 1 || end.running.open > 0 || end.running.left > self.left_before
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let left = u64::from(!self.is_answered);
        self.of.send_modify(|running| {
            running.asked = running.asked.saturating_sub(1);
            running.left += left;
        });
    }
}

/// An answer that goes on, until it is dropped.
pub(super) struct Open(Arc<watch::Sender<Running>>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|running| running.open = running.open.saturating_sub(1));
    }
}

impl Up {
    /// Marks something that begins to run in it.
    pub(super) fn begin(&self) -> Busy {
        self.running.send_modify(|running| running.asked += 1);
        let left_before = self.running.borrow().left;
        Busy { of: self.running.clone(), left_before, is_answered: false }
    }

    /// Until nothing runs in it any more, or so long.
    pub(super) async fn is_idle(&self, limit: Duration) {
        let _ = timeout(limit, self.running.subscribe().wait_for(|running| running.asked == 0)).await;
    }

    /// As [`Up::ended`], for who does not wait long: the Worker may have broken it off itself.
    pub(super) async fn ended_soon(&self) -> (&'static str, Option<String>) {
        match timeout(WORD_WAIT, self.ended()).await {
            Ok(Some(End { outcome, why, .. })) => (outcome, Some(why)),
            Ok(None) => ("daemonDown", None),
            Err(_) => ("canceled", None),
        }
    }

    /// Why it ended; what is broken and did not end was broken off by the Worker.
    pub(super) async fn ended(&self) -> Option<End> {
        let mut end = self.end.clone();
        let ended = timeout(WHY_WAIT, end.wait_for(Option::is_some)).await;
        ended.ok()?.ok().and_then(|end| end.clone())
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
