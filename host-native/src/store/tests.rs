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

/// A database of another program's, made by these statements, and what its folder holds.
fn foreign(statements: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch(statements).unwrap();
    (dir, path)
}

fn bytes_and_neighbours(path: &Path) -> (Vec<u8>, Vec<std::ffi::OsString>) {
    let neighbours = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let mut names: Vec<_> = neighbours.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    (std::fs::read(path).unwrap(), names)
}

#[test]
fn a_file_of_another_program_s_is_refused_and_stays_as_it_is() {
    let others = [
        "CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('keep me')",
        "CREATE TABLE jadpo_schema (version INTEGER); INSERT INTO jadpo_schema VALUES (999)",
        "PRAGMA application_id = 7; CREATE TABLE jadpo_broker (version INTEGER)",
        "PRAGMA application_id = 7",
    ];
    for statements in others {
        let (_dir, path) = foreign(statements);
        let before = bytes_and_neighbours(&path);
        let refusals = [
            OpenStore::existing(&path).map(drop).unwrap_err(),
            OpenStore::create(&path).map(drop).unwrap_err(),
            StoreLock::take(&path).map(drop).unwrap_err(),
        ];
        for refused in refusals {
            assert!(matches!(refused, OpenError::Foreign { .. }), "{statements}: {refused:?}");
        }
        assert_eq!(bytes_and_neighbours(&path), before, "{statements}");
    }
}

#[test]
fn an_empty_file_is_no_store_to_look_at_and_one_to_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    std::fs::write(&path, "").unwrap();
    assert!(matches!(OpenStore::existing(&path), Err(OpenError::Foreign { .. })));
    assert_eq!(bytes_and_neighbours(&path), (Vec::new(), vec!["store.db".into()]));
    OpenStore::create(&path).unwrap().close();
    OpenStore::existing(&path).unwrap().close();
}

fn mark(path: &Path) -> i64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row("PRAGMA application_id", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_store_from_before_the_mark_is_known_by_its_tables_and_marked_when_a_server_opens_it() {
    let (_dir, open) = fresh();
    let path = open.path().to_owned();
    open.close();
    let jadp = i64::from(u32::from_be_bytes(*b"jadp"));
    assert_eq!(mark(&path), jadp);
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA application_id = 0").unwrap();
    OpenStore::existing(&path).unwrap().close();
    assert_eq!(mark(&path), 0, "looking changes nothing");
    OpenStore::create(&path).unwrap().close();
    assert_eq!(mark(&path), jadp);
}

#[test]
fn what_is_made_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("made/.jadpo");
    let path = folder.join("queues.db");
    let _lock = StoreLock::take(&path).unwrap();
    let open = OpenStore::create(&path).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&dir.path().join("made"))), (0o700, 0o700));
    for ending in ["", "-wal", "-shm", ".lock"] {
        assert_eq!(mode(&files::beside(&path, ending)), 0o600, "{ending}");
    }
    open.close();
    let alone = dir.path().join("alone.db");
    OpenStore::create(&alone).unwrap().close();
    assert_eq!(mode(&alone), 0o600);
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

#[test]
fn a_second_server_is_refused_under_another_name_and_when_the_lock_s_file_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("real.db");
    let held = StoreLock::take(&store).unwrap();
    let link = dir.path().join("link.db");
    std::os::unix::fs::symlink("real.db", &link).unwrap();
    let hard = dir.path().join("hard.db");
    std::fs::hard_link(&store, &hard).unwrap();
    for name in [&store, &link, &hard] {
        assert!(matches!(StoreLock::take(name), Err(OpenError::InUse { .. })), "{name:?}");
    }
    std::fs::remove_file(dir.path().join("real.db.lock")).unwrap();
    for name in [&store, &link, &hard] {
        assert!(matches!(StoreLock::take(name), Err(OpenError::InUse { .. })), "{name:?}");
        assert!(StoreLock::is_held(name).unwrap(), "{name:?}");
    }
    drop(held);
    assert!(!StoreLock::is_held(&link).unwrap());
    assert!(StoreLock::take(&link).is_ok());
}

/// The locks that this process has on a file as SQLite takes them.
fn locks_of_sqlite(path: &Path) -> usize {
    use std::os::unix::fs::MetadataExt as _;
    let inode = format!(":{} ", std::fs::metadata(path).unwrap().ino());
    let process = format!(" {} ", std::process::id());
    let listed = || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().filter(|line| line.contains("POSIX") && line.contains(&inode) && line.contains(&process)).count()
    };
    // The list leaves some out while others change; a lock that is gone is in none.
    (0..20).map(|_| listed()).max().unwrap_or_default()
}

#[tokio::test]
async fn taking_and_giving_back_the_lock_leaves_sqlite_s_own_alone() {
    let (_dir, open) = fresh();
    assert_eq!(count(&open.handle()).await, 0);
    let held = locks_of_sqlite(open.path());
    assert!(held > 0, "SQLite has one for as long as the file is open");
    let lock = StoreLock::take(open.path()).unwrap();
    assert!(StoreLock::take(open.path()).is_err() && StoreLock::is_held(open.path()).unwrap());
    drop(lock);
    assert!(!StoreLock::is_held(open.path()).unwrap());
    assert_eq!(locks_of_sqlite(open.path()), held);
}

#[tokio::test]
async fn nothing_is_answered_as_kept_once_a_file_of_the_store_is_gone_replaced_or_cut_off() {
    type Harm = fn(&Path);
    let harm: [(&str, Harm); 5] = [
        ("deleted", |path| std::fs::remove_file(path).unwrap()),
        ("replaced", |path| {
            let copy = files::beside(path, ".copy");
            std::fs::copy(path, &copy).unwrap();
            std::fs::rename(&copy, path).unwrap();
        }),
        ("all deleted", |path| {
            for ending in ["", "-wal", "-shm"] {
                std::fs::remove_file(files::beside(path, ending)).unwrap();
            }
        }),
        ("its log deleted", |path| std::fs::remove_file(files::beside(path, "-wal")).unwrap()),
        ("its log cut off", |path| {
            let log = std::fs::OpenOptions::new().write(true).open(files::beside(path, "-wal")).unwrap();
            log.set_len(0).unwrap();
        }),
    ];
    for (what, harm) in harm {
        let (_dir, open) = fresh();
        let store = open.handle();
        store.batch(vec![insert("a")]).await.unwrap();
        harm(open.path());
        for key in ["b", "c"] {
            let refused = store.batch(vec![insert(key)]).await;
            let Err(StoreError::Unavailable(why)) = refused else { panic!("{what}: {refused:?}") };
            assert!(why.contains("started anew") && why.contains("under it"), "{what}: {why}");
        }
    }
}

#[tokio::test]
async fn a_store_that_was_only_away_goes_on() {
    let (dir, open) = fresh();
    let (store, away) = (open.handle(), dir.path().join("away.db"));
    std::fs::rename(open.path(), &away).unwrap();
    assert!(store.batch(vec![insert("a")]).await.is_err());
    std::fs::rename(&away, open.path()).unwrap();
    store.batch(vec![insert("b")]).await.unwrap();
    assert_eq!(count(&store).await, 1);
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
    let open = OpenStore::start(&path, connection, Standing::Leads).unwrap();
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

#[tokio::test]
async fn a_change_is_told_of_only_when_something_was_written_and_committed() {
    let (_dir, open) = fresh();
    let store = open.handle();
    let mut changes = store.changes();
    let written_and_failed = store.broker(|broker, sql, moment| {
        broker.create(sql, moment, "jobs", Settings::default())?;
        Err::<(), _>(StoreError::Unavailable("the disk is full".to_owned()).into())
    });
    assert!(written_and_failed.await.is_err());
    assert!(store.batch(vec![insert("a"), Statement::new(REFUSED, vec![])]).await.is_err());
    assert!(!changes.has_changed().unwrap(), "nothing was");
    store.broker(|broker, sql, moment| broker.create(sql, moment, "jobs", Settings::default())).await.unwrap();
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    store.batch(vec![insert("a")]).await.unwrap();
    assert!(changes.has_changed().unwrap());
}

#[tokio::test]
async fn however_many_ask_the_server_s_own_work_has_places_and_they_are_told_to_come_back() {
    let (_dir, open) = fresh();
    let store = open.handle();
    let (begun, begins) = oneshot::channel();
    let (go, goes) = std::sync::mpsc::channel::<()>();
    let mut begun = Some(begun);
    let held = tokio::spawn({
        let store = store.clone();
        async move {
            store
                .broker(move |_, _, _| {
                    if let Some(begun) = begun.take() {
                        let _ = begun.send(());
                        let _ = goes.recv();
                    }
                    Ok(())
                })
                .await
        }
    });
    begins.await.unwrap();
    let asked = WAITING_MAX + OWN_WAITING_MAX;
    let asking: Vec<_> = (0..asked).map(|_| store.broker(|_, _, _| Ok(()))).map(Box::pin).collect();
    let mut asking = futures_util::future::join_all(asking);
    // Polled once, all of them are handed over, or refused.
    assert!(futures_util::FutureExt::now_or_never(&mut asking).is_none());
    let own = store.for_own_work();
    let working = tokio::spawn(async move { own.broker(|_, _, _| Ok(())).await });
    tokio::task::yield_now().await;
    go.send(()).unwrap();
    assert!(working.await.unwrap().is_ok());
    held.await.unwrap().unwrap();
    let refused = asking.await.into_iter().filter(Result::is_err).count();
    assert!((1..=OWN_WAITING_MAX).contains(&refused), "{refused}");
}
