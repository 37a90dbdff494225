//! A server of the Queues API with one queue, over real HTTP, that can fail in every way a test wants.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) const ACCOUNT: &str = "0123456789abcdef0123456789abcdef";
pub(crate) const TOKEN: &str = "the-token-that-no-log-shows";
pub(crate) const QUEUE_ID: &str = "5e1b9969eb974d8c99c48d19df104c7a";

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    List,
    Pull,
    Ack,
}

/// How a request goes wrong.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Nothing is done, and this status is answered, with these headers and this body.
    Status(u16, &'static str, &'static str),
    /// Nothing is done, and the connection is closed.
    Close,
    /// It is done, and the connection is closed without an answer.
    Lost,
    /// It is done, and half of the answer is sent.
    Half,
    /// It is done, and instead of the answer this many bytes of something else come.
    Other(usize),
    /// It is done, and answered after this time.
    Late(Duration),
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) what: What,
    pub(crate) at: Instant,
    pub(crate) body: Value,
    pub(crate) authorization: String,
}

#[derive(Debug)]
struct Held {
    body: String,
    content_type: Option<&'static str>,
    attempts: u32,
    lease: u64,
    until: Instant,
}

#[derive(Debug)]
struct State {
    messages: BTreeMap<String, Held>,
    sent: u64,
    leases: u64,
    asked: Vec<Asked>,
    faults: BTreeMap<What, VecDeque<Fault>>,
    /// Answered to every request until it is set otherwise.
    always: Option<Fault>,
    exists: bool,
}

/// The server. It goes on for as long as the test's process.
#[derive(Debug, Clone)]
pub(crate) struct Cloud {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl Cloud {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = State {
            messages: BTreeMap::new(),
            sent: 0,
            leases: 0,
            asked: Vec::new(),
            faults: BTreeMap::new(),
            always: None,
            exists: true,
        };
        let cloud = Self { url, state: Arc::new(Mutex::new(state)) };
        let serving = cloud.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let cloud = serving.clone();
                std::thread::spawn(move || cloud.serve(stream));
            }
        });
        cloud
    }

    /// Sends a message as it is to be pulled: its body as it travels.
    pub(crate) fn send(&self, body: &str, content_type: Option<&'static str>) -> String {
        let mut state = self.state.lock().unwrap();
        state.sent += 1;
        let id = format!("{:032x}", state.sent);
        let held = Held { body: body.to_owned(), content_type, attempts: 0, lease: 0, until: Instant::now() };
        state.messages.insert(id.clone(), held);
        id
    }

    /// Sends this many texts that are JSON, and gives them.
    pub(crate) fn send_many(&self, count: usize) -> Vec<String> {
        let bodies: Vec<String> = (0..count).map(|number| format!("{{\"n\":{number}}}")).collect();
        bodies.iter().for_each(|body| drop(self.send(body, Some("text"))));
        bodies
    }

    /// The next requests of this kind go wrong in these ways.
    pub(crate) fn fail(&self, what: What, faults: &[Fault]) {
        self.state.lock().unwrap().faults.entry(what).or_default().extend(faults.iter().cloned());
    }

    /// Faults that no request had yet.
    pub(crate) fn faults(&self, what: What) -> usize {
        self.state.lock().unwrap().faults.get(&what).map_or(0, VecDeque::len)
    }

    /// Every request goes wrong in this way, until this is called again.
    pub(crate) fn always(&self, fault: Option<Fault>) {
        self.state.lock().unwrap().always = fault;
    }

    pub(crate) fn exists(&self, exists: bool) {
        self.state.lock().unwrap().exists = exists;
    }

    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().unwrap().messages.len()
    }

    pub(crate) fn attempts(&self, id: &str) -> u32 {
        self.state.lock().unwrap().messages.get(id).map_or(0, |held| held.attempts)
    }

    /// Messages that are out on a lease.
    pub(crate) fn leased(&self) -> usize {
        let now = Instant::now();
        self.state.lock().unwrap().messages.values().filter(|held| held.until > now).count()
    }

    pub(crate) fn asked(&self, what: What) -> Vec<Asked> {
        self.state.lock().unwrap().asked.iter().filter(|asked| asked.what == what).cloned().collect()
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        // Answers keep the connection, as Cloudflare's do, until one goes wrong.
        while self.serve_one(&mut reader).is_some() {}
    }

    fn serve_one(&self, reader: &mut BufReader<TcpStream>) -> Option<()> {
        let mut head = String::new();
        while reader.read_line(&mut head).ok()? > 2 {}
        let first = head.lines().next()?.to_owned();
        let header = |name: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(": "));
            fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let what = match first.as_str() {
            line if line.contains("/messages/pull ") => What::Pull,
            line if line.contains("/messages/ack ") => What::Ack,
            _ => What::List,
        };
        let asked = Asked {
            what,
            at: Instant::now(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            authorization: header("authorization").unwrap_or_default(),
        };
        let fault = {
            let mut state = self.state.lock().unwrap();
            state.asked.push(asked.clone());
            state.faults.entry(what).or_default().pop_front().or_else(|| state.always.clone())
        };
        let stream = reader.get_mut();
        match fault {
            Some(Fault::Status(status, headers, body)) => write(stream, status, headers, body.as_bytes()),
            Some(Fault::Close) => None,
            Some(Fault::Lost) => {
                self.answer(&first, &asked);
                None
            }
            Some(Fault::Half) => {
                let (status, body) = self.answer(&first, &asked);
                let whole = http(status, "", body.to_string().as_bytes());
                let _ = stream.write_all(&whole[..whole.len() - 10]);
                None
            }
            Some(Fault::Other(bytes)) => {
                self.answer(&first, &asked);
                write(stream, 200, "content-type: text/html\r\n", &vec![b'<'; bytes])
            }
            Some(Fault::Late(time)) => {
                let (status, body) = self.answer(&first, &asked);
                std::thread::sleep(time);
                write(stream, status, "", body.to_string().as_bytes())
            }
            None => {
                let (status, body) = self.answer(&first, &asked);
                write(stream, status, "", body.to_string().as_bytes())
            }
        }
    }

    fn answer(&self, first: &str, asked: &Asked) -> (u16, Value) {
        let refuse = |status: u16, code: i64, message: &str| {
            let errors = json!([{ "code": code, "message": message }]);
            (status, json!({ "success": false, "errors": errors, "messages": [], "result": null }))
        };
        if asked.authorization != format!("Bearer {TOKEN}") {
            return refuse(403, 10_000, "Authentication error");
        }
        let mut state = self.state.lock().unwrap();
        let prefix = format!("/client/v4/accounts/{ACCOUNT}/queues");
        assert!(first.contains(&prefix), "{first}");
        let result = match asked.what {
            What::List => {
                let queue = json!({ "queue_id": QUEUE_ID, "queue_name": "jobs" });
                json!(if state.exists { vec![queue] } else { vec![] })
            }
            _ if !state.exists || !first.contains(QUEUE_ID) => return refuse(404, 10_104, "Queue not found"),
            What::Pull => state.pull(&asked.body),
            What::Ack => state.ack(&asked.body),
        };
        (200, json!({ "success": true, "errors": [], "messages": [], "result": result }))
    }
}

impl State {
    fn pull(&mut self, body: &Value) -> Value {
        let most = usize::try_from(body["batch_size"].as_u64().unwrap()).unwrap();
        let visible = Duration::from_millis(body["visibility_timeout_ms"].as_u64().unwrap());
        let (now, mut pulled) = (Instant::now(), Vec::new());
        let backlog = self.messages.len();
        for (id, held) in self.messages.iter_mut().filter(|(_, held)| held.until <= now).take(most) {
            self.leases += 1;
            (held.lease, held.until, held.attempts) = (self.leases, now + visible, held.attempts + 1);
            let mut metadata = json!({ "CF-sourceMessageSource": "dash" });
            if let Some(content_type) = held.content_type {
                metadata["CF-Content-Type"] = content_type.into();
            }
            pulled.push(json!({
                "id": id, "body": held.body, "attempts": held.attempts, "timestamp_ms": 1_689_615_013_586_i64,
                "metadata": metadata, "lease_id": format!("{id}.{}", self.leases),
            }));
        }
        json!({ "message_backlog_count": backlog, "messages": pulled })
    }

    /// As documented: a late ack is accepted, a late retry is a warning.
    fn ack(&mut self, body: &Value) -> Value {
        let (now, mut warnings, mut counts) = (Instant::now(), serde_json::Map::new(), (0, 0));
        let part = |name: &str| body[name].as_array().cloned().unwrap_or_default();
        for (one, is_ack) in
            part("acks").iter().map(|one| (one, true)).chain(part("retries").iter().map(|one| (one, false)))
        {
            let lease_id = one["lease_id"].as_str().unwrap();
            let (id, lease) = lease_id.split_once('.').unwrap();
            let Some(held) = self.messages.get_mut(id) else {
                warnings.insert(lease_id.to_owned(), "it is gone".into());
                continue;
            };
            let is_late = held.lease.to_string() != lease || held.until <= now;
            if is_late {
                warnings.insert(lease_id.to_owned(), "the lease is over".into());
            }
            if is_ack {
                self.messages.remove(id);
                counts.0 += 1;
            } else if !is_late {
                held.until = now + Duration::from_secs(one["delay_seconds"].as_u64().unwrap_or(0));
                counts.1 += 1;
            }
        }
        json!({ "ackCount": counts.0, "retryCount": counts.1, "warnings": warnings })
    }
}

fn http(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn write(stream: &mut TcpStream, status: u16, headers: &str, body: &[u8]) -> Option<()> {
    stream.write_all(&http(status, headers, body)).ok()
}
