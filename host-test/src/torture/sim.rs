//! The scheduler: one thread, virtual time, and chance at every step.
//!
//! Whatever waits, waits for a timer, and each timer is a step that something may go wrong with: the scheduler takes
//! the next one, in an order of chance where several are due, and may let the process die there that waits.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use fastrand::Rng;

use super::coverage::{Coverage, Fault, Step};
use super::state::State;
use super::trace;

/// What may die: an isolate, a server. What belongs to [`WORLD`] never does.
pub(super) type Process = u64;
/// Producers, Cloudflare, the operator: what does not die.
pub(super) const WORLD: Process = 0;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;
/// When it rings, an order of chance, and its number.
type Key = (i64, u32, u64);

struct Timer {
    waker: Waker,
    process: Process,
    step: Step,
    /// How the process may die here, if it may.
    death: Option<Fault>,
}

/// What the scheduler knows.
pub(super) struct Scheduler {
    pub(super) now_ms: i64,
    pub(super) random: Rng,
    pub(super) coverage: Coverage,
    /// Of a thousand steps, at how many a process dies.
    pub(super) deaths: u32,
    /// Of a hundred steps, how many take a while.
    pub(super) lags: u32,
    timers: BTreeMap<Key, Timer>,
    numbers: u64,
    current: Process,
    spawned: Vec<(Process, Work)>,
    killed: Vec<Process>,
    violation: Option<String>,
}

impl Scheduler {
    pub(super) fn new(seed: u64, now_ms: i64) -> Self {
        Self {
            now_ms,
            random: Rng::with_seed(seed),
            coverage: Coverage::default(),
            deaths: 0,
            lags: 0,
            timers: BTreeMap::new(),
            numbers: 0,
            current: WORLD,
            spawned: Vec::new(),
            killed: Vec::new(),
            violation: None,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Of a hundred times, whether this is one.
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        percent > 0 && self.random.u32(..100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.usize(..of.len())]
    }

    /// Something goes wrong with a step.
    pub(super) fn met(&mut self, fault: Fault, step: Step) {
        self.coverage.met(fault, step);
        trace::note(|| format!("✗ {fault}: {step}"));
    }

    /// The first thing that must not be is what counts.
    pub(super) fn violated(&mut self, what: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(what());
        }
    }

    pub(super) fn kill(&mut self, process: Process) {
        if process != WORLD {
            self.killed.push(process);
        }
    }

    /// Begins something beside what runs.
    pub(super) fn begin(&mut self, process: Process, work: impl Future<Output = ()> + Send + 'static) {
        self.spawned.push((process, Box::pin(work)));
    }

    /// Ends every wait for this, since there may be something to do.
    pub(super) fn hurry(&mut self, step: Step) {
        for (_, timer) in self.timers.extract_if(.., |_, timer| timer.step == step) {
            timer.waker.wake();
        }
    }

    fn lag_ms(&mut self) -> i64 {
        if !self.chance(self.lags) {
            return self.random.i64(0..3);
        }
        match self.random.u32(0..20) {
            0..14 => self.random.i64(0..300),
            14..19 => self.random.i64(300..8_000),
            _ => self.random.i64(8_000..45_000),
        }
    }
}

/// A simulation that runs. A clone is the same one.
#[derive(Clone)]
pub(super) struct Sim(Arc<Mutex<State>>);

impl Sim {
    pub(super) fn new(state: State) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.state().scheduler.now_ms
    }

    /// Begins something beside what runs.
    pub(super) fn spawn(&self, process: Process, work: impl Future<Output = ()> + Send + 'static) {
        self.state().scheduler.begin(process, work);
    }

    /// A process that nothing runs in yet.
    pub(super) fn new_process(&self) -> Process {
        self.state().scheduler.number()
    }

    /// A step that is about to be done. Whoever does it may die here, or be held up.
    pub(super) async fn before(&self, step: Step) {
        let after_ms = {
            let scheduler = &mut self.state().scheduler;
            scheduler.coverage.done(step);
            scheduler.lag_ms()
        };
        self.wait(step, Some(Fault::DiesBefore), after_ms).await;
        if !step.is_quiet() {
            trace::note(|| step.to_string());
        }
    }

    /// A step that is done, and whose end nobody knows yet.
    pub(super) async fn after(&self, step: Step) {
        let after_ms = self.state().scheduler.lag_ms();
        self.wait(step, Some(Fault::DiesAfter), after_ms).await;
    }

    /// As [`Sim::after`], without any time in between.
    pub(super) async fn after_at_once(&self, step: Step) {
        self.wait(step, Some(Fault::DiesAfter), 0).await;
    }

    /// Passes time.
    pub(super) async fn sleep(&self, step: Step, for_ms: i64) {
        self.wait(step, Some(Fault::DiesBefore), for_ms).await;
    }

    fn wait(&self, step: Step, death: Option<Fault>, after_ms: i64) -> Wait {
        Wait { sim: self.clone(), step, death, after_ms, timer: None }
    }
}

struct Wait {
    sim: Sim,
    step: Step,
    death: Option<Fault>,
    after_ms: i64,
    timer: Option<Key>,
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let sim = self.sim.clone();
        let scheduler = &mut sim.state().scheduler;
        match self.timer {
            Some(key) if !scheduler.timers.contains_key(&key) => Poll::Ready(()),
            Some(_) => Poll::Pending,
            None => {
                let at_ms = scheduler.now_ms.saturating_add(self.after_ms.max(0));
                let key = (at_ms, scheduler.random.u32(..), scheduler.number());
                let (process, waker) = (scheduler.current, context.waker().clone());
                scheduler.timers.insert(key, Timer { waker, process, step: self.step, death: self.death });
                self.timer = Some(key);
                Poll::Pending
            }
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(key) = self.timer {
            // Its waker may hold what must not go while the state is locked.
            let timer = self.sim.state().scheduler.timers.remove(&key);
            drop(timer);
        }
    }
}

struct Task {
    process: Process,
    work: Work,
    waker: Arc<TaskWaker>,
}

struct TaskWaker {
    number: u64,
    is_ready: AtomicBool,
    ready: Arc<Mutex<VecDeque<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::Relaxed) {
            self.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.number);
        }
    }
}

/// Everything that runs.
pub(super) struct Runner {
    pub(super) sim: Sim,
    tasks: BTreeMap<u64, Task>,
    ready: Arc<Mutex<VecDeque<u64>>>,
    numbers: u64,
}

impl Runner {
    pub(super) fn new(sim: Sim) -> Self {
        Self { sim, tasks: BTreeMap::new(), ready: Arc::default(), numbers: 0 }
    }

    /// Lets the next thing happen. False if there is none, or something was that must not be.
    pub(super) fn turn(&mut self) -> Result<bool, String> {
        self.settle_down();
        let timer = {
            let scheduler = &mut self.sim.state().scheduler;
            if let Some(what) = scheduler.violation.take() {
                return Err(what);
            }
            let Some(((at_ms, ..), timer)) = scheduler.timers.pop_first() else { return Ok(false) };
            scheduler.now_ms = scheduler.now_ms.max(at_ms);
            trace::at(scheduler.now_ms);
            let may_die = timer.process != WORLD && scheduler.deaths > 0;
            if let Some(fault) = timer.death.filter(|_| may_die && scheduler.random.u32(..1_000) < scheduler.deaths) {
                scheduler.coverage.met(fault, timer.step);
                trace::note_of(timer.process, || format!("✗ {fault}: {}", timer.step));
                scheduler.killed.push(timer.process);
            }
            timer
        };
        timer.waker.wake_by_ref();
        drop(timer);
        self.bury();
        self.settle_down();
        Ok(true)
    }

    /// Polls whatever is ready, and what that began.
    fn settle_down(&mut self) {
        loop {
            self.begin();
            let next = self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(number) = next else { break };
            let Some(task) = self.tasks.get_mut(&number) else { continue };
            task.waker.is_ready.store(false, Ordering::Relaxed);
            self.sim.state().scheduler.current = task.process;
            trace::by(task.process);
            let waker = Waker::from(task.waker.clone());
            if task.work.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                self.tasks.remove(&number);
            }
            self.sim.state().scheduler.current = WORLD;
            trace::by(WORLD);
            self.bury();
        }
    }

    fn begin(&mut self) {
        let spawned = std::mem::take(&mut self.sim.state().scheduler.spawned);
        for (process, work) in spawned {
            self.numbers += 1;
            let number = self.numbers;
            let waker = TaskWaker { number, is_ready: AtomicBool::new(false), ready: self.ready.clone() };
            let waker = Arc::new(waker);
            waker.wake_by_ref();
            self.tasks.insert(number, Task { process, work, waker });
        }
    }

    /// Takes away what belongs to processes that have died.
    fn bury(&mut self) {
        let killed = std::mem::take(&mut self.sim.state().scheduler.killed);
        for process in killed {
            let dead: Vec<Task> =
                self.tasks.extract_if(.., |_, task| task.process == process).map(|(_, task)| task).collect();
            // Each may hold what tells the state when it goes, so none goes while that is locked.
            let unborn: Vec<_> = self.sim.state().scheduler.spawned.extract_if(.., |(of, _)| *of == process).collect();
            drop((dead, unborn));
            super::native::died(&self.sim, process);
        }
    }
}

impl Drop for Runner {
    /// Tasks hold the simulation, and the simulation what they began.
    fn drop(&mut self) {
        self.tasks.clear();
        let spawned = std::mem::take(&mut self.sim.state().scheduler.spawned);
        drop(spawned);
    }
}
