//! Many clients at one queue.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Api, lease};

/// How many there are, unless JADPO_TEST_PULLED says otherwise.
const MESSAGES: usize = 100_000;
const PULLERS: usize = 10;

/// Who holds what, and what was acknowledged by whom.
#[derive(Default)]
struct Ledger {
    held: BTreeMap<String, usize>,
    acked: BTreeMap<String, usize>,
}

#[test]
fn ten_who_pull_share_a_hundred_thousand_messages_and_no_message_has_two_of_them() {
    let count = std::env::var("JADPO_TEST_PULLED").ok().and_then(|count| count.parse().ok()).unwrap_or(MESSAGES);
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({ "visibility_timeout_ms": 600_000, "max_retries": 100 }));
    for first in (0..count).step_by(100) {
        let messages: Vec<_> =
            (first..first + 100).map(|number| json!({ "body": number.to_string(), "content_type": "text" })).collect();
        client.post(&format!("/queues/{queue}/messages/batch"), json!({ "messages": messages })).result();
    }
    assert_eq!(client.backlog(&queue), count as u64);
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let acked = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let pullers: Vec<_> = (0..PULLERS)
        .map(|puller| {
            let (mut client, queue) = (api.client(), queue.clone());
            let (ledger, acked) = (ledger.clone(), acked.clone());
            std::thread::spawn(move || {
                loop {
                    let messages = client.messages(&queue, json!({ "batch_size": 100 }));
                    if messages.is_empty() {
                        if acked.load(Ordering::SeqCst) == count as u64 {
                            return;
                        }
                        std::thread::sleep(Duration::from_millis(5));
                        continue;
                    }
                    let body = |message: &serde_json::Value| message["body"].as_str().unwrap().to_owned();
                    {
                        let mut ledger = ledger.lock().unwrap();
                        for message in &messages {
                            let before = ledger.held.insert(body(message), puller);
                            assert_eq!(before, None, "{} is with two", body(message));
                            assert!(!ledger.acked.contains_key(&body(message)), "{} was done", body(message));
                        }
                    }
                    // Every tenth is given back, and whoever pulls next gets it. It is let go before the call: from then
                    // on another may have it.
                    let (retries, acks): (Vec<_>, Vec<_>) =
                        messages.iter().partition(|message| message["attempts"] == 1 && body(message).ends_with('7'));
                    for message in &retries {
                        ledger.lock().unwrap().held.remove(&body(message));
                    }
                    let leases =
                        |list: &[&serde_json::Value]| list.iter().map(|message| lease(message)).collect::<Vec<_>>();
                    let said = client.ack(&queue, &leases(&acks), &leases(&retries));
                    let result = said.result();
                    assert_eq!(result["ackCount"], acks.len(), "{said:?}");
                    assert_eq!(result["retryCount"], retries.len(), "{said:?}");
                    let mut ledger = ledger.lock().unwrap();
                    for message in &acks {
                        ledger.held.remove(&body(message));
                        assert_eq!(ledger.acked.insert(body(message), puller), None, "acknowledged by two");
                    }
                    acked.fetch_add(acks.len() as u64, Ordering::SeqCst);
                }
            })
        })
        .collect();
    pullers.into_iter().for_each(|puller| puller.join().unwrap());
    let ledger = ledger.lock().unwrap();
    assert_eq!((ledger.acked.len(), ledger.held.len()), (count, 0), "none is lost");
    assert_eq!(client.backlog(&queue), 0);
    let mut shares = vec![0; PULLERS];
    ledger.acked.values().for_each(|puller| shares[*puller] += 1);
    assert!(shares.iter().all(|share| *share > 0), "each had some: {shares:?}");
    println!("{count} messages pulled and settled in {:?}", begun.elapsed());
}

#[test]
fn more_who_send_than_a_queue_has_places_for_wait_or_are_told_to_come_back_and_nothing_is_kept_in_part() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let kept = Arc::new(AtomicU64::new(0));
    let senders: Vec<_> = (0..300)
        .map(|_| {
            let (mut client, queue, kept) = (api.client(), queue.clone(), kept.clone());
            std::thread::spawn(move || {
                for _ in 0..3 {
                    let said = client.push(&queue, json!({ "body": "x" }));
                    match said.status {
                        200 => drop(kept.fetch_add(1, Ordering::Relaxed)),
                        429 => {
                            assert_eq!(said.code(), 10_250, "{said:?}");
                            assert!(said.head.to_lowercase().contains("retry-after: 1"), "{said:?}");
                        }
                        _ => panic!("{said:?}"),
                    }
                }
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert_eq!(client.backlog(&queue), kept.load(Ordering::Relaxed));
    assert!(kept.load(Ordering::Relaxed) >= 256);
}

#[test]
fn while_another_process_holds_the_store_a_call_is_answered_in_time_and_succeeds_when_it_lets_go() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let done = Arc::new(AtomicBool::new(false));
    let store = api.dir.path().join(".jadpo/queues.db");
    let holder = {
        let done = done.clone();
        let (held, begun) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let connection = rusqlite::Connection::open(store).unwrap();
            connection.busy_timeout(Duration::from_secs(20)).unwrap();
            connection.execute_batch("BEGIN IMMEDIATE").unwrap();
            held.send(()).unwrap();
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
            }
            connection.execute_batch("ROLLBACK").unwrap();
        });
        begun.recv().unwrap();
        thread
    };
    let batch = json!({ "messages": vec![json!({ "body": "x" }); 100] });
    let path = format!("/queues/{queue}/messages/batch");
    let begun = Instant::now();
    let said = client.post(&path, batch.clone());
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(matches!(said.status, 429 | 503), "{said:?}");
    assert_eq!(said.code(), 10_250);
    assert!(said.head.to_lowercase().contains("retry-after"), "{said:?}");
    let pull = client.pull(&queue, json!({}));
    assert!(matches!(pull.status, 429 | 503), "{pull:?}");
    done.store(true, Ordering::Relaxed);
    holder.join().unwrap();
    assert_eq!(client.backlog(&queue), 0, "nothing of the batch is kept");
    client.post(&path, batch).result();
    assert_eq!(client.backlog(&queue), 100);
}
