//! Statements on a connection.

use jadpo_core::broker::{Arg, Sql};
use jadpo_core::store::{Row, Rows, Statement, StoreError, Value, classify};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};

fn sql_error(error: &rusqlite::Error) -> StoreError {
    classify(&error.to_string())
}

/// Runs a statement that takes nothing and gives nothing.
pub(super) fn cached(connection: &Connection, sql: &'static str) -> Result<(), StoreError> {
    let run = || connection.prepare_cached(sql)?.raw_execute();
    run().map(drop).map_err(|error| sql_error(&error))
}

/// Asks for one number.
pub(super) fn number(connection: &Connection, sql: &'static str) -> Result<i64, StoreError> {
    let ask = || connection.prepare_cached(sql)?.query_row([], |row| row.get(0));
    ask().map_err(|error| sql_error(&error))
}

/// Runs what writes in a savepoint: if it fails, nothing of it is left.
pub(super) fn in_savepoint<T>(
    connection: &Connection,
    write: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    cached(connection, "SAVEPOINT request")?;
    let outcome = write();
    if connection.is_autocommit() {
        return outcome;
    }
    let ended = end_savepoint(connection, outcome.is_ok());
    outcome.and_then(|value| ended.map(|()| value))
}

/// Keeps or undoes what was written since the savepoint. There is none left if the transaction is gone.
pub(super) fn end_savepoint(connection: &Connection, keep: bool) -> Result<(), StoreError> {
    if connection.is_autocommit() {
        return Ok(());
    }
    if !keep {
        cached(connection, "ROLLBACK TO request")?;
    }
    cached(connection, "RELEASE request")
}

/// Runs statements in order, up to the first that fails.
pub(super) fn batch(connection: &Connection, statements: &[Statement]) -> Result<Vec<Rows>, StoreError> {
    let run = |one: &Statement| statement(connection, one.sql, one.params.iter().map(bound));
    statements.iter().map(run).collect::<Result<_, _>>().map_err(|error| sql_error(&error))
}

/// The broker's way to the store, inside the writer's transaction. It keeps hold of the statement that ran last, since
/// the same one often runs many times in a row.
pub(super) struct Session<'a> {
    connection: &'a Connection,
    last: Option<(&'static str, CachedStatement<'a>)>,
}

impl<'a> Session<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, last: None }
    }
}

impl Sql for Session<'_> {
    fn run(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<Rows, StoreError> {
        let mut prepared = match self.last.take() {
            Some((last, prepared)) if std::ptr::eq(last, sql) => prepared,
            _ => self.connection.prepare_cached(sql).map_err(|error| sql_error(&error))?,
        };
        let bound = args.iter().map(|arg| match *arg {
            Arg::Null => ValueRef::Null,
            Arg::Integer(number) => ValueRef::Integer(number),
            Arg::Text(text) => ValueRef::Text(text.as_bytes()),
            Arg::Blob(bytes) => ValueRef::Blob(bytes),
        });
        let rows = execute(self.connection, &mut prepared, bound).map_err(|error| sql_error(&error))?;
        self.last = Some((sql, prepared));
        Ok(rows)
    }
}

fn statement<'a>(
    connection: &Connection,
    sql: &'static str,
    params: impl Iterator<Item = ValueRef<'a>>,
) -> Result<Rows, rusqlite::Error> {
    execute(connection, &mut connection.prepare_cached(sql)?, params)
}

fn execute<'a>(
    connection: &Connection,
    prepared: &mut CachedStatement<'_>,
    params: impl Iterator<Item = ValueRef<'a>>,
) -> Result<Rows, rusqlite::Error> {
    let before = connection.total_changes();
    for (index, param) in params.enumerate() {
        prepared.raw_bind_parameter(index + 1, Bound(param))?;
    }
    let columns = prepared.column_count();
    let mut found = prepared.raw_query();
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let mut values = Vec::with_capacity(columns);
        for index in 0..columns {
            values.push(value(row.get_ref(index)?));
        }
        rows.push(Row(values));
    }
    drop(found);
    Ok(Rows { rows, changes: connection.total_changes() - before, rows_written: 0 })
}

struct Bound<'a>(ValueRef<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.0))
    }
}

fn bound(value: &Value) -> ValueRef<'_> {
    match value {
        Value::Null => ValueRef::Null,
        Value::Integer(number) => ValueRef::Integer(*number),
        Value::Real(number) => ValueRef::Real(*number),
        Value::Text(text) => ValueRef::Text(text.as_bytes()),
        Value::Blob(bytes) => ValueRef::Blob(bytes),
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
