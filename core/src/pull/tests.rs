//! Whatever a request holds, it is read or refused, and what is read is within the limits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::body::encode;
use super::messages;
use super::refusal::Refusal;
use super::route::{Call, OfQueue, PREFIX, Wish};
use crate::admin::Request;
use crate::broker::limits::{BATCH_COUNT_MAX, DELAY_MAX_S, VISIBILITY_MAX_MS};
use crate::broker::{Content, LeaseKey, Message, MessageId};

fn key() -> LeaseKey {
    LeaseKey::new(&[7; 32]).unwrap()
}

/// Every address that takes a body.
const ADDRESSES: [(&str, &str); 12] = [
    ("POST", "queues"),
    ("PATCH", "queues/00000000000000000000000000000000"),
    ("PUT", "queues/00000000000000000000000000000000"),
    ("POST", "queues/00000000000000000000000000000000/messages"),
    ("POST", "queues/00000000000000000000000000000000/messages/batch"),
    ("POST", "queues/00000000000000000000000000000000/messages/pull"),
    ("POST", "queues/00000000000000000000000000000000/messages/ack"),
    ("POST", "queues/00000000000000000000000000000000/messages/peek"),
    ("POST", "queues/00000000000000000000000000000000/messages/purge"),
    ("POST", "queues/00000000000000000000000000000000/purge"),
    ("POST", "queues/00000000000000000000000000000000/consumers"),
    ("PUT", "queues/00000000000000000000000000000000/consumers/00000000000000000000000000000000"),
];

fn read(method: &str, path: &str, query: &str, body: &[u8]) -> Result<Call, Refusal> {
    let request = Request {
        method: method.to_owned(),
        path: format!("{PREFIX}/accounts/a/{path}"),
        query: query.to_owned(),
        authorization: Some("Bearer t".to_owned()),
        body: body.to_vec(),
    };
    Call::read(&request, &key())
}

/// What is read is within the limits; what is refused is the client's fault, in words of some length.
fn check(read: &Result<Call, Refusal>) -> Result<(), TestCaseError> {
    match read {
        Ok(call) => match &call.wish {
            Wish::Queue(_, OfQueue::Pull(pull)) => {
                prop_assert!(pull.max.is_none_or(|max| (1..=BATCH_COUNT_MAX).contains(&max)));
                prop_assert!(pull.visibility_ms.is_none_or(|ms| ms <= VISIBILITY_MAX_MS));
            }
            Wish::Queue(_, OfQueue::Push(batch)) => {
                prop_assert!(batch.check().is_ok());
                let delays = batch.messages.iter().filter_map(|message| message.delay_s).chain(batch.delay_s);
                prop_assert!(delays.into_iter().all(|delay| delay <= DELAY_MAX_S));
            }
            Wish::Queue(_, OfQueue::Ack(ack)) => {
                prop_assert!(ack.parts.iter().all(|part| part.acks.len() + part.retries.len() <= messages::IDS_MAX));
            }
            _ => {}
        },
        Err(refusal) => {
            prop_assert!((400..500).contains(&refusal.status), "{refusal:?}");
            prop_assert!((10..1_000).contains(&refusal.error.message.len()), "{refusal:?}");
        }
    }
    Ok(())
}

const NAMES: [&str; 24] = [
    "batch_size",
    "visibility_timeout_ms",
    "visibility_timeout",
    "acks",
    "retries",
    "lease_id",
    "delay_seconds",
    "messages",
    "body",
    "content_type",
    "refs",
    "ref",
    "queue_name",
    "settings",
    "delivery_delay",
    "delivery_paused",
    "type",
    "script_name",
    "dead_letter_queue",
    "max_retries",
    "max_concurrency",
    "delete_messages_permanently",
    "jurisdiction",
    "unknown",
];

/// Numbers as they are written, which need not be numbers that a machine has.
fn numbers() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<u128>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("JSON has no such", |number| number.is_finite())
            .prop_map(|number| format!("{number:e}")),
        "-?[1-9][0-9]{0,400}",
        "-?[1-9][.][0-9]{1,9}[eE][+-]?[0-9]{1,4}",
        (-2_i64..200).prop_map(|number| number.to_string()),
    ]
}

/// JSON as it is written, with the fields that are looked for among its own.
fn written() -> impl Strategy<Value = String> {
    let names = prop_oneof![
        prop::sample::select(NAMES.as_slice()).prop_map(str::to_owned),
        any::<String>().prop_map(|text| text.chars().take(8).collect()),
    ];
    let texts = prop_oneof![
        Just("text"),
        Just("json"),
        Just("bytes"),
        Just("v8"),
        Just("http_pull"),
        Just("worker"),
        Just("eu"),
        Just("mail"),
        Just("")
    ]
    .prop_map(str::to_owned);
    let text = prop_oneof![texts, any::<String>()].prop_map(|text| Value::from(text).to_string());
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|truth| truth.to_string()),
        numbers(),
        text,
        "\"(\\\\u[0-9a-f]{4}){1,3}\"",
    ];
    leaf.prop_recursive(5, 60, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((names.clone(), inner), 0..8).prop_map(|fields| {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{}:{value}", Value::from(name.as_str()))).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_json_is_read_or_refused(at in 0..ADDRESSES.len(), body in written()) {
        let (method, path) = ADDRESSES[at];
        check(&read(method, path, "", body.as_bytes()))?;
    }

    #[test]
    fn any_value_of_any_field_is_read_or_refused(
        at in 0..ADDRESSES.len(),
        name in prop::sample::select(NAMES.as_slice()),
        value in written(),
    ) {
        let (method, path) = ADDRESSES[at];
        let plain = format!(r#"{{"queue_name":"mail","type":"http_pull","body":1,"{name}":{value}}}"#);
        check(&read(method, path, "", plain.as_bytes()))?;
        let nested = format!(
            r#"{{"type":"worker","script_name":"w","settings":{{"{name}":{value}}},"messages":[{{"body":1,"{name}":{value}}}],
            "acks":[{{"lease_id":"x","{name}":{value}}}],"retries":[{{"lease_id":"y","{name}":{value}}}],"refs":[{{"ref":"x","{name}":{value}}}]}}"#
        );
        check(&read(method, path, "", nested.as_bytes()))?;
    }

    #[test]
    fn any_bytes_are_read_or_refused(at in 0..ADDRESSES.len(), body in prop::collection::vec(any::<u8>(), 0..200)) {
        let (method, path) = ADDRESSES[at];
        check(&read(method, path, "", &body))?;
    }

    #[test]
    fn any_address_is_read_or_refused(method in "[A-Z]{1,8}", path in ".{0,80}", query in ".{0,80}", token in ".{0,40}") {
        let request = Request {
            method,
            path: format!("{PREFIX}/{path}"),
            query,
            authorization: Some(token),
            body: Vec::new(),
        };
        let read = Call::read(&request, &key());
        check(&read)?;
        let bearer = Request { authorization: Some("Bearer t".to_owned()), ..request };
        check(&Call::read(&bearer, &key()))?;
    }

    #[test]
    fn a_number_is_taken_if_and_only_if_it_is_whole_and_in_its_range(written in numbers()) {
        let body = format!(r#"{{"batch_size":{written}}}"#);
        let worth: f64 = written.parse().unwrap();
        let is_right = worth.fract() == 0.0 && (1.0..=100.0).contains(&worth);
        prop_assert_eq!(messages::pull(body.as_bytes()).is_ok(), is_right, "{}", written);
    }

    #[test]
    fn what_is_pulled_is_what_was_sent(body in prop::collection::vec(any::<u8>(), 0..300), content in 0..4_usize) {
        let content = Content::ALL[content];
        let (encoded, named) = encode(message(content, body.clone()));
        let is_text = content == Content::Text && std::str::from_utf8(&body).is_ok();
        prop_assert_eq!(named == Content::Text, is_text);
        let bytes = if is_text { encoded.into_bytes() } else { BASE64.decode(encoded).unwrap() };
        prop_assert_eq!(bytes, body);
    }
}

fn message(content: Content, body: Vec<u8>) -> Message {
    Message { id: MessageId(1), sent_at_ms: 1, attempts: 1, content, body, meta: None, progress: None, dead: None }
}

#[test]
fn a_body_is_encoded_by_what_it_is() {
    for (content, body, encoded) in [
        (Content::Text, "héllo \u{0}", "héllo \u{0}"),
        (Content::Json, r#"{"a":1}"#, "eyJhIjoxfQ=="),
        (Content::Bytes, "ab", "YWI="),
        (Content::V8, "ab", "YWI="),
        (Content::Bytes, "", ""),
    ] {
        assert_eq!(encode(message(content, body.as_bytes().to_vec())), (encoded.to_owned(), content));
    }
    let cut = encode(message(Content::Text, vec![b'a', 0xff]));
    assert_eq!(cut, ("Yf8=".to_owned(), Content::Bytes), "what is no text is handed over as the bytes that it is");
}

#[test]
fn a_request_is_read_as_its_documentation_has_it() {
    let wish = |method, path: &str, body: Value| {
        let path = format!("queues/0123456789ABCDEF0123456789abcdef{path}");
        read(method, &path, "", body.to_string().as_bytes()).unwrap().wish
    };
    let pull = wish("POST", "/messages/pull", json!({ "visibility_timeout": 6_000, "batch_size": 50 }));
    let Wish::Queue(id, OfQueue::Pull(pull)) = pull else { panic!("{pull:?}") };
    assert_eq!(
        (id.as_str(), pull.max, pull.visibility_ms),
        ("0123456789abcdef0123456789abcdef", Some(50), Some(6_000))
    );
    let both = json!({ "visibility_timeout": 1, "visibility_timeout_ms": 2 });
    let Wish::Queue(_, OfQueue::Pull(pull)) = wish("POST", "/messages/pull", both) else { panic!() };
    assert_eq!(pull.visibility_ms, Some(2), "the field's present name stands before its old one");
    let push = wish("POST", "/messages", json!({ "body": null, "delay_seconds": 0 }));
    let Wish::Queue(_, OfQueue::Push(batch)) = push else { panic!("{push:?}") };
    assert_eq!((batch.messages[0].body.as_slice(), batch.messages[0].delay_s), (b"null".as_slice(), Some(0)));
}
