//! Redrives: steps of what operators asked for. The core says how many letters a step moves, and when the next is.

use std::time::Duration;

use jadpo_core::broker::limits::BATCH_COUNT_MAX;
use jadpo_core::broker::{BrokerError, RedriveState, RedriveTask};
use jadpo_core::host::Level;
use tokio::sync::watch;
use tokio::time::sleep;

use super::Shared;

/// How long it is looked away when nothing runs: another process may ask for a redrive.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Runs until told to stop. What a redrive has not moved by then, the next server moves.
pub(super) async fn run(shared: Shared, mut stopped: watch::Receiver<bool>) {
    while !*stopped.borrow() {
        let pause = match steps(&shared).await {
            Ok(pause) => pause,
            Err(error) => {
                shared.log(Level::Error, "redrive.failed", vec![("error", error.to_string().into())]);
                LOOK_EVERY
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            _ = stopped.changed() => {}
        }
    }
}

/// One step of each redrive whose time has come, each for itself. How long until the next.
async fn steps(shared: &Shared) -> Result<Duration, BrokerError> {
    let mut pause = LOOK_EVERY;
    for mut task in shared.own.redrives().await? {
        if task.next_in_ms == Some(0) {
            match shared.own.redrive_step(task.id, BATCH_COUNT_MAX).await {
                Ok(stepped) => task = stepped,
                Err(error) => {
                    let fields = vec![("redrive", task.id.into()), ("error", error.to_string().into())];
                    shared.log(Level::Error, "redrive.failed", fields);
                    continue;
                }
            }
            if task.state == RedriveState::Done {
                tell(shared, &task);
            }
        }
        pause = task.next_in_ms.map_or(pause, |ms| pause.min(Duration::from_millis(ms)));
    }
    Ok(pause)
}

fn tell(shared: &Shared, task: &RedriveTask) {
    let fields =
        vec![("redrive", task.id.into()), ("queue", task.redrive.source.as_str().into()), ("moved", task.moved.into())];
    shared.log(Level::Info, "redrive.done", fields);
}
