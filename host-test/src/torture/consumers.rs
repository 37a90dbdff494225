//! Consumers beside the server's own: those who pull over HTTP and settle what they like when they like, senders who
//! wait for what becomes of their message, and operators who take single messages out.

use jadpo_core::broker::{
    Broker, Lease, MessageId, MessageRef, Moment, Peek, Peeked, Reason, Retaken, Retry, Settle, Sql, Take, Taken,
};

use super::coverage::Step;
use super::native::{JOBS, ORDERS};
use super::sim::Sim;
use super::world::{order, request};

/// How long a puller's lease lasts, in milliseconds.
const PULLED_MS: u32 = 20_000;
/// How long an attempt of somebody who waits may take, in milliseconds.
const WAITED_MS: u32 = 40_000;

/// Takes some messages, and settles any leases that pullers ever got: at once, late, twice, or never.
pub(super) fn pull(sim: &Sim) {
    let asking = sim.clone();
    request(sim, async move {
        let queue = asking.state().scheduler.pick(&["jobs-dead", "jobs-dead", JOBS]);
        let take = Take { max: asking.state().scheduler.random.usize(1..4), visibility_ms: Some(PULLED_MS) };
        let taken = asking.operation(
            Step::Take,
            |broker, sql, at| broker.take(sql, at, queue, take),
            |model, batch, times, _| model.took(queue, batch, PULLED_MS.into(), times),
        );
        let leases: Vec<Lease> =
            taken.await.map(|batch| batch.messages).unwrap_or_default().iter().map(|one| one.lease).collect();
        asking.state().native.pulled.extend(leases.iter().map(|lease| (queue, *lease)));
        let after_ms = {
            let scheduler = &mut asking.state().scheduler;
            scheduler.pick(&[0, 5_000, 19_999, 20_001, 90_000])
        };
        asking.sleep(Step::Window, after_ms).await;
        settle_any(&asking, queue).await;
    });
}

async fn settle_any(sim: &Sim, queue: &'static str) {
    let settle = {
        let state = &mut *sim.state();
        let pulled: Vec<Lease> =
            state.native.pulled.iter().filter(|(of, _)| *of == queue).map(|(_, lease)| *lease).collect();
        let mut settle = Settle::default();
        for lease in pulled.into_iter().rev().take(6) {
            match state.scheduler.random.u32(0..7) {
                0..2 => settle.acks.push(lease),
                2 | 3 => {
                    let delay_ms = state.scheduler.chance(70).then(|| state.scheduler.random.u32(0..40_000));
                    let (reason, error) = (Reason::Retried, Some("not now".to_owned()));
                    settle.retries.push(Retry { lease, delay_ms, reason, error, progress: None });
                }
                4 | 5 => settle.releases.push(lease),
                _ => {}
            }
        }
        settle
    };
    let settled = sim.operation(
        Step::Settle,
        |broker, sql, at| broker.settle(sql, at, queue, &settle),
        |model, settled, times, _| model.settled(queue, &settle, settled, 0, times),
    );
    let _ = settled.await;
}

/// Sends a message and has it handled at once, all its attempts without waiting between them.
pub(super) fn send_and_wait(sim: &Sim) {
    let asking = sim.clone();
    request(sim, async move {
        let message = order(&mut asking.state());
        let sent = asking.operation(
            Step::SendTaken,
            |broker, sql, at| broker.send_taken(sql, at, JOBS, &message, WAITED_MS),
            |model, taken, times, _| {
                model.sent(JOBS, taken.message.id, &message, 0, times);
                model.took_one(JOBS, taken, WAITED_MS.into(), times);
            },
        );
        let Ok(mut taken) = sent.await else { return };
        loop {
            asking.before(Step::Function).await;
            if asking.state().scheduler.chance(50) {
                return end(&asking, &taken).await;
            }
            let Some(next) = again(&asking, &taken).await else { return };
            taken = next;
        }
    });
}

async fn end(sim: &Sim, taken: &Taken) {
    let settle = Settle { acks: vec![taken.lease], ..Settle::default() };
    let settled = sim.operation(
        Step::Settle,
        |broker, sql, at| broker.settle(sql, at, JOBS, &settle),
        |model, settled, times, _| model.settled(JOBS, &settle, settled, 0, times),
    );
    let _ = settled.await;
}

async fn again(sim: &Sim, taken: &Taken) -> Option<Taken> {
    let error = Some("it failed".to_owned());
    let progress = Some(format!("step-{}", taken.message.attempts));
    let retry = Retry { lease: taken.lease, delay_ms: None, reason: Reason::Failed, error, progress };
    let retaken = sim.operation(
        Step::RetryTaken,
        |broker, sql, at| broker.retry_taken(sql, at, JOBS, &retry, WAITED_MS),
        |model, retaken, times, _| model.retook(JOBS, &retry, retaken, WAITED_MS.into(), times),
    );
    match retaken.await {
        Ok(Retaken::Taken(taken)) => Some(taken),
        _ => None,
    }
}

/// Looks at a queue, and takes a message out a while later, wherever it stands by then.
pub(super) fn remove(sim: &Sim) {
    let asking = sim.clone();
    request(sim, async move {
        let queue = asking.state().scheduler.pick(&[JOBS, "jobs-dead", ORDERS]);
        let peek = Peek { max: 10, after: None };
        let look = |broker: &mut Broker, sql: &mut dyn Sql, at: Moment| broker.peek(sql, at, queue, peek);
        let seen: Vec<Peeked> = asking.operation(Step::Manage, look, |_, _, _, _| {}).await.unwrap_or_default();
        if seen.is_empty() {
            return;
        }
        let after_ms = asking.state().scheduler.pick(&[0, 1_000, 40_000]);
        asking.sleep(Step::Window, after_ms).await;
        let one = asking.state().scheduler.random.usize(..seen.len());
        let (reference, id): (MessageRef, MessageId) = (seen[one].reference, seen[one].message.id);
        let remove = |broker: &mut Broker, sql: &mut dyn Sql, _| broker.remove(sql, queue, &[reference]);
        let removed =
            asking.operation(Step::Manage, remove, |model, removed, _, _| model.removed(queue, id, removed.removed));
        let _ = removed.await;
    });
}
