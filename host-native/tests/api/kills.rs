//! `kill -9` of the server between any two steps of its clients, again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Api, Client, lease};

/// How many times the server is killed, unless JADPO_TEST_KILLS says otherwise.
const KILLS: u64 = 30;
const CLIENTS: u64 = 3;

/// What the clients were answered, over all processes.
#[derive(Default)]
struct Answered {
    next: AtomicU64,
    sent: Mutex<BTreeSet<String>>,
    /// What an ack was sent for: it may count, whatever was answered.
    acking: Mutex<BTreeSet<String>>,
    acked: Mutex<BTreeSet<String>>,
    attempts: Mutex<BTreeMap<String, u64>>,
}

impl Answered {
    fn taken(&self, message: &Value) -> String {
        let body = message["body"].as_str().unwrap().to_owned();
        assert!(!self.acked.lock().unwrap().contains(&body), "{body} came again after its ack was answered");
        let attempt = message["attempts"].as_u64().unwrap();
        let before = self.attempts.lock().unwrap().insert(body.clone(), attempt).unwrap_or(0);
        assert!(attempt > before, "{body}: attempt {attempt} after {before}");
        body
    }
}

#[test]
fn a_server_that_is_killed_between_any_two_steps_loses_nothing_that_it_answered() {
    let kills = std::env::var("JADPO_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let mut api = Api::dev();
    let settings = json!({ "visibility_timeout_ms": 400, "max_retries": 100 });
    let queue = api.client().pulled("mail", settings);
    let answered = Arc::new(Answered::default());
    for _ in 0..kills {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(sender(api.client(), &queue, &answered, &stop));
        }
        // One who pulls: another could be shown a message after the server had let it go and before the first had noted
        // that it has it.
        clients.push(puller(api.client(), &queue, &answered, &stop));
        std::thread::sleep(Duration::from_millis(fastrand::u64(20..250)));
        api.server.signal("KILL");
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
        api = api.restarted();
    }
    let mut client = api.client();
    while client.backlog(&queue) > 0 {
        let messages = client.messages(&queue, json!({ "batch_size": 100 }));
        let acks: Vec<Value> = messages.iter().map(lease).collect();
        let bodies: Vec<String> = messages.iter().map(|message| answered.taken(message)).collect();
        assert_eq!(client.ack(&queue, &acks, &[]).result()["ackCount"], acks.len());
        answered.acking.lock().unwrap().extend(bodies);
        std::thread::sleep(Duration::from_millis(10));
    }
    let (sent, acking) = (answered.sent.lock().unwrap(), answered.acking.lock().unwrap());
    let lost: Vec<_> = sent.difference(&acking).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let acked = answered.acked.lock().unwrap();
    assert!(sent.len() > 100 && acked.len() > 30, "sent {}, acknowledged {}", sent.len(), acked.len());
}

fn sender(
    mut client: Client,
    queue: &str,
    answered: &Arc<Answered>,
    stop: &Arc<AtomicBool>,
) -> std::thread::JoinHandle<()> {
    let (path, answered, stop) = (format!("/queues/{queue}/messages/batch"), answered.clone(), stop.clone());
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let first = answered.next.fetch_add(3, Ordering::Relaxed);
            let bodies = [first, first + 1, first + 2].map(|number| number.to_string());
            let messages: Vec<Value> =
                bodies.iter().map(|body| json!({ "body": body, "content_type": "text" })).collect();
            match client.may("POST", &path, &json!({ "messages": messages })) {
                Some(said) if said.status == 200 => answered.sent.lock().unwrap().extend(bodies),
                _ => return,
            }
        }
    })
}

/// Pulls, and of every four acknowledges two, gives one back, and forgets one.
fn puller(
    mut client: Client,
    queue: &str,
    answered: &Arc<Answered>,
    stop: &Arc<AtomicBool>,
) -> std::thread::JoinHandle<()> {
    let (pull, ack) = (format!("/queues/{queue}/messages/pull"), format!("/queues/{queue}/messages/ack"));
    let (answered, stop) = (answered.clone(), stop.clone());
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let Some(said) = client.may("POST", &pull, &json!({ "batch_size": 10 })).filter(|said| said.status == 200)
            else {
                return;
            };
            let (mut acks, mut retries, mut done) = (Vec::new(), Vec::new(), Vec::new());
            for (index, message) in said.body["result"]["messages"].as_array().unwrap().iter().enumerate() {
                let body = answered.taken(message);
                match index % 4 {
                    0 => retries.push(lease(message)),
                    1 => {} // its lease ends
                    _ => {
                        answered.acking.lock().unwrap().insert(body.clone());
                        acks.push(lease(message));
                        done.push(body);
                    }
                }
            }
            let count = acks.len();
            match client.may("POST", &ack, &json!({ "acks": acks, "retries": retries })) {
                Some(said) if said.status == 200 => {
                    assert_eq!(said.body["result"]["ackCount"], count, "{said:?}");
                    answered.acked.lock().unwrap().extend(done);
                }
                _ => return,
            }
        }
    })
}
