//! Messages as they are pulled, by content type, and whatever may be missing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jadpo_core::program::{Program, Receiving};
use jadpo_core::pulling::{Pulled, pulled};
use jadpo_core::queue::{Body, Message};
use jadpo_core::read::{Reading, Reason, read};
use serde_json::{Value, json};

use crate::{NOW_MS, answer};

fn pull(messages: &Value) -> Pulled {
    let body = json!({ "success": true, "errors": [], "messages": [], "result": { "messages": messages } });
    pulled(&answer(200, &body.to_string()), NOW_MS).unwrap()
}

/// A message with this body and content type.
fn message(body: &Value, content_type: &str) -> Message {
    let metadata = json!({ "CF-Content-Type": content_type, "CF-sourceMessageSource": "dash" });
    message_with(&json!({ "body": body, "metadata": metadata }))
}

/// A message with these fields beside its id and its lease.
fn message_with(fields: &Value) -> Message {
    let mut whole = json!({ "id": "m1", "lease_id": "l1", "attempts": 2, "timestamp_ms": 1_689_615_013_586_i64 });
    whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let mut pulled = pull(&json!([whole]));
    assert_eq!((pulled.lent.len(), pulled.odd), (1, 0), "{fields}");
    pulled.lent.remove(0).message
}

fn base64(text: &str) -> Value {
    STANDARD.encode(text).into()
}

/// What the operator is told, and the body that is kept for them.
fn unreadable(message: &Message) -> (&str, &str) {
    match &message.body {
        Body::Unreadable { shown, why } => (why, shown),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_documentation_s_sample_is_read_though_its_bodies_are_no_base64() {
    let sample = json!([{
        "body": "hello", "id": "1ad27d24c83de78953da635dc2ea208f", "timestamp_ms": 1_689_615_013_586_i64, "attempts": 2,
        "metadata": { "CF-sourceMessageSource": "dash", "CF-Content-Type": "json" },
        "lease_id": "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2Q0JDLUhTNTEyIn0..NXmbr8h6"
    }]);
    let pulled = pull(&sample);
    let lent = &pulled.lent[0];
    assert_eq!(lent.lease_id, "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2Q0JDLUhTNTEyIn0..NXmbr8h6");
    let Message { id, sent_at_ms, attempts, .. } = &lent.message;
    assert_eq!((id.as_str(), *sent_at_ms, *attempts), ("1ad27d24c83de78953da635dc2ea208f", 1_689_615_013_586, 2));
    let (why, shown) = unreadable(&lent.message);
    assert!(why.contains("it is no base64") && shown == "hello", "{why}: {shown}");
}

#[test]
fn a_json_string_a_text_that_looks_like_json_and_an_object_are_three_things() {
    assert_eq!(message(&json!("IntcImFcIjoxfSI="), "json").body, Body::Json(r#""{\"a\":1}""#.to_owned()));
    assert_eq!(message(&json!(r#"{"a":1}"#), "text").body, Body::Text(r#"{"a":1}"#.to_owned()));
    assert_eq!(message(&json!("eyJhIjoxfQ=="), "json").body, Body::Json(r#"{"a":1}"#.to_owned()));
}

#[test]
fn text_is_taken_as_it_is_and_bytes_byte_for_byte() {
    assert_eq!(message(&json!("aGk="), "text").body, Body::Text("aGk=".to_owned()));
    assert_eq!(
        message(&json!("\u{feff}\u{0}é\u{1f600}"), "text").body,
        Body::Text("\u{feff}\u{0}é\u{1f600}".to_owned())
    );
    assert_eq!(message(&json!(""), "text").body, Body::Text(String::new()));
    assert_eq!(message(&json!("AID/"), "bytes").body, Body::Bytes(vec![0, 0x80, 0xff]));
    assert_eq!(message(&json!(""), "bytes").body, Body::Bytes(Vec::new()));
}

#[test]
fn json_that_is_no_utf_8_stays_the_bytes_that_it_is() {
    assert_eq!(message(&json!(STANDARD.encode(b"\"\xff\"")), "json").body, Body::Bytes(b"\"\xff\"".to_vec()));
}

#[test]
fn what_v8_serialized_is_kept_for_a_person_and_says_what_to_do() {
    let v8 = STANDARD.encode([0xff, 0x0f, 0x6f]);
    let message = message(&json!(v8), "v8");
    let (why, shown) = unreadable(&message);
    assert!(why.contains("only a Worker") && why.contains("contentType: \"json\""), "{why}");
    assert_eq!(STANDARD.decode(shown).unwrap(), [0xff, 0x0f, 0x6f]);
}

#[test]
fn a_body_that_is_not_what_it_says_is_parked_whole_and_not_guessed_at() {
    for (body, content_type) in [
        ("not base64!", "json"),
        ("{\"a\":1}", "json"),
        ("YQ", "bytes"), // without its padding
        ("YQ=\n=", "bytes"),
        ("text", "application/json"),
        ("text", ""),
    ] {
        let message = message(&json!(body), content_type);
        let (why, shown) = unreadable(&message);
        assert_eq!(shown, body, "{content_type}");
        assert!(why.contains("content type"), "{why}");
        let program: Program =
            serde_json::from_value(json!({ "format": 1, "app": "a", "events": { "E": "bytes" } })).unwrap();
        let receiving = Receiving { event: "E".to_owned(), id: None };
        let reading = read(&program, &receiving, &message);
        assert!(matches!(reading, Reading::Unfit { reason: Reason::Unreadable, .. }), "{reading:?}");
    }
}

#[test]
fn a_body_that_did_not_come_as_text_is_kept_as_its_json() {
    for body in [json!({ "a": 1 }), json!([1, "x"]), json!(5), json!(true)] {
        assert_eq!(unreadable(&message(&body, "json")).1, body.to_string());
    }
    assert_eq!(unreadable(&message(&Value::Null, "text")).0, "the message has no body");
    let lone = r#"{"success":true,"result":{"messages":[{"id":"m","lease_id":"l","body":"\ud800x"}]}}"#;
    let pulled = pulled(&answer(200, lone), NOW_MS).unwrap();
    assert_eq!(unreadable(&pulled.lent[0].message).1, r#""\ud800x""#);
}

#[test]
fn metadata_that_is_missing_or_odd_takes_nothing_from_the_body() {
    let text = Body::Text("aGk=".to_owned());
    for metadata in [json!(null), json!({}), json!("json"), json!([1]), json!({ "CF-Content-Type": null })] {
        assert_eq!(message_with(&json!({ "body": "aGk=", "metadata": metadata })).body, text, "{metadata}");
    }
    assert_eq!(message_with(&json!({ "body": "aGk=" })).body, text);
    let other_case = json!({ "body": "aGk=", "metadata": { "cf-content-type": " JSON ", "more": { "x": [1] } } });
    assert_eq!(message_with(&other_case).body, Body::Json("hi".to_owned()));
    let number = message_with(&json!({ "body": "x", "metadata": { "CF-Content-Type": 5 } }));
    assert!(unreadable(&number).0.contains("`5`"));
}

#[test]
fn attempts_and_times_of_any_kind_come_out_as_something_that_a_store_takes() {
    let read = |attempts: Value, timestamp_ms: Value| {
        let message = message_with(&json!({ "body": "", "attempts": attempts, "timestamp_ms": timestamp_ms }));
        (message.attempts, message.sent_at_ms)
    };
    assert_eq!(read(json!(3), json!(5)), (3, 5));
    assert_eq!(read(json!(null), json!(null)), (1, NOW_MS));
    assert_eq!(read(json!(0), json!(-5)), (1, 0));
    assert_eq!(read(json!(-7), json!("17")), (1, 17));
    assert_eq!(read(json!(u64::MAX), json!(u64::MAX)), (u32::MAX, (1 << 53) - 1));
    assert_eq!(read(json!(2.0), json!(1.5e12)), (2, 1_500_000_000_000));
    assert_eq!(read(json!({}), json!([])), (1, NOW_MS));
}

#[test]
fn a_message_without_an_id_or_a_lease_is_left_to_the_server_and_takes_no_other_with_it() {
    let good = json!({ "id": "good", "lease_id": "l", "body": "x" });
    let odd = [
        json!({ "lease_id": "l", "body": "x" }),
        json!({ "id": "m", "body": "x" }),
        json!({ "id": "", "lease_id": "l", "body": "x" }),
        json!({ "id": null, "lease_id": {}, "body": "x" }),
        json!("m"),
        json!(null),
        json!([]),
    ];
    let mut all = odd.to_vec();
    all.insert(3, good);
    let pulled = pull(&json!(all));
    assert_eq!((pulled.lent.len(), pulled.odd), (1, odd.len()));
    assert_eq!(pulled.lent[0].message.id, "good");
    let numbered = pull(&json!([{ "id": 17, "lease_id": 18, "body": "x" }]));
    assert_eq!((numbered.lent[0].message.id.as_str(), numbered.lent[0].lease_id.as_str()), ("17", "18"));
}

#[test]
fn a_message_of_the_largest_size_comes_out_as_it_was() {
    let text = "x".repeat(128_000);
    assert_eq!(message(&json!(text), "text").body, Body::Text(text.clone()));
    assert_eq!(message(&base64(&text), "bytes").body, Body::Bytes(text.into_bytes()));
}
