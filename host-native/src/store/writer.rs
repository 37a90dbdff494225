//! The one thread that writes. What waits when it comes round shares one transaction and one sync of the disk; each
//! batch has a savepoint of its own, so that one that fails leaves the others alone.

use jadpo_core::store::{Row, Rows, Statement, StoreError, Value, classify};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};
use tokio::sync::mpsc;

use super::Job;

/// Batches in one transaction at most, so that the first of them does not wait for ever.
const GROUP_MAX: usize = 256;

type Answer = Result<Vec<Rows>, StoreError>;

/// Works until every handle is gone.
pub(super) fn run(connection: Connection, mut waiting: mpsc::Receiver<Job>) {
    let mut group = Vec::new();
    while waiting.blocking_recv_many(&mut group, GROUP_MAX) > 0 {
        let (batches, askers): (Vec<_>, Vec<_>) = group.drain(..).map(|job| (job.statements, job.answer)).unzip();
        let answers = commit(&connection, &batches);
        for (asker, answer) in askers.into_iter().zip(answers) {
            // Who no longer listens does not need to know; the batch is committed all the same.
            let _ = asker.send(answer);
        }
    }
}

/// One answer for each batch, in order.
fn commit(connection: &Connection, batches: &[Vec<Statement>]) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(batches.len());
    while answers.len() < batches.len() {
        let rest = batches.get(answers.len()..).unwrap_or_default();
        answers.extend(transaction(connection, rest));
    }
    answers
}

/// Runs as many of the batches as one transaction carries: all of them, unless SQLite gives the transaction up in the
/// middle (a full disk), which loses those before too. There is always at least one answer.
fn transaction(connection: &Connection, batches: &[Vec<Statement>]) -> Vec<Answer> {
    if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
        return batches.iter().map(|_| Err(classify(&error.to_string()))).collect();
    }
    let mut answers: Vec<Answer> = Vec::with_capacity(batches.len());
    for batch in batches {
        let answer = in_savepoint(connection, batch);
        let lost = connection.is_autocommit();
        let why = answer.as_ref().err().map_or_else(String::new, ToString::to_string);
        answers.push(answer);
        if lost {
            fail_all(&mut answers, &format!("its transaction was rolled back: {why}"));
            return answers;
        }
    }
    if let Err(error) = connection.execute_batch("COMMIT") {
        if !connection.is_autocommit() {
            // Nothing to be done about a failure here: the next BEGIN tells.
            let _ = connection.execute_batch("ROLLBACK");
        }
        fail_all(&mut answers, &error.to_string());
    }
    answers
}

/// Turns what had gone well into "not committed", and leaves what was refused for its own reason.
fn fail_all(answers: &mut [Answer], why: &str) {
    for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
        *answer = Err(StoreError::Unavailable(why.to_owned()));
    }
}

fn in_savepoint(connection: &Connection, batch: &[Statement]) -> Answer {
    let sql_error = |error: rusqlite::Error| classify(&error.to_string());
    connection.execute_batch("SAVEPOINT batch").map_err(sql_error)?;
    let answer: Result<Vec<Rows>, rusqlite::Error> = batch.iter().map(|one| statement(connection, one)).collect();
    if connection.is_autocommit() {
        return answer.map_err(sql_error);
    }
    let end = if answer.is_ok() { "RELEASE batch" } else { "ROLLBACK TO batch; RELEASE batch" };
    let ended = connection.execute_batch(end);
    answer.and_then(|rows| ended.map(|()| rows)).map_err(sql_error)
}

fn statement(connection: &Connection, statement: &Statement) -> Result<Rows, rusqlite::Error> {
    let before = connection.total_changes();
    let mut prepared: CachedStatement<'_> = connection.prepare_cached(statement.sql)?;
    let columns = prepared.column_count();
    let mut found = prepared.query(rusqlite::params_from_iter(statement.params.iter().map(Bound)))?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let values = (0..columns).map(|index| row.get_ref(index).map(value)).collect::<Result<_, _>>()?;
        rows.push(Row(values));
    }
    drop(found);
    Ok(Rows { rows, changes: connection.total_changes() - before, rows_written: 0 })
}

struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
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
