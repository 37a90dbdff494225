//! Redrives: started, counted, looked at, ended. They are carried out by whoever serves the store.

use jadpo_core::admin::Response;
use jadpo_core::admin::queues::{NewRedrive, Redrive, RedrivePreview, Redrives};
use jadpo_core::broker::BrokerError;

use super::queues::{meant, one};
use super::{Call, Refusal, done, invalid, not_found};

/// All that are known.
pub(super) async fn list(call: &Call<'_>) -> Result<Response, Refusal> {
    let redrives = call.broker.redrives().await?.into_iter().map(Redrive::from).collect();
    done(&Redrives { redrives })
}

/// One of them.
pub(super) async fn show(call: &Call<'_>, id: &str) -> Result<Response, Refusal> {
    done(&Redrive::from(call.broker.redrive_task(number(id)?).await?))
}

/// Starts one, or only counts what it would do.
pub(super) async fn start(call: &Call<'_>) -> Result<Response, Refusal> {
    let new: NewRedrive = call.body("a redrive, as {\"queue\": \"jobs\"}")?;
    let redrive = new.to_broker().map_err(invalid)?;
    // A name that is no queue's is said of the queue that was named, not of its dead letters.
    let queue = one(call, &new.queue).await?;
    let source = match call.broker.dead_letter_queue_of(&new.queue).await {
        Err(BrokerError::QueueNotFound(_)) => {
            let message = format!("`{}` has no dead letters", new.queue);
            return Err(not_found("no_dead_letters", message, None));
        }
        source => source?,
    };
    let is_plain = source == new.queue && queue.dead_letters_of.is_empty();
    if is_plain && new.to.is_none() && !source.ends_with(jadpo_core::local::DEAD_SUFFIX) {
        let message = format!("`{source}` has no dead-letter queue, and is none");
        let help = "name a queue that has one, or say with --to where its messages are to go".to_owned();
        return Err(not_found("no_dead_letter_queue", message, Some(help)));
    }
    for target in new.to.iter().chain(&new.filter.origin) {
        one(call, target).await?;
    }
    if new.dry_run {
        let preview = call.broker.redrive_preview(redrive).await;
        return done(&RedrivePreview::of(source, meant(call, &new.queue, preview).await?));
    }
    let task = match call.broker.redrive(redrive).await {
        Err(error @ BrokerError::RedriveRunning { id, .. }) => {
            let mut refusal = Refusal::from(error);
            refusal.detail.help = Some(format!("wait for it, or end it: jadpo queues redrive --cancel {id}"));
            return Err(refusal);
        }
        task => task?,
    };
    Ok(Response::json(202, &Redrive::from(task)))
}

/// Ends one.
pub(super) async fn cancel(call: &Call<'_>, id: &str) -> Result<Response, Refusal> {
    done(&Redrive::from(call.broker.cancel_redrive(number(id)?).await?))
}

fn number(id: &str) -> Result<u64, Refusal> {
    id.parse().map_err(|_| invalid("a redrive's id is a number"))
}
