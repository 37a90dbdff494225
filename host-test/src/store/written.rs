//! Rows written, counted as D1 bills them.
//!
//! D1's engine counts a row put into a table or changed there, an entry put into an index, and a row taken out; an
//! index entry taken out is free, and so is a row that `ON CONFLICT DO NOTHING` left alone. `SQLite` does not count
//! that, so each table gets temporary triggers that do: they see every row, know which columns an UPDATE sets, and
//! can work out whether a partial index holds the row. Tables with `AUTOINCREMENT` write one row more per statement,
//! into `sqlite_sequence`. Not counted: what a migration writes, and the entries that an UPDATE of a primary key
//! rewrites in the other indexes of a `WITHOUT ROWID` table (we have no such table).

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

/// The counter of the statement that runs.
pub(super) struct Written {
    rows: Arc<AtomicU64>,
    sequenced: Arc<AtomicBool>,
}

/// An index that is written beside its table.
struct Index {
    columns: Vec<String>,
    /// The condition of a partial index.
    holds_where: Option<String>,
}

impl Written {
    /// Gives the connection the function that the triggers call: `jadpo_test_written(rows, sequenced)`.
    pub(super) fn watch(connection: &Connection) -> rusqlite::Result<Self> {
        let written = Self { rows: Arc::default(), sequenced: Arc::default() };
        let (rows, sequenced) = (written.rows.clone(), written.sequenced.clone());
        connection.create_scalar_function("jadpo_test_written", 2, FunctionFlags::SQLITE_UTF8, move |context| {
            rows.fetch_add(context.get::<u32>(0)?.into(), Ordering::SeqCst);
            sequenced.fetch_or(context.get::<bool>(1)?, Ordering::SeqCst);
            Ok(0)
        })?;
        Ok(written)
    }

    /// Gives every table its triggers, anew after a migration.
    pub(super) fn watch_tables(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut tables = connection.prepare(
            "SELECT name, sql FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
        )?;
        let tables: Vec<(String, String)> =
            tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
        for (table, sql) in tables {
            let sequenced = sql.to_ascii_uppercase().contains("AUTOINCREMENT");
            connection.execute_batch(&triggers(
                &table,
                sequenced,
                &columns(connection, &table)?,
                &indexes(connection, &table)?,
            ))?;
        }
        Ok(())
    }

    pub(super) fn start(&self) {
        self.rows.store(0, Ordering::SeqCst);
        self.sequenced.store(false, Ordering::SeqCst);
    }

    /// Rows that the statement wrote since [`Written::start`].
    pub(super) fn stop(&self) -> u64 {
        self.rows.load(Ordering::SeqCst) + u64::from(self.sequenced.load(Ordering::SeqCst))
    }
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut columns = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    columns.query_map([table], |row| row.get(0))?.collect()
}

/// The indexes of a table that are written on their own: not the primary key of a `WITHOUT ROWID` table, which is
/// the table.
fn indexes(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Index>> {
    let mut list = connection.prepare(
        "SELECT list.name, made.sql FROM pragma_index_list(?1) AS list
         LEFT JOIN main.sqlite_schema AS made ON made.name = list.name
         WHERE NOT (list.origin = 'pk' AND (SELECT wr FROM pragma_table_list(?1) WHERE schema = 'main') = 1)",
    )?;
    let list: Vec<(String, Option<String>)> =
        list.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    let mut indexes = Vec::new();
    for (name, sql) in list {
        let mut columns = connection.prepare("SELECT name FROM pragma_index_info(?1)")?;
        let columns = columns.query_map([name], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
        let holds_where =
            sql.as_deref().and_then(|sql| sql.split_once(" WHERE ")).map(|(_, condition)| condition.to_owned());
        indexes.push(Index { columns, holds_where });
    }
    Ok(indexes)
}

/// The triggers of one table. An index's condition is worked out over the new row under its columns' own names.
fn triggers(table: &str, sequenced: bool, columns: &[String], indexes: &[Index]) -> String {
    let named: Vec<String> = columns.iter().map(|column| format!("NEW.\"{column}\" AS \"{column}\"")).collect();
    let entry = |index: &Index| match &index.holds_where {
        Some(condition) => format!("(SELECT ({condition}) IS TRUE FROM (SELECT {}))", named.join(", ")),
        None => "1".to_owned(),
    };
    let entries: Vec<String> = indexes.iter().map(entry).collect();
    let on_insert: String = entries.iter().map(|entry| format!(" + {entry}")).collect();
    let mut sql = String::new();
    let mut trigger = |kind: &str, when: &str, rows: &str, sequenced: bool| {
        let name = format!("jadpo_test_{table}_{kind}");
        let _ = writeln!(
            sql,
            "DROP TRIGGER IF EXISTS temp.\"{name}\";
             CREATE TEMP TRIGGER \"{name}\" AFTER {when} ON main.\"{table}\" BEGIN
                 SELECT jadpo_test_written({rows}, {sequenced});
             END;"
        );
    };
    trigger("insert", "INSERT", &format!("1{on_insert}"), sequenced);
    trigger("delete", "DELETE", "1", false);
    trigger("update", "UPDATE", "1", false);
    for (at, (index, entry)) in indexes.iter().zip(&entries).enumerate() {
        let set: Vec<String> = index.columns.iter().map(|column| format!("\"{column}\"")).collect();
        trigger(&format!("index_{at}"), &format!("UPDATE OF {}", set.join(", ")), entry, false);
    }
    sql
}
