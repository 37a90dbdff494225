//! The process that is killed: it does all a server does, at once, and says each thing when it is answered.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use jadpo::broker::Broker;
use jadpo::store::OpenStore;
use jadpo_core::broker::{BrokerError, Lease, Once, Redrive, Settings, Settle, Settled, Take};
use tokio::sync::Mutex;

use super::support::{batch, message, retry, settings};

pub(crate) const STORE: &str = "JADPO_TEST_CRASH_STORE";
pub(crate) const FIRST: &str = "JADPO_TEST_CRASH_FIRST";

/// Each queue has tasks of its own: `jobs` is worked off, what comes to `poison` mostly dies and is put back again and
/// again, `purged` is emptied again and again, `hooks` gets each key twice, and `ticks` a schedule's occurrences.
const QUEUES: [(&str, u32, Option<&str>); 6] = [
    ("jobs", 100, None),
    ("poison", 1, Some("poison-dead")),
    ("poison-dead", 100, None),
    ("purged", 100, None),
    ("hooks", 100, None),
    ("ticks", 100, None),
];
/// Nobody settles all of what is taken, so leases must end while the process lives.
const TAKE: Take = Take { max: 10, visibility_ms: Some(40) };

pub(crate) async fn open(path: &Path) -> (OpenStore, Broker) {
    let store = OpenStore::create(path).unwrap();
    let broker = Broker::open(store.handle()).await.unwrap();
    for (name, max_retries, dead) in QUEUES {
        let wanted: Settings = settings(|settings| {
            settings.consumer.visibility_ms = 40;
            settings.consumer.max_retries = max_retries;
            settings.consumer.dead_letter_queue = dead.map(str::to_owned);
        });
        match broker.create(name, wanted).await {
            Ok(_) | Err(BrokerError::QueueExists(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    (store, broker)
}

#[test]
#[ignore = "a part of another test"]
fn the_process_that_is_killed() {
    let Some(path) = std::env::var_os(STORE) else { return };
    std::panic::set_hook(Box::new(|panic| println!("\npanicked {}", panic.to_string().replace('\n', " "))));
    let first: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (_store, broker) = open(&PathBuf::from(path)).await;
        let next = Numbers(Arc::new(AtomicU64::new(first)));
        let mut tasks = Vec::new();
        let turn = Arc::default();
        for consumer in 0..2 {
            tasks.push(tokio::spawn(send_for_ever(broker.clone(), "jobs", next.clone())));
            tasks.push(tokio::spawn(consume_for_ever(broker.clone(), first + consumer, Arc::clone(&turn))));
        }
        tasks.push(tokio::spawn(send_for_ever(broker.clone(), "poison", next.clone())));
        tasks.push(tokio::spawn(fail_for_ever(broker.clone(), first)));
        tasks.push(tokio::spawn(redrive_for_ever(broker.clone())));
        tasks.push(tokio::spawn(purge_for_ever(broker.clone(), next.clone())));
        tasks.push(tokio::spawn(send_once_for_ever(broker.clone(), next)));
        tasks.push(tokio::spawn(occur_for_ever(broker.clone())));
        tasks.push(tokio::spawn(async move { broker.keep_swept().await }));
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// Numbers that no other process of the test has.
#[derive(Clone)]
struct Numbers(Arc<AtomicU64>);

impl Numbers {
    fn bodies(&self) -> [String; 3] {
        let first = self.0.fetch_add(3, Ordering::Relaxed);
        [first, first + 1, first + 2].map(|number| number.to_string())
    }
}

/// On a line of its own, whatever else was printed.
fn say(what: &str, queue: &str, body: &str) {
    println!("\n{what} {queue} {body}");
}

/// An ack that came when its message had died already is answered with a warning, and is none.
fn say_acked(queue: &str, acks: &[(Lease, String)], settled: &Settled) {
    let warned = |lease: &Lease| settled.warnings.iter().any(|(warned, _)| warned == lease);
    acks.iter().filter(|(lease, _)| !warned(lease)).for_each(|(_, body)| say("acked", queue, body));
}

async fn send(broker: &Broker, queue: &str, bodies: &[String; 3]) {
    broker.send(queue, batch(&bodies.each_ref().map(String::as_str))).await.unwrap();
    bodies.iter().for_each(|body| say("sent", queue, body));
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

async fn send_for_ever(broker: Broker, queue: &'static str, next: Numbers) {
    loop {
        send(&broker, queue, &next.bodies()).await;
        if queue == "poison" {
            pause().await;
        }
    }
}

/// Two of them say in the order of their turns what they took, or it would look as if attempts shrank.
async fn consume_for_ever(broker: Broker, seed: u64, turn: Arc<Mutex<()>>) {
    let mut rng = Rng::with_seed(seed);
    loop {
        let mine = turn.lock().await;
        let taken = broker.take("jobs", TAKE).await.unwrap().messages;
        for one in &taken {
            println!("\ntaken jobs {} {}", std::str::from_utf8(&one.message.body).unwrap(), one.message.attempts);
        }
        drop(mine);
        let mut settle = Settle::default();
        let mut acks = Vec::new();
        for one in &taken {
            let body = String::from_utf8(one.message.body.clone()).unwrap();
            match rng.u8(..8) {
                0 => settle.retries.push(retry(one.lease, None)),
                1 => {} // its lease ends
                2 => {
                    say("releasing", "jobs", &body);
                    settle.releases.push(one.lease);
                }
                _ => {
                    settle.acks.push(one.lease);
                    say("acking", "jobs", &body);
                    acks.push((one.lease, body));
                }
            }
        }
        let settled = broker.settle("jobs", settle).await.unwrap();
        say_acked("jobs", &acks, &settled);
        pause().await;
    }
}

async fn fail_for_ever(broker: Broker, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    loop {
        let taken = broker.take("poison", TAKE).await.unwrap().messages;
        let mut settle = Settle::default();
        let mut acks = Vec::new();
        for one in &taken {
            if rng.u8(..8) > 0 {
                settle.retries.push(retry(one.lease, None));
                continue;
            }
            let body = String::from_utf8(one.message.body.clone()).unwrap();
            settle.acks.push(one.lease);
            say("acking", "poison", &body);
            acks.push((one.lease, body));
        }
        let settled = broker.settle("poison", settle).await.unwrap();
        say_acked("poison", &acks, &settled);
        settled.gone.iter().for_each(|gone| say("died", "poison", &gone.id.to_string()));
        pause().await;
    }
}

/// Carries on with what an earlier process began.
async fn redrive_for_ever(broker: Broker) {
    loop {
        let redrive = Redrive { source: "poison".to_owned(), ..Redrive::default() };
        let begun = broker.redrive(redrive).await;
        assert!(matches!(begun, Ok(_) | Err(BrokerError::RedriveRunning { .. })), "{begun:?}");
        for task in broker.redrives().await.unwrap().iter().filter(|task| task.next_in_ms.is_some()) {
            let stepped = broker.redrive_step(task.id, 4).await.unwrap();
            if stepped.moved > task.moved {
                say("moved", "poison-dead", &(stepped.moved - task.moved).to_string());
            }
        }
        pause().await;
    }
}

async fn purge_for_ever(broker: Broker, next: Numbers) {
    loop {
        let bodies = next.bodies();
        send(&broker, "purged", &bodies).await;
        for one in broker.take("purged", Take { max: 2, ..TAKE }).await.unwrap().messages {
            let body = String::from_utf8(one.message.body).unwrap();
            println!("\ntaken purged {body} {}", one.message.attempts);
        }
        say("purging", "purged", &bodies[2]);
        broker.purge("purged").await.unwrap();
        say("purged", "purged", &bodies[2]);
        pause().await;
    }
}

async fn send_once_for_ever(broker: Broker, next: Numbers) {
    let mut key = next.bodies()[0].clone();
    loop {
        for again in [false, true] {
            let once = Once { scope: "hook", key: &key };
            let sent = broker.send_once("hooks", once, message(&key)).await.unwrap();
            assert_eq!(matches!(sent, jadpo_core::broker::SentOnce::Repeat(_)), again);
            say("sent", "hooks", &key);
        }
        key.clone_from(&next.bodies()[0]);
        pause().await;
    }
}

async fn occur_for_ever(broker: Broker) {
    let known = broker.triggers().await.unwrap();
    let mut last = known.get("schedule:tick").and_then(|state| state.last_occurrence_ms).unwrap_or_default();
    loop {
        if last > 0 {
            // The one that an earlier process may have been killed over, first.
            assert_eq!(broker.occur("tick", last, "ticks", message("twice")).await.unwrap(), None);
        }
        last += 1;
        broker.occur("tick", last, "ticks", message(&last.to_string())).await.unwrap().unwrap();
        say("sent", "ticks", &last.to_string());
        pause().await;
    }
}
