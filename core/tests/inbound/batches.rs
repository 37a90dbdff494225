//! A batch that is posted to a queue.

use jadpo_core::broker::Content;
use jadpo_core::inbound::{Refusal, batch};

use crate::post;

fn refusal(body: &str) -> Refusal {
    batch(&post("/_queues/jobs/batch", &[], body.as_bytes())).unwrap_err()
}

#[test]
fn each_message_is_kept_in_its_kind_with_its_own_delay() {
    let body = r#"{"messages":[
        {"body": {"n" : 12345678901234567890.10, "n": 2} },
        {"body":"{\"a\":1}","content_type":"json"},
        {"body":"{\"a\":1}","content_type":"text","delay_seconds":10},
        {"body":"AID/","content_type":"bytes","delay_seconds":0},
        {"body":null, "content_type":"json", "other": [1]}
    ],"delay_seconds":5}"#;
    let batch = batch(&post("/_queues/jobs/batch", &[], body.as_bytes())).unwrap();
    let messages: Vec<_> = batch.messages.iter().map(|one| (one.content, one.body.as_slice(), one.delay_s)).collect();
    assert_eq!(
        messages,
        [
            (Content::Json, br#"{"n" : 12345678901234567890.10, "n": 2}"#.as_slice(), None),
            (Content::Json, br#""{\"a\":1}""#, None),
            (Content::Text, br#"{"a":1}"#, Some(10)),
            (Content::Bytes, b"\x00\x80\xFF", Some(0)),
            (Content::Json, b"null", None),
        ]
    );
    assert_eq!(batch.delay_s, Some(5));
}

#[test]
fn what_is_wrong_with_a_message_is_said_with_its_place() {
    let cases = [
        (r#"{"messages":[{"body":1},{}]}"#, "message 2: it has no `body`"),
        (
            r#"{"messages":[{"body":1,"content_type":"xml"}]}"#,
            r#"message 1: `content_type` is none of "text", "json" and "bytes""#,
        ),
        (
            r#"{"messages":[{"body":1,"content_type":"v8"}]}"#,
            r#"message 1: `content_type` is none of "text", "json" and "bytes""#,
        ),
        (
            r#"{"messages":[{"body":{"a":1},"content_type":"text"}]}"#,
            "message 1: its `body` is no text, as `content_type` says",
        ),
        (
            r#"{"messages":[{"body":"?","content_type":"bytes"}]}"#,
            r#"message 1: its `body` is no base64, which "bytes" are sent as"#,
        ),
        (
            r#"{"messages":[{"body":1,"delay_seconds":86401}]}"#,
            "message 1: `delay_seconds` takes whole seconds from 0 to 86400",
        ),
        (
            r#"{"messages":[{"body":1,"delay_seconds":"1"}]}"#,
            "message 1: `delay_seconds` takes whole seconds from 0 to 86400",
        ),
    ];
    for (body, message) in cases {
        let refusal = refusal(body);
        assert_eq!((refusal.status, refusal.code, refusal.message.as_str()), (400, "message_invalid", message));
    }
    assert_eq!(refusal(r#"{"messages":[{"body":1},{}]}"#).fields, [("index", 1.into())]);
    assert_eq!(refusal(r#"{"messages":[],"delay_seconds":-1}"#).code, "delay_invalid");
}

#[test]
fn what_is_no_batch_is_told_what_one_is() {
    for body in [
        "",
        "not json",
        "[]",
        "{}",
        r#"{"messages":{}}"#,
        r#"{"messages":[1]}"#,
        "\u{0}",
        "[[[1]]]",
        "[[{\"body\":1}],5]",
        " \n[[]]",
        r#"{"messages":[[1]]}"#,
        r#"{"messages":[{"body":1},["a","text",5]]}"#,
    ] {
        let refusal = refusal(body);
        assert_eq!((refusal.status, refusal.code), (400, "batch_invalid"), "{body}");
        assert!(refusal.message.contains(r#"send {"messages": [{"body": …}]}"#), "{}", refusal.message);
    }
}

#[test]
fn a_body_as_deep_as_its_size_allows_is_carried() {
    let deep = format!("{}{}", "[".repeat(60_000), "]".repeat(60_000));
    let body = format!(r#"{{"messages":[{{"body":{deep}}}]}}"#);
    let batch = batch(&post("/_queues/jobs/batch", &[], body.as_bytes())).unwrap();
    assert_eq!(batch.messages[0].body, deep.as_bytes());
}

#[test]
fn a_delay_in_the_query_is_for_the_messages_that_have_none() {
    let delayed = |query: &str, rest: &str| {
        let body = format!(r#"{{"messages":[{{"body":1}},{{"body":2,"delay_seconds":3}}]{rest}}}"#);
        batch(&post(&format!("/_queues/jobs/batch?{query}"), &[], body.as_bytes()))
    };
    for query in ["delay=600", "a=1&Delay=600"] {
        let batch = delayed(query, "").unwrap();
        assert_eq!((batch.delay_s, batch.messages[0].delay_s, batch.messages[1].delay_s), (Some(600), None, Some(3)));
    }
    assert_eq!(delayed("a=1", "").unwrap().delay_s, None);
    for (query, rest) in [("delay=banana", ""), ("delay=86401", ""), ("delay=1", r#","delay_seconds":1"#)] {
        assert_eq!(delayed(query, rest).unwrap_err().code, "delay_invalid", "{query}");
    }
}
