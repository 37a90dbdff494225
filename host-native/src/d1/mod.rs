//! D1 databases on this machine: each is a `SQLite` file with a thread of its own, held to D1's rules
//! (`jadpo_core::d1`) and asked by the binding that workerd itself has.

mod clock;
mod database;
mod error;
mod fence;
mod flush;
mod functions;
mod limits;
mod migrate;
mod open;
mod ran;
mod run;
mod texts;
mod turn;
mod watch;
mod written;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::StatusCode;
use hyper::body::Bytes;
use jadpo_core::d1::{self, Request, Unread};

use database::Database;
pub use error::{OpenError, RunError};
pub use migrate::{Applied, MigrateError, MigrateFailure, Migration, list as migrations, migrate};
pub use ran::Ran;

/// The longest key, so that a file's name takes it with its ending and SQLite's.
const KEY_BYTES_MAX: usize = 200;

/// The databases of one folder, `KEY.db` each, made when they are first asked. Clones share them; when the last is gone,
/// what was asked is finished and the files are closed.
#[derive(Debug, Clone)]
pub struct Databases {
    folder: Arc<PathBuf>,
    open: Arc<Mutex<BTreeMap<String, Database>>>,
}

/// What a binding is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The status. The binding looks into the body alone.
    pub status: StatusCode,
    /// The header [`SESSION`], if the request had it.
    pub session: Option<String>,
    /// A JSON text, or nothing.
    pub body: Bytes,
}

/// The header by which a session says what it has seen, and is told what it sees now: a bookmark.
pub const SESSION: &str = "x-cf-d1-session-commit-token";

impl Databases {
    /// The databases of a folder, which is made when the first of them is.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder: Arc::new(folder), open: Arc::default() }
    }

    /// Answers a request of a Worker's binding to the database of this key. Whatever was asked, there is an answer.
    /// `session` is the request's header [`SESSION`].
    pub async fn answer(&self, key: &str, path_and_query: &str, session: Option<&str>, body: Bytes) -> Answered {
        let failed = |status, error: &str| Answered { status, session: None, body: d1::failure(error).into() };
        if body.len() > d1::limits::REQUEST_BYTES_MAX {
            return failed(StatusCode::PAYLOAD_TOO_LARGE, d1::UNHOLDABLE);
        }
        let request = match read(path_and_query, body).await {
            Ok(request) => request,
            Err(Unread::NoSuchPath) => {
                return Answered { status: StatusCode::NOT_FOUND, session: None, body: Bytes::new() };
            }
            Err(Unread::Empty) => return failed(StatusCode::INTERNAL_SERVER_ERROR, "No SQL statements detected."),
            Err(Unread::Malformed(why)) => {
                return failed(StatusCode::BAD_REQUEST, &format!("the request is not one of a D1 binding: {why}"));
            }
        };
        let in_session = session.is_some_and(|session| !session.trim().is_empty());
        let ran = match self.database(key) {
            Ok(database) => database.with(move |base| Ok((base.answer(&request)?, base.bookmark()))).await,
            Err(error) => Err(error.into()),
        };
        match ran {
            Ok((body, bookmark)) => {
                Answered { status: StatusCode::OK, session: in_session.then_some(bookmark), body: body.into() }
            }
            Err(error) => failed(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    /// Runs the statements of a text one by one, as one transaction, and says what each did.
    ///
    /// # Errors
    /// [`RunError`]: nothing of it is kept.
    pub async fn execute(&self, key: &str, sql: String) -> Result<Vec<Ran>, RunError> {
        self.database(key)?.with(move |base| base.execute(&sql)).await
    }

    /// The file of a key, whether it is there or not.
    ///
    /// # Errors
    /// [`OpenError::Key`].
    pub fn file(&self, key: &str) -> Result<PathBuf, OpenError> {
        if is_key(key) { Ok(self.folder.join(format!("{key}.db"))) } else { Err(OpenError::Key(key.to_owned())) }
    }

    /// The folder that they are in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn database(&self, key: &str) -> Result<Database, OpenError> {
        let file = self.file(key)?;
        let mut open = self.lock();
        if let Some(database) = open.get(key).filter(|database| database.runs()) {
            return Ok(database.clone());
        }
        let database = Database::start(&file)?;
        open.insert(key.to_owned(), database.clone());
        Ok(database)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Database>> {
        // Nothing is done under this lock that could leave the map half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a request; a long one where that keeps nobody waiting.
async fn read(path_and_query: &str, body: Bytes) -> Result<Request, Unread> {
    const LONG: usize = 64 << 10;
    if body.len() <= LONG {
        return Request::read(path_and_query, &body);
    }
    let path = path_and_query.to_owned();
    let reading = tokio::task::spawn_blocking(move || Request::read(&path, &body));
    reading.await.unwrap_or_else(|error| Err(Unread::Malformed(error.to_string())))
}

/// Whether a key is one that `jadpo_core::workers::Database::key` makes: a name that leads out of no folder.
fn is_key(key: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(fits)
}

#[cfg(test)]
mod tests;
