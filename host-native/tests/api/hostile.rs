//! Whatever a client sends: an answer in the envelope, never a 500, and a server that goes on.

use serde_json::json;

use crate::client::{Api, Client, bodies};
use crate::support::{raw, request};

/// Every address that takes a body.
fn addresses(queue: &str, consumer: &str) -> Vec<(&'static str, String)> {
    let of = |rest: &str| format!("/queues/{queue}{rest}");
    vec![
        ("POST", "/queues".to_owned()),
        ("PATCH", of("")),
        ("PUT", of("")),
        ("POST", of("/messages")),
        ("POST", of("/messages/batch")),
        ("POST", of("/messages/pull")),
        ("POST", of("/messages/ack")),
        ("POST", of("/messages/peek")),
        ("POST", of("/messages/purge")),
        ("POST", of("/purge")),
        ("POST", of("/consumers")),
        ("PUT", of(&format!("/consumers/{consumer}"))),
    ]
}

const NUMBERS: [&str; 14] = [
    "-1",
    "-0",
    "0.1",
    "1e309",
    "-1e309",
    "1e-400",
    "4294967296",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "00",
    "99999999999999999999999999999999999999999999999999",
];
const VALUES: [&str; 10] =
    ["null", "true", "\"5\"", "\"\"", "[]", "{}", "[[[]]]", "{\"a\":{\"b\":[1]}}", "\"\\ud800\"", "\"\\u0000\""];
const FIELDS: [&str; 22] = [
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
    "queue_name",
    "settings",
    "delivery_delay",
    "message_retention_period",
    "delivery_paused",
    "type",
    "script_name",
    "dead_letter_queue",
    "max_retries",
    "delete_messages_permanently",
    "jurisdiction",
];

#[test]
fn no_number_no_type_and_no_field_is_too_much_for_any_address() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let consumer = client.get(&format!("/queues/{queue}/consumers")).result()[0]["consumer_id"].clone();
    for (method, path) in addresses(&queue, consumer.as_str().unwrap()) {
        for value in NUMBERS.iter().chain(&VALUES) {
            client.raw(method, &path, value.as_bytes());
            for field in FIELDS {
                let plain = format!(r#"{{"{field}":{value},"queue_name":"mail","type":"http_pull"}}"#);
                let said = client.raw(method, &path, plain.as_bytes());
                assert!(said.status < 500, "{method} {path} {plain} {said:?}");
                let deep = format!(
                    r#"{{"type":"http_pull","settings":{{"{field}":{value}}},"messages":[{{"body":1,"{field}":{value}}}],
                    "acks":[{{"lease_id":"x","{field}":{value}}}],"retries":[{{"lease_id":"x","{field}":{value}}}],
                    "refs":[{{"ref":"x","{field}":{value}}}],"unknown":{value}}}"#
                );
                let said = client.raw(method, &path, deep.as_bytes());
                assert!(said.status < 500, "{method} {path} {deep} {said:?}");
            }
        }
    }
    assert_eq!(client.get(&format!("/queues/{queue}")).status, 200, "it goes on");
}

#[test]
fn json_may_be_as_deep_as_it_is_long_and_is_kept_as_it_is() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    for depth in [200, 60_000] {
        let nested = "[".repeat(depth) + &"]".repeat(depth);
        let body = format!(r#"{{"body":{nested}}}"#);
        client.raw("POST", &format!("/queues/{queue}/messages"), body.as_bytes()).result();
    }
    assert_eq!(client.messages(&queue, json!({})).len(), 2);
    let bomb = "[".repeat(1_000_000);
    let map = r#"{"a":"#.repeat(300_000);
    let unknown = format!(r#"{{"unknown":{}{}}}"#, "[".repeat(500_000), "]".repeat(500_000));
    for (method, path) in addresses(&queue, "00000000000000000000000000000000") {
        for body in [&bomb, &map, &unknown] {
            let said = client.raw(method, &path, body.as_bytes());
            assert!(said.status < 500, "{method} {path} {said:?}");
        }
    }
}

#[test]
fn a_body_that_is_too_large_is_refused_with_its_size_and_one_that_is_only_announced_too() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let large = vec![b' '; 2_500_000];
    for (method, path) in addresses(&queue, "00000000000000000000000000000000") {
        let mut client = api.client();
        let said = client.raw(method, &path, &large);
        assert_eq!(said.status, 413, "{method} {path}");
        let error = &said.body["errors"][0];
        assert_eq!((&error["limit"], &error["actual"]), (&json!(2_000_000), &json!(2_500_000)));
    }
    let path = format!("/client/v4/accounts/{}/queues/{queue}/messages", api.account);
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nexpect: 100-continue\r\n\
         connection: close\r\ncontent-length: 99999999999\r\n\r\n",
        api.token
    );
    let answer = String::from_utf8_lossy(&raw(&api.server.url, head.as_bytes())).into_owned();
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains(r#""success":false"#), "{answer}");
    assert_eq!(client.backlog(&queue), 0);
}

#[test]
fn an_address_that_is_none_and_a_method_that_it_does_not_take_are_told_in_the_envelope() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.create("mail");
    for path in [
        "/client/v4",
        "/client/v4/",
        "/client/v4/zones",
        &format!("/client/v4/accounts/{}/workers", api.account),
        &format!("/client/v4/accounts/{}/queues/{queue}/nope", api.account),
        &format!("/client/v4/accounts/{}/queues/{queue}/messages/pull/more", api.account),
        &format!("/client/v4/accounts/{}/queues/{queue}/consumers/a/b", api.account),
        "/client/v4/%2e%2e/%2e%2e",
    ] {
        let said = client.at("GET", path, b"");
        assert_eq!((said.status, said.code()), (404, 7_003), "{path}");
    }
    for (method, path, allow) in [
        ("GET", "/messages/pull", "POST"),
        ("PUT", "/messages/ack", "POST"),
        ("DELETE", "/metrics", "GET"),
        ("POST", "", "GET, PUT, PATCH, DELETE"),
        ("PATCH", "/consumers/00000000000000000000000000000000", "GET, PUT, DELETE"),
        ("BREW", "/purge", "GET, POST"),
        ("OPTIONS", "/messages", "POST"),
    ] {
        let said = client.raw(method, &format!("/queues/{queue}{path}"), b"");
        assert_eq!(said.status, 405, "{method} {path}");
        assert!(said.head.to_lowercase().contains(&format!("allow: {}", allow.to_lowercase())), "{said:?}");
    }
}

#[test]
fn an_authorization_header_may_be_anything() {
    let api = Api::dev();
    let path = format!("/client/v4/accounts/{}/queues", api.account);
    let long = format!("Bearer {}", "x".repeat(20_000));
    for value in
        ["", "Bearer", "Bearer ", "Basic abc", "bearer  x", "Bearer jadpo_a_b", "Bearer \u{e9}", &long, "Bearer a b c"]
    {
        let reply = request(&api.server.url, "GET", &path, &[("authorization", value)], b"");
        assert_eq!((reply.status, &reply.json()["success"]), (401, &json!(false)), "{value}");
    }
    let shouted = format!("bEARER   {} ", api.token);
    assert_eq!(request(&api.server.url, "GET", &path, &[("authorization", &shouted)], b"").status, 200);
}

#[test]
fn what_is_random_is_refused_or_done_and_nothing_falls() {
    let api = Api::dev();
    let mut client = api.client();
    let queue = client.pulled("mail", json!({}));
    let paths = addresses(&queue, "00000000000000000000000000000000");
    let mut rng = fastrand::Rng::with_seed(20_261_130);
    let seeds: [&[u8]; 5] = [
        br#"{"batch_size":5,"visibility_timeout_ms":1}"#,
        br#"{"acks":[{"lease_id":"x"}],"retries":[{"lease_id":"y","delay_seconds":1}]}"#,
        br#"{"messages":[{"body":{"a":[1,2]},"content_type":"json"},{"body":"x","content_type":"text"}],"delay_seconds":1}"#,
        br#"{"type":"http_pull","settings":{"batch_size":1,"max_retries":2},"dead_letter_queue":"dead"}"#,
        br#"{"queue_name":"mail","settings":{"delivery_delay":1,"delivery_paused":false}}"#,
    ];
    for _ in 0..3_000 {
        let mut body = seeds[rng.usize(..seeds.len())].to_vec();
        for _ in 0..rng.usize(..6) {
            let at = rng.usize(..body.len());
            match rng.u8(..3) {
                0 => body[at] = rng.u8(..),
                1 => drop(body.remove(at)),
                _ => body.insert(at, b"{}[]\",:0-e\\u"[rng.usize(..12)]),
            }
            if body.is_empty() {
                break;
            }
        }
        let (method, path) = &paths[rng.usize(..paths.len())];
        let said = client.raw(method, path, &body);
        assert!(said.status < 500, "{method} {path} {:?} {said:?}", String::from_utf8_lossy(&body));
    }
    let mut client = Client::new(&api.server.url, &api.account, &api.token);
    let last = client.pulled("last", json!({}));
    client.push_texts(&last, &["still here"]);
    assert_eq!(bodies(&client.messages(&last, json!({}))), ["still here"]);
}
