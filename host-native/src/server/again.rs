//! Declared queues that somebody deleted while the server runs, or made again by hand as they are not declared: they are
//! declared again, when somebody sends to one and else within a second. A sender and a provider must not be told for
//! ever that there is no such queue, and no failure may be dropped for want of a dead-letter queue.

use std::sync::Arc;
use std::time::Duration;

use jadpo_core::broker::BrokerError;
use jadpo_core::host::Level;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::{Shared, declare};

/// How often it is looked whether one has gone.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks until told to stop.
pub(super) async fn keep(shared: Shared, mut stopped: watch::Receiver<bool>) {
    let triggers = Arc::new(shared.triggers.clone());
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !*stopped.borrow() {
        tokio::select! {
            _ = looks.tick() => {}
            _ = stopped.changed() => break,
        }
        // A store that does not answer is told of by everything else.
        for name in shared.own.strayed(&triggers).await.unwrap_or_default() {
            if let Err(error) = declare_again(&shared, &name).await {
                let fields = vec![("queue", name.into()), ("error", error.to_string().into())];
                shared.log(Level::Error, "queue.not_declared_again", fields);
            }
        }
    }
}

/// Does something with a queue. If there is none of that name and there may be one, makes it and does it once more.
pub(super) async fn with_queue<T, Work>(shared: &Shared, name: &str, work: impl Fn() -> Work) -> Result<T, BrokerError>
where
    Work: Future<Output = Result<T, BrokerError>>,
{
    match work().await {
        Err(BrokerError::QueueNotFound(missing)) if missing == name => {
            if !declare_again(shared, name).await? {
                if !shared.options.creates_queues {
                    return Err(BrokerError::QueueNotFound(missing));
                }
                declare::on_first_use(shared, name).await?;
            }
            work().await
        }
        done => done,
    }
}

/// Makes a declared queue as it is declared. False if nothing declares it.
async fn declare_again(shared: &Shared, name: &str) -> Result<bool, BrokerError> {
    let triggers = &shared.triggers;
    let Some(declared) = triggers.get(name).or_else(|| triggers.dying_into(name)) else { return Ok(false) };
    if declare::one(&shared.broker, declared, false).await? {
        let why = "it was deleted or changed by hand, and the app declares it";
        shared.log(Level::Warn, "queue.declared_again", vec![("queue", name.into()), ("why", why.into())]);
    }
    Ok(true)
}
