//! Ten thousand queues, and names of all kinds.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jadpo::broker::Broker;
use jadpo::store::OpenStore;
use jadpo_core::broker::{BrokerError, Take, Wake};

use super::support::{Fixture, batch, delayed, settings};

/// Ten times what it takes on a slow machine: what grows with the square of the queues takes a thousand times as long.
const QUICK: Duration = Duration::from_secs(10);

fn within<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let done = work();
    assert!(started.elapsed() < QUICK, "{what} took {:?}", started.elapsed());
    done
}

#[tokio::test]
async fn ten_thousand_queues_on_a_file_are_made_listed_asked_and_swept_in_no_time_and_one_more_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let store = OpenStore::create(&path).unwrap();
    let broker = Broker::open(store.handle()).await.unwrap();
    let names: Vec<String> = (0..10_000).map(|n| format!("queue-{n}")).collect();
    let started = Instant::now();
    for names in names.chunks(500) {
        let made = join_all(names.iter().map(|name| broker.create(name, settings(|_| {})))).await;
        assert!(made.iter().all(Result::is_ok));
        let sent = join_all(names.iter().map(|name| broker.send(name, batch(&["m"])))).await;
        assert!(sent.iter().all(Result::is_ok));
    }
    assert!(started.elapsed() < QUICK * 3, "made and sent to in {:?}", started.elapsed());
    let refused = broker.create("one-more", settings(|_| {})).await.unwrap_err();
    assert_eq!(refused, BrokerError::TooManyQueues { limit: 10_000 });
    assert!(refused.to_string().contains("10000"), "{refused}");
    drop(broker);
    store.close();

    let started = Instant::now();
    let store = OpenStore::existing(&path).unwrap();
    let broker = Broker::open(store.handle()).await.unwrap();
    assert_eq!(broker.list().await.unwrap().len(), 10_000);
    let wakes = broker.wakes(&names).await.unwrap();
    assert!(wakes.len() == 10_000 && wakes.iter().all(|(_, wake)| wake.ready == 1));
    let mut slices = 0;
    while broker.sweep().await.unwrap().more {
        slices += 1;
    }
    assert!((1..100).contains(&slices), "a sweep asks a slice of them: {slices}");
    assert!(started.elapsed() < QUICK, "opened, listed, asked and swept in {:?}", started.elapsed());
    let taken = broker.take("queue-9999", Take { max: 10, visibility_ms: None }).await.unwrap();
    assert_eq!(taken.messages.len(), 1);
}

#[test]
fn a_sweep_comes_to_its_end_and_asks_only_the_queues_that_have_something_due() {
    let mut queue = Fixture::new();
    for n in 0..2_000 {
        queue.create(&format!("q{n}"), settings(|_| {}));
        let mut sent = batch(&["ready"]);
        sent.messages.push(delayed("later", 60 + n % 5));
        queue.send_batch(&format!("q{n}"), &sent).unwrap();
    }
    let sweep = |queue: &mut Fixture| {
        let (mut slices, mut statements) = (0, 0);
        loop {
            let swept = queue.sweep();
            (slices, statements) = (slices + 1, statements + queue.statements);
            if !swept.more {
                return (slices, statements);
            }
        }
    };
    within("the first sweep", || assert_eq!(sweep(&mut queue).0, 4));
    let (slices, statements) = sweep(&mut queue);
    assert!(slices == 1 && statements < 10, "nothing is due: {statements} statements");
    queue.pass_s(60);
    let (_, statements) = sweep(&mut queue);
    // A fifth of them: what is due, each row, what is next, and the oldest.
    assert!((400..400 * 5 + 50).contains(&statements), "{statements} statements");
    for _ in 0..4 {
        queue.pass_s(1);
        sweep(&mut queue);
    }
    let wake = queue.run(|broker, sql, at| broker.wake(sql, at, "q7")).unwrap();
    assert_eq!(wake, Wake { ready: 2, waiting_ms: 0, next_in_ms: None });
}

#[test]
fn a_lease_a_delay_and_a_retry_that_end_before_what_was_next_are_swept_in_their_time() {
    let mut queue = Fixture::with(settings(|_| {}));
    let far = |queue: &mut Fixture| {
        let mut sent = batch(&[]);
        sent.messages.push(delayed("far", 3_600));
        queue.send_batch("jobs", &sent).unwrap();
        queue.sweep_all();
    };
    far(&mut queue);
    queue.send("jobs", "leased");
    queue.take("jobs");
    far(&mut queue);
    queue.send("jobs", "retried");
    let taken = queue.take("jobs");
    queue.retry("jobs", &taken, Some(20));
    far(&mut queue);
    queue.run(|broker, sql, at| broker.send_taken(sql, at, "jobs", &delayed("at once", 9), 10_000)).unwrap();
    let mut ready = Vec::new();
    for _ in 0..4 {
        queue.pass_s(10);
        queue.sweep_all();
        let metrics = queue.metrics("jobs");
        ready.push(metrics.messages - metrics.in_flight - metrics.delayed);
    }
    assert_eq!(ready, [1, 2, 3, 3]);
}

#[test]
fn no_name_that_is_none_makes_a_queue_or_is_looked_for() {
    let mut queue = Fixture::new();
    let good = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
    let odd = ['ä', 'а', '１', 'ſ', '\u{200b}', '\u{202e}', '\u{feff}', '\u{2028}', '–', '🙂', '\u{10ffff}'];
    let chars = (0..=255_u8).map(char::from).chain(odd).filter(|one| !good(*one));
    for one in chars {
        for name in [format!("{one}"), format!("a{one}b"), format!("{one}ab"), format!("ab{one}")] {
            let made = queue.run(|broker, sql, at| broker.create(sql, at, &name, settings(|_| {})));
            assert!(matches!(made, Err(BrokerError::NameInvalid { .. })), "{name:?}");
            let dead = settings(|settings| settings.consumer.dead_letter_queue = Some(name.clone()));
            let made = queue.run(|broker, sql, at| broker.create(sql, at, "good", dead));
            assert!(matches!(made, Err(BrokerError::NameInvalid { .. })), "{name:?} as a dead-letter queue");
            assert!(matches!(queue.send_batch(&name, &batch(&["m"])), Err(BrokerError::QueueNotFound(_))));
            assert!(matches!(queue.try_take(&name, 1), Err(BrokerError::QueueNotFound(_))));
        }
    }
    for name in [
        "%2e%2e",
        "..",
        ".",
        "a/../b",
        "con.",
        "a;drop table jadpo_queues",
        "' or 1=1 --",
        "a".repeat(5_000_000).as_str(),
    ] {
        assert!(queue.run(|broker, sql, at| broker.create(sql, at, name, settings(|_| {}))).is_err(), "{name:.20}");
    }
    assert_eq!(queue.broker.list().count(), 0);
    let long = "ä".repeat(1_000_000);
    let refused = queue.run(|broker, sql, at| broker.create(sql, at, &long, settings(|_| {}))).unwrap_err();
    assert!(refused.to_string().len() < 1_000, "what is said of an endless name has an end");
    let refused = queue.send_batch(&long, &batch(&["m"])).unwrap_err();
    assert!(refused.to_string().len() < 1_000, "what is said of an endless name has an end");
    let refused = queue.send_batch("\u{1b}[31mred\n\u{202e}", &batch(&["m"])).unwrap_err().to_string();
    assert!(refused.is_ascii() && !refused.contains('\u{1b}'), "nothing in it that a terminal would follow: {refused}");
}
