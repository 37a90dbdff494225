//! The host: the core's seam, under a test's command.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use jadpo_core::host::{Call, CallOutcome, Host, LogEntry};
use jadpo_core::program::Target;
use jadpo_core::store::schema::SCHEMA_VERSION;
use jadpo_core::store::{Row, Rows, Statement, StoreError, classify};

use crate::clock::Clock;
use crate::fault::{Crash, Faults, StoreFault};
use crate::known::Known;
use crate::seed;
use crate::store::Store;
use crate::subscriber::{Answering, RecordedCall, Reply, Script, Subscriber};

/// A host whose clock, randomness, store and subscribers a test commands. A clone is the same host.
#[derive(Clone)]
pub struct TestHost {
    state: Arc<Mutex<State>>,
}

pub(crate) struct State {
    clock: Clock,
    skew_ms: i64,
    random: fastrand::Rng,
    seed: u64,
    store: Store,
    pub(crate) faults: Faults,
    pub(crate) env: BTreeMap<String, String>,
    log: Vec<LogEntry>,
    subscribers: BTreeMap<String, Script>,
    linked: BTreeMap<String, Answering>,
    calls: Vec<RecordedCall>,
    calls_running: usize,
    calls_at_once: usize,
    batches: u64,
    rows_written: u64,
    pub(crate) crash: Crash,
    pub(crate) known: Option<Known>,
    /// Variables that are missing on purpose.
    pub(crate) unset: BTreeSet<String>,
}

impl TestHost {
    /// A host whose store has every migration.
    #[must_use]
    pub fn migrated() -> Self {
        let host = Self::unmigrated();
        host.migrate_to(SCHEMA_VERSION);
        host
    }

    /// A host whose store is empty: no table, no version.
    #[must_use]
    pub fn unmigrated() -> Self {
        Self::with(Store::open(None))
    }

    /// A host whose store is this file, as it is or new, with every migration.
    #[must_use]
    pub fn on_file(path: &Path) -> Self {
        let host = Self::with(Store::open(Some(path)));
        host.migrate_to(SCHEMA_VERSION);
        host
    }

    fn with(store: rusqlite::Result<Store>) -> Self {
        let state = State {
            clock: Clock::default(),
            skew_ms: 0,
            random: fastrand::Rng::with_seed(0),
            seed: 0,
            store: store.unwrap_or_else(|error| panic!("the test's store cannot be opened: {error}")),
            faults: Faults::default(),
            env: BTreeMap::new(),
            log: Vec::new(),
            subscribers: BTreeMap::new(),
            linked: BTreeMap::new(),
            calls: Vec::new(),
            calls_running: 0,
            calls_at_once: 0,
            batches: 0,
            rows_written: 0,
            crash: Crash::default(),
            known: None,
            unset: BTreeSet::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A test that panicked while it held the lock has failed already: its state is as good as any.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the migrations up to `version`, as a deploy does. 0 runs none.
    pub fn migrate_to(&self, version: u32) {
        let migrated = self.state().store.migrate_to(version);
        migrated.unwrap_or_else(|error| panic!("the store cannot be brought to version {version}: {error}"));
    }

    /// Starts the randomness again from `seed`. It starts from 0.
    pub fn seed(&self, seed: u64) {
        let mut state = self.state();
        state.seed = seed;
        state.random.seed(seed);
    }

    /// The seed that its randomness follows.
    #[must_use]
    pub fn seeded(&self) -> u64 {
        self.state().seed
    }

    /// Follows `JADPO_SEED`, if there is one and the test chose none.
    pub(crate) fn seed_from_environment(&self) {
        if let (0, Some(seed)) = (self.seeded(), seed::pinned()) {
            self.seed(seed);
        }
    }

    /// Sets an environment variable or secret.
    pub fn set_env(&self, name: &str, value: &str) {
        self.state().env.insert(name.to_owned(), value.to_owned());
    }

    /// The virtual time, in milliseconds since 1970. It starts at 2026-11-30T12:00:00Z.
    #[must_use]
    pub fn time_ms(&self) -> i64 {
        self.state().clock.now_ms()
    }

    /// Moves the time on.
    pub fn advance_ms(&self, by_ms: i64) {
        let now_ms = self.time_ms();
        self.set_ms(now_ms.saturating_add(by_ms));
    }

    /// Sets the time, forward or back.
    pub fn set_ms(&self, now_ms: i64) {
        self.state().clock.set_ms(now_ms);
    }

    /// Makes the clock that the core reads go wrong by this much, ahead or behind. Timers and queues keep time.
    pub fn skew_ms(&self, by_ms: i64) {
        self.state().skew_ms = by_ms;
    }

    pub(crate) fn next_timer_ms(&self) -> Option<i64> {
        self.state().clock.next_ms()
    }

    /// Waits in virtual time.
    pub async fn sleep_ms(&self, for_ms: i64) {
        if for_ms > 0 {
            let timer = self.state().clock.timer(for_ms);
            Sleep { host: self, timer }.await;
        }
    }

    /// What was logged, oldest first.
    #[must_use]
    pub fn log_entries(&self) -> Vec<LogEntry> {
        self.state().log.clone()
    }

    /// The log lines of one event, oldest first.
    #[must_use]
    pub fn logged(&self, event: &str) -> Vec<LogEntry> {
        self.state().log.iter().filter(|entry| entry.event == event).cloned().collect()
    }

    /// A subscriber, to be told what it does: `host.subscriber("ledger").answers([500, 200])`.
    ///
    /// # Panics
    /// When the app has none of this name.
    #[must_use]
    #[track_caller]
    pub fn subscriber(&self, name: &str) -> Subscriber<'_> {
        self.must_have_callee(name);
        Subscriber { host: self, name: name.to_owned() }
    }

    pub(crate) fn write_script(&self, subscriber: &str, write: impl FnOnce(&mut Script)) {
        write(self.state().subscribers.entry(subscriber.to_owned()).or_default());
    }

    /// Links a Rust function under the name that `run:` gives in the app file. `Ok` answers 200.
    ///
    /// # Panics
    /// When the app names none so.
    #[track_caller]
    pub fn link(&self, name: &str, mut function: impl FnMut(&Call) -> Result<(), String> + Send + 'static) {
        self.must_link(name);
        let answering = move |call: &Call| function(call).map_or_else(Reply::Error, |()| Reply::Status(200));
        self.state().linked.insert(name.to_owned(), Box::new(answering));
    }

    /// The calls that subscribers got, in the order they began.
    #[must_use]
    pub fn calls(&self) -> Vec<RecordedCall> {
        self.state().calls.clone()
    }

    /// The calls that one subscriber or function got.
    ///
    /// # Panics
    /// When the app has none of this name.
    #[must_use]
    #[track_caller]
    pub fn calls_to(&self, subscriber: &str) -> Vec<RecordedCall> {
        self.must_have_callee(subscriber);
        self.state().calls.iter().filter(|call| call.call.subscriber == subscriber).cloned().collect()
    }

    /// The most calls that ever ran at the same time.
    #[must_use]
    pub fn calls_at_once(&self) -> usize {
        self.state().calls_at_once
    }

    /// Round trips to the store so far, failed ones too.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.state().batches
    }

    /// Rows written so far as D1 bills them: rows, index entries and deletions, of what was committed.
    #[must_use]
    pub fn rows_written(&self) -> u64 {
        self.state().rows_written
    }

    /// Reads the store on the side: no limit, no fault, no cost; numbers as the file holds them.
    ///
    /// # Panics
    /// When the query is wrong.
    #[must_use]
    #[track_caller]
    pub fn look(&self, sql: &str) -> Vec<Row> {
        let looked = self.state().store.look(sql);
        match looked {
            Ok(rows) => rows,
            Err(error) => panic!("{error} in: {sql}"),
        }
    }

    /// Reads a table that may not be there yet.
    pub(crate) fn look_if_there(&self, table: &str, sql: &str) -> Vec<Row> {
        if self.state().store.has(table) { self.look(sql) } else { Vec::new() }
    }

    /// The one number that a query gives.
    ///
    /// # Panics
    /// When it gives none.
    #[must_use]
    #[track_caller]
    pub fn count(&self, sql: &str) -> i64 {
        match self.look(sql).first().and_then(|row| row.integer(0)) {
            Some(number) => number,
            None => panic!("no number from: {sql}"),
        }
    }

    /// Does to the store what no host would: drops a table, sets the version back.
    ///
    /// # Panics
    /// When the statements are wrong.
    #[track_caller]
    pub fn meddle(&self, sql: &str) {
        let done = self.state().store.meddle(sql);
        if let Err(error) = done {
            panic!("{error} in: {sql}");
        }
    }

    /// Counts a round trip to the store and says what goes wrong with it.
    pub(crate) fn next_fault(&self) -> Option<StoreFault> {
        let mut state = self.state();
        state.batches += 1;
        let batch = state.batches;
        state.faults.next(batch)
    }

    /// Carries a batch out under the fault in force.
    fn run_batch(&self, statements: &[Statement], fault: Option<StoreFault>) -> Result<Vec<Rows>, String> {
        let mut state = self.state();
        let State { store, faults, rows_written, .. } = &mut *state;
        match fault {
            Some(StoreFault::Down) => return Err("D1_ERROR: Network connection lost.".into()),
            Some(StoreFault::BeforeCommit) => {
                store.batch(statements, false)?;
                return Err(
                    "D1_ERROR: Internal error while starting up D1 DB storage caused object to be reset.".into()
                );
            }
            Some(StoreFault::AfterCommit | StoreFault::Slow(_)) | None => {}
        }
        if statements.iter().any(|statement| faults.refuses(statement)) {
            return Err(
                "D1_ERROR: CHECK constraint failed: injected: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_CHECK)"
                    .into(),
            );
        }
        let rows = store.batch(statements, true)?;
        *rows_written += rows.iter().map(|rows| rows.rows_written).sum::<u64>();
        if fault == Some(StoreFault::AfterCommit) {
            return Err("D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset.".into());
        }
        Ok(rows)
    }

    /// What the subscriber does with a call, and after how long. Its code runs unlocked: it may use the host.
    fn answer(&self, call: &Call) -> (Reply, u32) {
        if let Target::Run(function) = &call.target {
            let linked = self.state().linked.remove(function);
            if let Some(mut linked) = linked {
                let reply = linked(call);
                self.state().linked.insert(function.clone(), linked);
                return (reply, 0);
            }
            if !self.state().subscribers.contains_key(&call.subscriber) {
                assert!(
                    !self.is_of_an_app(),
                    "{} is called, and nothing is linked under its name: host.link({function:?}, |call| Ok(()))",
                    call.subscriber
                );
                return (Reply::Error(format!("no function named {function} is linked")), 0);
            }
        }
        let mut script = self.state().subscribers.remove(&call.subscriber).unwrap_or_default();
        let next = script.next(call);
        self.state().subscribers.insert(call.subscriber.clone(), script);
        next
    }
}

impl Host for TestHost {
    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        self.step().await;
        let fault = self.next_fault();
        if let Some(StoreFault::Slow(slow_ms)) = fault {
            self.sleep_ms(slow_ms.into()).await;
        }
        let done = self.run_batch(&statements, fault);
        self.step().await;
        done.map_err(|text| classify(&text))
    }

    async fn call(&self, call: Call) -> CallOutcome {
        self.step().await;
        let (reply, takes_ms) = self.answer(&call);
        let timeout_ms = call.timeout_ms;
        let running = {
            let mut state = self.state();
            let at_ms = state.clock.now_ms();
            state.calls.push(RecordedCall { at_ms, call, reply: reply.clone() });
            Running::start(self, &mut state)
        };
        self.sleep_ms(takes_ms.min(timeout_ms).into()).await;
        drop(running);
        self.step().await;
        if takes_ms > timeout_ms { Reply::Hangs.outcome() } else { reply.outcome() }
    }

    async fn sleep(&self, duration_ms: u32) {
        self.sleep_ms(duration_ms.into()).await;
    }

    fn now_ms(&self) -> i64 {
        let state = self.state();
        state.clock.now_ms().saturating_add(state.skew_ms)
    }

    fn random(&self) -> u128 {
        self.state().random.u128(..)
    }

    fn env(&self, name: &str) -> Option<String> {
        let value = self.state().env.get(name).cloned();
        if value.is_none() {
            self.must_not_forget(name);
        }
        value
    }

    fn log(&self, entry: LogEntry) {
        self.state().log.push(entry);
    }
}

/// A call that runs: counted until it ends or its isolate dies.
struct Running<'a>(&'a TestHost);

impl<'a> Running<'a> {
    fn start(host: &'a TestHost, state: &mut State) -> Self {
        state.calls_running += 1;
        state.calls_at_once = state.calls_at_once.max(state.calls_running);
        Self(host)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state().calls_running -= 1;
    }
}

/// A wait in virtual time.
struct Sleep<'a> {
    host: &'a TestHost,
    timer: (i64, u64),
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let rings = self.host.state().clock.rings(self.timer, context.waker());
        if rings { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.host.state().clock.forget(self.timer);
    }
}
