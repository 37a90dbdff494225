//! Pulling: how much, for how long, and what comes.

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Api, bodies, lease};
use crate::support::connect;

#[test]
fn a_pull_gives_5_messages_if_it_does_not_say_100_at_most_and_never_waits() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let begun = Instant::now();
    assert!(client.messages(&queue, json!({ "batch_size": 50 })).is_empty());
    client.push_texts(&queue, &["a", "b", "c"]);
    assert_eq!(bodies(&client.messages(&queue, json!({ "batch_size": 50 }))), ["a", "b", "c"]);
    assert!(begun.elapsed() < Duration::from_secs(3), "a queue's max_wait_time is for pushed batches");
    client.push_texts(&queue, &["x"; 100]);
    client.push_texts(&queue, &["x"; 100]);
    let path = format!("/queues/{queue}/messages/pull");
    let count = |said: &crate::client::Said| said.result()["messages"].as_array().unwrap().len();
    assert_eq!(count(&client.pull(&queue, json!({}))), 5);
    assert_eq!(count(&client.raw("POST", &path, b"")), 5, "no body at all");
    assert_eq!(count(&client.raw("POST", &path, b" \n")), 5);
    assert_eq!(count(&client.pull(&queue, json!({ "batch_size": null, "visibility_timeout_ms": null }))), 5);
    assert_eq!(count(&client.pull(&queue, json!({ "batch_size": 1 }))), 1);
    assert_eq!(count(&client.pull(&queue, json!({ "batch_size": 100 }))), 100);
    for size in [json!(0), json!(101), json!(-1), json!(2.5), json!(1e300), json!("5"), json!([]), json!(true)] {
        let said = client.pull(&queue, json!({ "batch_size": size }));
        assert_eq!((said.status, said.code()), (400, 10_207), "{size}");
    }
    // A number is what it is worth, however it is written.
    assert_eq!(count(&client.raw("POST", &path, br#"{"batch_size":2.0e0}"#)), 2);
}

#[test]
fn a_lease_is_as_long_as_the_pull_says_in_milliseconds_by_either_name() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    for (field, notes) in [("visibility_timeout_ms", 0), ("visibility_timeout", 1)] {
        client.push_texts(&queue, &["a"]);
        let begun = Instant::now();
        let pulled = client.pull(&queue, json!({ field: 600, "batch_size": 50 }));
        assert_eq!(pulled.result()["messages"][0]["attempts"], 1);
        assert_eq!(pulled.body["messages"].as_array().unwrap().len(), notes, "{pulled:?}");
        let again = loop {
            let messages = client.messages(&queue, json!({}));
            if let [message] = messages.as_slice() {
                break message.clone();
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "never, so it was not taken for milliseconds");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(begun.elapsed() >= Duration::from_millis(600), "{:?}", begun.elapsed());
        assert_eq!(again["attempts"], 2);
        assert_eq!(client.ack(&queue, &[lease(&again)], &[]).result()["ackCount"], 1);
    }
    for timeout in [json!(43_200_001), json!(-1), json!(u64::MAX), json!(0.5), json!("6000")] {
        let said = client.pull(&queue, json!({ "visibility_timeout_ms": timeout }));
        assert_eq!((said.status, said.code()), (400, 10_207), "{timeout}");
    }
    assert_eq!(client.pull(&queue, json!({ "visibility_timeout_ms": 43_200_000 })).status, 200);
}

#[test]
fn a_lease_of_no_time_is_over_at_once() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({ "max_retries": 100 }));
    client.push_texts(&queue, &["a"]);
    for attempt in 1..5 {
        let messages = client.messages(&queue, json!({ "visibility_timeout_ms": 0 }));
        assert_eq!(messages[0]["attempts"], attempt);
    }
}

#[test]
fn what_a_consumer_s_settings_say_holds_for_a_pull_that_does_not_say() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({ "batch_size": 2, "visibility_timeout_ms": 400 }));
    client.push_texts(&queue, &["a", "b", "c"]);
    assert_eq!(bodies(&client.messages(&queue, json!({}))), ["a", "b"]);
    std::thread::sleep(Duration::from_millis(450));
    assert_eq!(bodies(&client.messages(&queue, json!({ "batch_size": 9 }))), ["a", "b", "c"]);
}

#[test]
fn a_queue_is_pulled_only_if_that_is_what_consumes_it_and_the_refusal_says_how_to() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.create("mail");
    client.push_texts(&queue, &["a"]);
    let said = client.pull(&queue, json!({}));
    assert_eq!((said.status, said.code()), (400, 0));
    for hint in ["unless http_pull mode is enabled", "wrangler queues consumer http add mail", "jadpo queues pull mail"]
    {
        assert!(said.message().contains(hint), "{said:?}");
    }
    let work = client.id_of("work");
    assert!(client.pull(&work, json!({})).message().contains("`go`"));
    let worker = json!({ "type": "worker", "script_name": "mailer" });
    client.post(&format!("/queues/{queue}/consumers"), worker).result();
    assert!(client.pull(&queue, json!({})).message().contains("the Worker `mailer`"));
    assert_eq!(client.backlog(&queue), 1, "it waits");
}

#[test]
fn a_paused_queue_is_sent_to_and_not_pulled_from_and_goes_on_where_it_was() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    client.push_texts(&queue, &["a"]);
    let path = format!("/queues/{queue}");
    let pause = |paused: bool| json!({ "settings": { "delivery_paused": paused } }).to_string();
    client.raw("PATCH", &path, pause(true).as_bytes()).result();
    client.push_texts(&queue, &["b"]);
    let said = client.pull(&queue, json!({}));
    assert_eq!(said.status, 409);
    assert!(said.message().contains("queue_delivery_paused"), "{said:?}");
    client.raw("PATCH", &path, pause(false).as_bytes()).result();
    assert_eq!(bodies(&client.messages(&queue, json!({}))), ["a", "b"]);
}

#[test]
fn what_was_pulled_by_somebody_who_is_gone_comes_back_when_its_lease_ends_and_dies_only_after_its_last_attempt() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({ "max_retries": 3, "visibility_timeout_ms": 500 }));
    client.push_texts(&queue, &["a"]);
    let path = format!("/client/v4/accounts/{}/queues/{queue}/messages/pull", api.account);
    for gone in 1..=3 {
        // The request is sent whole, and the socket is closed before the answer is read.
        let mut socket = connect(&api.server.url);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-length: 2\r\n\r\n{{}}",
            api.token
        );
        socket.write_all(head.as_bytes()).unwrap();
        drop(socket);
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!(client.backlog(&queue), 1, "after {gone} lost answers");
    }
    let messages = client.messages(&queue, json!({}));
    assert_eq!(messages[0]["attempts"], 4, "unseen deliveries count");
    assert_eq!(client.ack(&queue, &[lease(&messages[0])], &[]).result()["ackCount"], 1);
}

#[test]
fn messages_are_looked_at_without_a_lease_and_removed_by_what_the_look_gave() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    client.push_texts(&queue, &["a", "b", "c", "d", "e", "f"]);
    let peek = format!("/queues/{queue}/messages/peek");
    let purge = format!("/queues/{queue}/messages/purge");
    let looked = client.post(&peek, json!({}));
    let looked = looked.result()["messages"].as_array().unwrap().clone();
    assert_eq!(bodies(&looked), ["a", "b", "c", "d", "e"]);
    assert_eq!((&looked[0]["attempts"], looked[0].get("lease_id")), (&json!(0), None));
    assert_eq!(client.raw("POST", &peek, b"").result()["messages"].as_array().unwrap().len(), 5);
    let refs = json!({ "refs": [{ "ref": looked[1]["ref"] }, { "ref": looked[1]["ref"] }, { "ref": "garbage" }] });
    let removed = client.post(&purge, refs.clone());
    assert_eq!(removed.result()["errors"], json!([]));
    assert_eq!(removed.result()["warnings"].as_object().unwrap().len(), 1, "{removed:?}");
    assert_eq!(client.post(&purge, refs).result()["warnings"].as_object().unwrap().len(), 2, "it is gone already");
    let other = client.pulled("other", json!({}));
    let refs = json!({ "refs": [{ "ref": looked[0]["ref"] }] });
    let warned = client.post(&format!("/queues/{other}/messages/purge"), refs);
    assert_eq!(warned.result()["warnings"].as_object().unwrap().len(), 1, "a reference is good for its own queue");
    assert_eq!(bodies(&client.messages(&queue, json!({ "batch_size": 9 }))), ["a", "c", "d", "e", "f"]);
    for body in [json!({}), json!({ "refs": null }), json!({ "refs": [5] }), json!({ "refs": [{}] })] {
        assert_eq!(client.post(&purge, body.clone()).code(), 10_207, "{body}");
    }
}
