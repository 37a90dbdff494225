//! The core's seam, inside the simulation.

use jadpo_core::host::{Call, CallOutcome, Host, LogEntry};
use jadpo_core::store::{Rows, Statement, StoreError, Value, classify};

use super::coverage::{Fault, Step};
use super::ledger::Running;
use super::sim::Sim;
use super::state::{Place, State};

/// How long a call is on its way at most, in milliseconds.
const WAY_MS: i64 = 200;

/// A host of one isolate or server.
#[derive(Clone)]
pub(super) struct SimHost {
    pub(super) sim: Sim,
    pub(super) place: Place,
    /// How wrong its clock is.
    pub(super) skew_ms: i64,
}

impl SimHost {
    pub(super) fn new(sim: &Sim, place: Place) -> Self {
        let skew_ms = {
            let state = &mut *sim.state();
            let wrong = state.skewed && !state.calm;
            if wrong { state.scheduler.random.i64(-90_000..90_000) } else { 0 }
        };
        Self { sim: sim.clone(), place, skew_ms }
    }

    fn carry_out(&self, step: Step, statements: &[Statement], fault: Option<Fault>) -> Result<Vec<Rows>, StoreError> {
        let state = &mut *self.sim.state();
        let State { scheduler, sides, .. } = state;
        let side = &mut sides[self.place as usize];
        let error = |text: &str| Err(classify(text));
        if let Some(text) = side.refused.as_deref().filter(|text| holds(statements, text)) {
            let _ = text;
            scheduler.met(Fault::Refused, step);
            return error(
                "D1_ERROR: CHECK constraint failed: x: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_CHECK)",
            );
        }
        let as_d1 = self.place == Place::Worker;
        match fault {
            Some(Fault::Down) => error("D1_ERROR: Network connection lost."),
            Some(Fault::Behind) => error("D1_ERROR: no such table: jadpo_events: SQLITE_ERROR"),
            Some(Fault::Statement) => {
                let at = scheduler.random.usize(..statements.len().max(1));
                side.database.batch(statements, as_d1, Some(at), true)
            }
            Some(Fault::Commit) => {
                side.database.batch(statements, as_d1, None, false)?;
                error("D1_ERROR: Internal error while starting up D1 DB storage caused object to be reset.")
            }
            Some(Fault::AnswerLost) => {
                side.database.batch(statements, as_d1, None, true)?;
                error("D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset.")
            }
            _ => side.database.batch(statements, as_d1, None, true),
        }
    }
}

impl Host for SimHost {
    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        let step = step_of(&statements);
        self.sim.before(step).await;
        let fault = self.sim.state().fault(self.place, step);
        if fault == Some(Fault::Slow) {
            let slow_ms = self.sim.state().scheduler.random.i64(1_000..40_000);
            self.sim.sleep(step, slow_ms).await;
        }
        let done = self.carry_out(step, &statements, fault);
        self.sim.after(step).await;
        done
    }

    async fn call(&self, call: Call) -> CallOutcome {
        let (way_ms, reply, takes_ms) = {
            let state = &mut *self.sim.state();
            state.scheduler.coverage.done(Step::Call);
            let way_ms = state.scheduler.random.i64(0..WAY_MS);
            let (reply, takes_ms) = state.reply(Step::Call, &call.subscriber);
            (way_ms, reply, takes_ms.min(i64::from(call.timeout_ms) - WAY_MS))
        };
        self.sim.sleep(Step::Call, way_ms).await;
        if reply == Reply::NotSent {
            return CallOutcome::NotSent("Too many subrequests.".to_owned());
        }
        let running = Running::begin(&self.sim, self.place, &call);
        self.sim.sleep(Step::Call, takes_ms).await;
        running.end(matches!(reply, Reply::Done | Reply::DoneAndLost));
        self.sim.after_at_once(Step::Call).await;
        reply.outcome()
    }

    async fn sleep(&self, duration_ms: u32) {
        self.sim.state().scheduler.coverage.done(Step::Window);
        self.sim.sleep(Step::Window, duration_ms.into()).await;
    }

    fn now_ms(&self) -> i64 {
        let state = self.sim.state();
        let skew_ms = if state.calm { 0 } else { self.skew_ms };
        state.scheduler.now_ms.saturating_add(skew_ms)
    }

    fn random(&self) -> u128 {
        self.sim.state().scheduler.random.u128(..)
    }

    fn env(&self, name: &str) -> Option<String> {
        (name == jadpo_core::bindings::ADMIN_TOKEN).then(|| super::worker::OPERATOR_TOKEN.to_owned())
    }

    fn log(&self, _entry: LogEntry) {}
}

/// What somebody who is called does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// It does it, and says so.
    Done,
    /// It does it, and nobody hears of it.
    DoneAndLost,
    /// It answers with a failure.
    Fails(u16),
    /// It asks to be left alone for so many seconds.
    Busy(u32),
    /// It never answers.
    Hangs,
    /// It is not reached: the host makes no more calls.
    NotSent,
}

impl Reply {
    fn outcome(self) -> CallOutcome {
        let answered = |status, retry_after| CallOutcome::Answered { status, retry_after };
        match self {
            Self::Done => answered(200, None),
            Self::Fails(status) => answered(status, None),
            Self::Busy(seconds) => answered(429, Some(seconds.to_string())),
            Self::DoneAndLost => CallOutcome::Unanswered("the connection was closed before an answer".into()),
            Self::Hangs => CallOutcome::Unanswered("no answer in time".into()),
            Self::NotSent => CallOutcome::NotSent("Too many subrequests.".into()),
        }
    }
}

impl State {
    /// What somebody does with a call, and after how long.
    pub(super) fn reply(&mut self, step: Step, who: &str) -> (Reply, i64) {
        let callees = self.callees;
        let scheduler = &mut self.scheduler;
        if who == "hopeless" {
            return (Reply::Fails(500), 0);
        }
        if !scheduler.chance(callees.percent) {
            return (Reply::Done, callees.takes_ms);
        }
        let (fault, reply, takes_ms) = match scheduler.random.u32(0..8) {
            0 => (Fault::AnswerLost, Reply::DoneAndLost, callees.takes_ms),
            1 => (Fault::Hangs, Reply::Hangs, i64::MAX),
            2 if step == Step::Call => (Fault::NotSent, Reply::NotSent, 0),
            3 => (Fault::Fails, Reply::Busy(scheduler.random.u32(0..300)), callees.takes_ms),
            4 => (Fault::Fails, Reply::Fails(301), callees.takes_ms),
            _ => (Fault::Fails, Reply::Fails(500), callees.takes_ms),
        };
        scheduler.met(fault, step);
        (reply, takes_ms)
    }
}

/// What a batch of statements is for.
fn step_of(statements: &[Statement]) -> Step {
    let has = |start: &str| statements.iter().any(|statement| statement.sql.starts_with(start));
    let settles = has("DELETE FROM jadpo_deliveries") || has("UPDATE jadpo_deliveries SET due_at = moved");
    let claims = has("UPDATE jadpo_deliveries SET due_at = CASE WHEN attempt");
    match (settles, claims) {
        (true, true) => Step::SettleAndClaim,
        (true, false) => Step::SettleDeliveries,
        (false, true) => Step::Claim,
        _ if has("UPDATE jadpo_schema SET next_seq") || has("INSERT INTO") => Step::Keep,
        _ if has("SELECT id, connection, queue, message_id, attempts") => Step::Reread,
        _ if has("WITH place") || has("DELETE FROM jadpo_received") => Step::Prune,
        _ => Step::Operator,
    }
}

fn holds(statements: &[Statement], text: &str) -> bool {
    let mut params = statements.iter().flat_map(|statement| &statement.params);
    params.any(|param| matches!(param, Value::Text(param) if param.contains(text)))
}
