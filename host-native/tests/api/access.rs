//! Who may ask: tokens, their scopes, queues and ends; accounts; and no page in a browser.

use std::process::Command;

use serde_json::{Value, json};

use crate::client::{APP, Api, Client, lease};
use crate::support::{Server, folder, jadpo, request};

fn made(dir: &std::path::Path, args: &[&str]) -> Value {
    let output = jadpo(dir, &[&["tokens", "create", "--json"], args].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Makes a token with the command that a person uses.
fn token(dir: &std::path::Path, args: &[&str]) -> (String, String) {
    let made = made(dir, args);
    (made["secret"].as_str().unwrap().to_owned(), made["account"].as_str().unwrap().to_owned())
}

#[test]
fn in_production_only_a_token_of_the_store_counts_and_only_for_its_account() {
    let dir = folder(APP);
    let (secret, account) = token(dir.path(), &["all"]);
    let server = Server::serve(dir.path(), &[], &[]);
    let place = server.beside(async |broker| broker.api_place().await).unwrap();
    assert_eq!(place.account, account);
    assert_eq!(made(dir.path(), &["later"])["url"], server.url, "it is said where the server answers");
    let mut client = Client::new(&server.url, &account, &secret);
    let queue = client.pulled("mail", json!({}));
    client.push_texts(&queue, &["a"]);
    let held = client.messages(&queue, json!({}));
    assert_eq!(client.ack(&queue, &[lease(&held[0])], &[]).result()["ackCount"], 1);
    let cut = secret.split_at(secret.len() - 1).0;
    for wrong in
        ["", "x", cut, &format!("{secret}x"), &secret.to_uppercase(), &place.dev_token, "jadpo__", "jadpo_dev_"]
    {
        let mut client = Client::new(&server.url, &account, wrong);
        for path in ["/queues", &format!("/queues/{queue}"), &format!("/queues/{queue}/metrics")] {
            let said = client.get(path);
            assert_eq!((said.status, said.code()), (401, 10_000), "{wrong} {path}");
        }
        let said = client.pull(&queue, json!({}));
        assert_eq!((said.status, said.code()), (401, 10_000), "{wrong}");
    }
    let mut elsewhere = Client::new(&server.url, "00000000000000000000000000000000", &secret);
    let said = elsewhere.get("/queues");
    assert_eq!((said.status, said.code()), (403, 10_106));
    assert!(said.message().contains(&account), "it says which one is right: {said:?}");
    let mut shouting = Client::new(&server.url, &account.to_uppercase(), &secret);
    assert_eq!(shouting.get("/queues").status, 200);
    let logged = format!("{:?}", server.log());
    assert!(!logged.contains(&secret) && !logged.contains(&place.dev_token), "no token is in the log");
}

#[test]
fn a_token_does_what_its_scopes_say_and_to_take_messages_it_needs_both() {
    let dir = folder(APP);
    let (all, account) = token(dir.path(), &["all"]);
    let (reader, _) = token(dir.path(), &["reader", "--scopes", "read"]);
    let (writer, _) = token(dir.path(), &["writer", "--scopes", "write"]);
    let server = Server::serve(dir.path(), &[], &[]);
    let mut all = Client::new(&server.url, &account, &all);
    let queue = all.pulled("mail", json!({}));
    all.push_texts(&queue, &["a"]);
    let held = all.messages(&queue, json!({}));
    let ack = json!({ "acks": [lease(&held[0])] });
    let path = |rest: &str| format!("/queues/{queue}{rest}");
    let message = json!({ "body": 1 });
    let calls: [(&str, String, Value, bool, bool); 12] = [
        ("GET", "/queues".into(), Value::Null, true, false),
        ("GET", path(""), Value::Null, true, false),
        ("GET", path("/metrics"), Value::Null, true, false),
        ("GET", path("/consumers"), Value::Null, true, false),
        ("GET", path("/purge"), Value::Null, true, false),
        ("POST", path("/messages/peek"), json!({}), true, false),
        ("POST", path("/messages"), message, false, true),
        ("PATCH", path(""), json!({}), false, true),
        ("POST", "/queues".into(), json!({ "queue_name": "made" }), false, true),
        ("POST", path("/messages/pull"), json!({}), false, false),
        ("POST", path("/messages/ack"), ack.clone(), false, false),
        ("POST", path("/purge"), json!({}), false, true),
    ];
    for (token, index) in [(&reader, 0), (&writer, 1)] {
        let mut client = Client::new(&server.url, &account, token);
        for (method, path, body, reads, writes) in &calls {
            let body = if body.is_null() { String::new() } else { body.to_string() };
            let said = client.raw(method, path, body.as_bytes());
            if [*reads, *writes][index] {
                assert_eq!(said.status, 200, "{method} {path} {said:?}");
            } else {
                assert_eq!((said.status, said.code()), (403, 10_106), "{method} {path} {said:?}");
                assert!(said.message().contains(if index == 0 { "write" } else { "read" }), "{said:?}");
            }
        }
    }
}

#[test]
fn a_token_for_one_queue_reaches_no_other_and_makes_none() {
    let dir = folder(APP);
    let (all, account) = token(dir.path(), &["all"]);
    let (own, _) = token(dir.path(), &["own", "--queue", "mail", "--queue", "later"]);
    let server = Server::serve(dir.path(), &[], &[]);
    let mut all = Client::new(&server.url, &account, &all);
    let (mail, other) = (all.pulled("mail", json!({})), all.pulled("other", json!({})));
    all.push_texts(&other, &["x"]);
    let foreign = all.messages(&other, json!({}));
    let mut own = Client::new(&server.url, &account, &own);
    own.push_texts(&mail, &["a"]);
    assert_eq!(own.messages(&mail, json!({})).len(), 1);
    for (method, path) in
        [("GET", ""), ("DELETE", ""), ("POST", "/messages/pull"), ("GET", "/consumers"), ("POST", "/purge")]
    {
        let said = own.raw(method, &format!("/queues/{other}{path}"), b"");
        assert_eq!((said.status, said.code()), (403, 10_106), "{method} {path}");
    }
    assert_eq!(own.ack(&mail, &[lease(&foreign[0])], &[]).result()["ackCount"], 0, "nor by a lease of the other's");
    for dead in ["other", "made-by-dying"] {
        let consumer = json!({ "type": "http_pull", "dead_letter_queue": dead });
        let id = own.get(&format!("/queues/{mail}/consumers")).result()[0]["consumer_id"].as_str().unwrap().to_owned();
        let said = own.raw("PUT", &format!("/queues/{mail}/consumers/{id}"), consumer.to_string().as_bytes());
        assert_eq!((said.status, said.code()), (403, 10_106), "to {dead}, where dead letters would go");
    }
    assert_eq!(own.post("/queues", json!({ "queue_name": "later" })).code(), 10_106);
    let listed = own.get("/queues");
    assert_eq!((listed.result().as_array().unwrap().len(), &listed.result()[0]["queue_name"]), (1, &json!("mail")));
    assert_eq!(listed.body["result_info"]["total_count"], 1);
    all.create("later");
    assert_eq!(own.get("/queues").result().as_array().unwrap().len(), 2, "a queue may be made after its token");
}

#[test]
fn a_token_that_was_revoked_or_has_expired_is_good_for_nothing_at_once() {
    let dir = folder(APP);
    let (secret, account) = token(dir.path(), &["gone"]);
    let (short, _) = token(dir.path(), &["short", "--expires", "1200ms"]);
    let server = Server::serve(dir.path(), &[], &[]);
    let mut client = Client::new(&server.url, &account, &secret);
    let mut expiring = Client::new(&server.url, &account, &short);
    assert_eq!(client.get("/queues").status, 200);
    let output = jadpo(dir.path(), &["tokens", "revoke", "gone"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(client.get("/queues").status, 401);
    std::thread::sleep(std::time::Duration::from_millis(1_300));
    assert_eq!(expiring.get("/queues").status, 401);
    let listed = jadpo(dir.path(), &["tokens"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("short") && listed.contains("expired") && listed.contains(&account), "{listed}");
    assert!(!listed.contains("gone") && !listed.contains(&short), "{listed}");
    assert_eq!(jadpo(dir.path(), &["tokens", "revoke", "gone"]).status.code(), Some(2));
    assert_eq!(jadpo(dir.path(), &["tokens", "create", "short"]).status.code(), Some(2), "a name is taken once");
    let again = token(dir.path(), &["gone"]).0;
    assert_ne!(again, secret);
    assert_eq!(client.get("/queues").status, 401, "a new token of an old name is another");
}

#[test]
fn the_store_s_file_holds_no_token() {
    let dir = folder(APP);
    let (secret, _) = token(dir.path(), &["all"]);
    let server = Server::serve(dir.path(), &[], &[]);
    assert_eq!(server.stop("TERM"), Some(0));
    let part = secret.splitn(3, '_').nth(2).unwrap().as_bytes();
    for entry in std::fs::read_dir(dir.path().join(".jadpo")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(part.len()).any(|window| window == part));
    }
}

#[test]
fn in_development_the_printed_token_does_for_any_account_and_is_the_same_the_next_time() {
    let api = Api::dev();
    for account in [api.account.as_str(), "023e105f4ecef8ad9ca31a8372d0c353", "anything-goes"] {
        let mut client = Client::new(&api.server.url, account, &api.token);
        assert_eq!(client.get("/queues").status, 200, "{account}");
        assert_eq!(client.get("").result()["id"], account);
    }
    for wrong in ["", "x", "jadpo_dev_"] {
        assert_eq!(Client::new(&api.server.url, &api.account, wrong).get("/queues").status, 401, "{wrong}");
    }
    let token = api.token.clone();
    let api = api.restarted();
    assert_eq!(api.token, token);
    let other = Api::dev();
    assert_ne!(other.token, token);
    assert_eq!(Client::new(&other.server.url, &other.account, &token).get("/queues").status, 401);
}

#[test]
fn a_page_in_a_browser_is_refused_in_development_even_with_the_token() {
    let api = Api::dev();
    let path = format!("/client/v4/accounts/{}/queues", api.account);
    let bearer = format!("Bearer {}", api.token);
    let ask = |more: &[(&str, &str)]| {
        let headers = [&[("authorization", bearer.as_str())], more].concat();
        request(&api.server.url, "GET", &path, &headers, b"")
    };
    assert_eq!(ask(&[]).status, 200);
    let reply = ask(&[("origin", "http://evil.example")]);
    assert_eq!((reply.status, &reply.json()["success"]), (403, &json!(false)));
}

#[test]
fn what_clients_look_at_before_they_begin_is_there() {
    let api = Api::dev();
    let mut client = api.client();
    let verified = client.at("GET", "/client/v4/user/tokens/verify", b"");
    assert_eq!(verified.result()["status"], "active");
    let accounts = client.at("GET", "/client/v4/accounts", b"");
    assert_eq!(accounts.result()[0]["id"], api.account.as_str());
    let memberships = client.at("GET", "/client/v4/memberships", b"");
    assert_eq!(memberships.result()[0]["account"]["id"], api.account.as_str());
    assert_eq!(client.at("GET", "/client/v4/user", b"").status, 200);
    let subscriptions = client.get("/event_subscriptions/subscriptions?page=1&per_page=20");
    assert_eq!((subscriptions.result(), &subscriptions.body["result_info"]["total_count"]), (&json!([]), &json!(0)));
    let said = client.post("/event_subscriptions/subscriptions", json!({ "name": "x" }));
    assert!(said.status == 400 && said.message().contains("Cloudflare's products"), "{said:?}");
    assert_eq!(client.get("/event_subscriptions/subscriptions/x").status, 404);
}

#[test]
fn curl_pulls_as_the_documentation_shows() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    client.push(&queue, json!({ "body": "hello" })).result();
    let url = format!("{}/client/v4/accounts/{}/queues/{queue}/messages/pull", api.server.url, api.account);
    let output = Command::new("curl")
        .args(["-sS", &url, "--header", &format!("Authorization: Bearer {}", api.token)])
        .args(["--header", "Content-Type: application/json"])
        .args(["--data", r#"{ "visibility_timeout_ms": 10000, "batch_size": 2 }"#])
        .output()
        .unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!((&said["success"], &said["result"]["messages"][0]["body"]), (&json!(true), &json!("ImhlbGxvIg==")));
}
