//! Whether Workers have the handlers that their queues need.

use std::time::Duration;

use jadpo_core::host::Level;
use jadpo_core::push::{Consumed, Handler};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::super::Shared;
use crate::workerd::Workerd;

/// How long a look may take: it may have to wait for workerd.
const LOOK_MAX: Duration = Duration::from_secs(60);
/// Cloudflare's code for a consumer whose script has no queue handler.
const NO_QUEUE_HANDLER: u32 = 11_001;

/// What the dispatcher says of a Worker; `None` where it cannot be told.
#[derive(Deserialize)]
struct Handlers {
    queue: Option<bool>,
    scheduled: Option<bool>,
}

/// Says loudly which handlers are missing. Cloudflare would refuse such a Worker when it is deployed; here its messages
/// are tried, fail and die as any others.
pub(super) async fn look(shared: Shared, workerd: Workerd, consumed: Vec<Consumed>) {
    for Consumed { queue, worker, handler, .. } in consumed {
        let path = format!("/handlers?worker={}", utf8_percent_encode(&worker, NON_ALPHANUMERIC));
        let Some(answer) = workerd.look(&path, LOOK_MAX).await else { return };
        let Ok(found) = serde_json::from_slice::<Handlers>(&answer) else { return };
        let mut fields = vec![("worker", worker.as_str().into()), ("queue", queue.as_str().into())];
        let why = match handler {
            Handler::Queue if found.queue == Some(false) => {
                fields.push(("code", NO_QUEUE_HANDLER.into()));
                format!(
                    "its Wrangler file has the queue {queue}, and its code has no `queue` handler: every delivery will \
                     fail ({NO_QUEUE_HANDLER}). Export one, or take the consumer out of the file"
                )
            }
            Handler::Scheduled if found.scheduled == Some(false) => {
                "its Wrangler file has cron triggers, and its code has no `scheduled` handler: every occurrence will \
                    fail. Export one, or take the crons out of the file"
                    .to_owned()
            }
            _ => continue,
        };
        fields.push(("why", why.into()));
        shared.log(Level::Error, "worker.no_handler", fields);
    }
}
