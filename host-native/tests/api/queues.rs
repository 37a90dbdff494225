//! Queues: made, listed, changed, emptied, deleted.

use serde_json::{Value, json};

use crate::client::{Api, Client};

fn patch(client: &mut Client, queue: &str, body: Value) -> crate::client::Said {
    client.raw("PATCH", &format!("/queues/{queue}"), body.to_string().as_bytes())
}

#[test]
fn a_queue_is_made_with_what_is_said_and_cloudflare_s_defaults_for_the_rest() {
    let api = Api::dev();
    let mut client = api.client();
    let made = client.post("/queues", json!({ "queue_name": "plain" }));
    let queue = made.result();
    assert_eq!(
        queue["settings"],
        json!({
            "delivery_delay": 0, "delivery_paused": false, "message_retention_period": 345_600
        })
    );
    assert_eq!((&queue["consumers"], &queue["consumers_total_count"]), (&json!([]), &json!(0)));
    assert_eq!((&queue["producers"], &queue["producers_total_count"]), (&json!([]), &json!(0)));
    let id = queue["queue_id"].as_str().unwrap();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert!(queue["created_on"].as_str().unwrap().ends_with('Z'));
    assert_eq!(client.get(&format!("/queues/{id}")).result(), queue);
    let settings = json!({ "delivery_delay": 10, "message_retention_period": 100, "delivery_paused": true });
    let made = client.post("/queues", json!({ "queue_name": "set", "settings": settings.clone() }));
    assert_eq!(made.result()["settings"], settings);
    let noted = client.post("/queues", json!({ "queue_name": "far", "jurisdiction": "eu" }));
    assert_eq!(noted.body["messages"].as_array().unwrap().len(), 1, "{noted:?}");
    let said = client.post("/queues", json!({ "queue_name": "plain" }));
    assert_eq!((said.status, said.code()), (409, 11_009));
}

#[test]
fn what_is_out_of_range_or_no_name_is_refused_with_the_range() {
    let api = Api::dev();
    let mut client = api.client();
    for (settings, range) in [
        (json!({ "delivery_delay": 99_999 }), "0 to 86400"),
        (json!({ "delivery_delay": -1 }), "0 to 86400"),
        (json!({ "message_retention_period": 0 }), "60 to 1209600"),
        (json!({ "message_retention_period": 1_209_601 }), "60 to 1209600"),
        (json!({ "message_retention_period": 1e99 }), "60 to 1209600"),
    ] {
        let said = client.post("/queues", json!({ "queue_name": "mail", "settings": settings }));
        assert_eq!((said.status, said.code()), (400, 100_128), "{said:?}");
        assert!(said.message().contains(range), "{said:?}");
    }
    for name in ["", "My Queue!!", "-a", "a-", "UPPER", "a_b", "é", &"a".repeat(64)] {
        let said = client.post("/queues", json!({ "queue_name": name }));
        assert_eq!(said.status, 400, "{name}");
    }
    for body in [json!({}), json!({ "queue_name": 5 }), json!({ "queue_name": "a", "settings": [] })] {
        assert_eq!(client.post("/queues", body.clone()).code(), 10_207, "{body}");
    }
    assert_eq!(client.post("/queues", json!({ "queue_name": "a", "jurisdiction": "moon" })).code(), 10_207);
    assert_eq!(client.get("/queues?name=mail").result(), &json!([]));
}

#[test]
fn a_patch_changes_what_it_names_and_a_put_replaces_all_but_the_consumer() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({ "max_retries": 7 }));
    patch(&mut client, &queue, json!({ "settings": { "delivery_delay": 5, "message_retention_period": 600 } }))
        .result();
    let paused = patch(&mut client, &queue, json!({ "queue_name": "mail", "settings": { "delivery_paused": true } }));
    let settings = json!({ "delivery_delay": 5, "delivery_paused": true, "message_retention_period": 600 });
    assert_eq!(paused.result()["settings"], settings, "pause flips one setting");
    let resumed = patch(&mut client, &queue, json!({ "settings": { "delivery_paused": false } }));
    assert_eq!(resumed.result()["settings"]["delivery_delay"], 5);
    assert_eq!(
        patch(&mut client, &queue, json!({ "settings": { "delivery_delay": 0 } })).result()["settings"]["delivery_delay"],
        0
    );
    assert_eq!(patch(&mut client, &queue, json!({})).result()["settings"]["message_retention_period"], 600);
    let said = patch(&mut client, &queue, json!({ "queue_name": "post", "settings": { "delivery_delay": 9 } }));
    assert_eq!((said.status, said.code()), (400, 10_207), "a queue keeps its name");
    let put = json!({ "queue_name": "mail", "settings": { "delivery_delay": 3 } });
    let put = client.raw("PUT", &format!("/queues/{queue}"), put.to_string().as_bytes());
    let settings = json!({ "delivery_delay": 3, "delivery_paused": false, "message_retention_period": 345_600 });
    assert_eq!(put.result()["settings"], settings);
    assert_eq!(put.result()["consumers"][0]["settings"]["max_retries"], 7);
}

#[test]
fn queues_are_listed_by_page_and_by_name() {
    let api = Api::dev();
    let mut client = api.client();
    for index in 0..25 {
        client.create(&format!("q{index:02}"));
    }
    let all = client.get("/queues");
    // And jobs, work, and their dead letters'.
    assert_eq!(
        all.body["result_info"],
        json!({
            "page": 1, "per_page": 100, "count": 29, "total_count": 29, "total_pages": 1
        })
    );
    let page = client.get("/queues?page=2&per_page=10");
    assert_eq!(
        page.body["result_info"],
        json!({
            "page": 2, "per_page": 10, "count": 10, "total_count": 29, "total_pages": 3
        })
    );
    let names = |said: &crate::client::Said| -> Vec<String> {
        let list = said.result().as_array().unwrap();
        list.iter().map(|queue| queue["queue_name"].as_str().unwrap().to_owned()).collect()
    };
    let mut paged = Vec::new();
    for page in 1..=4 {
        paged.extend(names(&client.get(&format!("/queues?page={page}&per_page=10"))));
    }
    assert_eq!(paged, names(&all));
    assert_eq!(names(&client.get("/queues?page=1&name=q03")), ["q03"]);
    assert_eq!(names(&client.get("/queues?name=q03&name=q07&name=nope")), ["q03", "q07"]);
    assert_eq!(names(&client.get("/queues?name=nope")), Vec::<String>::new());
    assert_eq!(names(&client.get("/queues?page=1000000")), Vec::<String>::new());
    for query in ["page=0", "page=-1", "page=x", "per_page=0", "per_page=1001", "page=99999999999999999999"] {
        assert_eq!(client.get(&format!("/queues?{query}")).status, 400, "{query}");
    }
    assert_eq!(client.get("/queues?direction=desc&unknown=%ff&&=").status, 200);
}

#[test]
fn a_purge_empties_a_queue_and_says_so_in_the_words_of_every_client() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let path = format!("/queues/{queue}/purge");
    let before = client.get(&path);
    assert_eq!((&before.result()["completed"], &before.result()["started_at"]), (&json!(""), &json!("")));
    client.push_texts(&queue, &["a", "b"]);
    let held = client.messages(&queue, json!({ "batch_size": 1 }));
    let said = client.post(&path, json!({ "delete_messages_permanently": false }));
    assert_eq!((said.status, client.backlog(&queue)), (400, 2));
    let purged = client.post(&path, json!({ "delete_messages_permanently": true }));
    assert_eq!((&purged.result()["queue_id"], &purged.result()["complete"]), (&json!(queue), &json!(true)));
    assert_eq!(client.backlog(&queue), 0);
    let after = client.get(&path);
    assert_eq!(
        (&after.result()["completed"], &after.result()["started_at"]),
        (&json!("true"), &purged.result()["started_at"])
    );
    client.push_texts(&queue, &["c"]);
    let said = client.ack(&queue, &[crate::client::lease(&held[0])], &[]);
    assert_eq!(
        (said.result()["ackCount"].as_u64(), client.backlog(&queue)),
        (Some(0), 1),
        "an old lease reaches nothing"
    );
    assert_eq!(client.get(&format!("/queues/{queue}")).result()["consumers_total_count"], 1, "its consumer stays");
}

#[test]
fn a_queue_that_is_deleted_is_gone_with_its_consumer_and_one_of_its_name_is_another() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    client.push_texts(&queue, &["a"]);
    let held = client.messages(&queue, json!({}));
    assert_eq!(client.raw("DELETE", &format!("/queues/{queue}"), b"").result(), &Value::Null);
    for (method, path) in
        [("GET", ""), ("DELETE", ""), ("GET", "/metrics"), ("GET", "/consumers"), ("POST", "/messages/pull")]
    {
        let said = client.raw(method, &format!("/queues/{queue}{path}"), b"");
        assert_eq!((said.status, said.code()), (404, 10_104), "{method} {path}");
    }
    let again = client.create("mail");
    assert_ne!(again, queue);
    assert_eq!(client.get(&format!("/queues/{again}/consumers")).result(), &json!([]));
    assert_eq!(client.ack(&again, &[crate::client::lease(&held[0])], &[]).result()["ackCount"], 0);
}

#[test]
fn an_id_that_is_none_and_one_that_is_nobody_s_are_told_apart() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.create("mail");
    for id in ["mail", "x", "%00", "..", queue.split_at(1).1, &format!("{queue}0"), "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"]
    {
        let said = client.get(&format!("/queues/{id}"));
        assert_eq!((said.status, said.code()), (400, 10_107), "{id}");
    }
    let said = client.get("/queues/00000000000000000000000000000000");
    assert_eq!((said.status, said.code()), (404, 10_104));
    assert_eq!(client.get(&format!("/queues/{}", queue.to_uppercase())).result()["queue_name"], "mail");
}

#[test]
fn what_is_sent_by_one_way_is_pulled_by_the_other_and_all_of_it_outlasts_a_kill() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.id_of("jobs");
    client
        .post(&format!("/queues/{queue}/consumers"), json!({ "type": "http_pull", "settings": { "batch_size": 7 } }))
        .result();
    api.server.send("jobs", "by POST");
    client.push_texts(&queue, &["by the API"]);
    let api = api.restarted();
    let mut client = api.client();
    assert_eq!(client.id_of("jobs"), queue);
    let shown = client.get(&format!("/queues/{queue}"));
    let consumer = &shown.result()["consumers"][0];
    assert_eq!(consumer["settings"]["batch_size"], 7, "the app does not overrule a consumer's own settings: {shown:?}");
    assert_eq!(consumer["dead_letter_queue"], "jobs-dead", "what the app said before it had one stays");
    let messages = client.messages(&queue, json!({}));
    // A POST without a content type is bytes.
    assert_eq!(crate::client::bodies(&messages), ["YnkgUE9TVA==", "by the API"]);
}
