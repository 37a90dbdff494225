use serde_json::{Value, json};

use super::*;

struct Pair {
    databases: Databases,
    folder: tempfile::TempDir,
}

fn pair() -> Pair {
    let folder = tempfile::tempdir().expect("a folder");
    Pair { databases: Databases::new(folder.path().join("d1")), folder }
}

impl Pair {
    async fn post(&self, path: &str, body: Value) -> Value {
        let answered = self.databases.answer("main", path, None, body.to_string().into()).await;
        serde_json::from_slice(&answered.body).expect("it is JSON")
    }

    async fn all(&self, sql: &str, params: Value) -> Value {
        self.post("/query?resultsFormat=ROWS_AND_COLUMNS", json!({ "sql": sql, "params": params })).await
    }

    async fn rows(&self, sql: &str) -> Value {
        self.all(sql, json!([])).await[0]["results"]["rows"].clone()
    }

    async fn error(&self, sql: &str) -> String {
        let answer = self.all(sql, json!([])).await;
        answer["error"].as_str().unwrap_or_else(|| panic!("{sql} gave {answer}")).to_owned()
    }

    fn migration(&self, name: &str, sql: &str) -> PathBuf {
        let folder = self.folder.path().join("migrations");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(name), sql).expect("a file");
        folder
    }
}

#[tokio::test]
async fn a_number_is_bound_as_a_real_one_and_columns_make_of_it_what_they_are() {
    let it = pair();
    it.rows("CREATE TABLE t (id INTEGER PRIMARY KEY, b)").await;
    it.all("INSERT INTO t VALUES (?, ?)", json!([1, 5])).await;
    assert_eq!(it.rows("SELECT typeof(id), typeof(b) FROM t").await, json!([["integer", "real"]]));
}

#[tokio::test]
async fn a_batch_is_kept_whole_or_not_at_all() {
    let it = pair();
    it.rows("CREATE TABLE t (a UNIQUE)").await;
    let twice = json!([{ "sql": "INSERT INTO t VALUES (1)" }, { "sql": "INSERT INTO t VALUES (1)" }]);
    let failed = it.post("/query", twice).await;
    assert_eq!(
        failed["error"],
        "UNIQUE constraint failed: t.a: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_UNIQUE)"
    );
    assert_eq!(it.rows("SELECT count(*) FROM t").await, json!([[0]]));
    let good = it.post("/query", json!([{ "sql": "INSERT INTO t VALUES (1)" }, { "sql": "SELECT a FROM t" }])).await;
    assert_eq!(good[1]["results"], json!([{ "a": 1 }]));
}

#[tokio::test]
async fn transactions_are_not_a_statements_to_begin_or_end() {
    let it = pair();
    for sql in ["BEGIN", "BEGIN IMMEDIATE", "COMMIT", "END", "ROLLBACK", "SAVEPOINT a", "RELEASE a"] {
        assert_eq!(it.error(sql).await, d1::TRANSACTION_REFUSED, "{sql}");
        // Also when the host has just run the same text itself.
        it.rows("CREATE TABLE IF NOT EXISTS t (a)").await;
        assert_eq!(it.error(sql).await, d1::TRANSACTION_REFUSED, "{sql}");
    }
    assert_eq!(it.error("SELECT 1; COMMIT").await, d1::TRANSACTION_REFUSED);
}

#[tokio::test]
async fn a_key_leads_out_of_no_folder() {
    let it = pair();
    for key in ["", "..", "../x", "a/b", "a.b", "a\0", &"x".repeat(201)] {
        let answered = it.databases.answer(key, "/query", None, r#"{"sql":"SELECT 1"}"#.into()).await;
        assert!(String::from_utf8_lossy(&answered.body).contains("no database can be called"), "{key:?}");
    }
    assert!(!it.databases.folder().exists());
}

#[tokio::test]
async fn whatever_is_asked_is_answered() {
    let it = pair();
    for (path, body) in
        [("/query", ""), ("/query", "[["), ("/query", "\u{0}"), ("/dump", ""), ("", "{}"), ("/query", "{}")]
    {
        let answered = it.databases.answer("main", path, Some("x"), body.into()).await;
        assert!(answered.status.is_client_error(), "{path} {body}");
    }
    assert_eq!(it.rows("SELECT 1").await, json!([[1]]));
}

#[tokio::test]
async fn a_file_that_is_no_database_is_said_to_be_none_and_may_be_mended() {
    let it = pair();
    std::fs::create_dir_all(it.databases.folder()).expect("a folder");
    let file = it.databases.file("main").expect("a key");
    std::fs::write(&file, "x".repeat(10_000)).expect("a file");
    let said = it.error("SELECT 1").await;
    assert!(said.contains("file is not a database"), "{said}");
    std::fs::remove_file(file).expect("it was there");
    assert_eq!(it.rows("SELECT 1").await, json!([[1]]));
}

#[tokio::test]
async fn files_are_for_nobody_but_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let it = pair();
    it.rows("CREATE TABLE t (a)").await;
    for entry in std::fs::read_dir(it.databases.folder()).expect("a folder") {
        let entry = entry.expect("an entry");
        assert_eq!(entry.metadata().expect("it is there").permissions().mode() & 0o777, 0o600, "{entry:?}");
    }
}

#[tokio::test]
async fn mathematics_are_sqlites() {
    let it = pair();
    let sql = "SELECT ceil(1.2), ceil(3), floor(-1.5), trunc('2.7'), pow(2, 10), log(100), log(2, 8), ln(-1), sqrt(-1), \
        mod(7, 0), mod(-7, 3), ceil('x'), pi() > 3, typeof(ceil(3)), typeof(floor(1.5))";
    let found = it.rows(sql).await;
    let expected = json!([[2.0, 3, -2.0, 2.0, 1024.0, 2.0, 3.0, null, null, null, -1.0, null, 1, "integer", "real"]]);
    assert_eq!(found, expected);
}

#[tokio::test]
async fn migrations_are_applied_once_each_in_order_and_remembered_as_wrangler_does() {
    let it = pair();
    let folder = it.migration("0002_b.sql", "ALTER TABLE t ADD COLUMN b;");
    it.migration("0001_a.sql", "\u{feff}-- first\nCREATE TABLE t (a);\nINSERT INTO t VALUES (';');\n");
    it.migration("notes.txt", "no migration");
    let applied = migrate(&it.databases, "main", &folder, "d1_migrations").await.expect("they apply");
    assert_eq!(applied, Applied { before: vec![], now: vec!["0001_a.sql".into(), "0002_b.sql".into()] });
    let again = migrate(&it.databases, "main", &folder, "d1_migrations").await.expect("they apply");
    assert_eq!((again.before.len(), again.now.len()), (2, 0));
    assert_eq!(
        it.rows("SELECT id, name, length(applied_at) FROM d1_migrations").await,
        json!([[1, "0001_a.sql", 19], [2, "0002_b.sql", 19]])
    );
}

#[tokio::test]
async fn a_migration_that_fails_says_where_leaves_nothing_and_keeps_those_before_it() {
    let it = pair();
    let folder = it.migration("1_a.sql", "CREATE TABLE t (a);");
    it.migration("2_b.sql", "CREATE TABLE u (a);\n\nINSERT INTO\n  v VALUES (1);\nCREATE TABLE w (a);");
    let failed = migrate(&it.databases, "main", &folder, "d1_migrations").await.expect_err("there is no v");
    assert_eq!(failed.applied, ["1_a.sql"]);
    assert_eq!(
        failed.to_string(),
        "the migration `2_b.sql` failed at line 3: no such table: v: SQLITE_ERROR; \
        the statement is `INSERT INTO v VALUES (1);`"
    );
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name IN ('t', 'u', 'w')";
    assert_eq!(it.rows(tables).await, json!([["t"]]));
    let listed = migrations(&it.databases, "main", &folder, "d1_migrations").await.expect("they are listed");
    assert_eq!(listed.iter().map(|one| one.applied_at.is_some()).collect::<Vec<_>>(), [true, false]);
}

#[tokio::test]
async fn a_session_is_told_what_it_has_seen_and_that_only_grows() {
    let it = pair();
    let mut seen = String::new();
    for sql in ["CREATE TABLE t (a)", "INSERT INTO t VALUES (1)", "SELECT 1", "INSERT INTO t VALUES (1)"] {
        let body = json!({ "sql": sql }).to_string();
        let answered = it.databases.answer("main", "/query", Some("first-primary"), body.into()).await;
        let bookmark = answered.session.expect("a bookmark");
        assert_eq!(bookmark > seen, sql != "SELECT 1", "{sql}: {seen} then {bookmark}");
        seen = bookmark;
    }
    let other = it.databases.answer("main", "/query", None, r#"{"sql":"SELECT 1"}"#.into()).await;
    assert_eq!(other.session, None);
}

#[tokio::test]
async fn foreign_keys_stay_on_whatever_a_statement_says() {
    let it = pair();
    it.rows("PRAGMA foreign_keys = OFF").await;
    it.post("/query", json!([{ "sql": "PRAGMA foreign_keys = OFF" }, { "sql": "SELECT 1" }])).await;
    it.rows("CREATE TABLE p (id INTEGER PRIMARY KEY)").await;
    it.rows("CREATE TABLE c (p REFERENCES p (id))").await;
    assert!(it.error("INSERT INTO c VALUES (1)").await.contains("SQLITE_CONSTRAINT_FOREIGNKEY"));
    // Those that are put off are looked at when the transaction ends, which then fails whole.
    let deferred = json!([{ "sql": "PRAGMA defer_foreign_keys = ON" }, { "sql": "INSERT INTO c VALUES (1)" }]);
    let failed = it.post("/query", deferred).await;
    assert!(failed["error"].as_str().expect("it fails").contains("SQLITE_CONSTRAINT_FOREIGNKEY"), "{failed}");
    assert_eq!(it.rows("SELECT count(*) FROM c").await, json!([[0]]));
}

#[tokio::test]
async fn a_pragma_does_what_it_says_each_time() {
    let it = pair();
    for (switch, found) in [("on", 0), ("off", 1), ("on", 0), ("off", 1)] {
        it.rows(&format!("PRAGMA case_sensitive_like = {switch}")).await;
        assert_eq!(it.rows("SELECT 'A' LIKE 'a'").await, json!([[found]]), "{switch}");
    }
}

#[test]
fn statements_that_run_for_too_long_are_stopped_and_leave_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("main.db");
    let connection = open::open(&file).expect("it opens");
    let mut base = run::Base::new(connection, &file, std::time::Duration::from_millis(100)).expect("it is set up");
    base.execute("CREATE TABLE t (a)").expect("it is quick");
    let endless =
        "INSERT INTO t VALUES (1); WITH RECURSIVE c AS (SELECT 1 UNION ALL SELECT 1 FROM c) SELECT count(*) FROM c";
    assert_eq!(base.execute(endless), Err(RunError::TimedOut));
    assert_eq!(base.execute("SELECT count(*) FROM t").expect("it goes on")[0].rows, [[json!(0)]]);
}

#[test]
fn statements_of_few_long_operations_are_stopped_too_and_what_follows_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("main.db");
    let connection = open::open(&file).expect("it opens");
    let mut base = run::Base::new(connection, &file, std::time::Duration::from_millis(200)).expect("it is set up");
    base.execute("CREATE TABLE t (a)").expect("it is quick");
    // A minute of them, each too short to notice and the whole too few for SQLite to look at the clock.
    let long = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 1500), \
        v (a) AS MATERIALIZED (SELECT hex(zeroblob(900000))) \
        SELECT sum(length(upper(lower(upper(lower(v.a || c.n)))))) FROM c, v";
    for sql in [long.to_owned(), format!("INSERT INTO t VALUES (1); {long}"), format!("INSERT INTO t {long}")] {
        let began = std::time::Instant::now();
        assert_eq!(base.execute(&sql), Err(RunError::TimedOut));
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
        assert_eq!(base.execute("SELECT count(*) FROM t").expect("it goes on")[0].rows, [[json!(0)]]);
    }
}

#[tokio::test]
async fn a_request_that_waits_for_too_long_is_told_so_and_does_nothing() {
    let it = pair();
    it.rows("CREATE TABLE t (a)").await;
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let database = it.databases.database("main").expect("it opens");
    let holds = database.with(move |_| {
        let _ = wait.recv();
        Ok(())
    });
    let waits = async {
        let write = |base: &mut run::Base| base.execute("INSERT INTO t VALUES (1)");
        let answer = database.in_turn(turn::Turn::within(std::time::Duration::from_millis(50)), write).await;
        go.send(()).expect("it waits");
        answer
    };
    let (held, waited) = tokio::join!(holds, waits);
    assert_eq!((held, waited), (Ok(()), Err(RunError::WaitedTooLong)));
    assert_eq!(it.rows("SELECT count(*) FROM t").await, json!([[0]]));
}

#[tokio::test]
async fn a_result_that_is_too_large_is_given_up() {
    let it = pair();
    let sql =
        "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT printf('%.*c', 1000000, 'x') FROM c";
    assert_eq!(it.error(sql).await, d1::TOO_LARGE);
    assert_eq!(it.rows("SELECT 1").await, json!([[1]]));
}

#[tokio::test]
async fn another_process_that_writes_is_waited_for_and_readers_are_not() {
    let it = pair();
    it.rows("CREATE TABLE t (a)").await;
    let other = rusqlite::Connection::open(it.databases.file("main").expect("a key")).expect("it opens");
    other.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").expect("it writes");
    assert_eq!(it.rows("SELECT count(*) FROM t").await, json!([[0]]));
    let write = it.rows("INSERT INTO t VALUES (2) RETURNING a");
    let end = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        other.execute_batch("COMMIT").expect("it commits");
    };
    assert_eq!(tokio::join!(write, end).0, json!([[2]]));
    assert_eq!(it.rows("SELECT count(*) FROM t").await, json!([[2]]));
}

#[tokio::test]
async fn a_long_request_and_a_name_that_is_reserved_in_other_letters() {
    let it = pair();
    it.rows("CREATE TABLE t (a)").await;
    let text = "x".repeat(1_500_000);
    assert_eq!(it.all("INSERT INTO t VALUES (?)", json!([text])).await[0]["meta"]["changes"], 1);
    it.rows("PRAGMA case_sensitive_like = ON").await;
    assert_eq!(it.error("ALTER TABLE t RENAME TO _CF_t").await, "not authorized: SQLITE_AUTH");
    assert_eq!(it.rows("SELECT length(a) FROM t").await, json!([[1_500_000]]));
}
