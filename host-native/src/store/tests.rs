use super::*;
use crate::broker::Broker;
use jadpo_core::broker::{Content, NewBatch, NewMessage, Settings, Take};
use jadpo_core::store::Value;

const INSERT: &str = "INSERT INTO jadpo_received (connection, key, seq) VALUES (?1, ?2, ?3) RETURNING key, seq";
const COUNT: &str = "SELECT count(*) FROM jadpo_received";
const REFUSED: &str = "INSERT INTO jadpo_schema (only, version, next_seq, pruned_seq) VALUES (2, 1, 1, 1)";

fn insert(key: &str) -> Statement {
    Statement::new(INSERT, vec!["c".into(), key.into(), 1_i64.into()])
}

async fn count(store: &Store) -> i64 {
    store.batch(vec![Statement::new(COUNT, vec![])]).await.unwrap()[0].rows[0].integer(0).unwrap()
}

fn fresh() -> (tempfile::TempDir, OpenStore) {
    let dir = tempfile::tempdir().unwrap();
    let open = OpenStore::create(&dir.path().join("below/store.db")).unwrap();
    (dir, open)
}

#[tokio::test]
async fn rows_come_back_in_the_statements_order() {
    let (_dir, open) = fresh();
    let rows = open.handle().batch(vec![insert("a"), Statement::new(COUNT, vec![])]).await.unwrap();
    assert_eq!((rows[0].rows[0].text(0), rows[0].changes), (Some("a"), 1));
    assert_eq!((rows[1].rows[0].integer(0), rows[1].changes), (Some(1), 0));
}

#[tokio::test]
async fn a_batch_that_fails_leaves_nothing_and_says_what_kind_of_failure_it_is() {
    let (_dir, open) = fresh();
    let store = open.handle();
    let refused = store.batch(vec![insert("a"), Statement::new(REFUSED, vec![])]).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    let behind = store.batch(vec![insert("a"), Statement::new("SELECT * FROM not_yet", vec![])]).await;
    assert!(matches!(behind, Err(StoreError::NotCurrent(_))), "{behind:?}");
    assert_eq!(count(&store).await, 0);
}

#[tokio::test]
async fn batches_that_share_a_commit_fail_each_for_itself() {
    let (_dir, open) = fresh();
    let store = open.handle();
    let keys: Vec<String> = (0..200).map(|n| format!("k{n}")).collect();
    let batches = keys.iter().enumerate().map(|(index, key)| {
        let mut statements = vec![insert(key)];
        if index % 10 == 3 {
            statements.push(Statement::new(REFUSED, vec![]));
        }
        store.batch(statements)
    });
    let answers = futures_util::future::join_all(batches).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 20);
    assert_eq!(count(&store).await, 180);
}

#[tokio::test]
async fn every_kind_of_value_comes_back_as_it_went() {
    let (_dir, open) = fresh();
    let params =
        vec![Value::Null, Value::Integer(-5), Value::Real(1.5), Value::Text("a\0b".into()), Value::Blob(vec![0, 255])];
    let rows = open.handle().batch(vec![Statement::new("SELECT ?1, ?2, ?3, ?4, ?5", params.clone())]).await.unwrap();
    assert_eq!(rows[0].rows[0].0, params);
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_reopen_and_migrations_run_once() {
    let (_dir, open) = fresh();
    let path = open.path().to_owned();
    open.handle().batch(vec![insert("a")]).await.unwrap();
    open.close();
    let again = OpenStore::create(&path).unwrap();
    assert_eq!(count(&again.handle()).await, 1);
    let beside = OpenStore::existing(&path).unwrap();
    assert_eq!(count(&beside.handle()).await, 1, "an operator's command reads beside a running server");
}

#[test]
fn a_store_that_is_not_there_or_none_at_all_is_said_so() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("store.db");
    assert!(matches!(OpenStore::existing(&missing), Err(OpenError::Missing(_))));
    assert!(!missing.exists());
    std::fs::write(&missing, "this is a text file, and long enough not to be taken for an empty database").unwrap();
    let refused = OpenStore::create(&missing).unwrap_err();
    assert!(refused.to_string().contains("not a database"), "{refused}");
}

#[test]
fn a_second_server_is_refused_by_the_first_one_s_process() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store.db");
    let held = StoreLock::take(&store).unwrap();
    let refused = StoreLock::take(&store).unwrap_err();
    assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
    drop(held);
    assert!(StoreLock::take(&store).is_ok());
}

fn of_bytes(bytes: usize) -> NewBatch {
    NewBatch {
        messages: vec![NewMessage { content: Content::Bytes, body: vec![b'x'; bytes], delay_s: None, meta: None }],
        delay_s: None,
    }
}

#[tokio::test]
async fn a_full_disk_fails_what_does_not_fit_and_loses_nothing_else() {
    let (_dir, open) = fresh();
    let path = open.path().to_owned();
    open.close();
    let connection = open::existing(&path).unwrap();
    let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    // As on a disk with room for some 160 KB.
    connection.query_row(&format!("PRAGMA max_page_count = {}", pages + 20), [], |row| row.get::<_, i64>(0)).unwrap();
    let open = OpenStore::start(&path, connection).unwrap();
    let broker = Broker::open(open.handle()).await.unwrap();
    broker.create("jobs", Settings::default()).await.unwrap();
    broker.send("jobs", of_bytes(5)).await.unwrap();
    let sends = (0..8).map(|n| broker.send("jobs", of_bytes(if n % 2 == 0 { 10 } else { 100_000 })));
    let answers = futures_util::future::join_all(sends).await;
    let kept = answers.iter().filter(|answer| answer.is_ok()).count();
    let refused: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(refused.len() >= 3 && refused.iter().all(|error| error.may_pass()), "{refused:?}");
    assert_eq!(broker.metrics("jobs").await.unwrap().messages, 1 + kept as u64);
    let taken = broker.take("jobs", Take { max: 10, visibility_ms: None }).await.unwrap().messages;
    assert_eq!((taken.len(), taken[0].message.body.len()), (1 + kept, 5));
}
