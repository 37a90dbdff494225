//! What can go wrong with the store and with whoever uses it, by name.

use std::panic::Location;

use jadpo_core::store::schema::SCHEMA_VERSION;
use jadpo_core::store::{Statement, Value};

use crate::{TestHost, seed};

/// What happens to a batch of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// The store cannot be reached: nothing runs.
    Down,
    /// The statements run, the transaction is rolled back, an error comes back.
    BeforeCommit,
    /// The statements commit, but the answer is lost: an error comes back.
    AfterCommit,
    /// It works, but takes this long, in milliseconds.
    Slow(u32),
}

/// Chooses the fault of a batch by its number, which starts at 1 and counts every round trip.
pub(crate) type Plan = Box<dyn FnMut(u64) -> Option<StoreFault> + Send>;

/// The faults in force.
#[derive(Default)]
pub(crate) struct Faults {
    /// Until it is lifted.
    standing: Option<StoreFault>,
    /// For so many more batches, as the test said there; goes before what stands.
    counted: Option<(StoreFault, u32, &'static Location<'static>)>,
    /// Asked when neither of the two applies.
    plan: Option<Plan>,
    /// A batch whose parameters hold one of these fails with a constraint error.
    refused: Vec<String>,
}

impl Faults {
    /// The fault of batch number `batch`.
    pub(crate) fn next(&mut self, batch: u64) -> Option<StoreFault> {
        if let Some((fault, left, said)) = self.counted.take() {
            self.counted = (left > 1).then_some((fault, left - 1, said));
            return Some(fault);
        }
        self.standing.or_else(|| self.plan.as_mut().and_then(|plan| plan(batch)))
    }

    /// Whether a statement carries a text that the test has the store refuse.
    pub(crate) fn refuses(&self, statement: &Statement) -> bool {
        self.refused.iter().any(|text| statement.params.iter().any(|param| holds(param, text)))
    }
}

fn holds(param: &Value, text: &str) -> bool {
    match param {
        Value::Text(param) => param.contains(text),
        Value::Blob(bytes) => bytes.windows(text.len().max(1)).any(|window| window == text.as_bytes()),
        Value::Null | Value::Integer(_) | Value::Real(_) => false,
    }
}

/// Where the isolate is to die, and how far it has come.
#[derive(Default)]
pub(crate) struct Crash {
    /// Crash points passed since the count was last set.
    passed: u64,
    /// The step, and where the test said so.
    at_step: Option<(u64, &'static Location<'static>)>,
    dead: bool,
}

impl TestHost {
    /// The store fails so for its next `batches` round trips. A test that ends before there were so many fails, since it
    /// did not try what it says; [`TestHost::lift_faults`] ends them.
    ///
    /// # Panics
    /// When `batches` is 0.
    #[track_caller]
    pub fn store_fails(&self, fault: StoreFault, batches: u32) {
        assert!(batches > 0, "the store is to fail for its next 0 round trips, which says nothing");
        self.state().faults.counted = Some((fault, batches, Location::caller()));
    }

    /// The store fails so until [`TestHost::lift_faults`].
    pub fn store_fails_until_lifted(&self, fault: StoreFault) {
        self.state().faults.standing = Some(fault);
    }

    /// The store fails as `plan` says for each round trip, by its number.
    pub fn store_fails_by(&self, plan: impl FnMut(u64) -> Option<StoreFault> + Send + 'static) {
        self.state().faults.plan = Some(Box::new(plan));
    }

    /// The store refuses, with a constraint error, every batch that carries `text` in a parameter.
    pub fn store_refuses(&self, text: &str) {
        self.state().faults.refused.push(text.to_owned());
    }

    /// Lifts every fault of the store.
    pub fn lift_faults(&self) {
        self.state().faults = Faults::default();
    }

    /// The store is behind the build by a migration, until [`TestHost::store_is_migrated`].
    pub fn store_is_behind(&self) {
        self.meddle("UPDATE jadpo_schema SET version = version - 1");
    }

    /// The migration that the store was behind by is run.
    pub fn store_is_migrated(&self) {
        self.meddle("UPDATE jadpo_schema SET version = version + 1");
    }

    /// Lets the isolate die at crash point `step`, counted from 0 and from now on. Each store batch and each call
    /// has two of them: before it takes effect, and after it, before the answer arrives.
    ///
    /// A test that ends before it came so far fails, since it did not try what it says. To try every step, go on until
    /// [`TestHost::lift_crash`] says that there are no more.
    #[track_caller]
    pub fn crash_at_step(&self, step: u64) {
        self.state().crash = Crash { at_step: Some((step, Location::caller())), ..Crash::default() };
    }

    /// Lifts what [`TestHost::crash_at_step`] planned and starts the count anew. Whether it was planned still, since
    /// nothing came so far.
    pub fn lift_crash(&self) -> bool {
        std::mem::take(&mut self.state().crash).at_step.is_some()
    }

    /// Crash points passed since the count last started.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.state().crash.passed
    }

    /// Whether the isolate has just died; the next one is alive.
    pub(crate) fn take_crash(&self) -> bool {
        let mut state = self.state();
        let dead = state.crash.dead;
        if dead {
            state.crash = Crash::default();
        }
        dead
    }

    /// A crash point. It never ends when the isolate dies here.
    pub async fn step(&self) {
        let dies = {
            let mut state = self.state();
            let here = state.crash.passed;
            state.crash.passed += 1;
            state.crash.dead |= state.crash.at_step.is_some_and(|(step, _)| step == here);
            state.crash.dead
        };
        if dies {
            std::future::pending::<()>().await;
        }
    }

    /// The fault that keeps the store from taking anything for as long as nobody lifts it.
    pub(crate) fn takes_nothing(&self) -> Option<StoreFault> {
        self.state().faults.standing.filter(|fault| !matches!(fault, StoreFault::Slow(_)))
    }

    /// What is wrong with the store at the moment and may be why something does not end, in words.
    pub(crate) fn in_force(&self) -> String {
        let mut all = Vec::new();
        {
            let faults = &self.state().faults;
            let standing = faults.standing.map(|fault| format!("the store fault `{fault:?}` is still in force"));
            let plan = faults.plan.as_ref().map(|_| "the store fails as the test planned it".to_owned());
            let refused = faults.refused.iter().map(|text| format!("the store still refuses {text:?}"));
            all.extend(standing.into_iter().chain(plan).chain(refused));
        }
        let version = self.look_if_there("jadpo_schema", "SELECT version FROM jadpo_schema");
        let version = version.first().and_then(|row| row.integer(0)).unwrap_or(0);
        if version < i64::from(SCHEMA_VERSION) {
            all.push(format!("the store is at version {version}, and the build needs {SCHEMA_VERSION}"));
        }
        all.iter().map(|what| format!("; {what}")).collect()
    }

    /// At a test's end: a test that fails says under which seed; one that did not try what it says fails.
    pub(crate) fn ends(&self) {
        if std::thread::panicking() {
            return seed::tell(self.seeded());
        }
        let state = self.state();
        let (crash, counted) = (state.crash.at_step, state.faults.counted);
        let steps = state.crash.passed;
        drop(state);
        if let Some((step, said)) = crash {
            panic!("the crash at step {step} ({said}) was never met: there were {steps} steps since, from 0 on");
        }
        if let Some((fault, left, said)) = counted {
            panic!("the store fault `{fault:?}` ({said}) was to be met {left} times more, and the test has ended");
        }
    }
}
