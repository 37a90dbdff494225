//! The queues' own store: the core's broker on `SQLite` in memory, under the host's time, faults and crashes.

use jadpo_core::broker::schema::MIGRATIONS;
use jadpo_core::broker::{Arg, Broker, BrokerError, Moment, Sql};
use jadpo_core::host::Host as _;
use jadpo_core::store::{Row, Rows, StoreError, Value, classify};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::TestHost;
use crate::clock::START_MS;
use crate::fault::StoreFault;

/// The broker and what it writes to.
pub(super) struct QueueStore {
    connection: Connection,
    /// None after a failure, until it has been read again.
    broker: Option<Broker>,
    /// The latest moment: this clock never runs back.
    steady_ms: i64,
}

impl QueueStore {
    pub(super) fn open() -> Self {
        let made = Connection::open_in_memory().and_then(|connection| {
            for migration in MIGRATIONS {
                connection.execute_batch(migration.sql)?;
            }
            Ok(connection)
        });
        let connection = made.unwrap_or_else(|error| panic!("the test's queues cannot be opened: {error}"));
        Self { connection, broker: None, steady_ms: 0 }
    }

    /// The process has died: what it had in memory is gone.
    pub(super) fn forget(&mut self) {
        self.broker = None;
    }

    /// How many messages' bodies it holds.
    pub(super) fn bodies(&self) -> i64 {
        let count = self.connection.query_one("SELECT count(*) FROM jadpo_queue_messages", [], |row| row.get(0));
        count.unwrap_or_else(|error| panic!("the test's queues cannot be read: {error}"))
    }

    /// Runs an operation in a transaction of its own, past every fault.
    pub(super) fn run<T>(
        &mut self,
        host: &TestHost,
        commit: bool,
        operation: impl FnOnce(&mut Broker, &mut dyn Sql, Moment) -> Result<T, BrokerError>,
    ) -> Result<T, BrokerError> {
        self.steady_ms = self.steady_ms.max(host.time_ms() - START_MS);
        let moment = Moment { wall_ms: host.now_ms(), steady_ms: self.steady_ms, random: host.random() };
        self.execute("BEGIN IMMEDIATE")?;
        let mut session = Session(&self.connection);
        let loaded = match self.broker.take() {
            Some(broker) => Ok(broker),
            None => Broker::load(&mut session, moment),
        };
        let done = loaded.map_err(BrokerError::from).and_then(|mut broker| {
            let done = operation(&mut broker, &mut session, moment);
            // After a failure of the store, and after a rollback, what it has in memory is not what is stored.
            self.broker = (commit && !matches!(done, Err(BrokerError::Store(_)))).then_some(broker);
            done
        });
        let keep = commit && done.is_ok();
        self.execute(if keep { "COMMIT" } else { "ROLLBACK" })?;
        done
    }

    fn execute(&self, sql: &str) -> Result<(), BrokerError> {
        self.connection.execute_batch(sql).map_err(|error| BrokerError::from(classify(&error.to_string())))
    }
}

/// Runs an operation as a host does: with the fault in force, and a crash point before and after it.
pub(super) async fn operate<T>(
    host: &TestHost,
    store: &std::cell::RefCell<QueueStore>,
    operation: impl FnOnce(&mut Broker, &mut dyn Sql, Moment) -> Result<T, BrokerError>,
) -> Result<T, BrokerError> {
    host.step().await;
    let fault = host.next_fault();
    if let Some(StoreFault::Slow(slow_ms)) = fault {
        host.sleep_ms(slow_ms.into()).await;
    }
    let lost = || BrokerError::from(StoreError::Unavailable("the store was lost".to_owned()));
    let done = match fault {
        Some(StoreFault::Down) => Err(lost()),
        Some(StoreFault::BeforeCommit) => store.borrow_mut().run(host, false, operation).and(Err(lost())),
        Some(StoreFault::AfterCommit) => store.borrow_mut().run(host, true, operation).and(Err(lost())),
        Some(StoreFault::Slow(_)) | None => store.borrow_mut().run(host, true, operation),
    };
    host.step().await;
    done
}

/// The broker's way to the store.
struct Session<'a>(&'a Connection);

impl Sql for Session<'_> {
    fn run(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<Rows, StoreError> {
        self.rows(sql, args).map_err(|error| classify(&error.to_string()))
    }
}

impl Session<'_> {
    fn rows(&self, sql: &str, args: &[Arg<'_>]) -> rusqlite::Result<Rows> {
        let before = self.0.total_changes();
        let mut prepared = self.0.prepare_cached(sql)?;
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
            let values = (0..columns).map(|at| row.get_ref(at).map(value)).collect::<rusqlite::Result<_>>()?;
            rows.push(Row(values));
        }
        drop(found);
        Ok(Rows { rows, changes: self.0.total_changes() - before, rows_written: 0 })
    }
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}
