//! A real process on a real file, killed at any moment, again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use jadpo::broker::Broker;
use jadpo::store::OpenStore;
use jadpo_core::broker::{BrokerError, Settle, Take};

use super::support::{batch, retry, settings};

const KILLS: usize = 40;
const STORE: &str = "JADPO_TEST_CRASH_STORE";
const FIRST: &str = "JADPO_TEST_CRASH_FIRST";
const VISIBILITY_MS: u32 = 150;

async fn open(path: &Path) -> (OpenStore, Broker) {
    let store = OpenStore::create(path).unwrap();
    let broker = Broker::open(store.handle()).await.unwrap();
    let wanted = settings(|settings| {
        settings.consumer.visibility_ms = VISIBILITY_MS;
        settings.consumer.max_retries = 100;
    });
    match broker.create("jobs", wanted).await {
        Ok(_) | Err(BrokerError::QueueExists(_)) => {}
        Err(error) => panic!("{error}"),
    }
    (store, broker)
}

/// Sends, takes and settles until it is killed, and says each thing when it is answered. Started by the test below.
#[test]
#[ignore = "a part of another test"]
fn the_process_that_is_killed() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let first: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (_store, broker) = open(&PathBuf::from(path)).await;
        let next = Arc::new(AtomicU64::new(first));
        let mut tasks = Vec::new();
        for _ in 0..4 {
            tasks.push(tokio::spawn(send_for_ever(broker.clone(), next.clone())));
            tasks.push(tokio::spawn(consume_for_ever(broker.clone())));
        }
        tasks.push(tokio::spawn(async move { broker.keep_swept().await }));
        for task in tasks {
            task.await.unwrap();
        }
    });
}

async fn send_for_ever(broker: Broker, next: Arc<AtomicU64>) {
    loop {
        let first = next.fetch_add(3, Ordering::Relaxed);
        let bodies = [first, first + 1, first + 2].map(|number| number.to_string());
        broker.send("jobs", batch(&bodies.each_ref().map(String::as_str))).await.unwrap();
        bodies.iter().for_each(|body| println!("\nsent {body}"));
    }
}

async fn consume_for_ever(broker: Broker) {
    loop {
        let taken = broker.take("jobs", Take { max: 10, visibility_ms: None }).await.unwrap().messages;
        let mut settle = Settle::default();
        let mut acks = Vec::new();
        for (index, one) in taken.iter().enumerate() {
            let body = String::from_utf8(one.message.body.clone()).unwrap();
            println!("\ntaken {body} {}", one.message.attempts);
            match index % 4 {
                0 => settle.retries.push(retry(one.lease, None)),
                1 => {} // its lease ends
                _ => {
                    settle.acks.push(one.lease);
                    println!("\nacking {body}");
                    acks.push(body);
                }
            }
        }
        broker.settle("jobs", settle).await.unwrap();
        acks.iter().for_each(|body| println!("\nacked {body}"));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What the killed processes said.
#[derive(Default)]
struct Said {
    sent: BTreeSet<u64>,
    acking: BTreeSet<u64>,
    acked: BTreeSet<u64>,
    attempts: BTreeMap<u64, u32>,
}

impl Said {
    fn line(&mut self, line: &str) {
        let mut words = line.split(' ');
        let (Some(what), Some(Ok(body))) = (words.next(), words.next().map(str::parse)) else { return };
        match what {
            "sent" => drop(self.sent.insert(body)),
            "acking" => drop(self.acking.insert(body)),
            "acked" => drop(self.acked.insert(body)),
            "taken" => self.taken(body, words.next().unwrap().parse().unwrap()),
            _ => {}
        }
    }

    fn taken(&mut self, body: u64, attempt: u32) {
        let before = self.attempts.insert(body, attempt).unwrap_or(0);
        assert!(attempt > before, "{body}: attempt {attempt} after attempt {before}");
        assert!(!self.acked.contains(&body), "{body} came again after its ack was answered");
    }
}

#[test]
fn a_server_that_is_killed_at_any_moment_loses_nothing_that_it_answered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let mut rng = Rng::with_seed(20_261_130);
    let mut said = Said::default();
    for round in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["crash::the_process_that_is_killed", "--exact", "--ignored", "--nocapture"])
            .env(STORE, &path)
            .env(FIRST, (round * 1_000_000).to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let wait = Duration::from_millis(rng.u64(30..250));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(wait);
            child.kill().unwrap();
            child.wait().unwrap()
        });
        let mut lines: Vec<String> = lines.split(b'\n').map(|line| String::from_utf8(line.unwrap()).unwrap()).collect();
        lines.pop(); // may be cut
        lines.iter().for_each(|line| said.line(line));
        assert!(!killer.join().unwrap().success());
    }
    assert!(said.sent.len() > 500 && said.acked.len() > 200, "{} {}", said.sent.len(), said.acked.len());
    drain(&path, &mut said);
    let lost: Vec<_> = said.sent.iter().filter(|body| !said.acking.contains(body)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
}

/// Takes everything that is left, and acknowledges it.
fn drain(path: &Path, said: &mut Said) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (store, broker) = open(path).await;
        while broker.metrics("jobs").await.unwrap().messages > 0 {
            let taken = broker.take("jobs", Take { max: 100, visibility_ms: None }).await.unwrap();
            assert!(taken.gone.is_empty());
            let acks = taken.messages.iter().map(|one| one.lease).collect();
            assert_eq!(
                broker.settle("jobs", Settle { acks, ..Settle::default() }).await.unwrap().acked,
                taken.messages.len()
            );
            for one in taken.messages {
                let body = String::from_utf8(one.message.body).unwrap().parse().unwrap();
                said.taken(body, one.message.attempts);
                said.acking.insert(body);
                said.acked.insert(body);
            }
        }
        drop(broker);
        store.close();
    });
}
