//! The test's store keeps D1's rules.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use jadpo_core::host::Host;
use jadpo_core::store::{Rows, Statement, StoreError, Value};
use jadpo_host_test::{StoreFault, TestHost, run, run_until_crash};

fn batch(host: &TestHost, statements: &[(&'static str, Vec<Value>)]) -> Result<Vec<Rows>, StoreError> {
    let statements = statements.iter().map(|(sql, params)| Statement::new(sql, params.clone())).collect();
    run(host, host.batch(statements))
}

fn one(host: &TestHost, sql: &'static str, params: Vec<Value>) -> Result<Rows, StoreError> {
    batch(host, &[(sql, params)]).map(|mut rows| rows.remove(0))
}

fn table() -> TestHost {
    let host = TestHost::migrated();
    host.meddle("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT UNIQUE, loose)");
    host
}

fn refusal(result: Result<Rows, StoreError>) -> String {
    match result {
        Err(StoreError::Refused(text)) => text,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn numbers_are_bound_as_real_and_handed_back_as_javascript_s() {
    let host = table();
    let rows = one(&host, "SELECT typeof(?1) AS kind, ?1 + 1 AS next", vec![Value::Integer(5)]).unwrap();
    assert_eq!(rows.rows[0].text(0), Some("real"));
    assert_eq!(rows.rows[0].0[1], Value::Real(6.0));
    one(&host, "INSERT INTO things (id, loose) VALUES (?1, ?1)", vec![Value::Integer(7)]).unwrap();
    let stored = host.look("SELECT typeof(id), typeof(loose) FROM things");
    assert_eq!((stored[0].text(0), stored[0].text(1)), (Some("integer"), Some("real")));
}

#[test]
fn whole_numbers_past_2_to_the_53_are_refused() {
    let host = table();
    assert!(one(&host, "SELECT ?1 AS n", vec![Value::Integer(9_007_199_254_740_991)]).is_ok());
    assert!(refusal(one(&host, "SELECT ?1 AS n", vec![Value::Integer(9_007_199_254_740_992)])).contains("2^53"));
}

#[test]
fn a_batch_that_fails_leaves_nothing_behind() {
    let host = table();
    let failed = batch(
        &host,
        &[
            ("INSERT INTO things (id, name) VALUES (1, ?1)", vec!["a".into()]),
            ("INSERT INTO things (id, name) VALUES (2, ?1)", vec!["a".into()]),
        ],
    );
    let Err(StoreError::Refused(text)) = failed else { panic!("{failed:?}") };
    assert_eq!(
        text,
        "D1_ERROR: UNIQUE constraint failed: things.name: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_UNIQUE)"
    );
    assert_eq!(host.count("SELECT count(*) FROM things"), 0);
    assert_eq!(host.rows_written(), 0);
}

#[test]
fn an_empty_batch_is_an_error() {
    assert!(batch(&table(), &[]).is_err());
}

#[test]
fn the_parameters_must_be_as_many_as_the_statement_names_and_at_most_a_hundred() {
    let host = table();
    assert!(one(&host, "SELECT ?1 AS a, ?2 AS b", vec![Value::Null]).is_err());
    assert!(one(&host, "SELECT 1 AS a", vec![Value::Null]).is_err());
    let many = "INSERT INTO things (loose) SELECT ?100 + 0";
    assert!(one(&host, many, vec![Value::Null; 100]).is_ok());
    assert!(one(&host, "SELECT ?101 AS a", vec![Value::Null; 101]).is_err());
}

#[test]
fn a_value_over_two_million_bytes_is_refused_and_one_of_two_million_less_its_row_s_head_is_not() {
    let host = table();
    let insert = "INSERT INTO things (loose) VALUES (?1)";
    assert!(one(&host, insert, vec!["x".repeat(1_999_900).into()]).is_ok());
    let text = refusal(one(&host, insert, vec!["x".repeat(2_000_001).into()]));
    assert!(text.contains("too big"), "{text}");
}

#[test]
fn six_terms_in_a_compound_select_are_one_too_many() {
    let host = table();
    assert!(
        one(&host, "SELECT 1 AS a UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5", vec![])
            .is_ok()
    );
    assert!(
        one(
            &host,
            "SELECT 1 AS a UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6",
            vec![]
        )
        .is_err()
    );
}

#[test]
fn a_statement_cannot_begin_or_end_a_transaction_nor_attach_nor_set_a_pragma() {
    let host = table();
    for sql in ["BEGIN", "SAVEPOINT a", "COMMIT", "ROLLBACK", "ATTACH ':memory:' AS other", "PRAGMA user_version = 3"] {
        assert!(one(&host, sql, vec![]).is_err(), "{sql}");
    }
    assert!(one(&host, "SELECT 1 AS fine", vec![]).is_ok());
}

#[test]
#[should_panic(expected = "gets lost")]
fn two_columns_of_one_name_stop_the_test() {
    let _ = one(&table(), "SELECT id, id FROM things", vec![]);
}

#[test]
fn texts_keep_their_nuls_and_blobs_their_bytes() {
    let host = table();
    let bytes = Value::Blob(vec![0, 0x80, 0xff]);
    one(&host, "INSERT INTO things (name, loose) VALUES (?1, ?2)", vec!["a\0b".into(), bytes.clone()]).unwrap();
    let rows = one(&host, "SELECT name, loose FROM things", vec![]).unwrap();
    assert_eq!(rows.rows[0].0, [Value::from("a\0b"), bytes]);
}

#[test]
fn a_missing_table_means_that_the_store_is_not_current() {
    let host = TestHost::unmigrated();
    let failed = one(&host, "SELECT version FROM jadpo_schema", vec![]);
    assert!(matches!(failed, Err(StoreError::NotCurrent(_))), "{failed:?}");
    host.migrate_to(1);
    assert!(one(&host, "SELECT version FROM jadpo_schema", vec![]).is_ok());
}

#[test]
fn rows_written_count_index_entries_and_deletions_as_d1_bills_them() {
    let host = TestHost::migrated();
    host.meddle(
        "CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, mark INTEGER, other);
         CREATE INDEX a_mark ON a (mark) WHERE mark IS NOT NULL;
         CREATE TABLE b (x TEXT, y TEXT, PRIMARY KEY (x, y)) WITHOUT ROWID;",
    );
    host.migrate_to(1);
    let cost = |sql| one(&host, sql, vec![]).unwrap().rows_written;
    assert_eq!(cost("INSERT INTO a (name) VALUES ('p'), ('q')"), 2 * 2 + 1, "two rows, two names, the sequence");
    assert_eq!(cost("INSERT INTO a (name) VALUES ('p') ON CONFLICT DO NOTHING"), 0);
    assert_eq!(cost("UPDATE a SET other = 1"), 2);
    assert_eq!(cost("UPDATE a SET mark = 1 WHERE name = 'p'"), 2, "the row and its entry in the partial index");
    assert_eq!(cost("UPDATE a SET mark = NULL WHERE name = 'p'"), 1);
    assert_eq!(cost("DELETE FROM a"), 2, "entries taken out of an index are free");
    assert_eq!(cost("INSERT INTO b VALUES ('1', '2')"), 1, "the table is its own index");
    assert_eq!(cost("DELETE FROM b"), 1);
    assert_eq!(cost("SELECT count(*) AS n FROM a"), 0);
    assert_eq!(host.rows_written(), 5 + 2 + 2 + 1 + 2 + 1 + 1);
}

#[test]
fn a_store_that_is_down_or_fails_before_the_commit_keeps_nothing() {
    for fault in [StoreFault::Down, StoreFault::BeforeCommit] {
        let host = table();
        host.store_fails(fault, 1);
        let failed = one(&host, "INSERT INTO things (name) VALUES ('a')", vec![]);
        assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
        assert_eq!(host.count("SELECT count(*) FROM things"), 0);
        assert!(one(&host, "INSERT INTO things (name) VALUES ('a')", vec![]).is_ok(), "only one batch fails");
        assert_eq!(host.batches(), 2);
    }
}

#[test]
fn a_store_that_fails_after_the_commit_has_kept_it() {
    let host = table();
    host.store_fails(StoreFault::AfterCommit, 1);
    let failed = one(&host, "INSERT INTO things (name) VALUES ('a')", vec![]);
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert_eq!(host.count("SELECT count(*) FROM things"), 1);
}

#[test]
fn a_slow_store_takes_virtual_time() {
    let host = table();
    let before_ms = host.time_ms();
    host.store_fails_until_lifted(StoreFault::Slow(7_000));
    assert!(one(&host, "SELECT 1 AS a", vec![]).is_ok());
    assert_eq!(host.time_ms() - before_ms, 7_000);
    host.lift_faults();
    assert!(one(&host, "SELECT 1 AS a", vec![]).is_ok());
    assert_eq!(host.time_ms() - before_ms, 7_000);
}

#[test]
fn the_store_refuses_what_the_test_names() {
    let host = table();
    host.store_refuses("poison");
    let insert = "INSERT INTO things (name) VALUES (?1)";
    assert!(one(&host, insert, vec!["good".into()]).is_ok());
    assert!(refusal(one(&host, insert, vec!["a poisoned one".into()])).contains("SQLITE_CONSTRAINT"));
}

#[test]
fn an_isolate_dies_before_or_after_its_batch_took_effect() {
    for (step, kept) in [(0, 0), (1, 1)] {
        let host = table();
        let insert = Statement::new("INSERT INTO things (name) VALUES ('a')", vec![]);
        assert!(run_until_crash(&host, step, host.batch(vec![insert.clone()])).is_none());
        assert_eq!(host.count("SELECT count(*) FROM things"), kept);
        assert!(run_until_crash(&host, 2, host.batch(vec![Statement::new("SELECT 1 AS a", vec![])])).is_some());
    }
}
