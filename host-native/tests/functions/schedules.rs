//! Schedules on a real store: what is recorded outlasts the process, and nothing happens twice.

use jadpo::broker::Broker;
use jadpo::store::OpenStore;
use jadpo_core::app;
use jadpo_core::schedule::Schedules;
use jadpo_core::trigger::Triggers;

const HOUR_MS: i64 = 3_600_000;
/// 2026-11-30T12:00:00Z.
const NOON_MS: i64 = 1_796_040_000_000;

const APP: &str = "app: \"shop\"\nfunctions: { sweep: { run: sweep, schedule: \"0 * * * *\" } }\n";

/// A tick of a server that knows nothing but its store. Answers how many occurrences it sent a message for.
async fn tick(path: &std::path::Path, now_ms: i64) -> usize {
    let program = app::compile(APP).program.unwrap();
    let store = OpenStore::create(path).unwrap();
    let broker = Broker::open(store.handle()).await.unwrap();
    for declared in Triggers::of(&program).declared() {
        if broker.info(&declared.queue).await.is_err() {
            broker.create(&declared.queue, declared.settings.clone()).await.unwrap();
        }
    }
    let due = Schedules::of(&program).due(&broker.triggers().await.unwrap(), now_ms);
    for (schedule, at_ms) in due.passed {
        broker.pass(&schedule, at_ms).await.unwrap();
    }
    let mut sent = 0;
    for one in due.occurrences {
        // Asked for twice, as by two servers that saw it at once.
        let first = broker.occur(&one.schedule, one.at_ms, &one.queue, one.message.clone()).await.unwrap();
        let second = broker.occur(&one.schedule, one.at_ms, &one.queue, one.message).await.unwrap();
        assert_eq!(second, None);
        sent += usize::from(first.is_some());
    }
    sent
}

#[tokio::test]
async fn each_occurrence_is_sent_once_over_restarts_and_jumps_of_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("queues.db");
    let times = [
        (0, 0, "it begins"),
        (HOUR_MS - 1, 0, "not yet"),
        (HOUR_MS, 1, "an hour later"),
        (HOUR_MS + 1, 0, "once"),
        (HOUR_MS - 12 * HOUR_MS, 0, "the clock is set back by 12 h"),
        (HOUR_MS + 1, 0, "and set right again"),
        (13 * HOUR_MS, 1, "12 h ahead: the latest"),
        (2 * HOUR_MS, 0, "and back: none is repeated"),
        (14 * HOUR_MS, 1, "until its time has come"),
    ];
    for (after_ms, sent, when) in times {
        assert_eq!(tick(&path, NOON_MS + after_ms).await, sent, "{when}");
    }
    let store = OpenStore::create(&path).unwrap();
    let broker = Broker::open(store.handle()).await.unwrap();
    assert_eq!(broker.metrics("schedule-sweep").await.unwrap().messages, 3);
}

#[tokio::test]
async fn what_was_passed_over_is_never_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = OpenStore::create(&folder.path().join("queues.db")).unwrap();
    let broker = Broker::open(store.handle()).await.unwrap();
    broker.enable_trigger("schedule:sweep", false).await.unwrap();
    for until_ms in [NOON_MS, NOON_MS - HOUR_MS, NOON_MS + 1, NOON_MS] {
        broker.pass("sweep", until_ms).await.unwrap();
    }
    let states = broker.triggers().await.unwrap();
    let state = &states["schedule:sweep"];
    assert_eq!((state.last_occurrence_ms, state.enabled), (Some(NOON_MS + 1), false));
    assert!(broker.pass(&"s".repeat(300), 0).await.is_err());
}
