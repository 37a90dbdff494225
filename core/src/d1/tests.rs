use super::*;

fn split(sql: &str) -> Vec<(&str, usize)> {
    pieces(sql).filter(|piece| !piece.blank).map(|piece| (piece.sql.trim(), piece.line)).collect()
}

#[test]
fn a_semicolon_in_a_text_a_name_a_comment_or_a_trigger_ends_nothing() {
    let sql = "SELECT ';', \";\", `;`, [;] -- ;\n, 1 /* ; */;\n\nSELECT 2";
    assert_eq!(split(sql), [("SELECT ';', \";\", `;`, [;] -- ;\n, 1 /* ; */;", 1), ("SELECT 2", 4)]);
    let trigger = "CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT CASE 1 WHEN 1 THEN 2 END; SELECT 2; END;";
    assert_eq!(split(&format!("{trigger}\nSELECT 1;")), [(trigger, 1), ("SELECT 1;", 2)]);
}

#[test]
fn what_is_blank_is_told_apart() {
    let blank: Vec<bool> = pieces("SELECT 1;; -- a\n").map(|piece| piece.blank).collect();
    assert_eq!(blank, [false, true, true]);
    assert_eq!(pieces("  \n\t").count(), 0);
    assert_eq!(pieces("SELECT 1; \n").count(), 1);
}

#[test]
fn an_end_that_is_missing_takes_the_rest() {
    for sql in ["SELECT 'a; SELECT 2", "SELECT 1 /* ; SELECT 2", "CREATE TRIGGER x BEGIN SELECT 1; SELECT 2"] {
        assert_eq!(split(sql), [(sql, 1)]);
    }
}

#[test]
fn a_request_is_read_as_the_binding_writes_it() {
    let one = Request::read(
        "/query?resultsFormat=ROWS_AND_COLUMNS",
        br#"{"sql":"SELECT ?","params":[1.5,"a",null,[0,255]]}"#,
    )
    .expect("it is read");
    assert_eq!(one.form, Form::RowsAndColumns);
    let params = [Value::Real(1.5), Value::Text("a".into()), Value::Null, Value::Blob(vec![0, 255])];
    assert_eq!(one.statements, [Statement { sql: "SELECT ?".into(), params: params.into() }]);
    let many = Request::read(
        "/execute?resultsFormat=NONE",
        br#"[{"sql":"SELECT 1"},{"sql":" -- no"},{"sql":"x","params":null}]"#,
    )
    .expect("it is read");
    assert_eq!((many.form, many.statements.len()), (Form::Objects, 2));
}

#[test]
fn half_a_pair_of_surrogates_is_kept_as_it_is() {
    let read = Request::read("/query", br#"{"sql":"SELECT ?","params":["a\ud800b\ud83d\ude00"]}"#).expect("it is read");
    assert_eq!(read.statements[0].params, [Value::Text(b"a\xed\xa0\x80b\xf0\x9f\x98\x80".to_vec())]);
}

#[test]
fn what_is_no_request_is_said_to_be_none() {
    for body in ["", "{", "[1]", "{}", r#"{"sql":5}"#, r#"{"sql":"","params":[{}]}"#, r#"{"sql":"a","params":[[256]]}"#]
    {
        assert!(matches!(Request::read("/query", body.as_bytes()), Err(Unread::Malformed(_))), "{body}");
    }
    assert_eq!(Request::read("/query", b"[]"), Err(Unread::Empty));
    assert_eq!(Request::read("/query", br#"{"sql":"\n -- a\n"}"#), Err(Unread::Empty));
    assert_eq!(Request::read("/dump", b""), Err(Unread::NoSuchPath));
}

#[test]
fn an_answer_holds_its_rows_in_the_form_asked_for() {
    let cells = || [Cell::Integer(1), Cell::Text(b"\xffx"), Cell::Blob(&[0, 9]), Cell::Real(f64::INFINITY)].into_iter();
    let written = |form| {
        let mut answer = Answer::new(form);
        for _ in 0..2 {
            answer.begin(&["a", "b", "c", "d"]);
            answer.row(cells()).expect("it is small");
            answer.end(&Meta::default());
        }
        serde_json::from_slice::<serde_json::Value>(&answer.finish()).expect("it is JSON")
    };
    let rows = serde_json::json!([[1, "\u{fffd}x", [0, 9], null]]);
    assert_eq!(written(Form::RowsAndColumns)[1]["results"]["rows"], rows);
    assert_eq!(written(Form::Objects)[1]["results"][0]["b"], "\u{fffd}x");
}

#[test]
fn a_number_past_what_javascript_holds_is_rounded_as_it_rounds() {
    let mut answer = Answer::new(Form::RowsAndColumns);
    answer.begin(&["a"]);
    answer.row([Cell::Integer(9_007_199_254_740_993)].into_iter()).expect("it is small");
    answer.end(&Meta::default());
    let text = String::from_utf8(answer.finish()).expect("it is a text");
    assert!(text.contains("[[9007199254740992.0]]"), "{text}");
}

#[test]
fn an_answer_has_a_bound() {
    let large = vec![b'x'; 1 << 20];
    let mut answer = Answer::new(Form::Objects);
    answer.begin(&["a"]);
    let rows = (0..100).take_while(|_| answer.row([Cell::Text(&large)].into_iter()).is_ok()).count();
    assert_eq!(rows, 63);
}

#[test]
fn what_only_the_platform_may_do_is_refused() {
    assert_eq!(refusal(Wish::Transaction), Some(Refusal::Transaction));
    for wish in [
        Wish::OtherFile,
        Wish::Temporary,
        Wish::Function("sqlite_version"),
        Wish::Module("dbstat"),
        Wish::Named("_CF_x"),
        Wish::Pragma { name: "journal_mode", value: None },
        Wish::Pragma { name: "foreign_keys", value: Some("banana") },
        Wish::Pragma { name: "data_version", value: Some("1") },
        Wish::Pragma { name: "table_info", value: Some("_cf_x") },
    ] {
        assert_eq!(refusal(wish), Some(Refusal::Denied), "{wish:?}");
    }
    for wish in [
        Wish::Function("Count"),
        Wish::Module("FTS5"),
        Wish::Named("cf"),
        Wish::Pragma { name: "foreign_keys", value: Some("'on'") },
        Wish::Pragma { name: "table_list", value: None },
        Wish::Pragma { name: "optimize", value: Some("-1") },
    ] {
        assert_eq!(refusal(wish), None, "{wish:?}");
    }
}

#[test]
fn an_error_reads_as_d1_writes_it() {
    assert_eq!(
        text("UNIQUE constraint failed: t.a", 2067, None),
        "UNIQUE constraint failed: t.a: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_UNIQUE)"
    );
    assert_eq!(text("near \"x\": syntax error", 1, Some(5)), "near \"x\": syntax error at offset 5: SQLITE_ERROR");
}

#[test]
fn migrations_are_ordered_by_their_numbers_as_wrangler_orders_them() {
    let mut names = ["b.sql", "10_x.sql", "9_y.sql", "0009_a.sql", "a.sql", "2b.sql"].map(str::to_owned);
    migrations::order(&mut names);
    assert_eq!(names, ["2b.sql", "0009_a.sql", "9_y.sql", "10_x.sql", "a.sql", "b.sql"]);
}

#[test]
fn the_transaction_of_a_dump_is_left_out_and_a_second_is_not() {
    let sql = "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE t(a);\nCOMMIT;\n-- end\n";
    let left = |sql: &'static str| migrations::statements(sql).map(|piece| piece.sql.trim()).collect::<Vec<_>>();
    assert_eq!(left(sql), ["PRAGMA foreign_keys=OFF;", "CREATE TABLE t(a);"]);
    assert_eq!(left("BEGIN TRANSACTION;COMMIT;BEGIN TRANSACTION;"), ["BEGIN TRANSACTION;"]);
    assert_eq!(left("COMMIT;"), ["COMMIT;"]);
}

/// Text with much in it that matters for where a statement ends.
fn sql_like() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let token = prop_oneof![
        Just("'".to_owned()),
        Just("\"".to_owned()),
        Just("`".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just("--".to_owned()),
        Just("/*".to_owned()),
        Just("*/".to_owned()),
        Just(";".to_owned()),
        Just("\n".to_owned()),
        Just(" ".to_owned()),
        Just("CREATE TRIGGER ".to_owned()),
        Just("BEGIN ".to_owned()),
        Just("END".to_owned()),
        "\\PC{0,3}",
    ];
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

proptest::proptest! {
    #[test]
    fn pieces_are_the_whole_text_but_for_the_space_at_its_end(sql in sql_like()) {
        let joined: String = pieces(&sql).map(|piece| piece.sql).collect();
        let rest = sql.strip_prefix(joined.as_str()).expect("the pieces are what the text begins with");
        proptest::prop_assert!(rest.chars().all(char::is_whitespace), "{rest:?} is left of {sql:?}");
        proptest::prop_assert!(pieces(&sql).all(|piece| !piece.sql.is_empty() && piece.line >= 1));
    }

    #[test]
    fn whatever_is_posted_is_read_or_refused(path in "/(query|execute|dump)(\\?[a-zA-Z=&%]{0,20})?", body in "\\PC{0,60}") {
        let _ = Request::read(&path, body.as_bytes());
        let wrapped = format!("[{{\"sql\":{body:?},\"params\":[{body}]}}]");
        let _ = Request::read(&path, wrapped.as_bytes());
    }
}
