//! Messages: sent and looked at.

use jadpo_core::admin::Response;
use jadpo_core::admin::queues::{Send, Sent};

use super::queues::meant;
use super::{Call, Refusal, invalid};

/// Sends messages: all of them are kept, or none.
pub(super) async fn send(call: &Call<'_>, name: &str) -> Result<Response, Refusal> {
    let send: Send = call.body("messages to be sent, as {\"messages\": [{\"body\": \"…\"}]}")?;
    let batch = send.into_batch().map_err(invalid)?;
    let sent = meant(call, name, call.broker.send(name, batch).await).await?;
    let ids = sent.ids.iter().map(ToString::to_string).collect();
    Ok(Response::json(202, &Sent { ids }))
}
