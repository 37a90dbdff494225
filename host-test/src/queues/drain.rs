//! The drain: takes what is due, calls functions or receives, and settles; the occurrences of schedules.

use futures_util::future::join_all;
use jadpo_core::broker::limits::BATCH_COUNT_MAX;
use jadpo_core::broker::{
    BrokerError, Message, NewMessage, Reason, Retry, Run, RunOutcome, Settle, Take, Taken, Wake, queue_trigger,
};
use jadpo_core::deliver::deliver;
use jadpo_core::host::{Call, CallOutcome, Host as _, Level, LogEntry};
use jadpo_core::program::Target;
use jadpo_core::receive::receive;
use jadpo_core::trigger::{
    self, Conclusion, Consumer, Declared, FunctionCall, FunctionOutcome, NOT_STARTED_PAUSE_MS, Triggers, conclude,
};

use super::store::operate;
use super::{TestServer, request};
use crate::app::WAIT_UNTIL_MS;
use crate::names;

/// The pause before the store is asked again that failed, in milliseconds.
pub(super) const PAUSE_FAILED_MS: i64 = 1_000;
/// How long a settle is tried again that the store does not take, in milliseconds; after that its lease ends.
const TRY_AGAIN_MAX_MS: i64 = 20_000;

/// The queues that somebody handles.
pub(super) fn handled(triggers: &Triggers) -> Vec<String> {
    let handled = triggers.declared().filter(|declared| declared.consumer != Consumer::Nobody);
    handled.map(|declared| declared.queue.clone()).collect()
}

/// Takes what is due from every queue and sees it handled.
pub(super) async fn round(server: &TestServer) {
    let names = handled(&server.triggers);
    let wakes = operate(&server.host, &server.queues, |broker, sql, moment| broker.wakes(sql, moment, &names)).await;
    let Ok(wakes) = wakes else {
        server.host.sleep_ms(PAUSE_FAILED_MS).await;
        return;
    };
    let ready = wakes.into_iter().filter(|(_, Wake { ready, next_in_ms, .. })| *ready > 0 || *next_in_ms == Some(0));
    let due = ready.filter_map(|(queue, _)| server.triggers.get(&queue));
    join_all(due.map(|declared| handle(server, declared))).await;
}

async fn handle(server: &TestServer, declared: &Declared) {
    let max = match declared.consumer {
        Consumer::Functions(_) => BATCH_COUNT_MAX.min(declared.concurrency as usize),
        Consumer::Receiving | Consumer::Nobody => BATCH_COUNT_MAX,
    };
    let take = Take { max, visibility_ms: Some(declared.lease_ms()) };
    let taken =
        operate(&server.host, &server.queues, |broker, sql, moment| broker.take(sql, moment, &declared.queue, take));
    let Ok(taken) = taken.await else {
        server.host.sleep_ms(PAUSE_FAILED_MS).await;
        return;
    };
    if declared.consumer == Consumer::Receiving {
        receive_all(server, declared, taken.messages).await;
    } else {
        join_all(taken.messages.into_iter().map(|one| attempt(server, declared, one))).await;
    }
}

/// A local queue's messages become events, and the new deliveries are made at once.
async fn receive_all(server: &TestServer, declared: &Declared, taken: Vec<Taken>) {
    if taken.is_empty() {
        return;
    }
    let received = receive(&server.host, &server.app, trigger::batch(&declared.queue, &taken)).await;
    settle(server, &declared.queue, trigger::settle(&taken, &received.answers)).await;
    deliver(&server.host, &server.app, received.claimed, server.host.now_ms() + WAIT_UNTIL_MS).await;
}

/// Calls every function that is not done with a message, side by side.
pub(super) async fn functions(
    server: &TestServer,
    declared: &Declared,
    message: &Message,
) -> Vec<(String, FunctionOutcome)> {
    let calls = server.triggers.calls(&declared.queue, message).into_iter().map(|one| async {
        let function = one.function.clone();
        (function, call(server, one).await)
    });
    join_all(calls).await
}

/// One attempt of one message: every function that is not done with it, side by side.
async fn attempt(server: &TestServer, declared: &Declared, Taken { lease, message }: Taken) {
    let taken_at_ms = server.host.time_ms();
    let outcomes = functions(server, declared, &message).await;
    let mut run =
        Run { at_ms: server.host.now_ms(), outcome: RunOutcome::Done, error: None, message: Some(message.id) };
    let mut ended = Settle::default();
    match conclude(&message, &outcomes) {
        Conclusion::Done => ended.acks.push(lease),
        Conclusion::Again { progress, error } => {
            run.outcome = RunOutcome::Failed;
            run.error = Some(error.clone());
            let taken_ms_ago = u64::try_from(server.host.time_ms() - taken_at_ms).unwrap_or_default();
            let delay_ms = Some(declared.again_in_ms(taken_ms_ago));
            ended.retries.push(Retry { lease, delay_ms, reason: Reason::Failed, error: Some(error), progress });
        }
        Conclusion::NotStarted { progress, .. } => {
            server.host.sleep_ms(NOT_STARTED_PAUSE_MS.into()).await;
            ended.progress.extend(progress.map(|progress| (lease, progress)));
            ended.releases.push(lease);
            return settle(server, &declared.queue, ended).await;
        }
    }
    settle(server, &declared.queue, ended).await;
    let runs = [(queue_trigger(&declared.queue), run)];
    // What it looked like last is no more than that.
    let _ = operate(&server.host, &server.queues, |broker, sql, _| broker.record_runs(sql, &runs)).await;
}

/// Tells the queue, again and again while the store is away; what it is not told comes again when the lease ends.
pub(super) async fn settle(server: &TestServer, queue: &str, ended: Settle) {
    let until_ms = server.host.time_ms() + TRY_AGAIN_MAX_MS;
    loop {
        let settled =
            operate(&server.host, &server.queues, |broker, sql, moment| broker.settle(sql, moment, queue, &ended));
        match settled.await {
            Ok(settled) => {
                for gone in settled.gone {
                    let fields = vec![("queue", queue.into()), ("message", gone.id.to_string().into())];
                    server.host.log(LogEntry { level: Level::Error, event: "queue.dead_lettered", fields });
                }
                return;
            }
            Err(error) if error.may_pass() && server.host.time_ms() < until_ms => {
                server.host.sleep_ms(PAUSE_FAILED_MS).await;
            }
            Err(error) => {
                let fields = vec![("queue", queue.into()), ("error", error.to_string().into())];
                server.host.log(LogEntry { level: Level::Error, event: "drain.not_settled", fields });
                return;
            }
        }
    }
}

/// Calls a function: the test says what it does, by its name.
async fn call(server: &TestServer, call: FunctionCall) -> FunctionOutcome {
    if let Target::Send(queue) = &call.target {
        let message = NewMessage { content: call.content, body: call.body, delay_s: None, meta: call.meta };
        let sent = request::send(server, queue, message).await;
        return FunctionOutcome::Returned(sent.map(drop).map_err(|e| format!("it was not sent to {queue}: {e}")));
    }
    let target = call.target.clone();
    let header =
        |(name, value): (String, Vec<u8>)| (names::lowercase(&name), String::from_utf8_lossy(&value).into_owned());
    let outcome = server.host.call(Call {
        subscriber: call.function,
        target: call.target,
        headers: call.headers.into_iter().map(header).collect(),
        body: call.body,
        timeout_ms: call.timeout_ms,
    });
    match (outcome.await, target) {
        (CallOutcome::Answered { status: 200..=299, .. }, Target::Run(_)) => FunctionOutcome::Returned(Ok(())),
        (CallOutcome::Answered { status: 200..=299, .. }, Target::Exec(_)) => {
            FunctionOutcome::Exited { code: Some(0), stderr: String::new() }
        }
        (CallOutcome::Answered { status, .. }, Target::Exec(_)) => {
            FunctionOutcome::Exited { code: Some(i32::from(status)), stderr: String::new() }
        }
        (CallOutcome::Answered { status, .. }, _) => FunctionOutcome::Answered { status },
        (CallOutcome::Unanswered(why), Target::Run(_)) => FunctionOutcome::Returned(Err(why)),
        (CallOutcome::Unanswered(why) | CallOutcome::NotSent(why), _) => FunctionOutcome::Unanswered(why),
    }
}

/// The occurrences of schedules that are due, each recorded with its message. False when the store did not take them:
/// they are due still.
pub(super) async fn occur(server: &TestServer) -> bool {
    let done = occurrences(server).await;
    if let Err(error) = &done {
        let fields = vec![("error", error.to_string().into())];
        server.host.log(LogEntry { level: Level::Error, event: "schedule.failed", fields });
    }
    done.is_ok()
}

async fn occurrences(server: &TestServer) -> Result<(), BrokerError> {
    let (host, queues) = (&server.host, &server.queues);
    let states = operate(host, queues, |broker, sql, _| broker.triggers(sql)).await?;
    let due = server.schedules.due(&states, host.now_ms());
    for (schedule, at_ms) in due.passed {
        operate(host, queues, |broker, sql, _| broker.pass(sql, &schedule, at_ms)).await?;
    }
    for one in due.occurrences {
        operate(host, queues, |broker, sql, moment| {
            broker.occur(sql, moment, &one.schedule, one.at_ms, &one.queue, &one.message)
        })
        .await?;
    }
    Ok(())
}
