mod suspects;

use serde_json::json;

use super::*;
use crate::broker::{Backlog, Content, Metrics, Sent};

fn head<'a>(pairs: &'a [(&'static str, &'a str)]) -> impl Fn(&'static str) -> Option<&'a str> {
    move |name| pairs.iter().find(|(of, _)| *of == name).map(|(_, value)| *value)
}

fn code(call: Result<Call, Refused>) -> (u16, u32) {
    call.map(|call| panic!("{call:?}")).map_err(|refused| (refused.status, refused.code)).unwrap_err()
}

#[test]
fn a_send_says_its_format_and_delay_in_headers_and_no_format_is_v8() {
    let call = Call::read("POST", "/message", head(&[("x-msg-fmt", "json"), ("x-msg-delay-secs", "0")])).unwrap();
    assert_eq!(call, Call::Send { content: Content::Json, delay_s: Some(0) });
    let batch = call.messages(b"{}".to_vec(), Some(60)).unwrap().unwrap();
    assert_eq!((batch.delay_s, batch.messages[0].delay_s), (Some(60), Some(0)), "its own delay stands before");
    let call = Call::read("POST", "/message", head(&[])).unwrap();
    assert_eq!(call, Call::Send { content: Content::V8, delay_s: None });
}

#[test]
fn what_a_send_says_of_itself_is_refused_with_cloudflares_codes() {
    let of = |pairs: &[(&'static str, &str)]| code(Call::read("POST", "/message", head(pairs)));
    assert_eq!(of(&[("x-msg-fmt", "xml")]), (400, 10_203));
    assert_eq!(of(&[("x-msg-fmt", "text"), ("x-msg-delay-secs", "86401")]), (400, 10_203));
    assert_eq!(of(&[("x-msg-fmt", "text"), ("x-msg-delay-secs", "-1")]), (400, 10_203));
    assert_eq!(of(&[("x-msg-fmt", "text"), ("content-length", "128001")]), (413, 10_204));
    let of = |pairs: &[(&'static str, &str)]| code(Call::read("POST", "/batch", head(pairs)));
    assert_eq!(of(&[("x-msg-delay-secs", "86401")]), (400, 10_202));
    assert_eq!(of(&[("cf-queue-batch-count", "101")]), (400, 10_206));
    assert_eq!(of(&[("cf-queue-largest-msg", "128001")]), (413, 10_204));
    assert_eq!(of(&[("cf-queue-batch-bytes", "256001")]), (413, 10_205));
    assert_eq!(code(Call::read("GET", "/message", head(&[]))).0, 404);
}

#[test]
fn a_batch_is_json_with_bodies_in_base64() {
    let call = Call::read("POST", "/batch", head(&[("x-msg-delay-secs", "5")])).unwrap();
    let body = json!({"messages": [
        {"body": "aGk=", "contentType": "text", "delaySecs": 3},
        {"body": "AAEC", "contentType": "bytes"},
        {"body": "/w8="},
    ]});
    let batch = call.messages(body.to_string().into_bytes(), Some(60)).unwrap().unwrap();
    assert_eq!(batch.delay_s, Some(5), "the batch's delay stands before the binding's");
    let told: Vec<_> = batch.messages.iter().map(|one| (one.content, one.body.as_slice(), one.delay_s)).collect();
    assert_eq!(
        told,
        [
            (Content::Text, b"hi".as_slice(), Some(3)),
            (Content::Bytes, &[0, 1, 2], None),
            (Content::V8, &[255, 15], None),
        ]
    );
}

#[test]
fn a_batch_that_cannot_be_read_is_refused_whole() {
    let call = Call::SendBatch { delay_s: None };
    let code = |body: String| call.messages(body.into_bytes(), None).unwrap_err().code;
    let with = |entry: serde_json::Value| json!({"messages": [{"body": "aGk="}, entry]}).to_string();
    assert_eq!(code("{".to_owned()), 10_208);
    assert_eq!(code("[]".to_owned()), 10_207);
    assert_eq!(code(json!({"messages": []}).to_string()), 10_206);
    assert_eq!(code(with(json!({"body": "%"}))), 10_207);
    assert_eq!(code(with(json!({"body": "", "contentType": "json"}))), 10_208);
    assert_eq!(code(with(json!({"body": "aGk=", "contentType": "xml"}))), 10_203);
    for delay in [json!(86_401), json!(-1), json!(1e12), json!(1.5)] {
        assert_eq!(code(with(json!({"body": "aGk=", "delaySecs": delay}))), 10_203);
    }
}

#[test]
fn refusals_are_fit_for_a_header() {
    let refused = Call::read("POST", "/message", head(&[("x-msg-fmt", "naïve\r\nx: y")])).unwrap_err();
    assert!(refused.cause.chars().all(|char| char == ' ' || char.is_ascii_graphic()), "{}", refused.cause);
}

#[test]
fn answers_carry_the_three_figures() {
    let before = Metrics { messages: 2, bytes: 30, oldest_sent_at_ms: Some(7), ..Metrics::default() };
    let figures = json!({"backlogCount": 2, "backlogBytes": 30, "oldestMessageTimestamp": 7});
    let read = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
    assert_eq!(read(metrics(&before)), figures);
    let backlog = Backlog { messages: 2, bytes: 30 };
    let after = Sent { ids: Vec::new(), before: backlog, oldest_before_ms: Some(7) };
    assert_eq!(read(sent(&after)), json!({"metadata": {"metrics": figures}}));
    assert_eq!(read(metrics(&Metrics::default()))["oldestMessageTimestamp"], 0);
}

#[test]
fn batches_side_by_side_grow_with_the_backlog_and_shrink_with_failures() {
    let mut concurrency = Concurrency::new(Some(3));
    let mut ended = |well, backlog| {
        concurrency.ended(well, backlog);
        concurrency.now()
    };
    assert_eq!([ended(true, false), ended(true, true), ended(true, true), ended(true, true)], [1, 2, 3, 3]);
    assert_eq!([ended(false, true), ended(false, false), ended(false, true)], [2, 1, 1]);
    assert_eq!((Concurrency::new(None).most(), Concurrency::new(Some(250)).most()), (20, 250));
}
