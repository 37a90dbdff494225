//! What a function is told.

use jadpo_core::broker::{Content, Message};
use jadpo_core::inbound::Meta;
use jadpo_core::program::Target;
use jadpo_core::trigger::{FunctionCall, Triggers};

use crate::{message, program};

const APP: &str = r#"
connections: {
    jobs: { driver: Driver.local_queue, queue: "jobs", functions: [pay, mail, on, told] }
    next: { driver: Driver.local_queue, queue: "next" }
}
functions: {
    pay: { call: "http://127.0.0.1:3000/pay?to=us#part" }
    mail: { exec: ["./mail.sh"] }
    on: { send: "next" }
    told: { send: "next", body: { kind: "told" } }
}
"#;

fn calls(message: &Message) -> Vec<FunctionCall> {
    Triggers::of(&program(APP)).calls("jobs", message)
}

fn received(headers: &[(&str, &[u8])], query: Option<&str>) -> Message {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
    let meta = Meta {
        method: "POST".to_owned(),
        path: "/_queues/jobs".to_owned(),
        query: query.map(str::to_owned),
        headers,
        received_at_ms: 1_790_000_000_001,
    };
    Message { meta: Some(meta.encode().unwrap()), attempts: 2, ..message(Content::Bytes, b"\x00\xFF") }
}

fn shown(headers: &[(String, Vec<u8>)]) -> Vec<String> {
    headers.iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))).collect()
}

#[test]
fn every_function_gets_the_message_with_the_headers_as_they_came_and_then_ours() {
    let message = received(
        &[
            ("Host", b"queues.example.com"),
            ("X-Tag", b"one"),
            ("x-tag", b"two"),
            ("Content-Type", b"application/x-stock"),
            ("X-Latin", b"\xE9"),
        ],
        None,
    );
    let calls = calls(&message);
    assert_eq!(calls.iter().map(|call| call.function.as_str()).collect::<Vec<_>>(), ["pay", "mail", "on", "told"]);
    let pay = &calls[0];
    assert_eq!(
        shown(&pay.headers),
        [
            "X-Tag: one",
            "x-tag: two",
            "Content-Type: application/x-stock",
            "X-Latin: \u{FFFD}",
            "X-Forwarded-Host: queues.example.com",
            "Jadpo-Message-Id: 000000000000000000000000000000ab",
            "Jadpo-Queue: jobs",
            "Jadpo-Attempt: 2",
            "Jadpo-Received-At: 2026-09-21T14:13:20.001Z",
            "Idempotency-Key: 000000000000000000000000000000ab.pay",
        ]
    );
    assert_eq!(pay.headers[3].1, b"\xE9");
    assert_eq!((pay.body.as_slice(), pay.timeout_ms, pay.attempt), (b"\x00\xFF".as_slice(), 30_000, 2));
    assert_eq!(calls[1].header("idempotency-key"), Some("000000000000000000000000000000ab.mail"));
}

#[test]
fn a_sender_cannot_speak_for_us_and_its_own_key_is_handed_on_under_another_name() {
    let message = received(
        &[
            ("jadpo-message-id", b"forged"),
            ("Jadpo-Anything", b"forged"),
            ("idempotency-key", b"theirs"),
            ("X-Forwarded-Host", b"tunnel.example.com"),
            ("host", b"127.0.0.1"),
        ],
        None,
    );
    let headers = shown(&calls(&message)[0].headers);
    assert!(!headers.iter().any(|header| header.contains("forged") || header.contains("127.0.0.1")), "{headers:?}");
    assert!(headers.contains(&"X-Forwarded-Idempotency-Key: theirs".to_owned()));
    assert!(headers.contains(&"X-Forwarded-Host: tunnel.example.com".to_owned()));
    assert_eq!(headers.iter().filter(|header| header.starts_with("Idempotency-Key:")).count(), 1);
}

#[test]
fn the_query_goes_behind_the_function_s_own() {
    let address = |query| match &calls(&received(&[], query))[0].target {
        Target::Call(address) => address.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(address(Some("a=1&a=2&b=%00")), "http://127.0.0.1:3000/pay?to=us&a=1&a=2&b=%00");
    for query in ["to=them", "TO=them", "t%6F=them", "to"] {
        assert_eq!(address(Some(query)), "http://127.0.0.1:3000/pay?to=us", "{query}");
    }
    assert_eq!(address(Some("a=1&to=them&too=2")), "http://127.0.0.1:3000/pay?to=us&a=1&too=2");
    assert_eq!(address(Some("")), "http://127.0.0.1:3000/pay?to=us#part");
    assert_eq!(address(None), "http://127.0.0.1:3000/pay?to=us#part");
}

#[test]
fn a_message_without_a_request_says_what_it_is() {
    for (content, kind) in [
        (Content::Json, "application/json"),
        (Content::Text, "text/plain; charset=utf-8"),
        (Content::Bytes, "application/octet-stream"),
        (Content::V8, "application/octet-stream"),
    ] {
        let call = &calls(&message(content, b"1"))[0];
        assert_eq!(call.header("Content-Type"), Some(kind));
        assert_eq!(call.header("jadpo-received-at"), Some("2026-09-21T14:13:23.000Z"));
        assert_eq!(call.query, None);
    }
}

#[test]
fn what_is_sent_on_is_the_message_with_all_that_it_came_with_or_the_written_body_alone() {
    let message = received(&[("X-Tag", b"one")], Some("a=1"));
    let calls = calls(&message);
    let (on, told) = (&calls[2], &calls[3]);
    assert_eq!((on.content, &on.body, &on.meta), (message.content, &message.body, &message.meta));
    assert_eq!(
        (told.content, told.body.as_slice(), &told.meta),
        (Content::Json, br#"{"kind":"told"}"#.as_slice(), &None)
    );
}

#[test]
fn a_function_that_already_succeeded_is_not_called_again() {
    let progress = Some("mail\ngone_since\ntold".to_owned());
    let message = Message { progress, attempts: 3, ..message(Content::Json, b"1") };
    let names: Vec<String> = calls(&message).into_iter().map(|call| call.function).collect();
    assert_eq!(names, ["pay", "on"]);
}

#[test]
fn a_queue_without_functions_calls_nobody() {
    let triggers = Triggers::of(&program(APP));
    let message = message(Content::Json, b"1");
    assert!(triggers.calls("next", &message).is_empty() && triggers.calls("unknown", &message).is_empty());
}
