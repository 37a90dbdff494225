//! A log that was cut off or damaged when the machine stopped: what is left of it is a beginning of what was
//! committed, and the store goes on from there.

use std::path::{Path, PathBuf};

use fastrand::Rng;
use jadpo::broker::Broker;
use jadpo::store::OpenStore;
use jadpo_core::broker::{MessageRef, Peek, Reason, Redrive, Retry, Settle, State, Take, Taken};
use rusqlite::Connection;

use super::support::{batch, retry, settings};

const QUEUES: [&str; 2] = ["jobs", "jobs-dead"];
const DAMAGES: usize = 60;

/// What a queue holds: each message's body and attempts, and whether it can be taken.
type Contents = Vec<(String, String, u32, bool)>;

async fn contents(broker: &Broker) -> Contents {
    let mut contents = Vec::new();
    for name in QUEUES {
        let mut after: Option<MessageRef> = None;
        if broker.info(name).await.is_err() {
            continue;
        }
        loop {
            let page = broker.peek(name, Peek { max: 100, after }).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.reference);
            contents.extend(page.into_iter().map(|one| {
                let body = String::from_utf8(one.message.body).unwrap();
                let body = format!("{} of {}", &body[..body.len().min(6)], body.len());
                (name.to_owned(), body, one.message.attempts, one.state == State::Ready)
            }));
        }
    }
    contents.sort();
    contents
}

/// One commit after the other, each of its own kind; `held` is what was taken and is to be settled.
async fn commit(broker: &Broker, n: usize, held: &mut Vec<Taken>) {
    match n % 8 {
        2 | 4 => *held = broker.take("jobs", Take { max: 3, visibility_ms: Some(43_200_000) }).await.unwrap().messages,
        3 => {
            let acks = held.iter().take(1).map(|one| one.lease).collect();
            let failed = |one: &Taken| Retry { reason: Reason::Failed, ..retry(one.lease, None) };
            let retries = held.iter().skip(1).map(failed).collect();
            broker.settle("jobs", Settle { acks, retries, ..Settle::default() }).await.map(drop).unwrap();
        }
        5 => {
            // The last one still runs, if it had no time to find its end.
            let _ = broker.redrive(Redrive { source: "jobs-dead".to_owned(), ..Redrive::default() }).await;
        }
        6 => drop(broker.redrive_step(broker.redrives().await.unwrap().last().unwrap().id, 1).await.unwrap()),
        7 => drop(broker.occur("s", n as i64, "jobs", super::support::message("tick")).await.unwrap()),
        _ => {
            // Bodies of several pages, so that a cut is often in the middle of one.
            let bodies = [format!("{n}-{}", "x".repeat(n * 300 % 20_000)), format!("{n}-b"), format!("{n}-c")];
            broker.send("jobs", batch(&bodies.each_ref().map(String::as_str))).await.map(drop).unwrap();
        }
    }
}

fn log_of(store: &Path) -> PathBuf {
    store.with_extension("db-wal")
}

struct Written {
    database: Vec<u8>,
    log: Vec<u8>,
    /// How long the log was after each commit that was answered, and what the queues held then.
    states: Vec<(usize, Contents)>,
}

/// Copies of the files while they are open, as a machine leaves them that stops; nothing is written back before.
async fn written(dir: &Path) -> Written {
    let path = dir.join("store.db");
    let store = OpenStore::create(&path).unwrap();
    let broker = Broker::open(store.handle()).await.unwrap();
    let wanted = settings(|settings| {
        settings.consumer.max_retries = 0;
        settings.consumer.dead_letter_queue = Some("jobs-dead".to_owned());
    });
    broker.create("jobs", wanted).await.unwrap();
    let log_len = || std::fs::metadata(log_of(&path)).unwrap().len() as usize;
    let mut states = vec![(log_len(), contents(&broker).await)];
    let mut held = Vec::new();
    for n in 0..64 {
        commit(&broker, n, &mut held).await;
        states.push((log_len(), contents(&broker).await));
    }
    let (database, log) = (std::fs::read(&path).unwrap(), std::fs::read(log_of(&path)).unwrap());
    assert_eq!(log.len(), states.last().unwrap().0);
    drop(broker);
    store.close();
    Written { database, log, states }
}

/// Opens what is left and answers what the queues hold; then everything must still work.
async fn reopened(written: &Written, log: &[u8]) -> Contents {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    std::fs::write(&path, &written.database).unwrap();
    std::fs::write(log_of(&path), log).unwrap();
    let store = OpenStore::create(&path).unwrap();
    let broker = Broker::open(store.handle()).await.unwrap();
    let contents = contents(&broker).await;
    let connection = Connection::open(&path).unwrap();
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap(), "ok");
    assert_eq!(
        count("SELECT count(*) FROM jadpo_queue_messages WHERE seq NOT IN (SELECT seq FROM jadpo_queue_due)"),
        0
    );
    assert_eq!(
        count("SELECT count(*) FROM jadpo_queue_due WHERE seq NOT IN (SELECT seq FROM jadpo_queue_messages)"),
        0
    );
    assert_eq!(count("SELECT count(*) - count(DISTINCT id) FROM jadpo_queue_messages"), 0);
    let sent = broker.send("jobs", batch(&["after"])).await.unwrap();
    let mut ids = Vec::new();
    loop {
        let taken = broker.take("jobs", Take { max: 100, visibility_ms: None }).await.unwrap().messages;
        if taken.is_empty() {
            break;
        }
        ids.extend(taken.iter().map(|one| one.message.id));
        let acks = taken.iter().map(|one| one.lease).collect();
        let settled = broker.settle("jobs", Settle { acks, ..Settle::default() }).await.unwrap();
        assert_eq!(settled.acked, taken.len());
    }
    assert_eq!(ids.last(), sent.ids.last(), "numbers go on behind those that were given");
    drop(broker);
    store.close();
    contents
}

/// The last state whose commit lies wholly before this place in the log.
fn state_before(written: &Written, place: usize) -> Option<&Contents> {
    written.states.iter().rev().find(|(end, _)| *end <= place).map(|(_, contents)| contents)
}

#[tokio::test]
async fn a_log_that_is_cut_anywhere_opens_with_all_that_was_committed_before_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    let written = written(dir.path()).await;
    let first = written.states[0].0;
    let mut rng = Rng::with_seed(20_261_201);
    for _ in 0..DAMAGES {
        let cut = rng.usize(first..=written.log.len());
        let left = reopened(&written, &written.log[..cut]).await;
        assert_eq!(Some(&left), state_before(&written, cut), "cut at {cut} of {}", written.log.len());
    }
    // Before the queue was made, and before the store was: there is nothing, and it starts.
    for cut in [0, 1, 31, 32, 4_000] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.db");
        std::fs::write(&path, &written.database).unwrap();
        std::fs::write(log_of(&path), &written.log[..cut]).unwrap();
        let store = OpenStore::create(&path).unwrap();
        let broker = Broker::open(store.handle()).await.unwrap();
        assert!(broker.list().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_log_with_damaged_bytes_opens_with_all_that_was_committed_before_the_first_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let written = written(dir.path()).await;
    let first = written.states[0].0;
    let mut rng = Rng::with_seed(20_261_202);
    for round in 0..DAMAGES {
        // In the last commits, where a machine that stops damages it, and anywhere.
        let from = if round % 2 == 0 { written.log.len().saturating_sub(40_000).max(first) } else { first };
        let mut log = written.log.clone();
        let mut places: Vec<usize> = (0..rng.usize(1..20)).map(|_| rng.usize(from..log.len())).collect();
        places.sort_unstable();
        places.dedup();
        for place in &places {
            log[*place] ^= rng.u8(1..);
        }
        let left = reopened(&written, &log).await;
        assert_eq!(Some(&left), state_before(&written, places[0]), "damaged at {places:?}");
    }
}

#[tokio::test]
async fn a_log_whose_end_is_another_log_s_is_read_up_to_there() {
    let dir = tempfile::tempdir().unwrap();
    let written = written(dir.path()).await;
    let mut rng = Rng::with_seed(20_261_203);
    for _ in 0..20 {
        // As where the file was made longer, but what was to stand there was never written.
        let cut = rng.usize(written.states[0].0..written.log.len());
        let mut log = written.log[..cut].to_vec();
        log.resize(written.log.len() + 8_192, if rng.bool() { 0 } else { 0xff });
        let left = reopened(&written, &log).await;
        // A byte that happens to be what was to stand there is not damaged.
        let same = log.iter().zip(&written.log).take_while(|(left, was)| left == was).count();
        assert_eq!(Some(&left), state_before(&written, same), "filled up from {cut}");
    }
}
