//! Sending, as Cloudflare's clients send.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Api, bodies};

#[test]
fn a_message_is_sent_as_what_it_says_that_it_is_or_refused_with_a_code_of_its_own() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    client.push(&queue, json!({ "body": { "greeting": "hi" } })).result();
    client.push(&queue, json!({ "body": "hi", "content_type": "text" })).result();
    client.push(&queue, json!({ "body": null })).result();
    client.push(&queue, json!({ "body": "hi", "content_type": "json" })).result();
    let refused = [
        (json!({ "body": { "a": 1 }, "content_type": "text" }), 10_203),
        (json!({ "body": 5, "content_type": "text" }), 10_203),
        (json!({ "body": "x", "content_type": "xml" }), 10_203),
        (json!({ "body": "x", "content_type": "v8" }), 10_203),
        (json!({ "body": "%", "content_type": "bytes" }), 10_203),
        (json!({ "body": "x", "delay_seconds": 86_401 }), 10_203),
        (json!({ "body": "x", "delay_seconds": -1 }), 10_203),
        (json!({ "body": "x", "delay_seconds": 1.5 }), 10_203),
        (json!({ "body": "x", "delay_seconds": "10" }), 10_207),
        (json!({ "body": "x", "content_type": 5 }), 10_207),
        (json!({ "content_type": "json" }), 10_207),
        (json!({}), 10_207),
        (json!([]), 10_207),
        (json!("hi"), 10_207),
    ];
    for (message, code) in refused {
        let said = client.push(&queue, message.clone());
        assert_eq!((said.status, said.code()), (400, code), "{message} {said:?}");
    }
    let path = format!("/queues/{queue}/messages");
    for body in ["not json", "", "{", "{\"body\":1} x", "\u{0}"] {
        let said = client.raw("POST", &path, body.as_bytes());
        assert_eq!((said.status, said.code()), (400, 10_208), "{body} {said:?}");
    }
    assert_eq!(client.raw("POST", &path, b"{\"body\":\"\xff\"}").code(), 10_208, "no UTF-8, no JSON");
    let messages = client.messages(&queue, json!({ "batch_size": 100 }));
    assert_eq!(bodies(&messages), ["eyJncmVldGluZyI6ImhpIn0=", "hi", "bnVsbA==", "ImhpIg=="], "nothing else was kept");
}

#[test]
fn a_string_of_json_a_text_of_json_and_json_itself_are_three_things() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    client.push(&queue, json!({ "body": "{\"a\":1}", "content_type": "json" })).result();
    client.push(&queue, json!({ "body": "{\"a\":1}", "content_type": "text" })).result();
    client.raw("POST", &format!("/queues/{queue}/messages"), br#"{"body":{"a":1},"content_type":"json"}"#).result();
    client.push(&queue, json!({ "body": "AP8=", "content_type": "bytes" })).result();
    let messages = client.messages(&queue, json!({}));
    assert_eq!(bodies(&messages), ["IntcImFcIjoxfSI=", r#"{"a":1}"#, "eyJhIjoxfQ==", "AP8="]);
    let types: Vec<&Value> = messages.iter().map(|message| &message["metadata"]["CF-Content-Type"]).collect();
    assert_eq!(types, ["json", "text", "json", "bytes"]);
}

#[test]
fn json_is_kept_as_it_is_written_digit_for_digit() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let body = r#"{"body": { "n": 9007199254740993, "m":1.0e2,  "t":"\u00e9\ud83d\ude00" }}"#;
    client.raw("POST", &format!("/queues/{queue}/messages"), body.as_bytes()).result();
    let messages = client.messages(&queue, json!({}));
    // { "n": 9007199254740993, "m":1.0e2,  "t":"\u00e9\ud83d\ude00" }
    let kept = "eyAibiI6IDkwMDcxOTkyNTQ3NDA5OTMsICJtIjoxLjBlMiwgICJ0IjoiXHUwMGU5XHVkODNkXHVkZTAwIiB9";
    assert_eq!(bodies(&messages), [kept]);
}

#[test]
fn a_batch_is_kept_whole_or_not_at_all_and_what_is_wrong_with_it_has_its_figures() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let path = format!("/queues/{queue}/messages/batch");
    let many = |count: usize| json!({ "messages": vec![json!({ "body": "x" }); count] });
    client.post(&path, many(100)).result();
    let said = client.post(&path, many(101));
    assert_eq!((said.status, said.code()), (400, 10_206));
    let error = &said.body["errors"][0];
    assert_eq!((&error["limit"], &error["actual"]), (&json!(100), &json!(101)));
    assert_eq!(client.post(&path, many(0)).code(), 10_206);
    for (messages, code) in [
        (json!([{ "body": "x" }, { "body": 1, "content_type": "text" }]), 10_203),
        (json!([{ "body": "x" }, { "body": "x", "content_type": "xml" }]), 10_203),
        (json!([{ "body": "x" }, { "body": "x", "delay_seconds": 86_401 }]), 10_203),
        (json!([{ "body": "x" }, {}]), 10_207),
        (json!([{ "body": "x" }, 5]), 10_207),
    ] {
        let said = client.post(&path, json!({ "messages": messages }));
        assert_eq!((said.status, said.code()), (400, code), "{said:?}");
        assert!(said.body["errors"][0]["source"]["pointer"].as_str().unwrap().starts_with("/messages/1"), "{said:?}");
    }
    assert_eq!(client.post(&path, json!({ "messages": [{ "body": 1 }], "delay_seconds": 86_401 })).code(), 10_202);
    assert_eq!(client.post(&path, json!({ "messages": "x" })).code(), 10_207);
    assert_eq!(client.post(&path, json!({})).code(), 10_207);
    assert_eq!(client.backlog(&queue), 100, "of what was refused nothing is kept");
}

#[test]
fn a_body_may_have_128_000_bytes_and_a_batch_256_000() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let text = |bytes: usize| json!({ "body": "x".repeat(bytes), "content_type": "text" });
    client.push(&queue, text(128_000)).result();
    let said = client.push(&queue, text(128_001));
    assert_eq!((said.status, said.code()), (413, 10_204));
    let error = &said.body["errors"][0];
    assert_eq!((&error["limit"], &error["actual"]), (&json!(128_000), &json!(128_001)));
    // Of JSON the bytes count that it is written in: the quotes too.
    assert_eq!(client.push(&queue, json!({ "body": "x".repeat(127_998) })).status, 200);
    assert_eq!(client.push(&queue, json!({ "body": "x".repeat(127_999) })).code(), 10_204);
    let path = format!("/queues/{queue}/messages/batch");
    client.post(&path, json!({ "messages": [text(128_000), text(128_000)] })).result();
    let said = client.post(&path, json!({ "messages": [text(128_000), text(127_999), text(2)] }));
    assert_eq!((said.status, said.code()), (413, 10_205));
    assert_eq!(said.body["errors"][0]["actual"], 256_001);
    assert_eq!(client.backlog(&queue), 4);
}

#[test]
fn a_delay_is_the_message_s_own_or_else_the_batch_s_or_else_the_queue_s() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let settings = json!({ "settings": { "delivery_delay": 3_600 } });
    client.raw("PATCH", &format!("/queues/{queue}"), settings.to_string().as_bytes()).result();
    let begun = Instant::now();
    client.push(&queue, json!({ "body": "never", "content_type": "text" })).result();
    client.push(&queue, json!({ "body": "now", "content_type": "text", "delay_seconds": 0 })).result();
    let messages = json!([
        { "body": "one", "content_type": "text" },
        { "body": "two", "content_type": "text", "delay_seconds": 2 },
    ]);
    client
        .post(&format!("/queues/{queue}/messages/batch"), json!({ "messages": messages, "delay_seconds": 1 }))
        .result();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        for message in client.messages(&queue, json!({})) {
            seen.push((message["body"].as_str().unwrap().to_owned(), begun.elapsed()));
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{seen:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let names: Vec<&str> = seen.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["now", "one", "two"]);
    assert!(seen[1].1 >= Duration::from_secs(1) && seen[2].1 >= Duration::from_secs(2), "{seen:?}");
    assert_eq!(client.backlog(&queue), 4);
}

#[test]
fn figures_come_with_every_answer_that_changes_them() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let empty = client.get(&format!("/queues/{queue}/metrics"));
    assert_eq!(empty.result(), &json!({ "backlog_bytes": 0, "backlog_count": 0, "oldest_message_timestamp_ms": 0 }));
    let sent = client.push(&queue, json!({ "body": "12345", "content_type": "text" }));
    let metrics = sent.result()["metadata"]["metrics"].clone();
    assert_eq!((&metrics["backlog_bytes"], &metrics["backlog_count"]), (&json!(5), &json!(1)));
    assert!(metrics["oldest_message_timestamp_ms"].as_i64().unwrap() > 1_700_000_000_000);
    let pulled = client.pull(&queue, json!({}));
    assert_eq!(pulled.result()["message_backlog_count"], 1, "a leased message is not acknowledged yet");
    assert_eq!(pulled.result()["metadata"]["metrics"], metrics);
    assert_eq!(client.get(&format!("/queues/{queue}/metrics")).result(), &metrics);
}
