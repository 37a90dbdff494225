//! A client of the API that does what the tests say and no more: one connection, kept open.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::{LONG, Server, folder};

/// An app with queues that nothing handles: `jobs`, and `work`, which a function has.
pub(crate) const APP: &str = r#"app: "shop"
connections: {
    jobs: { driver: Driver.local_queue, queue: "jobs" }
    work: { driver: Driver.local_queue, queue: "work", functions: [go] }
}
functions: { go: { call: "http://127.0.0.1:9/" } }
deployables: { server: { target: Target.native, triggers: [Trigger.http] } }
"#;

/// A running `jadpo dev`, and what a client needs to know of it.
pub(crate) struct Api {
    pub(crate) server: Server,
    pub(crate) account: String,
    pub(crate) token: String,
    pub(crate) dir: TempDir,
}

impl Api {
    /// On a new store, with no tick that would come between.
    pub(crate) fn dev() -> Self {
        Self::dev_in(folder(APP))
    }

    pub(crate) fn dev_in(dir: TempDir) -> Self {
        let (server, account, token) = started(dir.path());
        Self { server, account, token, dir }
    }

    /// The server again, on the same store.
    pub(crate) fn restarted(self) -> Self {
        let Self { server, dir, .. } = self;
        server.signal("KILL");
        drop(server);
        Self::dev_in(dir)
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.server.url, &self.account, &self.token)
    }
}

fn started(dir: &Path) -> (Server, String, String) {
    let server = Server::plain(dir, &["--tick-ms", "3600000"]);
    let place = server.beside(async |broker| broker.api_place().await).unwrap();
    (server, place.account, place.dev_token)
}

/// One connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    host: String,
    base: String,
    pub(crate) token: String,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Said {
    pub(crate) fn code(&self) -> i64 {
        self.body["errors"][0]["code"].as_i64().unwrap_or(-1)
    }

    pub(crate) fn message(&self) -> &str {
        self.body["errors"][0]["message"].as_str().unwrap_or_default()
    }

    /// The result of what must be done.
    pub(crate) fn result(&self) -> &Value {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.body["success"], true, "{self:?}");
        &self.body["result"]
    }

    /// What every answer of the API has, whatever it says.
    fn check(&self) {
        let fields = self.body.as_object().unwrap_or_else(|| panic!("no envelope: {self:?}"));
        for name in ["success", "errors", "messages", "result"] {
            assert!(fields.contains_key(name), "no {name}: {self:?}");
        }
        assert!(fields["errors"].is_array() && fields["messages"].is_array(), "{self:?}");
        assert_eq!(fields["success"] == true, self.status == 200, "{self:?}");
        assert_ne!(self.status, 500, "{self:?}");
        if self.status != 200 {
            assert!(fields["errors"][0]["code"].is_i64() && self.message().len() > 10, "{self:?}");
        }
    }
}

impl Client {
    pub(crate) fn new(url: &str, account: &str, token: &str) -> Self {
        let host = url.strip_prefix("http://").unwrap().to_owned();
        let stream = BufReader::with_capacity(256 << 10, connect(&host));
        Self { stream, host, base: format!("/client/v4/accounts/{account}"), token: token.to_owned() }
    }

    /// Asks for a path of the account with these bytes.
    pub(crate) fn raw(&mut self, method: &str, path: &str, body: &[u8]) -> Said {
        let path = format!("{}{path}", self.base);
        self.at(method, &path, body)
    }

    /// Asks for a whole path.
    pub(crate) fn at(&mut self, method: &str, path: &str, body: &[u8]) -> Said {
        self.write(method, path, body);
        let said = self.read().or_else(|| {
            // The server closes a connection that nobody has used for a while.
            self.stream = BufReader::with_capacity(256 << 10, connect(&self.host));
            self.write(method, path, body);
            self.read()
        });
        let said = said.unwrap_or_else(|| panic!("no answer to {method} {path}"));
        said.check();
        said
    }

    /// The same of a server that may die: `None` if there is no whole answer.
    pub(crate) fn may(&mut self, method: &str, path: &str, body: &Value) -> Option<Said> {
        let path = format!("{}{path}", self.base);
        self.try_write(method, &path, body.to_string().as_bytes()).ok()?;
        self.read()
    }

    pub(crate) fn get(&mut self, path: &str) -> Said {
        self.raw("GET", path, b"")
    }

    pub(crate) fn post(&mut self, path: &str, body: Value) -> Said {
        self.raw("POST", path, body.to_string().as_bytes())
    }

    /// Sends a request and does not wait for its answer.
    pub(crate) fn write(&mut self, method: &str, path: &str, body: &[u8]) {
        // A server that has closed an idle connection is asked on a new one.
        if self.try_write(method, path, body).is_err() {
            self.stream = BufReader::with_capacity(256 << 10, connect(&self.host));
            self.try_write(method, path, body).unwrap();
        }
    }

    fn try_write(&mut self, method: &str, path: &str, body: &[u8]) -> std::io::Result<()> {
        let auth =
            if self.token.is_empty() { String::new() } else { format!("authorization: Bearer {}\r\n", self.token) };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\n{auth}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        self.stream.get_mut().write_all(&[head.as_bytes(), body].concat())
    }

    fn read(&mut self) -> Option<Said> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let length = head.to_lowercase().split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).ok()?;
        if head.to_lowercase().contains("connection: close") {
            self.stream = BufReader::with_capacity(256 << 10, connect(&self.host));
        }
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Some(Said { status, head, body })
    }

    /// A new queue's id.
    pub(crate) fn create(&mut self, name: &str) -> String {
        let made = self.post("/queues", json!({ "queue_name": name }));
        made.result()["queue_id"].as_str().unwrap().to_owned()
    }

    /// A new queue that is pulled, with these settings of its consumer.
    pub(crate) fn pulled(&mut self, name: &str, settings: Value) -> String {
        let id = self.create(name);
        let consumer = json!({ "type": "http_pull", "settings": settings });
        self.post(&format!("/queues/{id}/consumers"), consumer).result();
        id
    }

    pub(crate) fn id_of(&mut self, name: &str) -> String {
        let listed = self.get(&format!("/queues?name={name}"));
        listed.result()[0]["queue_id"].as_str().unwrap_or_else(|| panic!("no {name}: {listed:?}")).to_owned()
    }

    pub(crate) fn push(&mut self, queue: &str, message: Value) -> Said {
        self.post(&format!("/queues/{queue}/messages"), message)
    }

    /// Sends texts, all at once.
    pub(crate) fn push_texts(&mut self, queue: &str, texts: &[&str]) {
        let messages: Vec<Value> = texts.iter().map(|text| json!({ "body": text, "content_type": "text" })).collect();
        self.post(&format!("/queues/{queue}/messages/batch"), json!({ "messages": messages })).result();
    }

    pub(crate) fn pull(&mut self, queue: &str, pull: Value) -> Said {
        self.post(&format!("/queues/{queue}/messages/pull"), pull)
    }

    /// What a pull gives that must be answered.
    pub(crate) fn messages(&mut self, queue: &str, pull: Value) -> Vec<Value> {
        self.pull(queue, pull).result()["messages"].as_array().unwrap().clone()
    }

    pub(crate) fn ack(&mut self, queue: &str, acks: &[Value], retries: &[Value]) -> Said {
        self.post(&format!("/queues/{queue}/messages/ack"), json!({ "acks": acks, "retries": retries }))
    }

    pub(crate) fn backlog(&mut self, queue: &str) -> u64 {
        self.get(&format!("/queues/{queue}/metrics")).result()["backlog_count"].as_u64().unwrap()
    }
}

fn connect(host: &str) -> TcpStream {
    let stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A message's lease, as an ack names it.
pub(crate) fn lease(message: &Value) -> Value {
    json!({ "lease_id": message["lease_id"] })
}

pub(crate) fn bodies(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["body"].as_str().unwrap()).collect()
}
