//! Leases: who may settle what, how late, and what a lease id that is none does.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Api, bodies, lease};

#[test]
fn every_pull_gives_another_lease_id_and_the_message_s_own_id_and_time_stay() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.create("mail");
    let consumer = json!({
        "type": "http_pull",
        "settings": { "max_retries": 1, "visibility_timeout_ms": 0 },
        "dead_letter_queue": "mail-dead",
    });
    client.post(&format!("/queues/{queue}/consumers"), consumer).result();
    client.push_texts(&queue, &["a"]);
    let first = client.messages(&queue, json!({}))[0].clone();
    std::thread::sleep(Duration::from_millis(30));
    let second = client.messages(&queue, json!({}))[0].clone();
    assert!(client.messages(&queue, json!({})).is_empty(), "its attempts are spent");
    let dead = client.id_of("mail-dead");
    client.post(&format!("/queues/{dead}/consumers"), json!({ "type": "http_pull" })).result();
    let letter = client.messages(&dead, json!({}))[0].clone();
    for later in [&second, &letter] {
        assert_eq!((&later["id"], &later["timestamp_ms"]), (&first["id"], &first["timestamp_ms"]));
        assert_ne!(later["lease_id"], first["lease_id"]);
    }
    assert_ne!(letter["lease_id"], second["lease_id"]);
    let attempts = [&first, &second, &letter].map(|message| message["attempts"].as_u64().unwrap());
    assert_eq!(attempts, [1, 2, 1], "in the dead-letter queue they are counted anew");
    assert_eq!(letter["body"], "a");
}

#[test]
fn acks_may_come_in_parts_and_what_is_not_named_comes_back_with_an_attempt_more() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    client.push_texts(&queue, &["a", "b", "c", "d", "e"]);
    let held = client.messages(&queue, json!({ "visibility_timeout_ms": 1_500 }));
    assert_eq!(client.ack(&queue, &[lease(&held[1])], &[]).result()["ackCount"], 1);
    let said = client.ack(&queue, &[lease(&held[3]), lease(&held[4])], &[lease(&held[0])]);
    assert_eq!(said.result(), &json!({ "ackCount": 2, "retryCount": 1, "warnings": {} }));
    assert_eq!(bodies(&client.messages(&queue, json!({}))), ["a"], "a retry without delay is ready at once");
    std::thread::sleep(Duration::from_millis(1_600));
    let back = client.messages(&queue, json!({}));
    assert_eq!((bodies(&back), &back[0]["attempts"]), (vec!["c"], &json!(2)));
}

#[test]
fn an_ack_counts_however_late_and_a_late_retry_is_a_warning_and_disturbs_nobody() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    client.push_texts(&queue, &["a", "b"]);
    let old = client.messages(&queue, json!({ "visibility_timeout_ms": 1 }));
    std::thread::sleep(Duration::from_millis(20));
    let new = client.messages(&queue, json!({ "visibility_timeout_ms": 60_000 }));
    assert_eq!(bodies(&new), ["a", "b"]);
    let said = client.ack(&queue, &[], &[lease(&old[0])]);
    assert_eq!((said.result()["retryCount"].as_u64(), warnings(&said.body)), (Some(0), 1), "{said:?}");
    assert!(client.messages(&queue, json!({})).is_empty(), "the new lease is not cut");
    let said = client.ack(&queue, &[lease(&old[1])], &[]);
    assert_eq!(said.result()["ackCount"], 1, "though it is with somebody else now");
    let said = client.ack(&queue, &[lease(&new[0]), lease(&new[1])], &[]);
    assert_eq!(
        (said.result()["ackCount"].as_u64(), warnings(&said.body)),
        (Some(2), 0),
        "who has it now errs in nothing"
    );
    assert_eq!(client.backlog(&queue), 0);
}

#[test]
fn a_lease_that_is_none_is_a_warning_and_the_others_count() {
    let api = Api::dev();
    let mut client = api.client();
    let (queue, other) = (client.pulled("mail", json!({})), client.pulled("other", json!({})));
    client.push_texts(&queue, &["a", "b"]);
    client.push_texts(&other, &["x"]);
    let held = client.messages(&queue, json!({}));
    let foreign = client.messages(&other, json!({}))[0].clone();
    let id = held[0]["lease_id"].as_str().unwrap();
    let mut forged: Vec<String> = vec![
        String::new(),
        "x".into(),
        "\u{0}\u{1F600}".into(),
        id.to_uppercase(),
        format!("{id}="),
        format!("{id}A"),
        id.split_at(id.len() - 1).0.to_owned(),
        "A".repeat(id.len()),
        "A".repeat(500_000),
    ];
    // Each character of a real one changed: no other message's, and no other queue's, can be made of it.
    for (index, character) in id.char_indices() {
        let mut text = id.to_owned();
        text.replace_range(index..=index, if character == 'A' { "B" } else { "A" });
        forged.push(text);
    }
    let mut acks: Vec<Value> = forged.iter().map(|id| json!({ "lease_id": id })).collect();
    acks.push(lease(&foreign));
    acks.push(lease(&held[1]));
    let said = client.ack(&queue, &acks, &[]);
    assert_eq!(said.result()["ackCount"], 1, "{said:?}");
    assert_eq!(warnings(&said.body), forged.len() + 1);
    assert_eq!((client.backlog(&queue), client.backlog(&other)), (1, 1), "nothing else was settled");
    // And a reference is no lease.
    let looked = client.post(&format!("/queues/{queue}/messages/peek"), json!({}));
    let reference = looked.result()["messages"][0]["ref"].clone();
    assert_eq!(client.ack(&queue, &[json!({ "lease_id": reference })], &[]).result()["ackCount"], 0);
    assert_eq!(client.ack(&other, &[lease(&foreign)], &[]).result()["ackCount"], 1);
}

#[test]
fn an_id_that_is_named_twice_counts_once_and_as_an_ack_if_both_are_said() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    client.push_texts(&queue, &["a", "b", "c"]);
    let held = client.messages(&queue, json!({}));
    let (a, b, c) = (lease(&held[0]), lease(&held[1]), lease(&held[2]));
    let said = client.ack(&queue, &[a.clone(), a.clone()], &[a, b.clone(), b, c]);
    assert_eq!((said.result()["ackCount"].as_u64(), said.result()["retryCount"].as_u64()), (Some(1), Some(2)));
    assert_eq!(warnings(&said.body), 2, "{said:?}");
    let again = client.messages(&queue, json!({}));
    assert_eq!((bodies(&again), &again[0]["attempts"]), (vec!["b", "c"], &json!(2)));
}

#[test]
fn ten_thousand_ids_in_one_call_are_all_settled_and_one_more_is_refused_whole() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let mut held = Vec::new();
    for _ in 0..100 {
        client.push_texts(&queue, &["x"; 100]);
        held.extend(client.messages(&queue, json!({ "batch_size": 100, "visibility_timeout_ms": 600_000 })));
    }
    let ids: Vec<Value> = held.iter().map(lease).collect();
    let too_many: Vec<Value> = ids.iter().chain(&ids[..1]).cloned().collect();
    let said = client.ack(&queue, &too_many, &[]);
    assert_eq!((said.status, said.code()), (400, 10_207));
    assert_eq!(said.body["errors"][0]["limit"], 10_000);
    assert_eq!(client.backlog(&queue), 10_000);
    let mut shuffled = ids.clone();
    fastrand::shuffle(&mut shuffled);
    let said = client.ack(&queue, &shuffled[..9_000], &shuffled[9_000..]);
    assert_eq!(said.result(), &json!({ "ackCount": 9_000, "retryCount": 1_000, "warnings": {} }));
    assert_eq!(client.backlog(&queue), 1_000);
    let said = client.ack(&queue, &[], &ids);
    assert_eq!((said.result()["retryCount"].as_u64(), warnings(&said.body)), (Some(0), 10_000), "old ids");
    let said = client.ack(&queue, &ids, &[]);
    assert_eq!((said.result()["ackCount"].as_u64(), warnings(&said.body)), (Some(1_000), 9_000));
    assert_eq!(client.backlog(&queue), 0);
}

#[test]
fn an_ack_of_nothing_is_one_and_what_cannot_be_read_settles_nothing() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    client.push_texts(&queue, &["a"]);
    let held = client.messages(&queue, json!({}));
    let path = format!("/queues/{queue}/messages/ack");
    for body in ["", "{}", r#"{"acks":[],"retries":null}"#, r#"{"unknown":{"x":[1]}}"#] {
        let said = client.raw("POST", &path, body.as_bytes());
        assert_eq!(said.result(), &json!({ "ackCount": 0, "retryCount": 0, "warnings": {} }), "{body}");
    }
    for (acks, retries, pointer) in
        [(json!({ "lease_id": "x" }), json!([]), "/acks"), (json!([]), json!("x"), "/retries")]
    {
        let said = client.post(&path, json!({ "acks": acks, "retries": retries }));
        assert_eq!(said.status, 400, "{said:?}");
        assert_eq!(said.body["errors"][0]["source"]["pointer"], pointer, "{said:?}");
    }
    assert_eq!(client.backlog(&queue), 1);
    assert_eq!(client.ack(&queue, &[lease(&held[0])], &[]).result()["ackCount"], 1);
}

#[test]
fn an_entry_that_cannot_be_read_is_a_warning_and_the_others_count() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let path = format!("/queues/{queue}/messages/ack");
    for (acks, retries, pointer) in [
        (json!([5]), json!([]), "/acks/0"),
        (json!([{ "lease": "x" }]), json!([]), "/acks/0"),
        (json!([{ "lease_id": 5 }]), json!([]), "/acks/0"),
        (json!([]), json!([{ "lease_id": "x", "delay_seconds": 86_401 }]), "/retries/0"),
        (json!([]), json!([{ "lease_id": "x", "delay_seconds": -1 }]), "/retries/0"),
        (json!([]), json!([{ "lease_id": "x", "delay_seconds": 1.5 }]), "/retries/0"),
        (json!([]), json!([{ "lease_id": "x", "delay_seconds": u64::MAX }]), "/retries/0"),
    ] {
        client.push_texts(&queue, &["a"]);
        let held = client.messages(&queue, json!({}));
        let acks: Vec<Value> = acks.as_array().unwrap().iter().cloned().chain([lease(&held[0])]).collect();
        let said = client.post(&path, json!({ "acks": acks, "retries": retries }));
        assert_eq!((said.status, &said.result()["ackCount"]), (200, &json!(1)), "{said:?}");
        let warning = said.result()["warnings"][pointer].as_str().unwrap_or_default();
        assert!(warning.ends_with("it changes nothing"), "{pointer}: {said:?}");
    }
    assert_eq!(client.backlog(&queue), 0);
}

fn warnings(body: &Value) -> usize {
    body["result"]["warnings"].as_object().unwrap().len()
}
