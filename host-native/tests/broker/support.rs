//! A broker on a database in memory, one call after the other.

use jadpo_core::broker::{
    Arg, Batch, Broker, BrokerError, Content, Lease, Metrics, Moment, NewBatch, NewMessage, Reason, Retry, Sent,
    Settings, Settle, Settled, Sql, Swept, Take, Taken, schema,
};
use jadpo_core::store::{Row, Rows, StoreError, Value, classify};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

/// A time like any other: 20 November 2026.
pub(crate) const START_MS: i64 = 1_795_000_000_000;

pub(crate) struct Fixture {
    pub(crate) connection: Connection,
    pub(crate) broker: Broker,
    pub(crate) at: Moment,
    /// After how many more statements the store fails, if it is to.
    pub(crate) fails_in: Option<u32>,
    pub(crate) statements: u32,
    /// The same, for an operation that needs another one first.
    pub(crate) planned: Option<u32>,
    /// What a test took earlier.
    pub(crate) held: Vec<Taken>,
}

struct Session<'a> {
    connection: &'a Connection,
    fails_in: &'a mut Option<u32>,
    statements: &'a mut u32,
}

impl Sql for Session<'_> {
    fn run(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<Rows, StoreError> {
        *self.statements += 1;
        if let Some(left) = self.fails_in {
            if *left == 0 {
                return Err(StoreError::Unavailable("as the test wants".to_owned()));
            }
            *left -= 1;
        }
        run(self.connection, sql, args).map_err(|error| classify(&error.to_string()))
    }
}

fn run(connection: &Connection, sql: &str, args: &[Arg<'_>]) -> rusqlite::Result<Rows> {
    let before = connection.total_changes();
    let mut prepared = connection.prepare_cached(sql)?;
    assert_eq!(prepared.parameter_count(), args.len(), "{sql}");
    for (index, arg) in args.iter().enumerate() {
        match *arg {
            Arg::Null => prepared.raw_bind_parameter(index + 1, rusqlite::types::Null)?,
            Arg::Integer(number) => prepared.raw_bind_parameter(index + 1, number)?,
            Arg::Text(text) => prepared.raw_bind_parameter(index + 1, text)?,
            Arg::Blob(bytes) => prepared.raw_bind_parameter(index + 1, bytes)?,
        }
    }
    let columns = prepared.column_count();
    let mut found = prepared.raw_query();
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(Row((0..columns).map(|index| value(row.get_ref(index).unwrap())).collect()));
    }
    drop(found);
    Ok(Rows { rows, changes: connection.total_changes() - before, rows_written: 0 })
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8(text.to_vec()).unwrap()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let connection = Connection::open_in_memory().unwrap();
        connection.set_prepared_statement_cache_capacity(128);
        for migration in schema::MIGRATIONS {
            connection.execute_batch(migration.sql).unwrap();
        }
        let at = Moment { wall_ms: START_MS, steady_ms: 7_000, random: 0x0123_4567_89ab_cdef };
        let (mut fails_in, mut statements) = (None, 0);
        let (fails, count) = (&mut fails_in, &mut statements);
        let mut session = Session { connection: &connection, fails_in: fails, statements: count };
        let broker = Broker::load(&mut session, at).unwrap();
        Self { connection, broker, at, fails_in, statements, planned: None, held: Vec::new() }
    }

    /// One with the queue `jobs`.
    pub(crate) fn with(settings: Settings) -> Self {
        let mut fixture = Self::new();
        fixture.create("jobs", settings);
        fixture
    }

    /// Runs one operation in a transaction of its own, as a host does, and checks what must hold after any.
    pub(crate) fn run<T>(
        &mut self,
        operation: impl FnOnce(&mut Broker, &mut dyn Sql, Moment) -> Result<T, BrokerError>,
    ) -> Result<T, BrokerError> {
        let Self { connection, broker, at, fails_in, statements, .. } = self;
        *statements = 0;
        let before = connection.total_changes();
        connection.execute_batch("BEGIN").unwrap();
        let outcome = operation(broker, &mut Session { connection, fails_in, statements }, *at);
        let failed = matches!(outcome, Err(BrokerError::Store(_)));
        if outcome.is_err() && !failed {
            assert_eq!(connection.total_changes(), before, "a refusal comes before anything is written");
        }
        connection.execute_batch(if failed { "ROLLBACK" } else { "COMMIT" }).unwrap();
        *fails_in = None;
        if failed {
            broker.reload(&mut Session { connection, fails_in, statements }, *at).unwrap();
        }
        outcome
    }

    /// What a new process would know.
    pub(crate) fn restart(&mut self) {
        let Self { connection, broker, at, fails_in, statements, .. } = self;
        *broker = Broker::load(&mut Session { connection, fails_in, statements }, *at).unwrap();
    }

    /// What a command knows that opens the store now.
    pub(crate) fn opened_beside(&mut self, a_server_runs: bool) -> Broker {
        let Self { connection, at, fails_in, statements, .. } = self;
        let mut session = Session { connection, fails_in, statements };
        Broker::load_beside(&mut session, *at, a_server_runs).unwrap()
    }

    /// Has another process do what comes, which sees first that somebody wrote.
    pub(crate) fn swap(&mut self, other: &mut Broker) {
        std::mem::swap(&mut self.broker, other);
        let Self { connection, broker, at, fails_in, statements, .. } = self;
        broker.reload(&mut Session { connection, fails_in, statements }, *at).unwrap();
    }

    pub(crate) fn pass_ms(&mut self, ms: i64) {
        self.at.wall_ms += ms;
        self.at.steady_ms += ms;
    }

    pub(crate) fn pass_s(&mut self, seconds: i64) {
        self.pass_ms(seconds * 1_000);
    }

    pub(crate) fn create(&mut self, name: &str, settings: Settings) {
        self.run(|broker, sql, at| broker.create(sql, at, name, settings)).unwrap();
    }

    pub(crate) fn send_batch(&mut self, name: &str, batch: &NewBatch) -> Result<Sent, BrokerError> {
        self.run(|broker, sql, at| broker.send(sql, at, name, batch))
    }

    pub(crate) fn send(&mut self, name: &str, body: &str) -> Sent {
        self.send_batch(name, &batch(&[body])).unwrap()
    }

    pub(crate) fn try_take(&mut self, name: &str, max: usize) -> Result<Batch, BrokerError> {
        self.run(|broker, sql, at| broker.take(sql, at, name, Take { max, visibility_ms: None }))
    }

    /// Takes up to ten.
    pub(crate) fn take(&mut self, name: &str) -> Vec<Taken> {
        self.try_take(name, 10).unwrap().messages
    }

    /// The bodies of what can be taken, which is then leased.
    pub(crate) fn bodies(&mut self, name: &str) -> Vec<String> {
        self.take(name).iter().map(|taken| String::from_utf8(taken.message.body.clone()).unwrap()).collect()
    }

    pub(crate) fn settle(&mut self, name: &str, settle: &Settle) -> Settled {
        self.run(|broker, sql, at| broker.settle(sql, at, name, settle)).unwrap()
    }

    pub(crate) fn ack(&mut self, name: &str, taken: &[Taken]) -> Settled {
        self.settle(name, &Settle { acks: taken.iter().map(|taken| taken.lease).collect(), ..Settle::default() })
    }

    pub(crate) fn retry(&mut self, name: &str, taken: &[Taken], delay_s: Option<u32>) -> Settled {
        let retries = taken.iter().map(|taken| retry(taken.lease, delay_s)).collect();
        self.settle(name, &Settle { retries, ..Settle::default() })
    }

    pub(crate) fn sweep(&mut self) -> Swept {
        self.run(|broker, sql, at| broker.sweep(sql, at)).unwrap()
    }

    /// Sweeps until there is nothing more to do.
    pub(crate) fn sweep_all(&mut self) -> usize {
        let mut gone = 0;
        loop {
            let swept = self.sweep();
            gone += swept.gone.len();
            if !swept.more {
                return gone;
            }
        }
    }

    pub(crate) fn metrics(&mut self, name: &str) -> Metrics {
        self.run(|broker, sql, _| broker.metrics(sql, name)).unwrap()
    }

    /// Everything the store holds, but for numbers that may be skipped.
    pub(crate) fn dump(&self) -> Vec<String> {
        let tables = [
            "SELECT name || queue || paused FROM jadpo_queues",
            "SELECT name || enabled || coalesce(run_at, '') || coalesce(last_occurrence, '') FROM jadpo_triggers",
            "SELECT hex(key) || hex(id) FROM jadpo_queue_once",
            "SELECT name || token FROM jadpo_webhook_tokens",
            "SELECT queue || id || coalesce(script, '') FROM jadpo_queue_consumers",
            "SELECT id || name || hex(hash) || queues FROM jadpo_api_tokens",
            "SELECT id || state || at_due || ' ' || at_seq || ' ' || moved FROM jadpo_redrives",
            "SELECT queue FROM jadpo_queue_garbage",
            "SELECT seq || hex(id) || coalesce(dead_queue, '') FROM jadpo_queue_messages",
            "SELECT queue || ' ' || due_at || ' ' || seq || ' ' || attempts || leased || coalesce(progress, '') \
             FROM jadpo_queue_due",
        ];
        let rows = |sql: &str| -> Vec<String> {
            let mut prepared = self.connection.prepare(sql).unwrap();
            let rows = prepared.query_map([], |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
            rows.map(|row| format!("{:?}", row.unwrap())).collect()
        };
        tables.into_iter().flat_map(rows).collect()
    }

    pub(crate) fn count(&self, sql: &str) -> i64 {
        self.connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

pub(crate) fn message(body: &str) -> NewMessage {
    NewMessage { content: Content::Text, body: body.as_bytes().to_vec(), delay_s: None, meta: None }
}

pub(crate) fn delayed(body: &str, delay_s: u32) -> NewMessage {
    NewMessage { delay_s: Some(delay_s), ..message(body) }
}

pub(crate) fn batch(bodies: &[&str]) -> NewBatch {
    NewBatch { messages: bodies.iter().map(|body| message(body)).collect(), delay_s: None }
}

pub(crate) fn retry(lease: Lease, delay_s: Option<u32>) -> Retry {
    let delay_ms = delay_s.map(|seconds| seconds * 1_000);
    Retry { lease, delay_ms, reason: Reason::Retried, error: None, progress: None }
}

pub(crate) fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}
