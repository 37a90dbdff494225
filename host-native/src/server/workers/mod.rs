//! The Workers that run beside the server, as producers and consumers of its queues.
//!
//! Nothing is decided here: [`jadpo_core::push`] says which batches are due and what becomes of their messages.

mod batch;
mod declare;
mod handlers;
pub(crate) mod producers;
mod push;
mod settle;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jadpo_core::broker::BrokerError;
use jadpo_core::host::Level;
use jadpo_core::push::{Consumed, consumed, served};
use jadpo_core::schedule::Schedules;
use jadpo_core::trigger::Triggers;
use jadpo_core::workers::Worker;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

use super::{Shared, schedules};
use crate::workerd::Workerd;
pub(crate) use declare::declare;
use declare::{declare_again, declare_now, reclaim};
use push::Push;

/// The small Worker inside workerd that hands batches and occurrences on. It needs the compatibility flag
/// `service_binding_extra_handlers`, a service binding for each Worker under its name, one to itself under
/// [`DISPATCHER`], and one to the prober under [`PROBER`].
pub(crate) const DISPATCHER_JS: &str = include_str!("dispatcher.js");
/// The dispatcher's service, and its binding to itself. No Worker can be called so.
pub(crate) const DISPATCHER: &str = "jadpo:dispatcher";
/// The small Worker that looks which handlers others have. It has a service binding to each Worker of modules, and no
/// flags.
pub(crate) const PROBER_JS: &str = include_str!("prober.js");
/// The dispatcher's binding to it.
pub(crate) const PROBER: &str = "jadpo:prober";

/// How often it is looked whether one of the Workers' queues is gone.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Ended batches that wait to be settled. Past it, whoever ends waits too.
const ENDED_MAX: usize = 1_024;

/// Hands Workers the messages of their queues and the occurrences of their crons, until told to stop. Then nothing more
/// is taken, and what runs may end, for the server's grace at most.
pub(super) async fn run(shared: Shared, workerd: Workerd, stopping: watch::Receiver<bool>) {
    let (ended, endings) = mpsc::channel(ENDED_MAX);
    let (consumers, consumed) = watch::channel(Vec::new());
    let mut parts = JoinSet::new();
    parts.spawn(settle::run(shared.clone(), endings, stopping.clone()));
    parts.spawn(Push::new(shared.clone(), workerd.clone(), ended, consumed).run(stopping.clone()));
    let (app, reclaimed) = (Arc::new(shared.triggers.clone()), BTreeSet::new());
    parts.spawn(Kept { shared, workerd, app, consumers, reclaimed, not_declared: None }.keep(stopping.clone()));
    while let Some(part) = parts.join_next().await {
        // One that ended early did so by a panic, which has said why on standard error. Without it the others are none.
        if part.is_err() || !*stopping.borrow() {
            return;
        }
    }
}

/// What is kept as the Wrangler files say it.
struct Kept {
    shared: Shared,
    workerd: Workerd,
    app: Arc<Triggers>,
    /// What is consumed, for whoever takes it.
    consumers: watch::Sender<Vec<Consumed>>,
    /// Queues on which no lease of a dead server's can be.
    reclaimed: BTreeSet<String>,
    /// Why the queues of these Workers could not be made, once that is said.
    not_declared: Option<String>,
}

impl Kept {
    async fn keep(mut self, mut stopped: watch::Receiver<bool>) {
        let mut running = self.workerd.workers();
        let mut workers = running.borrow_and_update().clone();
        let mut crons = self.begin(&workers, &stopped).await;
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !*stopped.borrow() {
            tokio::select! {
                _ = stopped.changed() => break,
                Ok(()) = running.changed() => {
                    workers = running.borrow_and_update().clone();
                    crons.abort();
                    crons = self.begin(&workers, &stopped).await;
                }
                _ = looks.tick() => self.look(&workers).await,
            }
        }
        crons.abort();
    }

    /// Begins with these Workers, in place of whichever were before. Answers what runs their crons.
    async fn begin(&mut self, workers: &Arc<Vec<Worker>>, stopped: &watch::Receiver<bool>) -> JoinHandle<()> {
        let log = |event, error: String| self.shared.log(Level::Error, event, vec![("error", error.into())]);
        self.not_declared = None;
        if let Err(error) = declare_now(&self.shared.own, workers, &self.app).await {
            log("workers.not_declared", error.to_string());
            self.not_declared = Some(error.to_string());
        }
        // There are none yet when it is just starting; those that will be have been told.
        if !workers.is_empty()
            && let Err(error) = self.shared.own.set_served_workers(served(workers)).await
        {
            log("workers.not_told", error.to_string());
        }
        let consumed = consumed(workers);
        for one in &consumed {
            if !self.reclaimed.insert(one.queue.clone()) {
                continue;
            }
            if let Err(error) = reclaim(&self.shared.own, &one.queue).await {
                log("worker.not_reclaimed", error.to_string());
            }
        }
        tokio::spawn(handlers::look(self.shared.clone(), self.workerd.clone(), consumed.clone()));
        self.consumers.send_replace(consumed);
        tokio::spawn(schedules::run(self.shared.clone(), Schedules::of_workers(workers), stopped.clone()))
    }

    async fn look(&mut self, workers: &Arc<Vec<Worker>>) {
        match declare_again(&self.shared.own, workers).await {
            // A store that does not answer is told of by everything else.
            Ok(()) | Err(BrokerError::Store(_)) => {}
            Err(error) => {
                let error = Some(error.to_string());
                if self.not_declared != error {
                    self.shared.log(Level::Error, "workers.not_declared", vec![("error", error.clone().into())]);
                    self.not_declared = error;
                }
            }
        }
    }
}
