//! The queues that Wrangler files declare, brought into the store, and what is said of it.

use std::sync::Arc;

use jadpo_core::broker::BrokerError;
use jadpo_core::host::{Level, LogEntry};
use jadpo_core::push::{Told, consumed};
use jadpo_core::trigger::Triggers;
use jadpo_core::workers::Worker;

use crate::broker::Broker;
use crate::log;

/// Makes and sets the queues of these Workers, and takes back what a server that died had handed out of them. `app` is
/// what runs beside them. To be called before anything starts, since it refuses what cannot be run, and since what a lease
/// that ended meanwhile holds is to be given back and not to be counted.
///
/// # Errors
/// As [`declare`](jadpo_core::push::declare); nothing is changed then.
pub(crate) async fn declare(
    broker: &Broker,
    workers: &Arc<Vec<Worker>>,
    app: &Arc<Triggers>,
) -> Result<(), BrokerError> {
    declare_now(broker, workers, app).await?;
    for one in consumed(workers) {
        reclaim(broker, &one.queue).await?;
    }
    Ok(())
}

/// Makes and sets the queues of these Workers. A second time it changes nothing.
///
/// # Errors
/// As [`declare`](jadpo_core::push::declare); nothing is changed then.
pub(super) async fn declare_now(
    broker: &Broker,
    workers: &Arc<Vec<Worker>>,
    app: &Arc<Triggers>,
) -> Result<(), BrokerError> {
    say(broker.declare_workers(workers, app).await?);
    Ok(())
}

/// Takes back what was leased of a queue, on which nobody here holds anything.
///
/// # Errors
/// As [`reclaim`](jadpo_core::broker::Broker::reclaim).
pub(super) async fn reclaim(broker: &Broker, queue: &str) -> Result<(), BrokerError> {
    let messages = broker.reclaim(queue).await?;
    if messages > 0 {
        let why = "the server that had handed them out ended; the attempt does not count";
        let fields = vec![("queue", queue.into()), ("messages", messages.into()), ("why", why.into())];
        log::write(&LogEntry { level: Level::Warn, event: "worker.reclaimed", fields });
    }
    Ok(())
}

/// Makes those queues of these Workers that somebody deleted: a Worker must not be told for ever that there is none.
///
/// # Errors
/// As [`declare_again`](jadpo_core::push::declare_again).
pub(super) async fn declare_again(broker: &Broker, workers: &Arc<Vec<Worker>>) -> Result<(), BrokerError> {
    say(broker.declare_workers_again(workers).await?);
    Ok(())
}

fn say(all: Vec<Told>) {
    for told in all {
        let (level, event, fields) = match told {
            Told::Made { queue } => (Level::Info, "queue.made", vec![("queue", queue.into())]),
            Told::TakenOver { queue, worker, from } => {
                let why = "that Worker does not run here, and a queue has one consumer";
                let fields = vec![
                    ("queue", queue.into()),
                    ("worker", worker.into()),
                    ("from", from.into()),
                    ("why", why.into()),
                ];
                (Level::Warn, "worker.took_over", fields)
            }
            Told::Left { queue, worker } => {
                let why = "its Wrangler file no longer lists it; the queue keeps its messages";
                let fields = vec![("queue", queue.into()), ("worker", worker.into()), ("why", why.into())];
                (Level::Warn, "worker.left_queue", fields)
            }
        };
        log::write(&LogEntry { level, event, fields });
    }
}
