//! Either side is killed with `kill -9`, again and again and at any moment; each message that was sent is one event.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Server, connect, folder, request};
use crate::{app, events, wait_until};

/// How many times one of them is killed, unless JADPO_TEST_KILLS says otherwise.
const KILLS: u64 = 40;
const LEASE: &str = ", visibility: 1s, batch_size: 20";

fn kills() -> u64 {
    std::env::var("JADPO_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS)
}

/// A server of ours with a queue that can be pulled, always at one address.
struct Ours {
    dir: TempDir,
    listen: String,
    server: Option<Server>,
    account: String,
    token: String,
    queue_id: String,
}

impl Ours {
    fn start() -> Self {
        let dir = folder(
            "app: \"queues\"\nconnections: { jobs: { driver: Driver.local_queue, queue: \"jobs\", max_receives: 100 } }\n",
        );
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut ours = Self {
            dir,
            listen: free.to_string(),
            server: None,
            account: String::new(),
            token: String::new(),
            queue_id: String::new(),
        };
        ours.up();
        ours
    }

    fn up(&mut self) {
        let server = Server::plain(self.dir.path(), &["--http-pull", "--listen", &self.listen]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (self.account, self.token) = (text(&server.api["account"]), text(&server.api["token"]));
        self.server = Some(server);
        let queues = self.ask("GET", "?name=jobs", b"").unwrap();
        self.queue_id = text(&queues["result"][0]["queue_id"]);
    }

    fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    fn kill(&mut self) {
        self.server.take().unwrap().signal("KILL");
    }

    /// Asks the API; `None` if there was no good answer.
    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Option<Value> {
        let path = format!("/client/v4/accounts/{}/queues{path}", self.account);
        let reply = request(&self.url(), method, &path, &[("authorization", &format!("Bearer {}", self.token))], body);
        (reply.status == 200).then(|| reply.json())
    }

    /// Sends messages with these numbers.
    fn send(&self, numbers: std::ops::Range<u64>) {
        let message = |number: u64| json!({ "body": { "n": number }, "content_type": "json" });
        let numbers: Vec<u64> = numbers.collect();
        for some in numbers.chunks(100) {
            let messages: Vec<Value> = some.iter().copied().map(message).collect();
            let path = format!("/{}/messages/batch", self.queue_id);
            self.ask("POST", &path, json!({ "messages": messages }).to_string().as_bytes()).expect("they are sent");
        }
    }

    fn waiting(&self) -> u64 {
        let path = format!("/{}/metrics", self.queue_id);
        self.ask("GET", &path, b"").unwrap()["result"]["backlog_count"].as_u64().unwrap()
    }

    fn client(&self, dir: &Path) -> Server {
        let envs = [("CF_ACCOUNT_ID", self.account.as_str()), ("CF_QUEUES_TOKEN", self.token.as_str())];
        Server::serve(dir, &["--tick", "1"], &envs)
    }
}

/// Waits until the queue is empty, and sees that the events are these numbers, once each.
fn settle(ours: &Ours, dir: &Path, sent: u64) {
    wait_until("the queue is empty", || ours.waiting() == 0);
    let events = events(dir);
    let right: BTreeSet<String> = (0..sent).map(|number| format!("{{\"n\":{number}}}")).collect();
    let lost: Vec<_> = right.iter().filter(|body| !events.contains_key(*body)).collect();
    assert!(lost.is_empty(), "of {sent} sent, lost: {lost:?}");
    assert!(events.keys().all(|body| right.contains(body)));
    assert!(events.values().all(|count| *count == 1), "{events:?}");
}

#[test]
fn whenever_the_client_is_killed_each_message_is_one_event() {
    let ours = Ours::start();
    let dir = folder(&app(&ours.url(), LEASE, ""));
    let mut sent = 0;
    for _ in 0..kills() {
        let client = ours.client(dir.path());
        ours.send(sent..sent + 300);
        sent += 300;
        std::thread::sleep(Duration::from_millis(fastrand::u64(0..150)));
        client.signal("KILL");
    }
    let _client = ours.client(dir.path());
    settle(&ours, dir.path(), sent);
}

#[test]
fn whenever_the_server_is_killed_each_message_is_one_event() {
    let mut ours = Ours::start();
    let dir = folder(&app(&ours.url(), LEASE, ""));
    let _client = ours.client(dir.path());
    let mut sent = 0;
    for _ in 0..kills() / 2 {
        ours.send(sent..sent + 300);
        sent += 300;
        std::thread::sleep(Duration::from_millis(fastrand::u64(0..150)));
        ours.kill();
        ours.up();
    }
    settle(&ours, dir.path(), sent);
}

#[test]
fn a_client_that_goes_away_before_it_reads_the_answer_takes_no_message_with_it() {
    let ours = Ours::start();
    ours.send(0..1);
    let path = format!("/client/v4/accounts/{}/queues/{}/messages/pull", ours.account, ours.queue_id);
    for _ in 0..3 {
        let body = br#"{"visibility_timeout_ms":100}"#;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
            ours.listen,
            ours.token,
            body.len()
        );
        let mut stream = connect(&ours.url());
        std::io::Write::write_all(&mut stream, &[head.as_bytes(), body].concat()).unwrap();
        drop(stream);
        std::thread::sleep(Duration::from_millis(150));
    }
    let dir = folder(&app(&ours.url(), LEASE, ""));
    let _client = ours.client(dir.path());
    settle(&ours, dir.path(), 1);
}
