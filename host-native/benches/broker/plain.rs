//! The peer: a queue on `SQLite` in as few statements as it takes, on one thread, with nothing around it. No queue
//! names, no settings, no limits, no counts, no lease ids that a stranger could not make up, no retries.
//!
//! Two layouts, since which one is faster depends on the case; the faster one counts.

use std::path::Path;

use rusqlite::{Connection, Result, params};

/// How messages are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One table, with an index of what is due.
    One,
    /// The bodies in one table, and what is due in another.
    Two,
}

pub(crate) struct Plain {
    connection: Connection,
    layout: Layout,
    next: i64,
}

const LEASED: i64 = 1_000;

impl Plain {
    pub(crate) fn open(path: &Path, layout: Layout) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.execute_batch(match layout {
            Layout::One => {
                "CREATE TABLE messages (seq INTEGER PRIMARY KEY, id BLOB, due_at INTEGER, attempts INTEGER, body BLOB);
                 CREATE INDEX due ON messages (due_at, seq);"
            }
            Layout::Two => {
                "CREATE TABLE messages (seq INTEGER PRIMARY KEY, id BLOB, body BLOB);
                 CREATE TABLE due (due_at INTEGER, seq INTEGER, attempts INTEGER, PRIMARY KEY (due_at, seq)) WITHOUT ROWID;"
            }
        })?;
        Ok(Self { connection, layout, next: 1 })
    }

    fn commit<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let done = work(self)?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(done)
    }

    /// Sends the same body so many times, in one commit.
    pub(crate) fn send(&mut self, count: usize, body: &[u8]) -> Result<()> {
        self.commit(|plain| (0..count).try_for_each(|_| plain.insert(body)))
    }

    fn insert(&mut self, body: &[u8]) -> Result<()> {
        let (seq, id) = (self.next, (self.next as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        self.next += 1;
        let id = id.to_be_bytes();
        match self.layout {
            Layout::One => {
                let insert = "INSERT INTO messages (seq, id, due_at, attempts, body) VALUES (?1, ?2, 0, 0, ?3)";
                self.connection.prepare_cached(insert)?.execute(params![seq, id, body])?;
            }
            Layout::Two => {
                let insert = "INSERT INTO messages (seq, id, body) VALUES (?1, ?2, ?3)";
                self.connection.prepare_cached(insert)?.execute(params![seq, id, body])?;
                let due = "INSERT INTO due (due_at, seq, attempts) VALUES (0, ?1, 0)";
                self.connection.prepare_cached(due)?.execute([seq])?;
            }
        }
        Ok(())
    }

    /// Leases so many, in one commit.
    pub(crate) fn take(&mut self, count: usize) -> Result<Vec<(i64, Vec<u8>)>> {
        self.commit(|plain| {
            let select = match plain.layout {
                Layout::One => "SELECT seq, body FROM messages WHERE due_at = 0 ORDER BY seq LIMIT ?1",
                Layout::Two => {
                    "SELECT d.seq, m.body FROM due d JOIN messages m ON m.seq = d.seq \
                     WHERE d.due_at = 0 ORDER BY d.seq LIMIT ?1"
                }
            };
            let mut select = plain.connection.prepare_cached(select)?;
            let taken = select.query_map([count as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let taken = taken.collect::<Result<Vec<(i64, Vec<u8>)>>>()?;
            let update = match plain.layout {
                Layout::One => {
                    "UPDATE messages SET due_at = ?1, attempts = attempts + 1 \
                     WHERE due_at = 0 AND seq BETWEEN ?2 AND ?3"
                }
                Layout::Two => {
                    "UPDATE due SET due_at = ?1, attempts = attempts + 1 WHERE due_at = 0 AND seq BETWEEN ?2 AND ?3"
                }
            };
            if let (Some(first), Some(last)) = (taken.first(), taken.last()) {
                plain.connection.prepare_cached(update)?.execute([LEASED, first.0, last.0])?;
            }
            Ok(taken)
        })
    }

    /// Acknowledges what was taken at once, in one commit.
    pub(crate) fn ack(&mut self, taken: &[(i64, Vec<u8>)]) -> Result<()> {
        let (Some(first), Some(last)) = (taken.first(), taken.last()) else { return Ok(()) };
        self.commit(|plain| {
            if plain.layout == Layout::Two {
                let due = "DELETE FROM due WHERE due_at = ?1 AND seq BETWEEN ?2 AND ?3";
                plain.connection.prepare_cached(due)?.execute([LEASED, first.0, last.0])?;
            }
            let messages = "DELETE FROM messages WHERE seq BETWEEN ?1 AND ?2";
            plain.connection.prepare_cached(messages)?.execute([first.0, last.0])?;
            Ok(())
        })
    }
}
