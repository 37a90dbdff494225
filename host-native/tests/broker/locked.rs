//! Another process that writes to the store and does not come to an end.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jadpo::broker::Broker;
use jadpo::store::OpenStore;
use jadpo_core::broker::{BrokerError, NewBatch, Peek, Settle, Take};

use super::support::{message, settings};

const STORE: &str = "JADPO_TEST_LOCKED_STORE";
/// How long the store is held.
const HELD: Duration = Duration::from_secs(20);
/// How long anybody waits for an answer, at most: the five seconds for which a transaction waits to begin, and as long
/// again for one that came when another was waiting already; and some, for a machine that has other things to do.
const ANSWERED_WITHIN: Duration = Duration::from_secs(12);

#[test]
#[ignore = "a part of another test"]
fn the_process_that_holds_the_store() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let connection = rusqlite::Connection::open(PathBuf::from(path)).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    println!("\nheld");
    std::thread::sleep(HELD);
    connection.execute_batch("ROLLBACK").unwrap();
}

fn hold(path: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["locked::the_process_that_holds_the_store", "--exact", "--ignored", "--nocapture"])
        .env(STORE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "held"), "it never had the store");
    child
}

fn hundred() -> NewBatch {
    NewBatch { messages: vec![message("m"); 100], delay_s: None }
}

/// The answer, which must come in time.
async fn in_time<T>(answer: impl Future<Output = Result<T, BrokerError>>) -> Result<T, BrokerError> {
    tokio::time::timeout(ANSWERED_WITHIN, answer).await.expect("an answer in time")
}

fn is_clear(refused: &BrokerError) {
    assert!(refused.may_pass() && refused.code() == Some(10_250), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_another_process_holds_for_20_seconds_answers_in_time_keeps_no_part_and_then_works() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let store = OpenStore::create(&path).unwrap();
    let broker = Broker::open(store.handle()).await.unwrap();
    for name in ["a", "b", "c"] {
        broker.create(name, settings(|_| {})).await.unwrap();
    }
    broker.send("a", hundred()).await.unwrap();
    let taken = broker.take("a", Take { max: 1, visibility_ms: Some(3_600_000) }).await.unwrap().messages;
    let started = Instant::now();
    let mut holder = hold(&path);
    // More than one group of requests: those behind wait no longer than those before them.
    let sends = join_all((0..600).map(|n| in_time(broker.send(["a", "b", "c"][n % 3], hundred()))));
    let acks = taken.iter().map(|one| one.lease).collect();
    let (sends, settled, peeked, purged) = tokio::join!(
        sends,
        in_time(broker.settle("a", Settle { acks, ..Settle::default() })),
        in_time(broker.peek("a", Peek { max: 1, after: None })),
        in_time(broker.purge("a")),
    );
    assert!(started.elapsed() < HELD, "they were answered while it was held");
    sends.iter().for_each(|sent| is_clear(sent.as_ref().unwrap_err()));
    is_clear(&settled.unwrap_err());
    is_clear(&peeked.unwrap_err());
    is_clear(&purged.unwrap_err());
    // A client that tries again for as long as it is told to gets through.
    let tries = async {
        let mut refused = 0;
        while let Err(error) = in_time(broker.send("b", hundred())).await {
            is_clear(&error);
            refused += 1;
        }
        refused
    };
    let refused = tokio::time::timeout(HELD + ANSWERED_WITHIN, tries).await.expect("it gets through");
    assert!(refused >= 1, "it was still held");
    holder.wait().unwrap();
    let mut counts = Vec::new();
    for name in ["a", "b", "c"] {
        counts.push(broker.metrics(name).await.unwrap().messages);
    }
    assert_eq!(counts, [100, 100, 0]);
}
