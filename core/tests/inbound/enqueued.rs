//! A message that is posted to a queue.

use jadpo_core::broker::Content;
use jadpo_core::broker::limits::META_BYTES_MAX;
use jadpo_core::inbound::{Meta, enqueue};

use crate::{DEEP, EMOJI, meta_of, post};

#[test]
fn headers_are_kept_as_they_came_two_of_a_name_as_two_with_every_byte() {
    let mut inbound = post("/_queues/jobs?a=1&a=2&b=%00", &[("X-Tag", "one"), ("x-tag", "two"), ("X-Tag", "one")], b"");
    inbound.headers.push(("X-Latin".to_owned(), vec![0xE9, b' ', 0xFF, 0x80, b'\t', b'"', b'\\']));
    let message = enqueue(inbound.clone()).unwrap();
    let meta = meta_of(&message);
    assert_eq!(meta.headers, inbound.headers);
    assert_eq!(meta.query.as_deref(), Some("a=1&a=2&b=%00"));
    assert_eq!((meta.method.as_str(), meta.path.as_str()), ("POST", "/_queues/jobs"));
    assert_eq!(meta.received_at_ms, inbound.received_at_ms);
}

#[test]
fn what_is_about_the_connection_or_is_our_token_is_not_kept() {
    let headers = [
        ("Connection", "keep-alive, X-Hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "5"),
        ("TE", "trailers"),
        ("Transfer-Encoding", "chunked"),
        ("Upgrade", "h2c"),
        ("Content-Length", "0"),
        ("Expect", "100-continue"),
        ("Proxy-Authorization", "Basic x"),
        ("Authorization", "Bearer of-the-queue"),
        ("Host", "queues.example.com"),
        ("Cookie", "a=b"),
    ];
    let message = enqueue(post("/_queues/jobs", &headers, b"")).unwrap();
    assert!(!message.meta.as_deref().unwrap().contains("of-the-queue"));
    let kept: Vec<String> = meta_of(&message).headers.into_iter().map(|(name, _)| name).collect();
    assert_eq!(kept, ["Host", "Cookie"]);
}

#[test]
fn the_delay_is_taken_out_of_the_query_and_the_rest_stays_as_it_was() {
    let delayed = |query: &str| {
        let message = enqueue(post(&format!("/_queues/jobs?{query}"), &[], b"")).unwrap();
        (message.delay_s, meta_of(&message).query)
    };
    assert_eq!(delayed("delay=60"), (Some(60), None));
    assert_eq!(delayed("a=1&delay=0&&b=%26delay=7"), (Some(0), Some("a=1&&b=%26delay=7".to_owned())));
    assert_eq!(delayed("delay=86400&x"), (Some(86_400), Some("x".to_owned())));
    assert_eq!(delayed("Delay=60&a=1"), (Some(60), Some("a=1".to_owned())), "who writes it so means it, too");
    assert_eq!(delayed("a=1&del%61y=60"), (Some(60), Some("a=1".to_owned())));
    assert_eq!(delayed("delay=%36%30"), (Some(60), None));
    assert_eq!(delayed("delayed=60"), (None, Some("delayed=60".to_owned())));
    assert_eq!(delayed(""), (None, Some(String::new())));
}

#[test]
fn a_delay_that_is_none_is_refused_with_the_limit() {
    for query in [
        "delay",
        "delay=",
        "delay=-1",
        "delay=1.5",
        "delay=+1",
        "delay=soon",
        "delay=1&delay=1",
        "delay=1&Delay=1",
        "delay=86401",
    ] {
        let refusal = enqueue(post(&format!("/_queues/jobs?{query}"), &[], b"")).unwrap_err();
        assert_eq!((refusal.status, refusal.code), (400, "delay_invalid"), "{query}");
        assert!(refusal.fields.contains(&("limit", 86_400.into())), "{query}: {refusal:?}");
    }
    let refusal = enqueue(post("/_queues/jobs?delay=99999999999999999999999", &[], b"")).unwrap_err();
    assert_eq!(refusal.message, "`delay` is longer than 86400 s, a day");
}

#[test]
fn a_body_is_json_or_text_only_if_its_sender_says_so_and_it_can_be() {
    let content = |kind: &str, body: &[u8]| {
        let headers = [("Content-Type", kind)];
        enqueue(post("/_queues/jobs", if kind.is_empty() { &[] } else { &headers }, body)).unwrap().content
    };
    assert_eq!(content("application/json", b"{}"), Content::Json);
    assert_eq!(content("Application/JSON ; charset=utf-8", b"not json, and not our business"), Content::Json);
    assert_eq!(content("application/cloudevents+json", b"{}"), Content::Json);
    assert_eq!(content("application/json", b""), Content::Bytes, "no JSON is empty");
    assert_eq!(content("application/json", b"\xFF"), Content::Bytes);
    assert_eq!(content("text/plain", b""), Content::Text);
    assert_eq!(content("text/csv; charset=latin1", "é".as_bytes()), Content::Text);
    assert_eq!(content("text/plain", b"\xE9"), Content::Bytes);
    assert_eq!(content("application/x-www-form-urlencoded", b"a=1"), Content::Bytes);
    assert_eq!(content("", b"{}"), Content::Bytes, "nobody guesses");
}

#[test]
fn bodies_are_kept_byte_for_byte() {
    let deepest = [vec![b'['; 60_000], vec![b']'; 60_000]].concat();
    for body in [EMOJI, DEEP, &deepest, b"\xEF\xBB\xBF{}", b"{\"a\":1.0000000000000000001e400}", b"\0"] {
        let message = enqueue(post("/_queues/jobs", &[("content-type", "application/json")], body)).unwrap();
        assert_eq!(message.body, body);
    }
}

#[test]
fn headers_that_are_too_long_to_be_kept_are_refused_with_both_sizes() {
    let sixteen = "h".repeat(16 * 1024);
    assert!(enqueue(post("/_queues/jobs", &[("X-Long", &sixteen)], b"")).is_ok());
    let long = "h".repeat(META_BYTES_MAX);
    let refusal = enqueue(post("/_queues/jobs", &[("X-Long", &long)], b"")).unwrap_err();
    assert_eq!((refusal.status, refusal.code), (431, "headers_too_large"));
    assert_eq!(refusal.fields[0], ("limit", META_BYTES_MAX.into()));
    assert!(refusal.fields[1].1.as_u64().unwrap() > META_BYTES_MAX as u64);
}

#[test]
fn text_of_another_kind_is_no_request() {
    for text in ["", "{}", "note", r#"{"method":"POST","path":"/","received_at_ms":1,"headers":[["a","€"]]}"#] {
        assert_eq!(Meta::decode(text), None, "{text}");
    }
}
