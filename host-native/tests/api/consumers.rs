//! Consumers: one for each queue, and what is set for them.

use serde_json::{Value, json};

use crate::client::Api;

#[test]
fn a_consumer_is_added_shown_changed_and_removed() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.create("mail");
    let path = format!("/queues/{queue}/consumers");
    let added = client.post(&path, json!({ "type": "http_pull" })).result().clone();
    assert_eq!(
        added["settings"],
        json!({
            "batch_size": 5, "max_retries": 3, "retry_delay": 0, "visibility_timeout_ms": 30_000
        }),
        "what is left out is the default, and not 0"
    );
    assert_eq!(
        (&added["type"], &added["queue_name"], &added["dead_letter_queue"]),
        (&json!("http_pull"), &json!("mail"), &json!(""))
    );
    let id = added["consumer_id"].as_str().unwrap();
    let one = format!("{path}/{id}");
    assert_eq!(client.get(&one).result(), &added);
    assert_eq!(client.get(&path).result(), &json!([added]));
    assert_eq!(client.get(&format!("/queues/{queue}")).result()["consumers"], json!([added]));
    let put = json!({
        "type": "http_pull", "dead_letter_queue": "dead",
        "settings": { "batch_size": 9, "max_retries": 0, "retry_delay": 60, "visibility_timeout_ms": 6_000 },
    });
    let put = client.raw("PUT", &one, put.to_string().as_bytes()).result().clone();
    assert_eq!(
        put["settings"],
        json!({
            "batch_size": 9, "max_retries": 0, "retry_delay": 60, "visibility_timeout_ms": 6_000
        })
    );
    assert_eq!((&put["dead_letter_queue"], &put["consumer_id"]), (&json!("dead"), &json!(id)));
    let put = client.raw("PUT", &one, br#"{"type":"http_pull"}"#);
    assert_eq!(put.result()["settings"], added["settings"], "a replacement leaves nothing of what was");
    assert_eq!(put.result()["dead_letter_queue"], "");
    assert_eq!(client.raw("DELETE", &one, b"").result(), &Value::Null);
    assert_eq!(client.raw("DELETE", &one, b"").status, 404);
    assert_eq!((client.get(&one).status, client.get(&path).result()), (404, &json!([])));
}

#[test]
fn a_worker_goes_by_both_names_that_clients_look_for() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.create("mail");
    let path = format!("/queues/{queue}/consumers");
    let worker = json!({
        "type": "worker", "script_name": "mailer", "environment_name": "",
        "settings": { "max_wait_time_ms": 250, "max_concurrency": 5 }, "dead_letter_queue": "dead",
    });
    let added = client.post(&path, worker).result().clone();
    assert_eq!(
        (&added["script"], &added["script_name"], added.get("environment")),
        (&json!("mailer"), &json!("mailer"), None)
    );
    assert_eq!(
        added["settings"],
        json!({
            "batch_size": 10, "max_concurrency": 5, "max_retries": 3, "max_wait_time_ms": 250, "retry_delay": 0
        }),
        "milliseconds are milliseconds"
    );
    let one = format!("{path}/{}", added["consumer_id"].as_str().unwrap());
    let put = json!({ "type": "worker", "script": "mailer", "settings": { "max_wait_time_ms": 5_000, "max_concurrency": null } });
    let put = client.raw("PUT", &one, put.to_string().as_bytes());
    assert_eq!(
        (&put.result()["settings"]["max_wait_time_ms"], &put.result()["settings"]["max_concurrency"]),
        (&json!(5_000), &Value::Null)
    );
    let said = client.raw("PUT", &one, br#"{"type":"http_pull"}"#);
    assert_eq!((said.status, said.code()), (409, 11_004), "a consumer does not become another one");
    client.raw("DELETE", &one, b"").result();
    assert_eq!(client.get(&format!("/queues/{queue}")).result()["consumers_total_count"], 0);
}

#[test]
fn a_put_of_a_consumer_that_is_not_there_adds_it_under_its_id() {
    let api = Api::dev();
    let mut client = api.client();
    let (queue, other) = (client.create("mail"), client.create("other"));
    let id = "0123456789abcdef0123456789ABCDEF";
    let added = client.raw("PUT", &format!("/queues/{queue}/consumers/{id}"), br#"{"type":"http_pull"}"#);
    assert_eq!(added.result()["consumer_id"], id.to_lowercase());
    let elsewhere = client.raw("PUT", &format!("/queues/{other}/consumers/{id}"), br#"{"type":"http_pull"}"#);
    assert_ne!(elsewhere.result()["consumer_id"], id.to_lowercase(), "no two have one id");
    let another = "ffffffffffffffffffffffffffffffff";
    let said = client.raw("PUT", &format!("/queues/{queue}/consumers/{another}"), br#"{"type":"http_pull"}"#);
    assert_eq!((said.status, said.code()), (409, 11_004));
    assert_eq!(client.raw("PUT", &format!("/queues/{queue}/consumers/x"), br#"{"type":"http_pull"}"#).status, 400);
}

#[test]
fn a_second_consumer_is_refused_and_both_are_named_also_where_the_app_is_the_first() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let path = format!("/queues/{queue}/consumers");
    let said = client.post(&path, json!({ "type": "worker", "script_name": "mailer" }));
    assert_eq!((said.status, said.code()), (409, 11_004));
    for part in ["`mail`", "an http_pull consumer", "the Worker `mailer`"] {
        assert!(said.message().contains(part), "{said:?}");
    }
    let work = client.id_of("work");
    let path = format!("/queues/{work}/consumers");
    let said = client.post(&path, json!({ "type": "http_pull" }));
    assert_eq!((said.status, said.code()), (409, 11_004));
    assert!(said.message().contains("the app's function `go`"), "{said:?}");
    let shown = client.get(&path);
    let own = &shown.result()[0];
    assert_eq!((&own["type"], &own["script"]), (&json!("worker"), &json!("go")));
    let said = client.raw("DELETE", &format!("{path}/{}", own["consumer_id"].as_str().unwrap()), b"");
    assert_eq!(said.status, 409, "the app says what consumes it");
}

#[test]
fn an_app_that_handles_a_queue_which_somebody_pulls_does_not_start() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.id_of("jobs");
    client.post(&format!("/queues/{queue}/consumers"), json!({ "type": "http_pull" })).result();
    let Api { server, dir, .. } = api;
    drop(server);
    let app = crate::client::APP.replace(r#"queue: "jobs" }"#, r#"queue: "jobs", functions: [go] }"#);
    std::fs::write(dir.path().join("app.jadpo"), app).unwrap();
    let output = crate::support::jadpo(dir.path(), &["dev", "--listen", "127.0.0.1:0"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    for part in ["`jobs`", "an http_pull consumer", "the app's function `go`"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn what_a_consumer_cannot_be_is_refused() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.create("mail");
    let path = format!("/queues/{queue}/consumers");
    for (body, code) in [
        (json!({}), 10_207),
        (json!({ "type": "r2_bucket" }), 10_207),
        (json!({ "type": 5 }), 10_207),
        (json!({ "type": "worker" }), 10_207),
        (json!({ "type": "http_pull", "settings": 5 }), 10_207),
        (json!({ "type": "http_pull", "settings": { "max_retries": "3" } }), 10_207),
        (json!({ "type": "http_pull", "settings": { "max_retries": 101 } }), 100_127),
        (json!({ "type": "http_pull", "settings": { "max_retries": -1 } }), 100_127),
        (json!({ "type": "http_pull", "settings": { "batch_size": 0 } }), 100_127),
        (json!({ "type": "http_pull", "settings": { "batch_size": 101 } }), 100_127),
        (json!({ "type": "http_pull", "settings": { "visibility_timeout_ms": 43_200_001 } }), 100_127),
        (json!({ "type": "http_pull", "settings": { "retry_delay": 86_401 } }), 100_127),
        (json!({ "type": "worker", "script_name": "a", "settings": { "max_wait_time_ms": 60_001 } }), 100_127),
        (json!({ "type": "worker", "script_name": "a", "settings": { "max_wait_time_ms": 0.5 } }), 100_127),
        (json!({ "type": "worker", "script_name": "a", "settings": { "max_concurrency": 0 } }), 100_127),
        (json!({ "type": "worker", "script_name": "a", "settings": { "max_concurrency": 251 } }), 100_127),
        (json!({ "type": "http_pull", "dead_letter_queue": "mail" }), 100_127),
        (json!({ "type": "http_pull", "dead_letter_queue": 5 }), 10_207),
    ] {
        let said = client.post(&path, body.clone());
        assert_eq!((said.status, said.code()), (400, code), "{body} {said:?}");
    }
    for body in [
        json!({ "type": "http_pull", "dead_letter_queue": "Not A Name" }),
        json!({ "type": "worker", "script_name": "" }),
        json!({ "type": "worker", "script_name": "a\nb" }),
        json!({ "type": "worker", "script_name": "a".repeat(201) }),
    ] {
        assert_eq!(client.post(&path, body.clone()).status, 400, "{body}");
    }
    assert_eq!(client.get(&path).result(), &json!([]));
}

#[test]
fn a_message_whose_retries_are_spent_goes_to_the_dead_letter_queue_or_is_dropped_and_told_of() {
    let api = Api::dev();
    let mut client = api.client();
    for (max_retries, deliveries) in [(3, 4), (1, 2), (0, 1)] {
        for dead in [true, false] {
            let name = format!("q{max_retries}-{dead}");
            let letters = format!("{name}-dead");
            let queue = client.create(&name);
            let mut consumer = json!({ "type": "http_pull", "settings": { "max_retries": max_retries } });
            if dead {
                consumer["dead_letter_queue"] = json!(letters);
            }
            client.post(&format!("/queues/{queue}/consumers"), consumer).result();
            client.push_texts(&queue, &["x"]);
            let mut seen = 0;
            let mut id = Value::Null;
            while let [message] = client.messages(&queue, json!({})).as_slice() {
                seen += 1;
                id = message["id"].clone();
                assert_eq!(message["attempts"], seen);
                client.ack(&queue, &[], &[crate::client::lease(message)]).result();
            }
            assert_eq!((seen, client.backlog(&queue)), (deliveries, 0), "{name}");
            if dead {
                let queue = client.id_of(&letters);
                client.post(&format!("/queues/{queue}/consumers"), json!({ "type": "http_pull" })).result();
                let message = client.messages(&queue, json!({}))[0].clone();
                assert_eq!((&message["id"], &message["attempts"], &message["body"]), (&id, &json!(1), &json!("x")));
            } else {
                let logged = api.server.logged("queue.dropped");
                assert_eq!(logged["queue"], name.as_str());
            }
        }
    }
}
