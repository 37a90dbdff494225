//! What goes on by itself: time, and redrives.

use std::time::Duration;

use jadpo_core::broker::{BrokerError, RedriveState, RedriveTask, Swept};
use jadpo_core::host::Level;

use super::{Broker, report};

/// How often the queues are swept while there is nothing that waits for it.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// How often it is looked whether a redrive was begun, by whatever process.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Letters in one slice of a redrive.
const SLICE: usize = 100;

impl Broker {
    /// Does one slice of what time does to the queues.
    ///
    /// # Errors
    /// As [`sweep`](jadpo_core::broker::Broker::sweep).
    pub async fn sweep(&self) -> Result<Swept, BrokerError> {
        let swept = self.store.broker(|broker, sql, moment| broker.sweep(sql, moment)).await?;
        report::gone(&swept.gone);
        Ok(swept)
    }

    /// Sweeps for as long as it is polled.
    pub async fn keep_swept(&self) {
        loop {
            let more = match self.sweep().await {
                Ok(swept) => swept.more,
                Err(error) => {
                    report::write(Level::Warn, "queues.not_swept", vec![("error", error.to_string().into())]);
                    false
                }
            };
            if more {
                // Whoever waits for the writer goes first.
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(SWEEP_EVERY).await;
            }
        }
    }

    /// Carries on with whatever redrives there are, for as long as it is polled.
    pub async fn keep_redriven(&self) {
        loop {
            let wait = match self.redrive_slices().await {
                Ok(wait) => wait,
                Err(error) => {
                    report::write(Level::Warn, "redrives.not_done", vec![("error", error.to_string().into())]);
                    LOOK_EVERY
                }
            };
            if wait.is_zero() {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(wait).await;
            }
        }
    }

    /// Does a slice of each redrive whose time it is, and answers when to come again.
    async fn redrive_slices(&self) -> Result<Duration, BrokerError> {
        let mut wait = LOOK_EVERY;
        for task in self.redrives().await? {
            let next = match task.next_in_ms {
                Some(0) => match self.redrive_step(task.id, SLICE).await {
                    Ok(task) => ended(&task),
                    // It stands for itself, and keeps no other from going on.
                    Err(error) => {
                        let fields = vec![("redrive", task.id.into()), ("error", error.to_string().into())];
                        report::write(Level::Warn, "redrives.not_done", fields);
                        None
                    }
                },
                next => next,
            };
            wait = next.map_or(wait, |ms| wait.min(Duration::from_millis(ms)));
        }
        Ok(wait)
    }
}

/// Says that a redrive has ended, if it has, and else when it goes on.
fn ended(task: &RedriveTask) -> Option<u64> {
    if task.state != RedriveState::Running {
        let fields = vec![
            ("redrive", task.id.into()),
            ("source", task.redrive.source.as_str().into()),
            ("state", task.state.name().into()),
            ("moved", task.moved.into()),
            ("skipped", task.skipped.into()),
            ("without_origin", task.without_origin.into()),
        ];
        report::write(Level::Info, "redrive.ended", fields);
    }
    task.next_in_ms
}
