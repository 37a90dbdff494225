//! The binary reads a queue over HTTP pull: from a server that fails in every way there is, and from our own, while
//! either of the two is killed.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::string_slice)]

mod bodies;
mod cloud;
mod example;
mod faults;
mod kills;
mod life;
#[path = "../server/support.rs"]
#[allow(dead_code)] // shared with the server's own tests, which need all of it
mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use cloud::{ACCOUNT, Cloud, TOKEN};
use support::{LONG, Server, folder};

/// An app that pulls from the queue `jobs` of this server, with more settings of the connection and of the app.
pub(crate) fn app(base_url: &str, more: &str, rest: &str) -> String {
    format!(
        r#"app: "shop"
        connections: {{ supply: {{ driver: Driver.cloudflare_pull, account: env("CF_ACCOUNT_ID"), queue: "jobs"
            token: env("CF_QUEUES_TOKEN"), base_url: "{base_url}/client/v4"{more} }} }}
        events: {{ Moved: Json }}
        receiving: {{ supply: {{ event: Moved }} }}
        deployables: {{ server: {{ target: Target.native, triggers: [Trigger.http, Trigger.tick] }} }}
        {rest}"#
    )
}

/// A server that pulls from this one with leases of a second, and its folder.
pub(crate) fn client(cloud: &Cloud) -> (TempDir, Server) {
    let dir = folder(&app(&cloud.url, ", visibility: 1s", ""));
    let server = serve(dir.path());
    (dir, server)
}

pub(crate) fn serve(dir: &Path) -> Server {
    Server::serve(dir, &["--tick", "1"], &[("CF_ACCOUNT_ID", ACCOUNT), ("CF_QUEUES_TOKEN", TOKEN)])
}

/// The store of the server in this folder, to be looked into from outside.
pub(crate) fn store(dir: &Path) -> Connection {
    let path = dir.join(".jadpo/queues.db");
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    connection.busy_timeout(LONG).unwrap();
    connection
}

/// The bodies of the events that there are, and how often there is each.
pub(crate) fn events(dir: &Path) -> BTreeMap<String, u32> {
    let store = store(dir);
    let mut statement = store.prepare("SELECT CAST(body AS TEXT) FROM jadpo_events").unwrap();
    let mut events = BTreeMap::new();
    for body in statement.query_map([], |row| row.get::<_, String>(0)).unwrap() {
        *events.entry(body.unwrap()).or_default() += 1;
    }
    events
}

/// What is parked: its body, its kind, the reason and what is wrong.
pub(crate) fn parked(dir: &Path) -> Vec<(Vec<u8>, String, String, String)> {
    let store = store(dir);
    let sql = "SELECT CAST(body AS BLOB), kind, reason, detail FROM jadpo_parked_messages ORDER BY id";
    let mut statement = store.prepare(sql).unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    statement.query_map([], row).unwrap().map(Result::unwrap).collect()
}

/// Waits until this is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the queue is empty, and sees that each of these messages is one event, and nothing else is.
pub(crate) fn all_is_kept_once(cloud: &Cloud, dir: &Path, bodies: &[String]) {
    wait_until("the queue is empty", || cloud.waiting() == 0);
    let events = events(dir);
    assert_eq!(
        events.keys().collect::<Vec<_>>(),
        bodies.iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    );
    assert!(events.values().all(|count| *count == 1), "{events:?}");
}
