//! How many rows a statement read and wrote, as D1 bills them. D1's SQLite counts every step of a cursor; ours does not
//! tell, so these are figures made of what it does tell. They are exact for the common statements, which a test holds
//! against workerd; where triggers or joins are involved they are about right, never more precise than that.

use std::collections::BTreeSet;

use rusqlite::{CachedStatement, Connection, StatementStatus};

/// Something that a statement would write, as SQLite tells while it compiles it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Write {
    /// Rows into a table.
    Insert(String),
    /// Rows out of a table.
    Delete(String),
    /// A column of a table's rows.
    Update(String, String),
    /// A table is made.
    Table(String),
    /// A view is made.
    View,
    /// Something else of the schema is made.
    Schema,
    /// A table is changed, or gets another name.
    Altered,
    /// Nothing: a table is read.
    Nothing,
}

/// Rows that a statement wrote which changed so many, and the schema too or not.
pub(super) fn rows_written(connection: &Connection, writes: &[Write], changes: u64, schema: bool) -> u64 {
    for write in writes.iter().filter(|_| schema) {
        match write {
            Write::Table(table) => return 2 + indexes(connection, table).map_or(0, |found| found.len() as u64),
            Write::View => return 2,
            Write::Schema => return 1,
            _ => {}
        }
    }
    if changes == 0 {
        return 0;
    }
    let Some(table) = only_table(writes) else { return changes };
    let inserts = writes.iter().any(|write| matches!(write, Write::Insert(_)));
    let columns: BTreeSet<&str> = writes.iter().filter_map(column).collect();
    let Some(indexes) = indexes(connection, table) else { return changes };
    match (inserts, columns.is_empty()) {
        // A row, and an entry in each index.
        (true, true) => changes * (1 + indexes.len() as u64) + u64::from(counts_ids(connection, table)),
        (false, false) => {
            let touched = indexes.iter().filter(|index| index.iter().any(|name| columns.contains(name.as_str())));
            changes * (1 + touched.count() as u64)
        }
        // An upsert may have done either, and a row that goes leaves its entries uncounted.
        _ => changes,
    }
}

/// Rows that a statement read which handed back so many.
pub(super) fn rows_read(statement: &CachedStatement<'_>, writes: &[Write], rows: u64, changes: u64) -> u64 {
    let inserts = writes.iter().any(|write| matches!(write, Write::Insert(_)));
    let steps = u64::try_from(statement.reset_status(StatementStatus::FullscanStep)).unwrap_or_default();
    // A scan's first row is no step.
    let scanned = if steps > 0 { steps + 1 } else { 0 };
    if inserts || writes.is_empty() { scanned } else { scanned.max(rows).max(changes) }
}

fn only_table(writes: &[Write]) -> Option<&str> {
    let tables: BTreeSet<&str> = writes
        .iter()
        .filter_map(|write| match write {
            Write::Insert(table) | Write::Delete(table) | Write::Update(table, _) => Some(table.as_str()),
            _ => None,
        })
        .collect();
    let mut tables = tables.into_iter();
    tables.next().filter(|_| tables.next().is_none())
}

fn column(write: &Write) -> Option<&str> {
    match write {
        Write::Update(_, column) => Some(column),
        _ => None,
    }
}

/// The columns of each index that is written beside its table, if that can be found out. The primary key of a table
/// without row ids is the table.
fn indexes(connection: &Connection, table: &str) -> Option<Vec<Vec<String>>> {
    const SQL: &str = "SELECT list.name, coalesce(info.name, '') FROM pragma_index_list(?1) AS list \
        JOIN pragma_index_info(list.name) AS info WHERE NOT (list.origin = 'pk' AND coalesce((SELECT wr FROM \
        pragma_table_list(?1) WHERE schema = 'main'), 0) = 1) ORDER BY list.name";
    let mut statement = connection.prepare_cached(SQL).ok()?;
    let found = statement.query_map([table], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).ok()?;
    let mut indexes: Vec<(String, Vec<String>)> = Vec::new();
    for (index, column) in found.flatten() {
        match indexes.last_mut().filter(|(name, _)| *name == index) {
            Some((_, columns)) => columns.push(column),
            None => indexes.push((index, vec![column])),
        }
    }
    Some(indexes.into_iter().map(|(_, columns)| columns).collect())
}

/// Whether each insert also writes a row of `sqlite_sequence`.
fn counts_ids(connection: &Connection, table: &str) -> bool {
    const SQL: &str = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE";
    let sql =
        connection.prepare_cached(SQL).and_then(|mut found| found.query_row([table], |row| row.get::<_, String>(0)));
    sql.is_ok_and(|sql| sql.to_ascii_uppercase().contains("AUTOINCREMENT"))
}
