//! Messages: sent, looked at, removed.

use jadpo_core::admin::Response;
use jadpo_core::admin::queues::{
    FULL_LIMIT_MAX, MESSAGES_LIMIT_MAX, Messages, PeekedMessage, REMOVE_MAX, Remove, Removed, Send, Sent,
};
use jadpo_core::broker::{BrokerError, Peek};

use super::queues::{meant, one};
use super::{Call, Refusal, done, invalid};
use crate::host::now_ms;

/// Sends messages: all of them are kept, or none.
pub(super) async fn send(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    let send: Send = call.body("messages to be sent, as {\"messages\": [{\"body\": \"…\"}]}")?;
    let batch = send.into_batch(name, now_ms()).map_err(invalid)?;
    let sent = meant(call, name, call.broker.send(name, batch).await).await?;
    let ids = sent.ids.iter().map(ToString::to_string).collect();
    Ok(Response::json(202, &Sent { ids }))
}

/// Looks at a queue's messages.
pub(super) async fn peek(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    look(call, name).await
}

/// Looks at a queue's dead letters. Where nothing died yet there is no queue of them, and so there are none.
pub(super) async fn dead_letters(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    match call.broker.dead_letter_queue_of(name).await {
        Ok(dead) if dead == name => {
            // It is one itself, or it has none: what died of it is gone, which is not the same as that nothing did.
            let queue = one(call, name).await?;
            if queue.dead_letters_of.is_empty() && !name.ends_with(jadpo_core::local::DEAD_SUFFIX) {
                let message = format!("`{name}` has no dead-letter queue: messages that fail are deleted");
                return Err(super::not_found("no_dead_letter_queue", message, None));
            }
            look(call, name).await
        }
        Ok(dead) => look(call, &dead).await,
        Err(BrokerError::QueueNotFound(dead)) if dead != name => {
            done(&Messages { queue: dead, messages: Vec::new(), next: None })
        }
        Err(error) => meant(call, name, Err(error)).await,
    }
}

/// Removes messages that were looked at.
pub(super) async fn remove(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    let Remove { refs } = call.body("places of messages, as {\"refs\": [\"…\"]}")?;
    if refs.is_empty() || refs.len() > REMOVE_MAX {
        return Err(invalid(format!("refs: {}, and 1 to {REMOVE_MAX} are taken", refs.len())));
    }
    let key = call.broker.lease_key();
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for text in refs {
        match key.open_ref(&text) {
            Some(reference) => known.push(reference),
            None => unknown.push(text),
        }
    }
    let removed = if known.is_empty() {
        one(call, name).await?;
        jadpo_core::broker::Removed::default()
    } else {
        meant(call, name, call.broker.remove(name, &known).await).await?
    };
    unknown.extend(removed.unknown.iter().map(|reference| key.seal_ref(reference)));
    done(&Removed { removed: removed.removed as u64, unknown })
}

async fn look(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    let (mut limit, mut after, mut full) = (None, None, false);
    let key = call.broker.lease_key();
    for (parameter, value) in call.query(&["limit", "after", "full"])? {
        match parameter.as_str() {
            "limit" => limit = Some(value.parse::<usize>().map_err(|_| invalid("limit: a number"))?),
            "after" => {
                let place = key.open_ref(&value).ok_or_else(|| invalid("after: give the last answer's next"))?;
                after = Some(place);
            }
            _ => {
                full = match value.as_str() {
                    "true" => true,
                    "false" => false,
                    _ => return Err(invalid("full: true or false")),
                }
            }
        }
    }
    let most = if full { FULL_LIMIT_MAX } else { MESSAGES_LIMIT_MAX };
    let max = limit.unwrap_or(most);
    if !(1..=most).contains(&max) {
        return Err(invalid(format!("limit: a number from 1 to {most}{}", if full { " with full" } else { "" })));
    }
    let peeked = meant(call, name, call.broker.peek(name, Peek { max, after }).await).await?;
    // A full page may be the last one all the same; the next is then empty.
    let next = peeked.last().filter(|_| peeked.len() == max).map(|last| key.seal_ref(&last.reference));
    let messages = peeked.into_iter().map(|peeked| PeekedMessage::of(peeked, key, full)).collect();
    done(&Messages { queue: name.to_owned(), messages, next })
}
