//! What is asked for, where, and with what right.

use jadpo_core::program::Program;
use jadpo_core::pulling::{Act, Course, Kind, Request, Source};
use jadpo_core::queue::Answer;
use serde_json::{Value, json};

use crate::{QUEUE_ID, environment, lent, source, source_by_name, source_with};

fn pull() -> Act {
    Act::Pull { queue_id: QUEUE_ID.to_owned(), batch_size: 10 }
}

fn body(request: &Request) -> Value {
    serde_json::from_str(request.body.as_ref().unwrap()).unwrap()
}

#[test]
fn a_pull_asks_for_ten_messages_for_thirty_seconds_in_milliseconds() {
    let request = source().request(&pull(), environment).unwrap();
    assert_eq!((request.method, request.token.0.as_str()), ("POST", "hush"));
    let account = environment("ACCOUNT").unwrap();
    let queues = format!("https://api.cloudflare.com/client/v4/accounts/{account}/queues");
    assert_eq!(request.url, format!("{queues}/{QUEUE_ID}/messages/pull"));
    assert_eq!(body(&request), json!({ "batch_size": 10, "visibility_timeout_ms": 30_000 }));
    let set = source_with(&format!(", queue_id: \"{QUEUE_ID}\", visibility: 6s, batch_size: 100"));
    assert_eq!(body(&set.request(&pull(), environment).unwrap())["visibility_timeout_ms"], 6_000);
    assert_eq!(set.batch_size, 100);
}

#[test]
fn a_name_is_looked_for_in_the_account_of_another_server() {
    let source = source_with(", queue: \"jobs\", base_url: \"http://127.0.0.1:8787/client/v4\"");
    let request = source.request(&Act::Find { page: 3 }, environment).unwrap();
    let account = environment("ACCOUNT").unwrap();
    assert_eq!(request.url, format!("http://127.0.0.1:8787/client/v4/accounts/{account}/queues?page=3&name=jobs"));
    assert_eq!((request.method, request.body, source.host()), ("GET", None, "127.0.0.1:8787"));
}

#[test]
fn answers_are_acknowledgements_and_retries_with_their_delays() {
    let mut course = Course::new(source(), None);
    assert!(matches!(course.next(0), Some(Act::Pull { .. })));
    let pulled = jadpo_core::pulling::Pulled { lent: vec![lent(1), lent(2)], odd: 0 };
    assert_eq!(course.pulled(10, Ok(pulled), 0, 0, 0).len(), 2);
    let answers = vec![("lease 1".to_owned(), Answer::Ack), ("lease 2".to_owned(), Answer::Retry { delay_s: 40 })];
    course.received(answers, 0, 0, 0);
    let act = course.next(0).unwrap();
    let request = source().request(&act, environment).unwrap();
    assert!(request.url.ends_with(&format!("/queues/{QUEUE_ID}/messages/ack")));
    let retries = json!([{ "lease_id": "lease 2", "delay_seconds": 40 }]);
    assert_eq!(body(&request), json!({ "acks": [{ "lease_id": "lease 1" }], "retries": retries }));
}

#[test]
fn what_is_not_set_or_cannot_be_is_said_by_its_name_and_nothing_is_sent() {
    let refuse = |account: Option<&str>, token: Option<&str>| {
        let env = |name: &str| match name {
            "ACCOUNT" => account.map(str::to_owned),
            _ => token.map(str::to_owned),
        };
        let trouble = source().request(&pull(), env).unwrap_err();
        assert_eq!(trouble.kind, Kind::Setting);
        trouble.words
    };
    assert_eq!(refuse(None, Some("t")), "the environment variable ACCOUNT, the account's id, is not set");
    assert_eq!(refuse(Some("a"), None), "the environment variable TOKEN, the token, is not set");
    assert_eq!(refuse(Some("a"), Some(" \n")), "the environment variable TOKEN, the token, is not set");
    assert!(refuse(Some("../x"), Some("t")).contains("no account id"));
    assert!(refuse(Some(&"a".repeat(65)), Some("t")).contains("no account id"));
    for token in ["two words", "a\r\nx: y", "é"] {
        let said = refuse(Some("a"), Some(token));
        assert!(said.contains("TOKEN") && !said.contains(token), "{said}");
    }
    let env = |name: &str| Some(if name == "TOKEN" { "hush\n".to_owned() } else { "a".to_owned() });
    assert_eq!(source().request(&pull(), env).unwrap().token.0, "hush", "a file's last line break is none of it");
}

#[test]
fn a_token_is_in_no_debug_output() {
    let request = source().request(&pull(), environment).unwrap();
    assert!(!format!("{request:?}").contains("hush"));
}

#[test]
fn a_host_that_the_connection_may_not_reach_is_not_asked() {
    let mut program: Program = serde_json::from_value(json!({
        "format": 1, "app": "a", "events": { "E": "json" }, "receiving": { "supply": { "event": "E" } },
        "connections": { "supply": {
            "driver": "cloudflare_pull", "account": { "text": "a" }, "queue": { "name": "jobs" }, "token": { "text": "t" },
            "domains": ["api.cloudflare.com"], "base_url": "https://elsewhere.example.com/client/v4",
            "batch_size": 10, "visibility_ms": 30_000,
        } },
    }))
    .unwrap();
    let trouble = Source::all(&program)[0].request(&pull(), environment).unwrap_err();
    assert_eq!(trouble.kind, Kind::Setting);
    assert!(trouble.words.contains("elsewhere.example.com"), "{}", trouble.words);
    program.receiving.clear();
    assert_eq!(Source::all(&program).len(), 0, "what nothing is received from is not pulled");
}

#[test]
fn an_answer_may_be_as_long_as_the_messages_asked_for() {
    let longest = |batch_size: u32| {
        let source = source_with(&format!(", queue_id: \"{QUEUE_ID}\", batch_size: {batch_size}"));
        source.request(&pull(), environment).unwrap().answer_bytes_max
    };
    assert!(longest(100) > 100 * 128_000 * 4 / 3 && longest(100) < 20_000_000);
    assert!(longest(1) > 6 * 128_000, "one message fits, whatever it holds");
    assert_eq!(source_by_name().queue_name(), "jobs");
}
