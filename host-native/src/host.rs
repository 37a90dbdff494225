//! The native [`Host`]: SQLite, HTTP calls, the clock, the environment and a log of JSON lines.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jadpo_core::host::{Call, CallOutcome, Host, LogEntry};
use jadpo_core::program::Target;
use jadpo_core::store::{Rows, Statement, StoreError};

use crate::functions::{Linked, LinkedCall};
use crate::http::Client;
use crate::log;
use crate::store::Store;

/// Carries out what the core decides, in this process.
#[derive(Debug, Clone)]
pub struct NativeHost {
    store: Store,
    client: Client,
    linked: Linked,
    /// Variables that stand before the environment's.
    env: BTreeMap<String, String>,
}

impl NativeHost {
    /// A host on this store.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store: store.for_own_work(), client: Client::new(), linked: Linked::new(), env: BTreeMap::new() }
    }

    /// The same host with functions that subscribers' `run:` finds.
    #[must_use]
    pub fn with_linked(mut self, linked: Linked) -> Self {
        self.linked = linked;
        self
    }

    /// The same host with a variable set, whatever the environment says.
    #[must_use]
    pub fn with_env(mut self, name: &str, value: String) -> Self {
        self.env.insert(name.to_owned(), value);
        self
    }
}

impl Host for NativeHost {
    async fn batch(&self, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        self.store.batch(statements).await
    }

    async fn call(&self, call: Call) -> CallOutcome {
        match &call.target {
            Target::Call(url) => {
                let limit = Duration::from_millis(call.timeout_ms.into());
                match self.client.post(url, &call.headers, call.body, limit).await {
                    Ok(answer) => CallOutcome::Answered { status: answer.status, retry_after: answer.retry_after },
                    Err(why) => CallOutcome::Unanswered(why),
                }
            }
            Target::Service(worker) => {
                CallOutcome::Unanswered(format!("the Worker {worker} is reached by a service binding, on Workers only"))
            }
            Target::Run(function) => {
                let headers = call.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone().into_bytes()));
                let linked = LinkedCall { headers: headers.collect(), query: None, body: call.body };
                match self.linked.call(function, linked, Duration::from_millis(call.timeout_ms.into())).await {
                    Ok(()) => CallOutcome::Answered { status: 200, retry_after: None },
                    Err(failure) => CallOutcome::Unanswered(failure.to_string()),
                }
            }
            Target::Exec(_) | Target::Send(_) => {
                CallOutcome::Unanswered("only a function starts a program or sends to a queue".to_owned())
            }
        }
    }

    async fn sleep(&self, duration_ms: u32) {
        tokio::time::sleep(Duration::from_millis(duration_ms.into())).await;
    }

    fn now_ms(&self) -> i64 {
        now_ms()
    }

    fn random(&self) -> u128 {
        random()
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned().or_else(|| std::env::var(name).ok())
    }

    fn log(&self, entry: LogEntry) {
        log::write(&entry);
    }
}

/// The time, in milliseconds since 1970; before that, 0.
#[must_use]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Random bits from the system.
pub(crate) fn random() -> u128 {
    // Version 4 is 122 random bits; the other 6 are fixed, so two of them are folded together.
    let (one, other) = (uuid::Uuid::new_v4().as_u128(), uuid::Uuid::new_v4().as_u128());
    one ^ other.rotate_left(64)
}
