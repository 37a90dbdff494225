//! The queues' operations, as the native store's one writer runs them: each in a transaction, under the faults of the
//! moment; and the model told once it has committed.

use jadpo_core::broker::{Broker, BrokerError, MessageId, Moment, Sql};
use jadpo_core::queue::Body;
use jadpo_core::store::StoreError;

use super::coverage::{Fault, Step};
use super::ledger::Sent;
use super::model::{Model, Times};
use super::sim::Sim;
use super::state::{Place, State};
use super::store::{Database, Session};
use super::trace;

/// A broker in a process: the server's, or a command's beside it.
pub(super) struct Opened {
    broker: Broker,
    /// Whether what it remembers is what the store holds.
    is_right: bool,
    /// When its process started.
    started_ms: i64,
    /// What its clocks add to the steady time.
    time_offset_ms: i64,
    age_offset_ms: i64,
}

/// What a broker's clocks are read from when it is loaded.
const CLOCKS: &str = "SELECT clock_ms, age_ms FROM jadpo_broker";

impl Opened {
    /// Loads it from the store.
    ///
    /// # Errors
    /// The store is behind the build.
    pub(super) fn load(state: &mut State) -> Result<Self, StoreError> {
        let started_ms = state.scheduler.now_ms;
        let moment = moment(state, started_ms);
        let database: &Database = &state.side(Place::Native).database;
        let clocks = database.look(CLOCKS, &[]);
        let stored = |column| clocks.first().and_then(|row| row.integer(column)).unwrap_or_default();
        let (time_ms, age_ms) = (moment.wall_ms.max(stored(0)), stored(1));
        let broker = Broker::load(&mut Session { database, fails_in: None, failed: false, left_out: None }, moment)?;
        let time_offset_ms = time_ms - moment.steady_ms;
        Ok(Self { broker, is_right: true, started_ms, time_offset_ms, age_offset_ms: age_ms - moment.steady_ms })
    }

    pub(super) fn times(&self, state: &mut State) -> Times {
        let steady_ms = moment(state, self.started_ms).steady_ms;
        Times { now_ms: steady_ms + self.time_offset_ms, age_ms: steady_ms + self.age_offset_ms }
    }
}

/// The moment, as a process that started then tells it.
fn moment(state: &mut State, started_ms: i64) -> Moment {
    let now_ms = state.scheduler.now_ms;
    let random = state.scheduler.random.u128(..);
    Moment { wall_ms: now_ms + state.native.wall_skew_ms, steady_ms: now_ms - started_ms + 7_000, random }
}

/// What an operation is told to note once it has committed.
pub(super) trait Note<T>: FnOnce(&mut Model, &T, Times, &Database) + Send {}
impl<T, F: FnOnce(&mut Model, &T, Times, &Database) + Send> Note<T> for F {}

/// How many commits there are between two looks at everything.
const CHECK_EVERY: u64 = 8;

impl State {
    /// Runs an operation in a transaction of its own. It answers when it has committed, or failed and left nothing.
    fn operate<T>(
        &mut self,
        opened: &mut Opened,
        step: Step,
        operation: impl FnOnce(&mut Broker, &mut dyn Sql, Moment) -> Result<T, BrokerError>,
        note: impl Note<T>,
    ) -> Result<T, BrokerError> {
        let fault = self.fault(Place::Native, step);
        let unavailable = |text: &str| Err(BrokerError::Store(StoreError::Unavailable(text.to_owned())));
        if fault == Some(Fault::Down) {
            return unavailable("database is locked");
        }
        let moment = moment(self, opened.started_ms);
        let times = opened.times(self);
        let fails_in = (fault == Some(Fault::Statement)).then(|| self.scheduler.random.u32(..8));
        let Self { scheduler, sides, native, .. } = self;
        let database: &Database = &sides[Place::Native as usize].database;
        let left_out = native.left_out;
        let mut session = Session { database, fails_in: None, failed: false, left_out };
        if !opened.is_right {
            opened.broker.reload(&mut session, moment)?;
            opened.is_right = true;
        }
        session.fails_in = fails_in;
        database.begin();
        let outcome = operation(&mut opened.broker, &mut session, moment);
        let failed = session.failed || matches!(outcome, Err(BrokerError::Store(_)));
        let commit_fails = fault == Some(Fault::Commit);
        database.end(!failed && !commit_fails);
        if let Err(error) = &outcome {
            trace::note(|| format!("{step} failed: {error}"));
        }
        if failed || commit_fails {
            opened.is_right = false;
            return outcome.and_then(|_| unavailable("disk I/O error"));
        }
        if let Ok(done) = &outcome {
            native.model.latest_ms = native.model.latest_ms.max(times.now_ms);
            note(&mut native.model, done, times, database);
            native.commits += 1;
            if native.commits.is_multiple_of(CHECK_EVERY) {
                native.model.check(database);
                check_figures(&opened.broker, &mut session, &mut native.model);
            }
        }
        let problem = native.model.problem();
        if let Some(problem) = problem {
            scheduler.violated(|| problem);
        }
        self.look_at_acked();
        outcome
    }

    /// What was acknowledged of a queue that is received must be stored.
    fn look_at_acked(&mut self) {
        let orders = |(queue, id, body): (String, MessageId, Vec<u8>)| {
            (queue == super::native::ORDERS).then_some((id, String::from_utf8(body).unwrap_or_default()))
        };
        let fresh: Vec<_> = self.native.model.fresh.drain(..).filter_map(orders).collect();
        for (id, text) in fresh {
            let key = text.split('"').nth(3).map(str::to_owned);
            let sent = Sent { connection: super::native::ORDERS, key, body: Body::Json(text) };
            self.side(Place::Native).ledger.sent.insert(id.to_string(), sent);
        }
        for (queue, id) in std::mem::take(&mut self.native.model.acked) {
            if queue != super::native::ORDERS {
                continue;
            }
            let side = self.side(Place::Native);
            let app = side.app.clone();
            if let Err(what) = side.acknowledge(&id.to_string(), &queue, &app.program) {
                self.scheduler.violated(|| what);
            }
        }
    }
}

/// What a broker remembers of its queues is what the store holds.
fn check_figures(broker: &Broker, session: &mut Session<'_>, model: &mut Model) {
    // The lower 17 bits of a row's bytes are its body's.
    const HELD: &str = "SELECT count(*), coalesce(sum(d.bytes & 131071), 0), coalesce(sum(d.leased), 0), \
        coalesce(sum(d.leased = 0 AND d.due_at > 0), 0) FROM jadpo_queue_due d \
        JOIN jadpo_queues q ON q.queue = d.queue WHERE q.name = ?1";
    session.fails_in = None;
    let names: Vec<String> = broker.list().map(|info| info.name.clone()).collect();
    for name in names {
        let Ok(metrics) = broker.metrics(session, &name) else { continue };
        let held = session.database.look(HELD, &[name.as_str().into()]);
        let held = |column| held.first().and_then(|row| row.integer(column)).unwrap_or_default().unsigned_abs();
        let [messages, bytes, in_flight, delayed] = [0, 1, 2, 3].map(held);
        let right = [metrics.messages, metrics.bytes, metrics.in_flight, metrics.delayed];
        model.must(right == [messages, bytes, in_flight, delayed], || {
            format!(
                "{name}: the broker tells of {} messages, {} bytes, {} leased, {} delayed; the store holds {messages}, \
                 {bytes}, {in_flight}, {delayed}",
                metrics.messages, metrics.bytes, metrics.in_flight, metrics.delayed
            )
        });
    }
}

impl Sim {
    /// An operation of the server that runs now. Whoever asks may die before it or after it.
    ///
    /// # Errors
    /// What the broker says; the store's failure if no server runs.
    pub(super) async fn operation<T: Send>(
        &self,
        step: Step,
        operation: impl FnOnce(&mut Broker, &mut dyn Sql, Moment) -> Result<T, BrokerError> + Send,
        note: impl Note<T>,
    ) -> Result<T, BrokerError> {
        self.before(step).await;
        let done = {
            let state = &mut *self.state();
            match state.native.opened.take() {
                None => Err(BrokerError::Store(StoreError::Unavailable("no server runs".to_owned()))),
                Some(mut opened) => {
                    let done = state.operate(&mut opened, step, operation, note);
                    state.native.opened = Some(opened);
                    if step.writes() && done.is_ok() {
                        state.scheduler.hurry(super::native::DRAIN_WAITS);
                    }
                    done
                }
            }
        };
        self.after(step).await;
        done
    }

    /// The same by a command, in a process of its own beside the server, which notices that the file has changed.
    ///
    /// # Errors
    /// As [`Sim::operation`].
    pub(super) async fn command<T: Send>(
        &self,
        step: Step,
        operation: impl FnOnce(&mut Broker, &mut dyn Sql, Moment) -> Result<T, BrokerError> + Send,
        note: impl Note<T>,
    ) -> Result<T, BrokerError> {
        self.before(step).await;
        let done = {
            let state = &mut *self.state();
            Opened::load(state).map_err(BrokerError::Store).and_then(|mut opened| {
                let done = state.operate(&mut opened, step, operation, note);
                if let Some(server) = &mut state.native.opened {
                    server.is_right = false;
                }
                state.scheduler.hurry(super::native::DRAIN_WAITS);
                done
            })
        };
        self.after(step).await;
        done
    }
}

impl Step {
    /// Whether it may make a message ready.
    fn writes(self) -> bool {
        matches!(
            self,
            Self::Send | Self::SendOnce | Self::Settle | Self::Occur | Self::RedriveStep | Self::Redrive | Self::Manage
        )
    }
}
