//! A database's thread: what is asked of it, one after the other.

use std::path::Path;
use std::thread;

use jadpo_core::d1::limits::DURATION_MAX;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout_at;

use super::error::{OpenError, RunError};
use super::flush::{Flusher, Reply};
use super::open::open;
use super::run::Base;
use super::turn::Turn;

/// Requests that may wait for one database. What comes on top is told that it is overloaded, as on D1.
const WAITING_MAX: usize = 1024;

/// What is asked, and then how it is answered.
type Job = Box<dyn FnOnce(Result<&mut Base, &OpenError>) -> Reply + Send>;

/// A handle to a database. Its thread ends when the last is gone.
#[derive(Debug, Clone)]
pub(super) struct Database {
    jobs: mpsc::Sender<Job>,
}

impl Database {
    /// Starts a thread, which opens the file when it is first asked, and makes it if it is not there.
    pub(super) fn start(file: &Path) -> Result<Self, OpenError> {
        let (jobs, mut waiting) = mpsc::channel::<Job>(WAITING_MAX);
        let path = file.to_owned();
        let run = move || {
            // First somebody must ask: who finds that it cannot be opened is told why.
            let Some(first) = waiting.blocking_recv() else { return };
            let opened = open(&path).and_then(|connection| {
                let flusher = Flusher::start(&path).map_err(|error| OpenError::unusable(&path, &error))?;
                Ok((Base::new(connection, &path, DURATION_MAX)?, flusher))
            });
            match opened {
                Ok((mut base, flusher)) => {
                    let mut next = Some(first);
                    while let Some(job) = next.take() {
                        let reply = job(Ok(&mut base));
                        flusher.answer(base.commit, reply);
                        if flusher.failed() {
                            break;
                        }
                        next = waiting.blocking_recv();
                    }
                }
                Err(error) => {
                    // Who waits is told. The next request finds that this thread ended, and tries again.
                    waiting.close();
                    first(Err(&error))(Ok(()));
                    while let Some(job) = waiting.blocking_recv() {
                        job(Err(&error))(Ok(()));
                    }
                }
            }
        };
        let started = thread::Builder::new().name("d1".to_owned()).spawn(run);
        started.map_err(|error| OpenError::unusable(file, &error))?;
        Ok(Self { jobs })
    }

    /// Whether its thread takes requests.
    pub(super) fn runs(&self) -> bool {
        !self.jobs.is_closed()
    }

    /// Does something on its thread. However long that is in something else, this ends in time.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Base) -> Result<T, RunError> + Send + 'static,
    ) -> Result<T, RunError> {
        self.in_turn(Turn::new(), work).await
    }

    /// The same, in this turn.
    pub(super) async fn in_turn<T: Send + 'static>(
        &self,
        turn: Turn,
        work: impl FnOnce(&mut Base) -> Result<T, RunError> + Send + 'static,
    ) -> Result<T, RunError> {
        let (answer, mut answered) = oneshot::channel();
        let its_turn = turn.clone();
        let job: Job = Box::new(move |base| {
            // Whoever asked may be gone, and then nobody waits for what it would do.
            if answer.is_closed() {
                return Box::new(|_| ());
            }
            let outcome = match base {
                Ok(base) => {
                    base.turn = its_turn;
                    work(base)
                }
                Err(error) => Err(RunError::Open(error.clone())),
            };
            Box::new(move |on_disk| {
                let lost = |why: &str| RunError::NotOnDisk(why.to_owned());
                let _ = answer.send(outcome.and_then(|done| on_disk.map(|()| done).map_err(lost)));
            })
        });
        self.jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => RunError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => RunError::Ended,
        })?;
        loop {
            if let Ok(answer) = timeout_at(turn.due().into(), &mut answered).await {
                return answer.unwrap_or(Err(RunError::Ended));
            }
            if let Some(error) = turn.give_up() {
                return Err(error);
            }
        }
    }
}
