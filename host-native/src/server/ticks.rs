//! The tick, again and again.

use std::time::Duration;

use jadpo_core::host::Level;
use jadpo_core::tick::{Ticked, tick};
use tokio::sync::watch;

use super::Shared;
use crate::host::now_ms;

/// How long one tick may take, in milliseconds: a stop waits for it. What it has no time for is the next one's.
const TICK_TIME_MAX_MS: i64 = 20_000;
/// The pause between two ticks when the first left something that is due.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// Runs until told to stop; a tick that runs then is left to end.
pub(super) async fn run(shared: Shared, every: Duration, mut stopped: watch::Receiver<bool>) {
    while !*stopped.borrow() {
        let ticked = tick(&shared.host, &shared.app, now_ms() + TICK_TIME_MAX_MS).await;
        let done = fields(&ticked);
        if done.iter().any(|(_, count)| *count != 0) {
            shared.log(Level::Info, "tick.done", done);
        }
        let pause = if ticked.delivered.more_due { PAUSE_MIN } else { every };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stopped.changed() => {}
        }
    }
}

fn fields(ticked: &Ticked) -> Vec<(&'static str, serde_json::Value)> {
    vec![
        ("kept", ticked.kept.into()),
        ("repeats", ticked.repeats.into()),
        ("still_parked", ticked.still_parked.into()),
        ("put_off", ticked.put_off.into()),
        ("delivered", ticked.delivered.done.into()),
        ("waiting", ticked.delivered.waiting.into()),
        ("failed", ticked.delivered.failed.into()),
        ("pruned", ticked.pruned.into()),
    ]
}
