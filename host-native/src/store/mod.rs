//! The store natively: one SQLite file, one thread that writes, everything on disk before it is answered.

mod files;
mod lock;
mod open;
mod run;
mod work;
mod writer;

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use jadpo_core::broker::{BrokerError, NewBatch, Sent};
use jadpo_core::store::{Rows, Statement, StoreError};
use tokio::sync::{mpsc, oneshot, watch};

use files::Files;
pub use lock::StoreLock;
pub use open::{Durability, OpenError};
pub(crate) use work::Operation;
use work::{BatchWork, BrokerWork, Job, SendWork};
use writer::Standing;

/// Requests that may wait for the writer. What comes on top is told to come back, not made to wait without end.
const WAITING_MAX: usize = 1024;
/// More that may wait of the server's own: what was taken must be settled, however many ask.
const OWN_WAITING_MAX: usize = 512;

/// A handle to the store. Clones share the one writer, which ends when the last of them is gone.
#[derive(Debug, Clone)]
pub struct Store {
    jobs: mpsc::Sender<Job>,
    changes: watch::Receiver<u64>,
    /// Places that are not for this handle.
    reserved: usize,
    is_served: bool,
}

/// An open store: the handle, and the writer to wait for at the end.
#[derive(Debug)]
pub struct OpenStore {
    store: Store,
    writer: JoinHandle<()>,
    path: PathBuf,
}

impl OpenStore {
    /// Opens the file, makes it if it is not there, and brings it up to this build's version.
    ///
    /// # Errors
    /// [`OpenError`] if the file or its folder cannot be used, or a migration fails.
    pub fn create(path: &Path) -> Result<Self, OpenError> {
        Self::create_with(path, Durability::Full)
    }

    /// The same with a choice of what an answer promises.
    ///
    /// # Errors
    /// As [`OpenStore::create`].
    pub fn create_with(path: &Path, durability: Durability) -> Result<Self, OpenError> {
        Self::start(path, open::create_and_migrate(path, durability)?, Standing::Leads)
    }

    /// Opens a store that is there, as it is: nothing is made, and nothing brought up to date. If a server runs on it,
    /// its clock is that server's.
    ///
    /// # Errors
    /// [`OpenError`] if there is none, it is something else, or it cannot be used.
    pub fn existing(path: &Path) -> Result<Self, OpenError> {
        let connection = open::existing(path)?;
        let standing = if StoreLock::is_held(path)? { Standing::Beside } else { Standing::Alone };
        Self::start(path, connection, standing)
    }

    fn start(path: &Path, connection: rusqlite::Connection, standing: Standing) -> Result<Self, OpenError> {
        let files = Files::opened(path).map_err(|error| OpenError::io(path, &error))?;
        let (jobs, waiting) = mpsc::channel(WAITING_MAX + OWN_WAITING_MAX);
        let (changed, changes) = watch::channel(0);
        let writer = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || writer::run(connection, files, standing, waiting, changed))
            .map_err(|error| OpenError::io(path, &error))?;
        let is_served = standing != Standing::Alone;
        let store = Store { jobs, changes, reserved: OWN_WAITING_MAX, is_served };
        Ok(Self { store, writer, path: path.to_owned() })
    }

    /// A handle to it.
    #[must_use]
    pub fn handle(&self) -> Store {
        self.store.clone()
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until what was handed over is on disk and the file is closed. Other handles must be gone by then.
    pub fn close(self) {
        drop(self.store);
        // A writer that panicked has nothing left to close.
        let _ = self.writer.join();
    }
}

impl Store {
    /// The same store for the server's own work, which has places where whoever asks from outside has none.
    #[must_use]
    pub fn for_own_work(&self) -> Self {
        Self { reserved: 0, ..self.clone() }
    }

    /// Whether a server ran on it when it was opened, be it this process.
    pub(crate) fn is_served(&self) -> bool {
        self.is_served
    }

    /// Runs the statements as one transaction and answers when it is on disk.
    ///
    /// # Errors
    /// Any [`StoreError`]; `Unavailable` at once if too many requests wait already.
    pub async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.hand_over(Job::Batch(BatchWork::new(statements, answer)))?;
        answered.await.unwrap_or_else(|_| Err(closed_early()))
    }

    /// Runs an operation of the broker and answers when what it wrote is on disk.
    pub(crate) async fn broker<T: Send + 'static>(&self, operation: impl Operation<T>) -> Result<T, BrokerError> {
        self.broker_writing(0, operation).await
    }

    /// The same for one that writes about so many bytes.
    pub(crate) async fn broker_writing<T: Send + 'static>(
        &self,
        bytes: usize,
        operation: impl Operation<T>,
    ) -> Result<T, BrokerError> {
        let (answer, answered) = oneshot::channel();
        self.hand_over(Job::Broker(Box::new(BrokerWork::new(operation, None, answer)), bytes))?;
        answered.await.unwrap_or_else(|_| Err(closed_early().into()))
    }

    /// The same for one that makes no message ready if `is_quiet` says so of what it gave: nobody needs to look again
    /// for its sake.
    pub(crate) async fn broker_quietly<T: Send + 'static>(
        &self,
        is_quiet: fn(&T) -> bool,
        operation: impl Operation<T>,
    ) -> Result<T, BrokerError> {
        let (answer, answered) = oneshot::channel();
        self.hand_over(Job::Broker(Box::new(BrokerWork::new(operation, Some(is_quiet), answer)), 0))?;
        answered.await.unwrap_or_else(|_| Err(closed_early().into()))
    }

    /// Sends messages and answers when they are on disk.
    pub(crate) async fn send(&self, queue: String, batch: NewBatch) -> Result<Sent, BrokerError> {
        let (answer, answered) = oneshot::channel();
        self.hand_over(Job::Send(SendWork::new(queue, batch, answer)))?;
        answered.await.unwrap_or_else(|_| Err(closed_early().into()))
    }

    /// Changes whenever something was written that may have made a message ready.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    fn hand_over(&self, job: Job) -> Result<(), StoreError> {
        let full = || StoreError::Unavailable(format!("{WAITING_MAX} requests wait for it already"));
        // Some who look at the same moment may take a place too many of those kept; there are hundreds.
        if self.reserved > 0 && self.jobs.capacity() <= self.reserved {
            return Err(full());
        }
        self.jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => full(),
            mpsc::error::TrySendError::Closed(_) => StoreError::Unavailable("it is closed".to_owned()),
        })
    }
}

fn closed_early() -> StoreError {
    StoreError::Unavailable("it was closed before it answered".to_owned())
}

#[cfg(test)]
mod tests;
