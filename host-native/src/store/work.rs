//! What the writer is asked to do.

use std::fmt;

use jadpo_core::broker::{Broker, BrokerError, Moment, NewBatch, Sent, Sql};
use jadpo_core::store::{Rows, Statement, StoreError};
use tokio::sync::oneshot;

/// A request on its way to the writer.
#[derive(Debug)]
pub(super) enum Job {
    Batch(BatchWork),
    Send(SendWork),
    /// An operation, and about how many bytes it writes.
    Broker(Box<dyn Work>, usize),
}

/// A batch of statements, and what came of it.
#[derive(Debug)]
pub(super) struct BatchWork {
    pub(super) statements: Vec<Statement>,
    pub(super) outcome: Option<Result<Vec<Rows>, StoreError>>,
    answer: oneshot::Sender<Result<Vec<Rows>, StoreError>>,
}

/// Messages on their way to a queue, and what came of them. They are no [`Operation`], so that the writer can hand
/// over at once what came at once.
#[derive(Debug)]
pub(super) struct SendWork {
    pub(super) queue: String,
    pub(super) batch: NewBatch,
    pub(super) outcome: Option<Result<Sent, BrokerError>>,
    answer: oneshot::Sender<Result<Sent, BrokerError>>,
}

/// An operation of the broker, and what came of it. It may be run again if its transaction is rolled back, for a fault
/// of its own or of another in its group.
pub(super) trait Work: fmt::Debug + Send {
    /// Runs it.
    ///
    /// # Errors
    /// A failure of the store. A refusal is an outcome like another.
    fn run(&mut self, broker: &mut Broker, sql: &mut dyn Sql, moment: Moment) -> Result<(), StoreError>;
    /// It is not committed.
    fn fail(&mut self, error: &StoreError);
    /// Whether it may have made a message ready.
    fn stirs(&self) -> bool;
    /// Tells who asked.
    fn answer(self: Box<Self>);
}

/// What the broker is to do.
pub(crate) trait Operation<T>:
    FnMut(&mut Broker, &mut dyn Sql, Moment) -> Result<T, BrokerError> + Send + 'static
{
}

impl<T, F> Operation<T> for F where
    F: FnMut(&mut Broker, &mut dyn Sql, Moment) -> Result<T, BrokerError> + Send + 'static
{
}

/// [`Work`] of any operation.
pub(super) struct BrokerWork<T, F> {
    operation: F,
    /// Says of some outcomes that they made no message ready. Without it all may have.
    is_quiet: Option<fn(&T) -> bool>,
    outcome: Option<Result<T, BrokerError>>,
    answer: oneshot::Sender<Result<T, BrokerError>>,
}

impl Job {
    /// About how many bytes it writes, where that may be many.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Batch(_) => 0,
            Self::Send(work) => work.batch.messages.iter().map(|message| message.body.len()).sum(),
            Self::Broker(_, bytes) => *bytes,
        }
    }

    /// Whether it may have made a message ready.
    pub(super) fn stirs(&self) -> bool {
        match self {
            Self::Batch(_) | Self::Send(_) => true,
            Self::Broker(work, _) => work.stirs(),
        }
    }

    /// Whether its statements were rolled back, though the transaction goes on.
    pub(super) fn left_nothing(&self) -> bool {
        matches!(self, Self::Batch(BatchWork { outcome: Some(Err(_)), .. }))
    }

    pub(super) fn as_send(&mut self) -> Option<&mut SendWork> {
        match self {
            Self::Send(work) => Some(work),
            _ => None,
        }
    }

    /// It is not committed. What was refused for its own reason keeps it.
    pub(super) fn fail(&mut self, error: &StoreError) {
        match self {
            Self::Batch(work) if !matches!(work.outcome, Some(Err(_))) => work.outcome = Some(Err(error.clone())),
            Self::Send(work) if !matches!(work.outcome, Some(Err(_))) => {
                work.outcome = Some(Err(error.clone().into()));
            }
            Self::Batch(_) | Self::Send(_) => {}
            Self::Broker(work, _) => work.fail(error),
        }
    }

    /// Tells who asked. Who no longer listens does not need to know; it is committed all the same.
    pub(super) fn answer(self) {
        match self {
            Self::Batch(work) => {
                let _ = work.outcome.map(|outcome| work.answer.send(outcome));
            }
            Self::Send(work) => {
                let _ = work.outcome.map(|outcome| work.answer.send(outcome));
            }
            Self::Broker(work, _) => work.answer(),
        }
    }
}

impl BatchWork {
    pub(super) fn new(statements: Vec<Statement>, answer: oneshot::Sender<Result<Vec<Rows>, StoreError>>) -> Self {
        Self { statements, outcome: None, answer }
    }
}

impl SendWork {
    pub(super) fn new(queue: String, batch: NewBatch, answer: oneshot::Sender<Result<Sent, BrokerError>>) -> Self {
        Self { queue, batch, outcome: None, answer }
    }
}

impl<T, F> BrokerWork<T, F> {
    pub(super) fn new(
        operation: F,
        is_quiet: Option<fn(&T) -> bool>,
        answer: oneshot::Sender<Result<T, BrokerError>>,
    ) -> Self {
        Self { operation, is_quiet, outcome: None, answer }
    }
}

impl<T: Send, F: Operation<T>> Work for BrokerWork<T, F> {
    fn run(&mut self, broker: &mut Broker, sql: &mut dyn Sql, moment: Moment) -> Result<(), StoreError> {
        let outcome = (self.operation)(broker, sql, moment);
        let failure = match &outcome {
            Err(BrokerError::Store(error)) => Err(error.clone()),
            _ => Ok(()),
        };
        self.outcome = Some(outcome);
        failure
    }

    fn fail(&mut self, error: &StoreError) {
        if !matches!(self.outcome, Some(Err(_))) {
            self.outcome = Some(Err(error.clone().into()));
        }
    }

    fn stirs(&self) -> bool {
        match (self.is_quiet, &self.outcome) {
            (Some(is_quiet), Some(Ok(done))) => !is_quiet(done),
            _ => true,
        }
    }

    fn answer(self: Box<Self>) {
        let Self { outcome, answer, .. } = *self;
        let _ = outcome.map(|outcome| answer.send(outcome));
    }
}

impl<T, F> fmt::Debug for BrokerWork<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BrokerWork")
    }
}
