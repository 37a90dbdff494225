//! The stores: `SQLite` in memory, made once for each thread and emptied for each run.

use std::cell::RefCell;

use jadpo_core::broker::{Arg, Sql};
use jadpo_core::store::{Row, Rows, Statement, StoreError, Value, classify, schema};
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection};

use crate::store::values;

thread_local! {
    static KEPT: RefCell<Vec<Database>> = const { RefCell::new(Vec::new()) };
}

/// The version of the queues' tables that the build needs.
const BROKER_VERSION: usize = jadpo_core::broker::schema::MIGRATIONS.len();

/// A database with every table there is.
pub(super) struct Database {
    connection: Connection,
    tables: Vec<String>,
}

/// A database that a run has; when the run is over it is emptied and kept for the thread's next one.
pub(super) struct Lent(Option<Database>);

impl Lent {
    /// An empty one.
    pub(super) fn new() -> Self {
        let kept = KEPT.with_borrow_mut(Vec::pop);
        Self(kept.or_else(|| Database::make().ok()))
    }
}

impl std::ops::Deref for Lent {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.0.as_ref().expect("SQLite opens a database in memory")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(database) = self.0.take().filter(|one| one.connection.is_autocommit() && one.reset().is_ok()) {
            KEPT.with_borrow_mut(|kept| kept.push(database));
        }
    }
}

impl Database {
    fn make() -> rusqlite::Result<Self> {
        let connection = Connection::open_in_memory()?;
        connection.set_prepared_statement_cache_capacity(256);
        // Or SQLite prepares a statement anew whenever a value is bound that its plan might depend on.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection
            .execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY")?;
        for migration in schema::MIGRATIONS.iter().chain(jadpo_core::broker::schema::MIGRATIONS) {
            connection.execute_batch(migration.sql)?;
        }
        let tables = {
            let mut list = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
            list.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?
        };
        let made = Self { connection, tables };
        made.reset()?;
        Ok(made)
    }

    /// As the migrations leave it, but with a key and an account that are the same in every run.
    fn reset(&self) -> rusqlite::Result<()> {
        self.connection.execute_batch("BEGIN")?;
        for table in &self.tables {
            self.connection.prepare_cached(&format!("DELETE FROM {table}"))?.execute([])?;
        }
        self.connection.execute_batch(&format!(
            "INSERT INTO jadpo_schema (only, version, next_seq, pruned_seq) VALUES (1, {}, 1, 0);
             INSERT INTO jadpo_broker (only, version, lease_key, next_seq, next_queue, clock_ms, age_ms, account)
             VALUES (1, {}, zeroblob(32), 1, 1, 0, 0, 'f');
             COMMIT",
            schema::SCHEMA_VERSION,
            BROKER_VERSION,
        ))
    }

    /// Sets both versions back, as a store is that a deploy has not migrated yet, or to what the build needs and no less.
    pub(super) fn migrate(&self, done: bool) {
        let (store, broker) = (schema::SCHEMA_VERSION, BROKER_VERSION);
        self.meddle(&if done {
            format!(
                "UPDATE jadpo_schema SET version = max(version, {store});
                 UPDATE jadpo_broker SET version = max(version, {broker})"
            )
        } else {
            format!("UPDATE jadpo_schema SET version = {}; UPDATE jadpo_broker SET version = {}", store - 1, broker - 1)
        });
    }

    /// Runs a statement on the side.
    pub(super) fn meddle(&self, sql: &str) {
        self.connection.execute_batch(sql).expect("what the simulation does to a store can be done");
    }

    /// Reads on the side.
    pub(super) fn look(&self, sql: &'static str, args: &[Arg<'_>]) -> Vec<Row> {
        run(&self.connection, sql, args).expect("what the simulation asks a store can be asked").rows
    }

    pub(super) fn number(&self, sql: &'static str, args: &[Arg<'_>]) -> Option<i64> {
        self.look(sql, args).first().and_then(|row| row.integer(0))
    }

    pub(super) fn begin(&self) {
        self.control("BEGIN IMMEDIATE");
    }

    /// Ends what [`Database::begin`] began.
    pub(super) fn end(&self, commit: bool) {
        if !self.connection.is_autocommit() {
            self.control(if commit { "COMMIT" } else { "ROLLBACK" });
        }
    }

    fn control(&self, sql: &'static str) {
        let ran = self.connection.prepare_cached(sql).and_then(|mut statement| statement.raw_execute());
        ran.expect("a transaction of a database in memory begins and ends");
    }

    /// A transaction of statements, as D1 and the native store run it. It fails at one of them, if it is to.
    ///
    /// # Errors
    /// What the store says.
    pub(super) fn batch(
        &self,
        statements: &[Statement],
        as_d1: bool,
        fails_at: Option<usize>,
        commit: bool,
    ) -> Result<Vec<Rows>, StoreError> {
        self.begin();
        let run = |(index, statement): (usize, &Statement)| {
            if fails_at == Some(index) {
                return Err("D1_ERROR: Network connection lost.".to_owned());
            }
            if as_d1 { self.as_d1(statement) } else { self.natively(statement) }
        };
        let ran: Result<Vec<Rows>, String> = statements.iter().enumerate().map(run).collect();
        self.end(commit && ran.is_ok());
        ran.map_err(|error| classify(&error))
    }

    /// Numbers go and come as JavaScript's.
    fn as_d1(&self, statement: &Statement) -> Result<Rows, String> {
        let text = |error: rusqlite::Error| values::error_text(&error);
        let before = self.connection.total_changes();
        let mut prepared = self.connection.prepare_cached(statement.sql).map_err(text)?;
        for (index, param) in statement.params.iter().enumerate() {
            prepared.raw_bind_parameter(index + 1, values::bound(param)?).map_err(text)?;
        }
        let rows = fetch(&mut prepared, values::handed_back).map_err(text)?;
        Ok(Rows { rows, changes: self.connection.total_changes() - before, rows_written: 0 })
    }

    fn natively(&self, statement: &Statement) -> Result<Rows, String> {
        let args: Vec<Arg<'_>> = statement
            .params
            .iter()
            .map(|param| match param {
                Value::Null | Value::Real(_) => Arg::Null,
                Value::Integer(number) => Arg::Integer(*number),
                Value::Text(text) => Arg::Text(text),
                Value::Blob(bytes) => Arg::Blob(bytes),
            })
            .collect();
        run(&self.connection, statement.sql, &args).map_err(|error| values::error_text(&error))
    }
}

/// The broker's way to the store, inside a transaction.
pub(super) struct Session<'a> {
    pub(super) database: &'a Database,
    /// After how many statements the store fails.
    pub(super) fails_in: Option<u32>,
    /// Whether it did.
    pub(super) failed: bool,
    /// A statement that has this in it is not run, and says that it was: a broker that forgets it.
    pub(super) left_out: Option<&'static str>,
}

impl Sql for Session<'_> {
    fn run(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<Rows, StoreError> {
        if let Some(left) = &mut self.fails_in {
            if *left == 0 {
                self.failed = true;
                return Err(StoreError::Unavailable("disk I/O error".to_owned()));
            }
            *left -= 1;
        }
        if self.left_out.is_some_and(|part| sql.contains(part)) {
            return Ok(Rows { rows: Vec::new(), changes: 1, rows_written: 0 });
        }
        run(&self.database.connection, sql, args).map_err(|error| classify(&error.to_string()))
    }
}

fn run(connection: &Connection, sql: &'static str, args: &[Arg<'_>]) -> rusqlite::Result<Rows> {
    let before = connection.total_changes();
    let mut prepared = connection.prepare_cached(sql)?;
    for (index, arg) in args.iter().enumerate() {
        match *arg {
            Arg::Null => prepared.raw_bind_parameter(index + 1, rusqlite::types::Null)?,
            Arg::Integer(number) => prepared.raw_bind_parameter(index + 1, number)?,
            Arg::Text(text) => prepared.raw_bind_parameter(index + 1, text)?,
            Arg::Blob(bytes) => prepared.raw_bind_parameter(index + 1, bytes)?,
        }
    }
    let rows = fetch(&mut prepared, values::as_stored)?;
    Ok(Rows { rows, changes: connection.total_changes() - before, rows_written: 0 })
}

fn fetch(prepared: &mut CachedStatement<'_>, value: fn(ValueRef<'_>) -> Value) -> rusqlite::Result<Vec<Row>> {
    let columns = prepared.column_count();
    let mut found = prepared.raw_query();
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(Row((0..columns).map(|at| row.get_ref(at).map(value)).collect::<rusqlite::Result<_>>()?));
    }
    Ok(rows)
}
