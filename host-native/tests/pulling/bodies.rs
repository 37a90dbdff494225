//! What was sent becomes what it is: an event, or a parked message that a person can read and have read again.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cloud::{Cloud, What};
use crate::support::{Function, folder, jadpo};
use crate::{all_is_kept_once, app, client, events, parked, serve, store, wait_until};

#[test]
fn a_json_string_a_text_that_looks_like_json_and_an_object_are_three_events() {
    let cloud = Cloud::start();
    let (dir, _server) = client(&cloud);
    cloud.send("IntcImFcIjoxfSI=", Some("json"));
    cloud.send(r#"{"a":1}"#, Some("text"));
    cloud.send("eyJhIjoyfQ==", Some("json"));
    let bodies = [r#""{\"a\":1}""#, r#"{"a":1}"#, r#"{"a":2}"#].map(str::to_owned);
    all_is_kept_once(&cloud, dir.path(), &bodies);
}

#[test]
fn what_cannot_be_read_is_parked_whole_and_acknowledged() {
    let cloud = Cloud::start();
    let (dir, _server) = client(&cloud);
    let v8 = STANDARD.encode([0xff, 0x0f, 0x6f, 0x7b]);
    for (body, content_type) in [
        ("no base64!", Some("json")),
        (v8.as_str(), Some("v8")),
        ("AID/", Some("bytes")),
        ("\u{1f600}", Some("text/html")),
        ("text", None),
    ] {
        cloud.send(body, content_type);
    }
    wait_until("all is acknowledged", || cloud.waiting() == 0);
    let parked = parked(dir.path());
    let kinds: Vec<(&[u8], &str)> = parked.iter().map(|(body, kind, ..)| (body.as_slice(), kind.as_str())).collect();
    assert_eq!(
        kinds,
        [
            (&b"no base64!"[..], "unreadable"),
            (v8.as_bytes(), "unreadable"),
            (&[0, 0x80, 0xff], "bytes"),
            ("\u{1f600}".as_bytes(), "unreadable"),
            (b"text", "text"),
        ]
    );
    assert!(parked.iter().all(|(_, _, reason, _)| reason == "unreadable"), "{parked:?}");
    for (place, part) in [(0, "no base64"), (1, "only a Worker"), (2, "not UTF-8"), (3, "`text/html`")] {
        assert!(parked[place].3.contains(part), "{part}: {}", parked[place].3);
    }
    assert_eq!(events(dir.path()).len(), 0);
}

#[test]
fn an_event_is_delivered_to_its_subscribers_with_the_body_as_it_was_sent() {
    let cloud = Cloud::start();
    let ledger = Function::answering(200);
    let rest = format!("subscribers: {{ ledger: {{ on: Moved, call: \"{}\" }} }}", ledger.url);
    let dir = folder(&app(&cloud.url, "", &rest));
    let _server = serve(dir.path());
    cloud.send(&STANDARD.encode(r#"{ "n": 12345678901234567890.10 }"#), Some("json"));
    let call = ledger.call();
    assert_eq!(call.text(), r#"{ "n": 12345678901234567890.10 }"#);
    assert_eq!((call.header("jadpo-event"), call.header("jadpo-attempt")), (Some("Moved"), Some("1")));
    wait_until("it is acknowledged", || cloud.waiting() == 0);
    assert_eq!(ledger.call_within(Duration::from_secs(1)).map(|call| call.text()), None);
}

#[test]
fn the_request_says_how_many_and_how_long_in_milliseconds() {
    let cloud = Cloud::start();
    let dir = folder(&app(&cloud.url, ", visibility: 6s, batch_size: 50", ""));
    let _server = serve(dir.path());
    wait_until("it pulls", || !cloud.asked(What::Pull).is_empty());
    let asked = cloud.asked(What::Pull).remove(0);
    assert_eq!(asked.body, serde_json::json!({ "batch_size": 50, "visibility_timeout_ms": 6_000 }));
}

#[test]
fn a_parked_message_is_read_again_when_an_operator_wants_it_and_becomes_an_event() {
    let cloud = Cloud::start();
    let strict = app(&cloud.url, "", "").replace("Moved: Json", "Moved: { sku: Text }");
    let dir = folder(&strict);
    let server = serve(dir.path());
    cloud.send(r#"{"sku":5}"#, Some("text"));
    wait_until("it is parked", || cloud.waiting() == 0);
    let listed = jadpo(dir.path(), &["deliveries", "--queue", "jobs"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("sku: expected Text, found a number"), "{listed}");
    assert_eq!(server.stop("TERM"), Some(0));
    std::fs::write(dir.path().join("app.jadpo"), app(&cloud.url, "", "")).unwrap();
    let _server = serve(dir.path());
    let retried = jadpo(dir.path(), &["deliveries", "retry", "p1"]);
    assert_eq!(retried.status.code(), Some(0), "{retried:?}");
    wait_until("it is an event", || events(dir.path()).len() == 1);
    assert_eq!(parked(dir.path()).len(), 0);
    let seen: i64 = store(dir.path()).query_row("SELECT count(*) FROM jadpo_received", [], |row| row.get(0)).unwrap();
    assert_eq!(seen, 1);
}
