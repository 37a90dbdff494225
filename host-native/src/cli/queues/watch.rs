//! A redrive, waited for: carried out by the server, or here where none runs.

use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use jadpo_core::admin::queues::{Redrive, RedriveState};
use jadpo_core::broker::BrokerError;

use super::super::output;
use super::super::place::Opened;
use super::super::words::plain;
use crate::broker::Broker;
use crate::operator::OperatorError;
use crate::store::StoreLock;

/// How often a server is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Messages moved at once here.
const SLICE: usize = 100;
/// After so long without a change it is looked again whether anybody carries it out.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// How long a server may be away while it is watched.
const AWAY_MAX: Duration = Duration::from_secs(30);

/// Waits until the redrive has ended, or until Ctrl-C, which ends the waiting and not the redrive.
pub(super) async fn to_the_end(opened: &Opened, id: u64) -> Result<Redrive, OperatorError> {
    let progress = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {human_pos} of {human_len} put back, {per_sec}") {
        progress.set_style(style);
    }
    let ended = tokio::select! {
        ended = see_through(opened, id, &progress) => ended,
        _ = tokio::signal::ctrl_c() => opened.operator.redrive_state(id).await,
    };
    progress.finish_and_clear();
    ended
}

async fn see_through(opened: &Opened, id: u64, progress: &ProgressBar) -> Result<Redrive, OperatorError> {
    loop {
        let redrive = match (&opened.broker, &opened.store) {
            (Some(broker), Some(store)) if nobody_serves(store)? => carry_out(broker, id, progress).await?,
            (Some(_), Some(_)) => look_on(opened, id, Some(IDLE_MAX), progress).await?,
            _ => look_on(opened, id, None, progress).await?,
        };
        if redrive.state != RedriveState::Running {
            return Ok(redrive);
        }
    }
}

/// Whether no server runs on the store. The lock is not taken: a server that starts now is more welcome than this.
fn nobody_serves(store: &Path) -> Result<bool, OperatorError> {
    let held = StoreLock::is_held(store).map_err(|error| OperatorError::failed(error.to_string(), None))?;
    Ok(!held)
}

/// Does slice after slice, until it has ended or somebody else moves messages too.
async fn carry_out(broker: &Broker, id: u64, progress: &ProgressBar) -> Result<Redrive, OperatorError> {
    let mut moved = None;
    loop {
        let task = match broker.redrive_step(id, SLICE).await {
            Ok(task) => task,
            Err(error) if error.may_pass() => {
                output::note(&format!("{error}; trying again"));
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            Err(error) => return Err(failed(&error)),
        };
        let next_in_ms = task.next_in_ms;
        let redrive = Redrive::from(task);
        show(progress, &redrive);
        let others_move = moved.is_some_and(|before| redrive.moved > before + SLICE as u64);
        moved = Some(redrive.moved);
        match next_in_ms {
            Some(wait_ms) if !others_move => tokio::time::sleep(Duration::from_millis(wait_ms)).await,
            _ => return Ok(redrive),
        }
    }
}

/// Looks how far whoever carries it out has come, until it has ended or nothing has changed for so long.
async fn look_on(
    opened: &Opened,
    id: u64,
    idle_max: Option<Duration>,
    progress: &ProgressBar,
) -> Result<Redrive, OperatorError> {
    let (mut last, mut idle, mut away) = (None, Duration::ZERO, Duration::ZERO);
    loop {
        let redrive = match opened.operator.redrive_state(id).await {
            Ok(redrive) => redrive,
            // No answer at all: a server that is started again goes on with it.
            Err(error) if error.is_no_answer() && !error.is_input && away < AWAY_MAX => {
                if away.is_zero() {
                    output::note(&format!("{}; waiting for it", plain(&error.what)));
                }
                away += LOOK_EVERY;
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        away = Duration::ZERO;
        show(progress, &redrive);
        idle = if last == Some(redrive.moved) { idle + LOOK_EVERY } else { Duration::ZERO };
        last = Some(redrive.moved);
        if redrive.state != RedriveState::Running || idle_max.is_some_and(|most| idle >= most) {
            return Ok(redrive);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn show(progress: &ProgressBar, redrive: &Redrive) {
    let most = redrive.filter.limit.map_or(redrive.letters, |limit| limit.min(redrive.letters));
    progress.set_length(most);
    progress.set_position(redrive.moved);
}

fn failed(error: &BrokerError) -> OperatorError {
    OperatorError::failed(error.to_string(), Some("`jadpo queues redrive --list` shows how far it came"))
}
