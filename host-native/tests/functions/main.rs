//! Functions, carried out: real sockets, real programs, real linked functions, a real store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod addresses;
mod linked;
mod programs;
mod project;
mod received;
mod schedules;
mod sends;

use std::path::Path;
use std::time::Duration;

use jadpo::broker::Broker;
use jadpo::functions::{Functions, Linked};
use jadpo::http::Client;
use jadpo::store::OpenStore;
use jadpo_core::broker::Content;
use jadpo_core::program::Target;
use jadpo_core::trigger::{FunctionCall, FunctionOutcome};
use tempfile::TempDir;

/// Long enough for whatever ends by itself.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Functions on a store of their own, whose programs are in a folder of their own.
pub(crate) struct Fixture {
    pub(crate) functions: Functions,
    pub(crate) broker: Broker,
    pub(crate) folder: TempDir,
    pub(crate) store: OpenStore,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(Linked::new()).await
    }

    pub(crate) async fn with(linked: Linked) -> Self {
        Self::made(linked, Vec::new()).await
    }

    pub(crate) async fn with_secrets(secret: Vec<String>) -> Self {
        Self::made(Linked::new(), secret).await
    }

    async fn made(linked: Linked, secret: Vec<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = OpenStore::create(&folder.path().join("queues.db")).unwrap();
        let broker = Broker::open(store.handle()).await.unwrap();
        let secret = secret.into_iter().collect();
        let functions = Functions::new(Client::new(), linked, folder.path().to_owned(), broker.clone(), secret);
        Self { functions, broker, folder, store }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) async fn call(&self, target: Target, body: &[u8], limit: Duration) -> FunctionOutcome {
        self.functions.call(call(target, body, limit)).await
    }
}

/// A call as the core makes one.
pub(crate) fn call(target: Target, body: &[u8], limit: Duration) -> FunctionCall {
    FunctionCall {
        function: "handle".to_owned(),
        target,
        headers: vec![("Content-Type".to_owned(), b"application/json".to_vec())],
        query: None,
        body: body.to_vec(),
        content: Content::Json,
        meta: None,
        timeout_ms: u32::try_from(limit.as_millis()).unwrap(),
        message_id: "000000000000000000000000000000ab".to_owned(),
        queue: "jobs".to_owned(),
        attempt: 3,
        received_at_ms: 1_790_000_000_001,
    }
}

/// What went wrong.
pub(crate) fn error(outcome: &FunctionOutcome) -> String {
    outcome.error().unwrap_or_else(|| panic!("it is done: {outcome:?}"))
}
