//! What ended, settled: in groups, one settle for each queue, and the triggers' last runs along with them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use jadpo_core::broker::{Lease, Reason, Retry, Run, RunOutcome, Settle, Taken};
use jadpo_core::host::Level;
use jadpo_core::trigger::Conclusion;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::super::{Shared, immediate};
use super::attempt::attempt;
use super::lane::Lane;
use crate::host::now_ms;

/// Endings that are settled at once, at most.
const GROUP_MAX: usize = 512;
/// How long a settle is tried again that the store does not take. What was done and is not settled by then comes again
/// when its lease ends.
const TRY_AGAIN_MAX: Duration = Duration::from_secs(20);
/// The pause before it is tried again.
const TRY_AGAIN_PAUSE: Duration = Duration::from_millis(250);

/// A message whose attempt ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) queue: String,
    pub(super) end: End,
    /// The trigger's run that it was, if it was one.
    pub(super) run: Option<(String, Run)>,
}

/// What becomes of it.
#[derive(Debug)]
pub(super) enum End {
    /// It is done.
    Done(Lease),
    /// It comes again, or is given up. How long it stays hidden is known when it is settled.
    Again { retry: Retry, lane: Arc<Lane>, taken_at: Instant },
    /// It comes again, and this was no attempt.
    NotStarted { lease: Lease, progress: Option<String> },
    /// As its answers say.
    Settle(Settle),
}

/// Handles a message by its queue's functions. Whether it was broken off and is left to its lease.
pub(super) async fn handle(
    shared: &Shared,
    lane: Arc<Lane>,
    taken: Taken,
    taken_at: Instant,
    ended: &mpsc::Sender<Ended>,
    mut cut: watch::Receiver<bool>,
) -> bool {
    if shared.options.immediate {
        // Whatever brought it here, no window is waited for.
        match immediate::to_the_end(shared, lane.queue(), taken).await {
            Ok(told) if told.get("outcome").is_some_and(|outcome| *outcome == immediate::WAITS) => lane.rest(),
            Ok(_) => {}
            Err(error) => {
                let fields = vec![("queue", lane.queue().into()), ("error", error.to_string().into())];
                shared.log(Level::Error, "drain.not_settled", fields);
            }
        }
        return false;
    }
    let Taken { lease, message } = taken;
    let attempted = tokio::select! {
        attempted = attempt(shared, lane.queue(), &message) => attempted,
        // Dropping the attempt has killed its programs.
        () = is_cut(&mut cut) => {
            let is_over = shared.triggers.ends_when_cut(lane.queue(), &message);
            if is_over {
                let end = End::Settle(Settle { releases: vec![lease], ..Settle::default() });
                let _ = ended.send(Ended { queue: lane.queue().to_owned(), end, run: None }).await;
            }
            return !is_over;
        }
    };
    let (trigger, queue) = (lane.trigger.clone(), lane.queue().to_owned());
    let mut run = Run { at_ms: now_ms(), outcome: RunOutcome::Done, error: None, message: Some(message.id) };
    let end = match attempted.conclusion {
        Conclusion::Done => End::Done(lease),
        Conclusion::Again { progress, error } => {
            run.outcome = RunOutcome::Failed;
            run.error = Some(error.clone());
            let retry = Retry { lease, delay_ms: None, reason: Reason::Failed, error: Some(error), progress };
            End::Again { retry, lane, taken_at }
        }
        Conclusion::NotStarted { progress, .. } => {
            // First, so that the message is not taken again at once.
            lane.rest();
            let end = End::NotStarted { lease, progress };
            let _ = ended.send(Ended { queue, end, run: None }).await;
            return false;
        }
    };
    // The settler outlives whoever sends to it.
    let _ = ended.send(Ended { queue, end, run: Some((trigger, run)) }).await;
    false
}

/// Waits until what runs is broken off.
async fn is_cut(cut: &mut watch::Receiver<bool>) {
    if cut.wait_for(|is_cut| *is_cut).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Settles until nobody is left who ends anything.
pub(super) async fn run(shared: Shared, mut endings: mpsc::Receiver<Ended>) {
    let mut group = Vec::with_capacity(GROUP_MAX);
    while endings.recv_many(&mut group, GROUP_MAX).await > 0 {
        let mut settles: BTreeMap<String, Settle> = BTreeMap::new();
        let mut runs = BTreeMap::new();
        for Ended { queue, end, run } in group.drain(..) {
            let settle = settles.entry(queue).or_default();
            match end {
                End::Done(lease) => settle.acks.push(lease),
                End::Again { retry, lane, taken_at } => {
                    let taken_ms_ago = u64::try_from(taken_at.elapsed().as_millis()).unwrap_or(u64::MAX);
                    let delay_ms = Some(lane.declared.again_in_ms(taken_ms_ago));
                    settle.retries.push(Retry { delay_ms, ..retry });
                }
                End::NotStarted { lease, progress } => {
                    settle.releases.push(lease);
                    settle.progress.extend(progress.map(|progress| (lease, progress)));
                }
                End::Settle(all) => settle.append(all),
            }
            runs.extend(run);
        }
        let settles = settles.into_iter().map(|(queue, settle)| settle_one(&shared, queue, settle));
        tokio::join!(join_all(settles), record(&shared, runs));
    }
}

async fn record(shared: &Shared, runs: BTreeMap<String, Run>) {
    if runs.is_empty() {
        return;
    }
    if let Err(error) = shared.own.record_runs(runs.into_iter().collect()).await {
        shared.log(Level::Warn, "trigger.not_recorded", vec![("error", error.to_string().into())]);
    }
}

async fn settle_one(shared: &Shared, queue: String, settle: Settle) {
    let started = Instant::now();
    let (done, again, released) = (settle.acks.len(), settle.retries.len(), settle.releases.len());
    let fields = |more: Vec<(&'static str, Value)>| {
        let mut fields = vec![("queue", queue.as_str().into()), ("done", done.into()), ("again", again.into())];
        fields.extend((released > 0).then(|| ("released", released.into())));
        fields.extend(more);
        fields
    };
    loop {
        match shared.own.settle(&queue, settle.clone()).await {
            Ok(settled) => {
                if !settled.warnings.is_empty() {
                    let late = fields(vec![("too_late", settled.warnings.len().into())]);
                    shared.log(Level::Warn, "drain.settled_late", late);
                }
                if !shared.options.tells_every_call {
                    shared.log(Level::Info, "drain.settled", fields(vec![]));
                }
                return;
            }
            Err(error) if error.may_pass() && started.elapsed() < TRY_AGAIN_MAX => sleep(TRY_AGAIN_PAUSE).await,
            Err(error) => {
                shared.log(Level::Error, "drain.not_settled", fields(vec![("error", error.to_string().into())]));
                return;
            }
        }
    }
}
