//! A real process on a real file, killed at any moment, again and again.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fastrand::Rng;
use jadpo::broker::Broker;
use jadpo_core::broker::{How, Settle, Take, Taken};
use rusqlite::Connection;

use super::killed::{FIRST, STORE, open};
use super::said::Said;

/// How many processes are killed, if this does not say another number.
const KILLS_VARIABLE: &str = "JADPO_TEST_KILLS";
const KILLS: usize = 110;

#[test]
fn a_server_that_is_killed_at_any_moment_loses_nothing_that_it_answered() {
    let kills = std::env::var(KILLS_VARIABLE).map_or(KILLS, |kills| kills.parse().expect("a number"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let mut rng = Rng::with_seed(20_261_130);
    let mut said = Said::default();
    for round in 0..kills {
        let lines = killed_after(&path, round, Duration::from_millis(rng.u64(30..160)));
        lines.iter().for_each(|line| said.line(line));
        every_message_is_in_one_place(&path);
    }
    said.check_that_enough_was_done(kills);
    drain(&path, &mut said);
    said.check_that_nothing_is_lost();
}

/// Starts a process, kills it after a while, and answers what it said.
fn killed_after(path: &Path, round: usize, wait: Duration) -> Vec<String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["killed::the_process_that_is_killed", "--exact", "--ignored", "--nocapture"])
        .env(STORE, path)
        .env(FIRST, ((round + 1) * 1_000_000).to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(wait);
        child.kill().unwrap();
        child.wait().unwrap()
    });
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    assert!(!killer.join().unwrap().success());
    // What follows the last end of a line was cut; a line that has its end was said, also if it is the last.
    let whole = said.rfind('\n').map_or("", |end| &said[..end]);
    whole.lines().map(str::to_owned).collect()
}

/// Looks at what the killed process left, as the next one finds it.
fn every_message_is_in_one_place(path: &Path) {
    if !path.exists() {
        return;
    }
    let connection = Connection::open(path).unwrap();
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap_or_default();
    assert_eq!(count("SELECT count(*) - count(DISTINCT id) FROM jadpo_queue_messages"), 0, "a message is there twice");
    assert_eq!(
        count("SELECT count(*) FROM jadpo_queue_messages WHERE seq NOT IN (SELECT seq FROM jadpo_queue_due)"),
        0,
        "a message is there that nobody can take"
    );
}

/// Takes everything that is left, and acknowledges it.
fn drain(path: &Path, said: &mut Said) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (store, broker) = open(path).await;
        let triggers = broker.triggers().await.unwrap();
        said.last_occurrence = triggers.get("schedule:tick").and_then(|state| state.last_occurrence_ms);
        for queue in broker.list().await.unwrap() {
            let started = Instant::now();
            while broker.metrics(&queue.name).await.unwrap().messages > 0 {
                assert!(started.elapsed() < Duration::from_secs(60), "`{}` is never empty", queue.name);
                for one in take_and_ack(&broker, &queue.name).await {
                    let body = std::str::from_utf8(&one.message.body).unwrap();
                    said.line(&format!("taken {} {body} {}", queue.name, one.message.attempts));
                    said.line(&format!("acking {} {body}", queue.name));
                    said.line(&format!("acked {} {body}", queue.name));
                    said.drained(&queue.name, body);
                }
            }
        }
        drop(broker);
        store.close();
    });
}

async fn take_and_ack(broker: &Broker, queue: &str) -> Vec<Taken> {
    let taken = broker.take(queue, Take { max: 100, visibility_ms: None }).await.unwrap();
    // What had its last attempt when the process was killed dies now; its queue of dead letters is drained later.
    assert!(taken.gone.iter().all(|gone| gone.how == How::DeadLettered("poison-dead".to_owned())), "{:?}", taken.gone);
    let acks = taken.messages.iter().map(|one| one.lease).collect();
    let settled = broker.settle(queue, Settle { acks, ..Settle::default() }).await.unwrap();
    assert_eq!(settled.acked, taken.messages.len());
    taken.messages
}
