//! The handle on a store's one writer, on a real file.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use jadpo::broker::Broker;
use jadpo::store::OpenStore;
use jadpo_core::broker::{BrokerError, NewBatch, Settle, Take};
use tempfile::TempDir;

use super::support::{batch, message, settings};

const TEN: Take = Take { max: 10, visibility_ms: None };

async fn fresh() -> (TempDir, PathBuf, OpenStore, Broker) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let store = OpenStore::create(&path).unwrap();
    let broker = Broker::open(store.handle()).await.unwrap();
    broker.create("jobs", settings(|_| {})).await.unwrap();
    (dir, path, store, broker)
}

#[tokio::test]
async fn the_257th_call_that_sends_to_a_queue_at_once_is_told_to_come_back_and_the_others_are_kept() {
    let (_dir, _path, _store, broker) = fresh().await;
    broker.create("other", settings(|_| {})).await.unwrap();
    let sends = join_all((0..257).map(|_| broker.send("jobs", batch(&["m"])))).await;
    let refused: Vec<_> = sends.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 1);
    assert!(matches!(refused[0], BrokerError::Overloaded(_)) && refused[0].may_pass());
    assert_eq!(refused[0].code(), Some(10_250));
    assert!(refused[0].to_string().contains("`jobs`"), "{}", refused[0]);
    assert_eq!(broker.metrics("jobs").await.unwrap().messages, 256);
    assert!(broker.send("jobs", batch(&["m"])).await.is_ok(), "a place is free again when its call is over");
}

#[tokio::test]
async fn what_the_writer_cannot_hold_is_told_so_at_once() {
    let (_dir, _path, _store, broker) = fresh().await;
    // On one thread nobody is answered before all have asked.
    let takes = join_all((0..5_000).map(|_| broker.take("jobs", TEN))).await;
    let refused: Vec<_> = takes.into_iter().filter_map(Result::err).collect();
    assert!(!refused.is_empty() && refused.iter().all(BrokerError::may_pass));
    assert!(refused[0].to_string().contains("1024 requests wait"), "{}", refused[0]);
}

#[tokio::test]
async fn requests_that_share_a_commit_are_refused_each_for_itself() {
    let (_dir, _path, _store, broker) = fresh().await;
    let answers = join_all((0..200).map(|n| {
        let queue = if n % 10 == 3 { "nowhere" } else { "jobs" };
        let broker = broker.clone();
        async move { broker.send(queue, batch(&["m"])).await }
    }))
    .await;
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 20);
    assert_eq!(broker.metrics("jobs").await.unwrap().messages, 180);
}

#[tokio::test]
async fn what_another_process_wrote_to_the_file_is_seen() {
    let (_dir, path, store, broker) = fresh().await;
    broker.send("jobs", batch(&["a"])).await.unwrap();
    let other = OpenStore::existing(&path).unwrap();
    let beside = Broker::open(other.handle()).await.unwrap();
    beside.send("jobs", batch(&["b"])).await.unwrap();
    beside.create("made-beside", settings(|_| {})).await.unwrap();
    assert_eq!(broker.metrics("jobs").await.unwrap().messages, 2);
    assert!(broker.info("made-beside").await.is_ok());
    broker.send("jobs", batch(&["c"])).await.unwrap();
    let taken = beside.take("jobs", TEN).await.unwrap().messages;
    assert_eq!(taken.iter().map(|one| one.message.body[0]).collect::<Vec<_>>(), b"abc");
    let acks = taken.iter().map(|one| broker.lease_key().open(&beside.lease_key().seal(&one.lease)).unwrap()).collect();
    assert_eq!(broker.settle("jobs", Settle { acks, ..Settle::default() }).await.unwrap().acked, 3);
    drop(broker);
    store.close();
}

#[tokio::test]
async fn a_store_that_another_process_holds_locked_answers_in_time_and_keeps_nothing_of_the_call() {
    let (_dir, path, _store, broker) = fresh().await;
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let hundred = NewBatch { messages: vec![message("m"); 100], delay_s: None };
    let answer = tokio::time::timeout(Duration::from_secs(10), broker.send("jobs", hundred.clone())).await;
    let refused = answer.expect("in time").unwrap_err();
    assert!(refused.may_pass() && refused.code() == Some(10_250), "{refused:?}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(broker.metrics("jobs").await.unwrap().messages, 0);
    assert_eq!(broker.send("jobs", hundred).await.unwrap().ids.len(), 100);
}

#[tokio::test]
async fn a_consumer_that_waits_is_woken_by_a_send() {
    let (_dir, _path, _store, broker) = fresh().await;
    let mut changes = broker.changes();
    changes.mark_unchanged();
    assert_eq!(broker.wake("jobs").await.unwrap().ready, 0);
    assert!(broker.take("jobs", TEN).await.unwrap().messages.is_empty());
    assert!(!changes.has_changed().unwrap(), "by looking nobody is woken, or looking would never end");
    let sender = broker.clone();
    tokio::spawn(async move { sender.send("jobs", batch(&["a"])).await });
    tokio::time::timeout(Duration::from_secs(10), changes.changed()).await.expect("woken").unwrap();
    assert_eq!(broker.wake("jobs").await.unwrap().ready, 1);
}
