//! A local queue that is received: what its messages are, and what the answers mean for the queue.

use jadpo_core::broker::{Content, Message};
use jadpo_core::program::Receiving;
use jadpo_core::queue::{Body, retry_delay_s};
use jadpo_core::read::{Reading, read};
use jadpo_core::start::App;
use jadpo_core::trigger::{self, Triggers};

use crate::{message, program};

const APP: &str = r#"
connections: {
    stock: { driver: Driver.local_queue, queue: "stock-moved" }
    jobs: { driver: Driver.local_queue, queue: "jobs", functions: [f] }
}
functions: { f: { run: f } }
events: { Any: Json, Note: Text, Blob: Bytes, Stock: { sku: Text } }
receiving: { stock: { event: Any } }
"#;

#[test]
fn a_queue_in_receiving_has_its_connection_s_route_and_its_dead_letters_have_none() {
    let app = App::new(program(APP));
    let route = app.route("stock-moved").unwrap();
    assert_eq!((route.connection.as_str(), route.dead_letters), ("stock", false));
    assert_eq!(route.receiving, Some(Receiving { event: "Any".to_owned(), id: None }));
    assert_eq!((app.route("stock-moved-dead"), app.route("jobs"), app.route("stock")), (None, None, None));
}

/// Whether a message of this content and body is the event.
fn is_event(event: &str, content: Content, body: &[u8]) -> bool {
    let program = program(APP);
    let receiving = Receiving { event: event.to_owned(), id: None };
    let message = trigger::message(&message(content, body));
    matches!(read(&program, &receiving, &message), Reading::Event { .. })
}

#[test]
fn a_json_string_is_a_string_and_a_text_that_looks_like_json_is_a_text() {
    let body = |content, body: &[u8]| trigger::message(&message(content, body)).body;
    let (string, object) = (br#""{\"a\":1}""#, br#"{"a":1}"#);
    assert_eq!(body(Content::Json, string), Body::Json(String::from_utf8(string.to_vec()).unwrap()));
    assert_eq!(body(Content::Text, object), Body::Text(r#"{"a":1}"#.to_owned()));
    assert_eq!(body(Content::Json, object), Body::Json(r#"{"a":1}"#.to_owned()));
    assert!(is_event("Note", Content::Json, string));
    assert!(is_event("Note", Content::Text, object));
    assert!(!is_event("Note", Content::Json, object), "an object is no text");
    assert!(!is_event("Stock", Content::Json, string), "nobody unwraps the string");
}

#[test]
fn bytes_stay_bytes_whatever_they_hold() {
    for content in [Content::Bytes, Content::V8, Content::Text, Content::Json] {
        let message = trigger::message(&message(content, b"\xFF\x0F\x00"));
        assert_eq!(message.body, Body::Bytes(b"\xFF\x0F\x00".to_vec()));
        assert!(!is_event("Any", content, b"\xFF\x0F\x00"), "parked whole");
        assert!(is_event("Blob", content, b"\xFF\x0F\x00"));
    }
}

#[test]
fn an_empty_body_is_a_text_or_bytes_and_no_json() {
    assert!(is_event("Note", Content::Text, b""));
    assert!(is_event("Blob", Content::Bytes, b""));
    assert!(!is_event("Any", Content::Text, b""));
}

#[test]
fn what_is_known_of_the_message_is_handed_on() {
    let message = Message { attempts: 7, ..message(Content::Text, b"t") };
    let found = trigger::message(&message);
    assert_eq!((found.id.as_str(), found.attempts), ("000000000000000000000000000000ab", 7));
    assert_eq!(found.sent_at_ms, message.sent_at_ms);
}

#[test]
fn a_store_that_is_away_for_days_dead_letters_nothing() {
    let triggers = Triggers::of(&program(APP));
    let declared = triggers.get("stock-moved").unwrap();
    // What `receive` answers while the store is away, until the attempts are spent.
    let last = declared.settings.consumer.max_retries + 1;
    let waited_s: u64 = (1..last).map(|attempt| u64::from(retry_delay_s(attempt))).sum();
    assert!(waited_s > 3 * 86_400, "{waited_s} s");
    assert!(waited_s < u64::from(declared.settings.retention_s), "nor does it grow too old meanwhile");
}
