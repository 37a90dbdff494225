//! Bodies and heads of HTTP requests, and answers of a server that we ask.

use jadpo_core::admin::{self, queues};
use jadpo_core::inbound::{self, Inbound};
use jadpo_core::program::{Setting, Verify, Webhook};
use jadpo_core::pull::{self, Call};
use jadpo_core::pulling;
use jadpo_host_test::{TestApp, TestServer};
use serde::de::DeserializeOwned;

use crate::document::fuzz;

const SHOP: &str = r#"app: "shop"
connections: { notes: { driver: Driver.cloudflare_queues, queue: "notes", dead_letter_queue: "notes-dead" } }
events: { Noted: Json }
receiving: { notes: { event: Noted } }
subscribers: { audit: { on: Noted, call: "https://audit.example.com/" } }"#;

/// A request as a document: a line `METHOD PATH?QUERY`, lines of headers, an empty line, the body.
struct Parsed {
    method: String,
    path: String,
    query: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

fn parsed(document: &[u8]) -> Parsed {
    let end = document.windows(2).position(|two| two == b"\n\n").unwrap_or(document.len());
    let head = String::from_utf8_lossy(&document[..end]);
    let mut lines = head.lines();
    let (method, target) = lines.next().unwrap_or_default().split_once(' ').unwrap_or(("POST", "/"));
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query.to_owned())));
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    Parsed {
        method: method.to_owned(),
        path: path.to_owned(),
        query,
        headers: lines.filter_map(header).collect(),
        body: document.get(end + 2..).unwrap_or_default().to_vec(),
    }
}

impl Parsed {
    fn admin(self, prefix: &str, token: &str) -> admin::Request {
        admin::Request {
            method: self.method,
            path: format!("{prefix}{}", self.path.trim_start_matches('/')),
            query: self.query.unwrap_or_default(),
            authorization: Some(format!("Bearer {token}")),
            body: self.body,
        }
    }
}

#[test]
fn inbound() {
    fuzz("inbound", |bytes| {
        let Parsed { method, path, query, headers, body } = parsed(bytes);
        let request = Inbound { method, path, query, headers, body, received_at_ms: 1_796_040_000_000 };
        let _ = inbound::batch(&request);
        if let Ok(message) = inbound::enqueue(request.clone()) {
            assert_eq!(message.body, request.body);
            assert!(inbound::Meta::decode(message.meta.as_deref().unwrap()).is_some(), "what is kept is read back");
        }
        for scheme in [Verify::Stripe, Verify::Github, Verify::Shopify, Verify::Standard] {
            let webhook = Webhook { queue: "jobs".into(), verify: Some(scheme(Setting::Env("KEY".into()))) };
            let taken = inbound::webhook("any", &webhook, |_| Some("a secret of the test".into()), request.clone());
            let refusal = taken.expect_err("nobody guesses a signature");
            assert!((400..=503).contains(&refusal.status) && !refusal.message.contains("a secret"));
        }
    });
}

/// A body as one of the endpoint's types: what is read is written as JSON of the same meaning.
fn body<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

#[test]
fn admin() {
    let app = TestApp::of(SHOP);
    fuzz("admin", move |bytes| {
        let request = parsed(bytes);
        if let Some(send) = body::<queues::Send>(&request.body) {
            let _ = send.into_batch("jobs", 0);
        }
        if let Some(redrive) = body::<queues::NewRedrive>(&request.body) {
            let _ = redrive.to_broker();
        }
        let _ = body::<queues::NewQueue>(&request.body);
        let _ = body::<queues::NewToken>(&request.body);
        let _ = body::<queues::Remove>(&request.body);
        let answer = app.ask(request.admin(admin::PREFIX, "")).unwrap();
        assert!(matches!(answer.status, 200 | 400 | 404 | 405 | 413), "{answer:?}");
        serde_json::from_str::<serde_json::Value>(&answer.body).unwrap();
    });
}

#[test]
fn pull() {
    let server =
        TestServer::of("app: \"shop\"\nconnections: { jobs: { driver: Driver.local_queue, queue: \"jobs\" } }");
    let key = server.on_queues(|broker, _, _| Ok(broker.lease_key()));
    fuzz("pull", move |bytes| {
        if let Err(refusal) = Call::read(&parsed(bytes).admin(pull::PREFIX, "a-token"), &key) {
            let answer = refusal.answer();
            assert!((400..=503).contains(&answer.status), "{answer:?}");
            serde_json::from_str::<serde_json::Value>(&answer.body).unwrap();
        }
    });
}

#[test]
fn pulling() {
    fuzz("pulling", |body| {
        for status in [200, 429, 500] {
            let answer = pulling::Answer { status, retry_after: std::str::from_utf8(body).ok(), body };
            if let Ok(pulled) = pulling::pulled(&answer, 1_796_040_000_000) {
                assert!(pulled.lent.iter().all(|lent| !lent.lease_id.is_empty()));
            }
            let _ = pulling::settled(&answer, 1_796_040_000_000);
            let _ = pulling::found(&answer, "jobs", 1, 1_796_040_000_000);
        }
    });
}
