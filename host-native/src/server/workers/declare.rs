//! The queues that Wrangler files declare, brought into the store, and what is said of it.

use std::sync::Arc;

use jadpo_core::broker::BrokerError;
use jadpo_core::host::{Level, LogEntry};
use jadpo_core::push::Told;
use jadpo_core::trigger::Triggers;
use jadpo_core::workers::Worker;

use crate::broker::Broker;
use crate::log;

/// Makes and sets the queues of these Workers. `app` is what runs beside them. To be called before anything starts,
/// since it refuses what cannot be run; a second time it changes nothing.
///
/// # Errors
/// As [`declare`](jadpo_core::push::declare); nothing is changed then.
pub(crate) async fn declare(
    broker: &Broker,
    workers: &Arc<Vec<Worker>>,
    app: &Arc<Triggers>,
) -> Result<(), BrokerError> {
    for told in broker.declare_workers(workers, app).await? {
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
    Ok(())
}
