//! Functions, carried out: an HTTP address is called, a program is run, a linked function is called, a message is sent
//! on. What is called with what, and what follows from how it ended, `core::trigger` decides.

mod exec;
mod linked;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jadpo_core::broker::{NewBatch, NewMessage};
use jadpo_core::program::Target;
use jadpo_core::trigger::{FunctionCall, FunctionOutcome};

use crate::broker::Broker;
use crate::http::{Client, Unposted};
pub(crate) use exec::Group;
use linked::Failure;
pub use linked::{Linked, LinkedCall};

/// Calls functions. Clones share everything.
#[derive(Debug, Clone)]
pub struct Functions(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    client: Client,
    linked: Linked,
    folder: PathBuf,
    broker: Broker,
    secret: BTreeSet<String>,
}

/// Kills every program that runs as a function, with all that they started, for a process that ends at once.
pub fn kill_all() {
    exec::kill_all();
}

impl Functions {
    /// `folder` is where programs are run: the app file's. Variables that are `secret` are not in their environment.
    #[must_use]
    pub fn new(client: Client, linked: Linked, folder: PathBuf, broker: Broker, secret: BTreeSet<String>) -> Self {
        // A program's own relative path must not depend on where this server was started.
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        Self(Arc::new(Parts { client, linked, folder, broker, secret }))
    }

    /// Calls a function and waits for its end, as long as the call allows. Dropping this ends what was begun.
    pub async fn call(&self, call: FunctionCall) -> FunctionOutcome {
        let limit = Duration::from_millis(call.timeout_ms.into());
        match &call.target {
            Target::Call(address) => match self.0.client.post_as(address, &call.headers, call.body, limit).await {
                Ok(status) => FunctionOutcome::Answered { status },
                Err(Unposted::NoRoom(why)) => FunctionOutcome::NotStarted(why),
                Err(Unposted::Failed(why)) => FunctionOutcome::Unanswered(why),
            },
            Target::Exec(words) => exec::run(words, &self.0.folder, &self.0.secret, &call, limit).await,
            Target::Run(name) => {
                let linked = LinkedCall { headers: call.headers, query: call.query, body: call.body };
                match self.0.linked.call(name, linked, limit).await {
                    Ok(()) => FunctionOutcome::Returned(Ok(())),
                    Err(failure @ (Failure::Returned(_) | Failure::Panicked(_))) => {
                        FunctionOutcome::Returned(Err(failure.to_string()))
                    }
                    Err(failure) => FunctionOutcome::Unanswered(failure.to_string()),
                }
            }
            Target::Send(queue) => {
                let message = NewMessage { content: call.content, body: call.body, delay_s: None, meta: call.meta };
                let batch = NewBatch { messages: vec![message], delay_s: None };
                match tokio::time::timeout(limit, self.0.broker.send(queue, batch)).await {
                    Ok(Ok(_)) => FunctionOutcome::Returned(Ok(())),
                    Ok(Err(error)) => FunctionOutcome::Returned(Err(format!("it was not sent to {queue}: {error}"))),
                    Err(_) => FunctionOutcome::Unanswered(format!("it was not sent to {queue} in time")),
                }
            }
            Target::Service(worker) => FunctionOutcome::Unanswered(format!(
                "the Worker {worker} is reached by a service binding, on Workers only"
            )),
        }
    }
}
