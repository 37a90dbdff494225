//! The handle on a store's one writer, on a real file.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use jadpo::broker::Broker;
use jadpo::store::OpenStore;
use jadpo_core::broker::{BrokerError, Redrive, Settle, Take};
use jadpo_core::store::StoreError;
use tempfile::TempDir;

use super::support::{batch, settings};

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

#[tokio::test]
async fn dead_letters_are_put_back_by_whoever_keeps_at_it_and_a_consumer_is_woken_by_it() {
    let (_dir, _path, _store, broker) = fresh().await;
    let change = |settings: &mut jadpo_core::broker::Settings| {
        settings.consumer.max_retries = 0;
        settings.consumer.dead_letter_queue = Some("jobs-dead".to_owned());
    };
    broker.update("jobs", settings(change)).await.unwrap();
    broker.send("jobs", batch(&["m"; 100])).await.unwrap();
    broker.send("jobs", batch(&["m"; 50])).await.unwrap();
    for _ in 0..2 {
        let taken = broker.take("jobs", Take { max: 100, visibility_ms: None }).await.unwrap().messages;
        let retries = taken.iter().map(|one| super::support::retry(one.lease, None)).collect();
        broker.settle("jobs", Settle { retries, ..Settle::default() }).await.unwrap();
    }
    let redrive = Redrive { source: "jobs".to_owned(), ..Redrive::default() };
    let preview = broker.redrive_preview(redrive.clone()).await.unwrap();
    assert_eq!((preview.matched, preview.by_target["jobs"]), (150, 150));
    let task = broker.redrive(redrive).await.unwrap();
    let keeper = broker.clone();
    let keeper = tokio::spawn(async move { keeper.keep_redriven().await });
    let mut changes = broker.changes();
    let ended = async {
        while broker.redrive_task(task.id).await.unwrap().next_in_ms.is_some() {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it comes to its end");
    keeper.abort();
    assert_eq!(broker.metrics("jobs-dead").await.unwrap().messages, 0);
    assert_eq!(broker.wakes(&["jobs"]).await.unwrap()[0].1.ready, 150);
}

#[tokio::test]
async fn every_operation_of_the_core_is_there_for_who_waits_for_the_disk() {
    use jadpo_core::broker::{Once, Peek, Retaken, Run, RunOutcome, SentOnce};
    let (_dir, path, store, broker) = fresh().await;
    let message = || super::support::message("m");
    let once = Once { scope: "hook", key: "1" };
    let SentOnce::Sent(id) = broker.send_once("jobs", once, message()).await.unwrap() else { panic!() };
    assert_eq!(broker.send_once("jobs", once, message()).await.unwrap(), SentOnce::Repeat(id));
    let taken = broker.send_taken("jobs", message(), 1_000).await.unwrap();
    let retry = super::support::retry(taken.lease, None);
    let Retaken::Taken(again) = broker.retry_taken("jobs", retry, 60_000).await.unwrap() else { panic!() };
    let settle = Settle { releases: vec![again.lease], ..Settle::default() };
    assert_eq!(broker.settle("jobs", settle).await.unwrap().released, 1);
    let seen = broker.peek("jobs", Peek { max: 10, after: None }).await.unwrap();
    assert_eq!(broker.remove("jobs", &[seen[0].reference]).await.unwrap().removed, 1);
    assert_eq!(seen[0].message.id, id);
    assert!(broker.occur("sweep", 5, "jobs", message()).await.unwrap().is_some());
    let run = Run { at_ms: 6, outcome: RunOutcome::Done, error: None, message: Some(id) };
    broker.record_runs(vec![("schedule:sweep".to_owned(), run.clone())]).await.unwrap();
    broker.enable_trigger("queue:jobs", false).await.unwrap();
    let token = broker.webhook_token("stripe").await.unwrap();
    drop(broker);
    store.close();
    let store = OpenStore::existing(&path).unwrap();
    let broker = Broker::open(store.handle()).await.unwrap();
    let triggers = broker.triggers().await.unwrap();
    assert!(!triggers["queue:jobs"].enabled);
    assert_eq!(
        (&triggers["schedule:sweep"].last_run, triggers["schedule:sweep"].last_occurrence_ms),
        (&Some(run), Some(5))
    );
    assert_eq!(broker.webhook_token("stripe").await.unwrap(), token);
    assert_ne!(broker.rotate_webhook_token("stripe").await.unwrap(), token);
    assert_eq!(broker.webhook_tokens().await.unwrap().len(), 1);
    assert_eq!(broker.metrics("jobs").await.unwrap().messages, 2);
    assert_eq!(broker.dead_letter_queue_of("jobs").await.unwrap(), "jobs");
    assert!(broker.redrives().await.unwrap().is_empty());
    assert_eq!(broker.cancel_redrive(3).await.unwrap_err(), BrokerError::RedriveNotFound(3));
    assert_eq!(broker.wakes(&["jobs", "gone"]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn two_processes_that_carry_on_one_redrive_move_each_letter_once() {
    let (_dir, path, _store, broker) = fresh().await;
    broker.create("jobs-dead", settings(|_| {})).await.unwrap();
    for _ in 0..5 {
        broker.send("jobs-dead", batch(&["m"; 100])).await.unwrap();
    }
    let other = OpenStore::existing(&path).unwrap();
    let beside = Broker::open(other.handle()).await.unwrap();
    let redrive = Redrive { source: "jobs-dead".to_owned(), to: Some("jobs".to_owned()), ..Redrive::default() };
    let task = broker.redrive(redrive.clone()).await.unwrap();
    let refused = beside.redrive(redrive).await.unwrap_err();
    assert_eq!(refused, BrokerError::RedriveRunning { source: "jobs-dead".to_owned(), id: task.id });
    let steps = |broker: Broker| async move {
        let mut moved = 0;
        while broker.redrive_task(task.id).await.unwrap().next_in_ms.is_some() {
            moved = broker.redrive_step(task.id, 7).await.unwrap().moved;
        }
        moved
    };
    let (one, two) = tokio::join!(steps(broker.clone()), steps(beside.clone()));
    assert_eq!(one.max(two), 500);
    assert_eq!(broker.metrics("jobs").await.unwrap().messages, 500);
    assert_eq!(beside.metrics("jobs-dead").await.unwrap().messages, 0);
}

#[tokio::test]
async fn a_store_of_an_earlier_version_is_brought_up_to_date_with_all_that_it_holds_or_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    // As the first version of the broker left it: a message that is leased, and one that is ready.
    let connection = rusqlite::Connection::open(&path).unwrap();
    for migration in jadpo_core::store::schema::MIGRATIONS {
        connection.execute_batch(migration.sql).unwrap();
    }
    connection.execute_batch(jadpo_core::broker::schema::MIGRATIONS[0].sql).unwrap();
    let contents =
        "INSERT INTO jadpo_queues VALUES ('jobs', 1, 'id', 5, 5, 0, 345600, 0, 10, 5000, 3, 0, 30000, NULL, NULL);
        INSERT INTO jadpo_queue_messages (seq, id, sent_at, kept_from, content, body)
            VALUES (1, randomblob(16), 5, 0, 0, x'61'), (2, randomblob(16), 5, 0, 0, x'62');
        INSERT INTO jadpo_queue_due VALUES (1, 9000000000000, 1, 1, 1, 1, 5, NULL), (1, 0, 2, 0, 0, 1, NULL, NULL);
        UPDATE jadpo_broker SET next_seq = 3, next_queue = 2;";
    connection.execute_batch(contents).unwrap();
    drop(connection);
    let store = OpenStore::existing(&path).unwrap();
    let refused = Broker::open(store.handle()).await.unwrap_err();
    assert!(matches!(refused, BrokerError::Store(StoreError::NotCurrent(_))), "{refused:?}");
    store.close();
    let store = OpenStore::create(&path).unwrap();
    let broker = Broker::open(store.handle()).await.unwrap();
    let metrics = broker.metrics("jobs").await.unwrap();
    assert_eq!((metrics.messages, metrics.in_flight), (2, 1));
    assert_eq!(broker.take("jobs", TEN).await.unwrap().messages[0].message.body, b"b");
    assert!(broker.redrives().await.unwrap().is_empty());
}
