//! Keeps one workerd running: the first, the next after a crash or a handler that holds it, and the one of a reload.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jadpo_core::host::{Level, LogEntry};
use jadpo_core::workers::Worker;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::changes;
use super::child::Nursery;
use super::config::{self, Places};
use super::failure::Failure;
use super::maps::Maps;
use super::phase::Phase;
use super::private_folder;
use super::process::Process;
use super::project::Project;
use crate::host::now_ms;
use crate::log;

/// How long to wait before workerd is started again: the first time, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// One that has run so long has not failed at its start.
const WELL: Duration = Duration::from_secs(10);
/// How long a handler may hold the thread: Cloudflare's limit of CPU time for an invocation.
const HANG_MAX: Duration = Duration::from_secs(30);
/// How long batches that run have to end when the code changes.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// How long what ended has for the lines that it logged last.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// What starts workerds, one after another.
pub(super) struct Keeper {
    pub(super) nursery: Nursery,
    pub(super) program: PathBuf,
    /// A folder that is ours alone.
    pub(super) scratch: PathBuf,
    /// Where Durable Objects are kept.
    pub(super) objects: PathBuf,
    pub(super) stands_in: bool,
    pub(super) started: u32,
    pub(super) maps: Maps,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) workers: watch::Sender<Arc<Vec<Worker>>>,
    pub(super) made: Made,
}

/// When what runs was made, in milliseconds since 1970. Clones mean the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Made(Arc<AtomicI64>);

impl Made {
    fn now(&self) {
        self.0.store(now_ms(), Ordering::Relaxed);
    }
}

/// What ends the quiet run of a workerd.
enum Turn {
    Ended(&'static str, String),
    Changed(Vec<Project>),
    Stop,
}

impl Keeper {
    /// Our own service's socket.
    pub(super) fn inner(&self) -> PathBuf {
        self.scratch.join("inner")
    }

    /// Starts a workerd for these Workers, beside any that runs.
    pub(super) async fn start(&mut self, projects: &[Project]) -> Result<Process, Failure> {
        self.started += 1;
        let folder = self.scratch.join(self.started.to_string());
        let objects = &self.objects;
        let failed =
            |error: std::io::Error| Failure::failed(format!("the files of workerd cannot be written: {error}"), "");
        private_folder(&folder).map_err(failed)?;
        if projects.iter().any(Project::has_objects) {
            private_folder(objects).map_err(|error| {
                let what = format!("the folder of Durable Objects cannot be made: {}: {error}", objects.display());
                Failure::failed(what, "")
            })?;
        }
        let inner = self.inner();
        let places = Places { folder: &folder, inner: &inner, objects };
        config::write(projects, &stand_ins(projects, self.stands_in), &places).map_err(failed)?;
        let process = Process::start(&self.nursery, &self.program, projects, &places).await;
        if process.is_err() {
            let _ = std::fs::remove_dir_all(&folder);
        }
        process
    }

    /// From now on everybody asks this one.
    fn show(&self, process: &Process, projects: &[Project]) {
        self.maps.set(projects);
        self.phase.send_replace(Phase::Up(process.up.clone()));
        let workers = projects.iter().map(|project| project.worker.clone()).collect();
        self.workers.send_replace(Arc::new(workers));
    }

    /// Keeps one running until `stop` says so. `changed` brings Workers that are to run instead.
    pub(super) async fn run(
        mut self,
        mut process: Process,
        mut projects: Vec<Project>,
        mut changed: mpsc::Receiver<Vec<Project>>,
        mut stop: watch::Receiver<bool>,
    ) {
        self.made.now();
        let mut pause = PAUSE_MIN / 2;
        loop {
            self.show(&process, &projects);
            let since = Instant::now();
            let hangs = process.hangs(HANG_MAX);
            let turn = tokio::select! {
                why = process.ended() => Turn::Ended("daemonDown", why),
                (outcome, why) = hangs => Turn::Ended(outcome, why),
                Some(next) = changed.recv() => Turn::Changed(next),
                () = told(&mut stop) => Turn::Stop,
            };
            let (outcome, why) = match turn {
                Turn::Ended(outcome, why) => (outcome, why),
                Turn::Changed(next) => {
                    (process, projects) = match self.reload(process, projects, next, &mut changed, &mut stop).await {
                        Some(running) => running,
                        None => return,
                    };
                    continue;
                }
                Turn::Stop => return self.finish(Some(process)).await,
            };
            self.phase.send_replace(Phase::Starting);
            say(Level::Error, "workerd.ended", vec![("outcome", outcome.into()), ("why", why.as_str().into())]);
            process.end(outcome, why).await;
            pause = if since.elapsed() > WELL { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
            (process, projects) = match self.again(projects, pause, &mut changed, &mut stop).await {
                Some(running) => running,
                None => return,
            };
        }
    }

    /// Starts one again, until that is done; `None` if the server ends before.
    async fn again(
        &mut self,
        mut projects: Vec<Project>,
        mut pause: Duration,
        changed: &mut mpsc::Receiver<Vec<Project>>,
        stop: &mut watch::Receiver<bool>,
    ) -> Option<(Process, Vec<Project>)> {
        loop {
            tokio::select! {
                () = sleep(pause) => {}
                Some(next) = changed.recv() => projects = next,
                () = told(stop) => {
                    self.finish(None).await;
                    return None;
                }
            }
            let started = tokio::select! {
                started = self.start(&projects) => started,
                () = told(stop) => {
                    self.phase.send_replace(Phase::Ended);
                    return None;
                }
            };
            match started {
                Ok(process) => {
                    say(Level::Info, "workerd.started", vec![("again", true.into())]);
                    return Some((process, projects));
                }
                Err(failure) => {
                    pause = (pause * 2).min(PAUSE_MAX);
                    let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                    let mut fields = in_fields(&failure);
                    fields.push(("again_in_ms", pause_ms.into()));
                    say(Level::Error, "workerd.not_started", fields);
                }
            }
        }
    }

    /// Lets other Workers run. Where no Durable Object is stored the new workerd is there before the old one goes, so
    /// nobody waits, and if it does not start, the old one goes on. Stored objects belong to one process at a time: then
    /// the old one goes first, and comes back if the new one does not start.
    async fn reload(
        &mut self,
        old: Process,
        projects: Vec<Project>,
        next: Vec<Project>,
        changed: &mut mpsc::Receiver<Vec<Project>>,
        stop: &mut watch::Receiver<bool>,
    ) -> Option<(Process, Vec<Project>)> {
        let since = Instant::now();
        let why = "its code was changed while it ran".to_owned();
        let has_objects = projects.iter().chain(&next).any(Project::has_objects);
        if has_objects {
            self.phase.send_replace(Phase::Starting);
            old.up.is_idle(DRAIN_MAX).await;
            sleep(LAST_WORDS).await;
            old.end("canceled", why).await;
            match self.start(&next).await {
                Ok(new) => {
                    self.reloaded((&projects, &next), since);
                    return Some((new, next));
                }
                Err(failure) => broken(&failure, &self.made),
            }
            return self.again(projects, Duration::ZERO, changed, stop).await;
        }
        match self.start(&next).await {
            Ok(new) => {
                self.show(&new, &next);
                self.reloaded((&projects, &next), since);
                tokio::spawn(async move {
                    old.up.is_idle(DRAIN_MAX).await;
                    sleep(LAST_WORDS).await;
                    old.end("canceled", why).await;
                });
                Some((new, next))
            }
            Err(failure) => {
                broken(&failure, &self.made);
                Some((old, projects))
            }
        }
    }

    /// From now on it is what runs; what is another in it is said.
    fn reloaded(&self, (old, new): (&[Project], &[Project]), since: Instant) {
        self.made.now();
        let names: Vec<&str> = new.iter().map(|project| project.worker.name.as_str()).collect();
        let ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let changes = Some(changes::between(old, new).join("; ")).filter(|changes| !changes.is_empty());
        let fields = vec![("worker", names.join(", ").into()), ("changed", changes.into()), ("ms", ms.into())];
        say(Level::Info, "worker.reloaded", fields);
    }

    async fn finish(&self, process: Option<Process>) {
        self.phase.send_replace(Phase::Ended);
        if let Some(process) = process {
            process.end("canceled", "the server ends".to_owned()).await;
        }
    }
}

/// Until it says so.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Workers that are called and are not here, if they are answered for, each with its entrypoints that are called.
fn stand_ins(projects: &[Project], stands_in: bool) -> BTreeMap<String, BTreeSet<String>> {
    let is_here = |name: &String| projects.iter().any(|project| project.worker.name == *name);
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let called = projects.iter().flat_map(|project| &project.worker.services);
    for service in called.filter(|service| stands_in && !is_here(&service.service)) {
        all.entry(service.service.clone()).or_default().extend(service.entrypoint.clone());
    }
    all
}

/// The new code does not run, and the old one goes on.
pub(super) fn broken(failure: &Failure, made: &Made) {
    let mut fields = in_fields(failure);
    let at = log::rfc3339(made.0.load(Ordering::Relaxed));
    // First: the rest may be many lines.
    fields.insert(0, ("runs_on", format!("what ran before goes on, as it was made at {at}").into()));
    say(Level::Error, "worker.broken", fields);
}

fn in_fields(failure: &Failure) -> Vec<(&'static str, serde_json::Value)> {
    vec![("text", failure.what.as_str().into()), ("help", failure.help.as_deref().into())]
}

fn say(level: Level, event: &'static str, fields: Vec<(&'static str, serde_json::Value)>) {
    log::write(&LogEntry { level, event, fields });
}
