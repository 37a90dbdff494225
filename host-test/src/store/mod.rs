//! `SQLite` held to D1's rules: its limits, its types, its transactions, its error texts, its bill.

mod limits;
pub(crate) mod values;
mod written;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jadpo_core::store::schema::{MIGRATIONS, Migration};
use jadpo_core::store::{Row, Rows, Statement};
use rusqlite::Connection;

use written::Written;

/// A database and what it has cost.
pub(crate) struct Store {
    connection: Connection,
    /// While true, a statement may not begin, end or leave the transaction.
    fenced: Arc<AtomicBool>,
    written: Written,
}

impl Store {
    /// An empty database, in memory or in a file.
    pub(crate) fn open(path: Option<&Path>) -> rusqlite::Result<Self> {
        let mut connection = path.map_or_else(Connection::open_in_memory, Connection::open)?;
        connection.execute_batch("PRAGMA foreign_keys = ON")?;
        connection.set_prepared_statement_cache_capacity(64);
        limits::set(&connection)?;
        let fenced = limits::fence(&mut connection)?;
        let written = Written::watch(&connection)?;
        Ok(Self { connection, fenced, written })
    }

    /// Runs the migrations that bring the store to `version`, as `wrangler d1 migrations apply` would.
    pub(crate) fn migrate_to(&mut self, version: u32) -> rusqlite::Result<()> {
        let at = self.version()?;
        for Migration { sql, .. } in MIGRATIONS.iter().filter(|step| step.version > at && step.version <= version) {
            self.connection.execute_batch(&format!("BEGIN; {sql}; COMMIT"))?;
        }
        self.written.watch_tables(&self.connection)
    }

    /// The version in `jadpo_schema`, 0 before the first migration.
    fn version(&self) -> rusqlite::Result<u32> {
        let made = self.connection.table_exists(None, "jadpo_schema")?;
        if made { self.connection.query_one("SELECT version FROM jadpo_schema", [], |row| row.get(0)) } else { Ok(0) }
    }

    /// Runs the statements as one transaction. With `commit` false it is rolled back at the end.
    ///
    /// # Errors
    /// The text that D1 would give.
    pub(crate) fn batch(&mut self, statements: &[Statement], commit: bool) -> Result<Vec<Rows>, String> {
        if statements.is_empty() {
            return Err("D1_ERROR: No SQL statements detected.".into());
        }
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(|error| values::error_text(&error))?;
        self.fenced.store(true, Ordering::SeqCst);
        let ran: Result<Vec<Rows>, String> = statements.iter().map(|statement| self.statement(statement)).collect();
        self.fenced.store(false, Ordering::SeqCst);
        let end = if commit && ran.is_ok() { "COMMIT" } else { "ROLLBACK" };
        if !self.connection.is_autocommit() {
            self.connection.execute_batch(end).map_err(|error| values::error_text(&error))?;
        }
        ran
    }

    fn statement(&mut self, statement: &Statement) -> Result<Rows, String> {
        limits::check(statement)?;
        self.written.start();
        let mut rows = Vec::new();
        let changes_before = self.connection.total_changes();
        {
            let mut prepared =
                self.connection.prepare_cached(statement.sql).map_err(|error| values::error_text(&error))?;
            if prepared.parameter_count() != statement.params.len() {
                return Err("D1_ERROR: Wrong number of parameter bindings for SQL query.".into());
            }
            let columns = prepared.column_count();
            limits::check_column_names(statement.sql, prepared.column_names());
            for (index, param) in statement.params.iter().enumerate() {
                let bound = values::bound(param)?;
                prepared.raw_bind_parameter(index + 1, bound).map_err(|error| values::error_text(&error))?;
            }
            let mut found = prepared.raw_query();
            while let Some(row) = found.next().map_err(|error| values::error_text(&error))? {
                let read: rusqlite::Result<Vec<_>> =
                    (0..columns).map(|at| row.get_ref(at).map(values::handed_back)).collect();
                rows.push(Row(read.map_err(|error| values::error_text(&error))?));
            }
        }
        let changes = self.connection.total_changes() - changes_before;
        Ok(Rows { rows, changes, rows_written: self.written.stop() })
    }

    /// Reads on the side, past every fault and limit: what a test looks at.
    pub(crate) fn look(&self, sql: &str) -> rusqlite::Result<Vec<Row>> {
        let mut prepared = self.connection.prepare_cached(sql)?;
        let columns = prepared.column_count();
        let found = prepared.query_map([], |row| {
            (0..columns).map(|at| row.get_ref(at).map(values::as_stored)).collect::<rusqlite::Result<Vec<_>>>().map(Row)
        })?;
        found.collect()
    }

    pub(crate) fn has(&self, table: &str) -> bool {
        self.connection.table_exists(None, table).unwrap_or(false)
    }

    /// Writes on the side: what a test does to the store that no host would.
    pub(crate) fn meddle(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.execute_batch(sql)
    }
}
