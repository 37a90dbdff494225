//! Statements on an open database: one transaction for each request.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jadpo_core::d1::{Answer, Cell, Meta, Piece, Refusal, Request, Statement, Value, pieces, text};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, InterruptHandle, ToSql};

use super::clock::Clock;
use super::error::{OpenError, RunError};
use super::fence::Fence;
use super::ran::{Collected, Ran};
use super::texts;
use super::turn::Turn;
use super::watch::watch;
use super::written::{self, Write};
use crate::host::now_ms;

/// Operations of SQLite's between two looks at the clock: less than a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;
/// Statements of which it is remembered what they write, at most.
const KNOWN_MAX: usize = 512;
/// Bytes of a statement that is kept compiled, at most.
const KEPT_BYTES_MAX: usize = 8 << 10;
/// `SQLITE_AUTH`.
const AUTH: i32 = 23;

/// An open database, on its thread.
pub(super) struct Base {
    connection: Connection,
    fence: Fence,
    clock: Clock,
    interrupt: Arc<InterruptHandle>,
    /// The turn of the request that is served.
    pub(super) turn: Turn,
    /// The number of the last commit. The first is what was in the file.
    pub(super) commit: u64,
    /// What statements write, by their texts: SQLite tells only when it compiles one, and keeps it compiled.
    known: BTreeMap<String, Vec<Write>>,
    /// What a session is told that it has seen: the time and the number of the last change.
    bookmark: (i64, u32),
}

/// Where a statement's rows go.
pub(super) trait Rows {
    fn begin(&mut self, columns: &[&str]);
    fn row<'a>(&mut self, cells: impl Iterator<Item = Cell<'a>>) -> Result<(), RunError>;
    fn end(&mut self, sql: &str, meta: &Meta);
}

impl Base {
    pub(super) fn new(mut connection: Connection, file: &Path, limit: Duration) -> Result<Self, OpenError> {
        let unusable = |error: rusqlite::Error| OpenError::unusable(file, &error);
        let fence = Fence::build(&mut connection).map_err(unusable)?;
        let clock = Clock::new(limit);
        texts::add(&connection, &clock).map_err(unusable)?;
        let watched = clock.clone();
        connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || watched.is_over())).map_err(unusable)?;
        let interrupt = Arc::new(connection.get_interrupt_handle());
        let (known, bookmark) = (BTreeMap::new(), (now_ms(), 0));
        Ok(Self { connection, fence, clock, interrupt, turn: Turn::new(), commit: 1, known, bookmark })
    }

    /// Runs a request's statements as one transaction.
    pub(super) fn answer(&mut self, request: &Request) -> Result<Vec<u8>, RunError> {
        let mut answer = Answer::new(request.form);
        self.transaction(Self::alone(&request.statements), |base| {
            request.statements.iter().try_for_each(|statement| base.statement(statement, &mut answer))
        })?;
        Ok(answer.finish())
    }

    /// Runs the statements of a text, each with its own result, as one transaction.
    pub(super) fn execute(&mut self, sql: &str) -> Result<Vec<Ran>, RunError> {
        let mut ran = Collected::default();
        self.transaction(None, |base| {
            let statements = pieces(sql).filter(|piece| !piece.blank);
            for piece in statements {
                base.piece(piece.sql.trim(), &[], &mut ran)?;
            }
            Ok(())
        })?;
        Ok(ran.done)
    }

    /// What a session has seen once it has seen all that is here. It grows with every change, also from one run of the
    /// server to the next while the clock does, and compares as text.
    pub(super) fn bookmark(&self) -> String {
        let (at_ms, number) = self.bookmark;
        format!("{:08x}-{:08x}-{number:08x}-{:032x}", at_ms >> 32, at_ms & 0xffff_ffff, 0)
    }

    /// Does something in a transaction, all of it or nothing. If it is known to be one statement, it waits for another
    /// process that writes only if it writes itself.
    pub(super) fn transaction<T>(
        &mut self,
        alone: Option<&str>,
        work: impl FnOnce(&mut Self) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        self.turn.begin()?;
        let until = self.clock.set();
        if !self.connection.is_autocommit() {
            // The end of an earlier one failed.
            self.own("ROLLBACK")?;
        }
        let reads = match alone {
            None => false,
            Some(sql) => {
                self.own("BEGIN")?;
                let reads = self.only_reads(sql);
                if !reads {
                    self.own("COMMIT")?;
                }
                reads
            }
        };
        if !reads {
            self.own("BEGIN IMMEDIATE")?;
        }
        let before = self.connection.total_changes();
        let watched = watch(Arc::clone(&self.interrupt), until);
        let outcome = work(self);
        drop(watched);
        self.fence.put(false);
        let outcome = outcome.and_then(|done| {
            self.in_time()?;
            self.turn.end()?;
            self.own("COMMIT").map(|()| done)
        });
        // What failed at the end, too, leaves the transaction open; a conflict may have ended it already.
        if outcome.is_err() && !self.connection.is_autocommit() {
            // The time may be over, which would interrupt this as well.
            self.clock.clear();
            self.own("ROLLBACK")?;
        }
        if !reads || self.connection.total_changes() != before {
            self.commit += 1;
            self.bookmark = (now_ms().max(self.bookmark.0), self.bookmark.1.wrapping_add(1));
        }
        self.clock.clear();
        outcome
    }

    /// # Errors
    /// The time is over.
    fn in_time(&self) -> Result<(), RunError> {
        if self.clock.is_over() { Err(RunError::TimedOut) } else { Ok(()) }
    }

    /// One statement of a request: all but the last of its pieces for their effect alone.
    fn statement(&mut self, statement: &Statement, into: &mut Answer) -> Result<(), RunError> {
        let before = self.sizes()?;
        let mut rest = pieces(&statement.sql).peekable();
        let began = Instant::now();
        while let Some(piece) = rest.next() {
            if rest.peek().is_some() {
                self.aside(piece)?;
                continue;
            }
            let Some(sql) = Some(piece.sql).filter(|_| !piece.blank) else { return Err(no_statement()) };
            return self.last(sql, &statement.params, into, &before, began);
        }
        Err(no_statement())
    }

    /// One statement with its result.
    pub(super) fn piece(&mut self, sql: &str, params: &[Value], into: &mut impl Rows) -> Result<(), RunError> {
        let before = self.sizes()?;
        self.last(sql, params, into, &before, Instant::now())
    }

    /// A statement before the last: it is run, and what it hands back is nobody's.
    fn aside(&mut self, piece: Piece<'_>) -> Result<(), RunError> {
        if piece.blank {
            return Err(no_statement());
        }
        self.in_time()?;
        self.fence.put(true);
        let mut prepared = self.connection.prepare_cached(piece.sql).map_err(|error| self.error(&error))?;
        if prepared.parameter_count() > 0 {
            return Err(RunError::Failed(
                "When executing multiple SQL statements in a single call, only the last statement can have parameters."
                    .to_owned(),
            ));
        }
        let mut found = prepared.raw_query();
        while found.next().map_err(|error| self.error(&error))?.is_some() {}
        drop(found);
        put_away(prepared, piece.sql);
        if self.fence.writes().contains(&Write::Altered) {
            self.nothing_reserved()?;
        }
        self.fence.put(false);
        Ok(())
    }

    /// SQLite does not ask about the name that a table gets.
    fn nothing_reserved(&self) -> Result<(), RunError> {
        const RESERVED: &str = "SELECT count(*) FROM sqlite_schema WHERE lower(substr(name, 1, 4)) = '_cf_'";
        self.fence.put(false);
        match self.connection.query_row(RESERVED, [], |row| row.get::<_, i64>(0)) {
            Ok(0) => Ok(()),
            Ok(_) => Err(RunError::Failed(text("not authorized", AUTH, None))),
            Err(error) => Err(self.error(&error)),
        }
    }

    /// The statement whose result is the request's.
    fn last(
        &mut self,
        sql: &str,
        params: &[Value],
        into: &mut impl Rows,
        before: &Sizes,
        began: Instant,
    ) -> Result<(), RunError> {
        self.in_time()?;
        self.fence.put(true);
        let mut prepared = self.connection.prepare_cached(sql).map_err(|error| self.error(&error))?;
        let compiled = self.fence.writes();
        let changes_before = self.connection.total_changes();
        let count = self.step(&mut prepared, params, into)?;
        let changes = self.connection.total_changes() - changes_before;
        let writes = if compiled.is_empty() { self.known.get(sql).cloned().unwrap_or_default() } else { compiled };
        let rows_read = written::rows_read(&prepared, &writes, count, changes);
        put_away(prepared, sql);
        self.fence.put(false);
        if writes.contains(&Write::Altered) {
            self.nothing_reserved()?;
        }
        let after = self.sizes()?;
        let rows_written = written::rows_written(&self.connection, &writes, changes, after.schema != before.schema);
        self.remember(sql, writes);
        let duration_ms = began.elapsed().as_secs_f64() * 1000.0;
        into.end(
            sql,
            &Meta {
                duration_ms,
                changes: after.changes - before.changes,
                last_row_id: after.last_row_id,
                changed_db: after.differs(before),
                size_after: after.bytes,
                rows_read,
                rows_written,
            },
        );
        Ok(())
    }

    /// Binds, steps through the rows and hands them on; how many there were.
    fn step(
        &self,
        prepared: &mut CachedStatement<'_>,
        params: &[Value],
        into: &mut impl Rows,
    ) -> Result<u64, RunError> {
        if prepared.parameter_count() != params.len() {
            return Err(RunError::Failed("Wrong number of parameter bindings for SQL query.".to_owned()));
        }
        for (index, param) in params.iter().enumerate() {
            prepared.raw_bind_parameter(index + 1, Bound(param)).map_err(|error| self.error(&error))?;
        }
        into.begin(&prepared.column_names().collect::<Vec<_>>());
        let columns = prepared.column_count();
        let mut found = prepared.raw_query();
        let mut count = 0;
        while let Some(row) = found.next().map_err(|error| self.error(&error))? {
            count += 1;
            into.row((0..columns).map(|index| row.get_ref(index).map_or(Cell::Null, cell)))?;
        }
        Ok(count)
    }

    /// The one statement of a request that has one.
    fn alone(statements: &[Statement]) -> Option<&str> {
        let [Statement { sql, .. }] = statements else { return None };
        let mut pieces = pieces(sql);
        match (pieces.next(), pieces.next()) {
            (Some(piece), None) => Some(piece.sql),
            _ => None,
        }
    }

    /// Whether a statement only reads. To be asked in a transaction alone: some pragmas take effect when they are
    /// compiled, and in a transaction those that matter do not.
    fn only_reads(&mut self, sql: &str) -> bool {
        self.fence.put(true);
        let reads = self.connection.prepare_cached(sql).is_ok_and(|prepared| {
            let reads = prepared.readonly();
            put_away(prepared, sql);
            reads
        });
        let writes = self.fence.writes();
        self.fence.put(false);
        self.remember(sql, writes);
        reads
    }

    fn remember(&mut self, sql: &str, writes: Vec<Write>) {
        if writes.is_empty() || !is_kept(sql) || self.known.contains_key(sql) {
            return;
        }
        if self.known.len() >= KNOWN_MAX {
            // What is forgotten must be compiled again, to be told again.
            self.connection.flush_prepared_statement_cache();
            self.known.clear();
        }
        self.known.insert(sql.to_owned(), writes);
    }

    fn sizes(&self) -> Result<Sizes, RunError> {
        const PAGES: &str = "SELECT (SELECT page_count FROM pragma_page_count) - \
            (SELECT freelist_count FROM pragma_freelist_count), (SELECT page_size FROM pragma_page_size), \
            (SELECT schema_version FROM pragma_schema_version)";
        self.fence.put(false);
        let mut prepared = self.connection.prepare_cached(PAGES).map_err(|error| self.error(&error))?;
        let (pages, page, schema): (i64, i64, i64) = prepared
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .map_err(|error| self.error(&error))?;
        Ok(Sizes {
            bytes: u64::try_from(pages * page).unwrap_or_default(),
            changes: self.connection.total_changes(),
            last_row_id: self.connection.last_insert_rowid(),
            schema,
        })
    }

    /// Runs a statement of the host's. It is not kept compiled: whoever asks for the same text would get it past the
    /// fence.
    pub(super) fn own(&self, sql: &'static str) -> Result<(), RunError> {
        self.fence.put(false);
        self.connection.execute_batch(sql).map_err(|error| self.error(&error))
    }

    fn error(&self, error: &rusqlite::Error) -> RunError {
        match self.fence.refused() {
            Some(Refusal::Transaction) => RunError::Transaction,
            _ => RunError::of(error, self.clock.is_over()),
        }
    }
}

/// Whether a statement is kept compiled: not if compiling it is what does its work, nor if its text is long.
fn is_kept(sql: &str) -> bool {
    sql.len() <= KEPT_BYTES_MAX && !sql.to_ascii_lowercase().contains("pragma")
}

fn put_away(prepared: CachedStatement<'_>, sql: &str) {
    if !is_kept(sql) {
        prepared.discard();
    }
}

fn no_statement() -> RunError {
    RunError::Failed("SQL code did not contain a statement.".to_owned())
}

/// How large a database is, and how much has happened in it.
struct Sizes {
    bytes: u64,
    changes: u64,
    last_row_id: i64,
    schema: i64,
}

impl Sizes {
    /// Whether anything changed, as far as D1 looks: a change of the schema that needs no page is none.
    fn differs(&self, before: &Self) -> bool {
        (self.bytes, self.changes, self.last_row_id) != (before.bytes, before.changes, before.last_row_id)
    }
}

impl Rows for Answer {
    fn begin(&mut self, columns: &[&str]) {
        Self::begin(self, columns);
    }

    fn row<'a>(&mut self, cells: impl Iterator<Item = Cell<'a>>) -> Result<(), RunError> {
        Self::row(self, cells).map_err(|_| RunError::TooLarge)
    }

    fn end(&mut self, _sql: &str, meta: &Meta) {
        Self::end(self, meta);
    }
}

/// A parameter.
struct Bound<'a>(&'a Value);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(bytes) => ValueRef::Text(bytes),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn cell(value: ValueRef<'_>) -> Cell<'_> {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Real(number) => Cell::Real(number),
        ValueRef::Text(bytes) => Cell::Text(bytes),
        ValueRef::Blob(bytes) => Cell::Blob(bytes),
    }
}
