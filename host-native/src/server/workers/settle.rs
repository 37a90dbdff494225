//! Batches that ended, settled: in groups, one settle for each queue; and what is said of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use jadpo_core::broker::{Gone, MessageId, Settle};
use jadpo_core::host::Level;
use jadpo_core::push::Handler;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep};

use super::super::Shared;

/// Batches that are settled at once, at most.
const GROUP_MAX: usize = 256;
/// How long a settle is tried again that the store does not take. What is not settled by then comes again when its
/// lease ends, which is soon after.
const TRY_AGAIN_MAX: Duration = Duration::from_secs(600);
/// The same once the server is told to stop.
const TRY_AGAIN_STOPPING: Duration = Duration::from_secs(2);
/// The pause before it is tried again.
const TRY_AGAIN_PAUSE: Duration = Duration::from_millis(250);

/// A batch that ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) queue: String,
    pub(super) settle: Settle,
    /// What is to be said of it; nothing of what reached nobody.
    pub(super) line: Option<Line>,
    /// Dropped once it is settled, for who waits for that.
    pub(super) until_settled: Option<UntilSettled>,
}

/// Counts as one among those that are not settled, until it is dropped; then somebody is told.
#[derive(Debug)]
pub(super) struct UntilSettled {
    among: Arc<AtomicUsize>,
    told: Arc<Notify>,
}

impl UntilSettled {
    pub(super) fn new(among: &Arc<AtomicUsize>, told: &Arc<Notify>) -> Self {
        among.fetch_add(1, Ordering::AcqRel);
        Self { among: among.clone(), told: told.clone() }
    }
}

impl Drop for UntilSettled {
    fn drop(&mut self) {
        self.among.fetch_sub(1, Ordering::AcqRel);
        self.told.notify_one();
    }
}

/// What is said of a batch.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) worker: String,
    pub(super) handler: Handler,
    pub(super) ids: Vec<MessageId>,
    pub(super) outcome: String,
    pub(super) error: Option<String>,
    /// How long its handler took.
    pub(super) ms: u64,
}

/// A queue's batches that are settled together.
#[derive(Default)]
struct Group {
    settle: Settle,
    /// What is said of each.
    lines: Vec<Said>,
    until_settled: Vec<UntilSettled>,
}

/// What is said of a batch, and how many of its messages became what.
struct Said {
    line: Line,
    acked: usize,
    retried: usize,
    released: usize,
}

/// Settles until nobody is left who ends anything.
pub(super) async fn run(shared: Shared, mut endings: mpsc::Receiver<Ended>, stopped: watch::Receiver<bool>) {
    let mut ended = Vec::with_capacity(GROUP_MAX);
    while endings.recv_many(&mut ended, GROUP_MAX).await > 0 {
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for Ended { queue, settle, line, until_settled } in ended.drain(..) {
            let group = groups.entry(queue).or_default();
            let Settle { acks, retries, deaths, releases, .. } = &settle;
            let (acked, retried, released) = (acks.len(), retries.len() + deaths.len(), releases.len());
            group.lines.extend(line.map(|line| Said { line, acked, retried, released }));
            group.until_settled.extend(until_settled);
            group.settle.append(settle);
        }
        join_all(groups.into_iter().map(|(queue, group)| settle_one(&shared, queue, group, &stopped))).await;
    }
}

async fn settle_one(shared: &Shared, queue: String, group: Group, stopped: &watch::Receiver<bool>) {
    let started = Instant::now();
    let Group { settle, lines, until_settled: _not_before_the_end } = group;
    loop {
        let longest = if *stopped.borrow() { TRY_AGAIN_STOPPING } else { TRY_AGAIN_MAX };
        match shared.own.settle(&queue, settle.clone()).await {
            Ok(settled) => {
                if !settled.warnings.is_empty() {
                    let fields = vec![("queue", queue.as_str().into()), ("too_late", settled.warnings.len().into())];
                    shared.log(Level::Warn, "worker.settled_late", fields);
                }
                lines.iter().for_each(|line| say(shared, &queue, line, &settled.gone));
                return;
            }
            Err(error) if error.may_pass() && started.elapsed() < longest => sleep(TRY_AGAIN_PAUSE).await,
            Err(error) => {
                let fields = vec![
                    ("queue", queue.as_str().into()),
                    ("acks", settle.acks.len().into()),
                    ("retries", (settle.retries.len() + settle.deaths.len()).into()),
                    ("releases", settle.releases.len().into()),
                    ("error", error.to_string().into()),
                ];
                shared.log(Level::Error, "worker.not_settled", fields);
                return;
            }
        }
    }
}

fn say(shared: &Shared, queue: &str, said: &Said, gone: &[Gone]) {
    let Said { line, acked, retried, released } = said;
    let dead = if gone.is_empty() {
        0
    } else {
        let ids: BTreeSet<&MessageId> = line.ids.iter().collect();
        gone.iter().filter(|gone| ids.contains(&gone.id)).count()
    };
    let mut fields = vec![
        ("worker", line.worker.as_str().into()),
        ("queue", queue.into()),
        ("messages", line.ids.len().into()),
        ("acked", (*acked).into()),
        ("retried", retried.saturating_sub(dead).into()),
        ("dead", dead.into()),
        ("outcome", line.outcome.as_str().into()),
        ("ms", line.ms.into()),
    ];
    if *released > 0 {
        fields.push(("released", (*released).into()));
    }
    fields.extend(line.error.as_deref().map(|error| ("error", error.into())));
    let event = match line.handler {
        Handler::Queue => "worker.batch",
        Handler::Scheduled => "worker.scheduled",
    };
    let level = if line.outcome == "ok" { Level::Info } else { Level::Warn };
    shared.log(level, event, fields);
}
