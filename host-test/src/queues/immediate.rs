//! Immediate mode: what is sent is handled before the sender is answered, as often as it may be tried, with no waiting
//! between. As `jadpo dev --queues=immediate` does it.

use jadpo_core::broker::{
    BrokerError, MessageId, NewMessage, Reason, Retaken, Retry, Run, RunOutcome, Settle, Taken, queue_trigger,
};
use jadpo_core::host::Host as _;
use jadpo_core::trigger::{Conclusion, Consumer, Declared, conclude};

use super::TestServer;
use super::drain::{functions, settle};
use super::store::operate;

/// The queue, if what is sent to it is handled at once: its messages go to functions, and this one is not delayed.
pub(super) fn takes<'a>(server: &'a TestServer, queue: &str, message: &NewMessage) -> Option<&'a Declared> {
    let is_now = *server.immediate.borrow() && message.delay_s.unwrap_or(0) == 0;
    let has_functions =
        |declared: &&Declared| matches!(&declared.consumer, Consumer::Functions(all) if !all.is_empty());
    server.triggers.get(queue).filter(has_functions).filter(|_| is_now)
}

/// Keeps a message and handles it to its end: done, or a dead letter.
///
/// # Errors
/// As the broker says; then it waits for the drain, if it is kept.
pub(super) async fn send(
    server: &TestServer,
    declared: &Declared,
    message: NewMessage,
) -> Result<MessageId, BrokerError> {
    let (host, queues, queue) = (&server.host, &server.queues, declared.queue.as_str());
    let lease_ms = declared.lease_ms();
    let taken = operate(host, queues, |broker, sql, moment| broker.send_taken(sql, moment, queue, &message, lease_ms));
    let mut next = taken.await?;
    let id = next.message.id;
    loop {
        let Taken { lease, message } = next;
        let outcomes = functions(server, declared, &message).await;
        let mut run = Run { at_ms: host.now_ms(), outcome: RunOutcome::Done, error: None, message: Some(id) };
        let again = match conclude(&message, &outcomes) {
            Conclusion::Done => {
                settle(server, queue, Settle { acks: vec![lease], ..Settle::default() }).await;
                None
            }
            Conclusion::Again { progress, error } => {
                (run.outcome, run.error) = (RunOutcome::Failed, Some(error.clone()));
                let retry = Retry { lease, delay_ms: None, reason: Reason::Failed, error: Some(error), progress };
                let retaken = operate(host, queues, |broker, sql, moment| {
                    broker.retry_taken(sql, moment, queue, &retry, lease_ms)
                });
                match retaken.await? {
                    Retaken::Taken(taken) => Some(taken),
                    Retaken::Gone(_) | Retaken::Lost(_) => None,
                }
            }
            Conclusion::NotStarted { progress, .. } => {
                let progress = progress.map(|progress| (lease, progress)).into_iter().collect();
                settle(server, queue, Settle { releases: vec![lease], progress, ..Settle::default() }).await;
                return Ok(id);
            }
        };
        let runs = [(queue_trigger(queue), run)];
        operate(host, queues, |broker, sql, _| broker.record_runs(sql, &runs)).await?;
        match again {
            Some(taken) => next = taken,
            None => return Ok(id),
        }
    }
}
