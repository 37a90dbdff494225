//! What the tests share: an app, the binary, a server, a subscriber, a store with something in it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use jadpo::broker::Broker;
use jadpo::host::NativeHost;
use jadpo::store::OpenStore;
use jadpo_core::app;
use jadpo_core::broker::{
    BrokerError, ConsumerSettings, Content, NewBatch, NewMessage, Reason, Retry, Settings, Settle, Take, Taken,
};
use jadpo_core::host::Host;
use jadpo_core::queue::{Batch, Body, Message};
use jadpo_core::receive::receive;
use jadpo_core::start::App;

pub(crate) const TOKEN: &str = "a-token-of-the-operator";

/// The app's text, with an event of these fields and subscribers that are reached at this address.
pub(crate) fn app_text(fields: &str, call: &str) -> String {
    format!(
        r#"app: "warehouse"
connections: {{
    stock: {{ driver: Driver.cloudflare_queues, queue: "stock", dead_letter_queue: "stock-dead" }}
}}
events: {{ StockMoved: {{ {fields} }} }}
receiving: {{ stock: {{ event: StockMoved }} }}
subscribers: {{ ledger: {{ on: StockMoved, call: "{call}" }} }}
deployables: {{
    edge: {{ target: Target.workers, triggers: [Trigger.http, Trigger.subscribers, Trigger.tick] }}
    server: {{ target: Target.native, triggers: [Trigger.http, Trigger.tick] }}
}}
"#
    )
}

pub(crate) fn jadpo(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

/// The binary, to be run in this folder.
pub(crate) fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jadpo"));
    command.args(args).current_dir(dir).env_remove("JADPO_ADMIN_TOKEN").env_remove("JADPO_URL");
    command
}

/// Runs it with this on its standard input.
pub(crate) fn jadpo_reading(dir: &Path, args: &[&str], input: &[u8]) -> Output {
    let mut command = command(dir, args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may have seen enough before all is written.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// Sends a signal to a process.
pub(crate) fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Does this with the queues of the folder's store, as a server in the same place would.
pub(crate) fn with_broker<T>(dir: &Path, work: impl AsyncFnOnce(&Broker) -> T) -> T {
    let open = OpenStore::create(&dir.join(".jadpo/queues.db")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(async {
        let broker = Broker::open(open.handle()).await.unwrap();
        work(&broker).await
    });
    drop(runtime);
    open.close();
    done
}

/// Has these bodies die in the queue, which is made with the dead-letter queue `NAME-dead`. Answers their ids.
pub(crate) fn dead_letters(dir: &Path, queue: &str, bodies: &[&[u8]], error: &str) -> Vec<String> {
    with_broker(dir, async |broker| {
        let consumer = ConsumerSettings {
            max_retries: 0,
            dead_letter_queue: Some(format!("{queue}-dead")),
            ..ConsumerSettings::default()
        };
        match broker.create(queue, Settings { consumer, ..Settings::default() }).await {
            Ok(_) | Err(BrokerError::QueueExists(_)) => {}
            Err(error) => panic!("{error}"),
        }
        let mut ids = Vec::new();
        for bodies in bodies.chunks(100) {
            let message =
                |body: &&[u8]| NewMessage { content: Content::Text, body: body.to_vec(), delay_s: None, meta: None };
            let messages = bodies.iter().map(message).collect();
            let sent = broker.send(queue, NewBatch { messages, delay_s: None }).await.unwrap();
            let taken = broker.take(queue, Take { max: 100, visibility_ms: None }).await.unwrap().messages;
            let retry = |taken: &Taken| Retry {
                lease: taken.lease,
                delay_ms: None,
                reason: Reason::Failed,
                error: Some(error.to_owned()),
                progress: None,
            };
            let retries = taken.iter().map(retry).collect();
            let settled = broker.settle(queue, Settle { retries, ..Settle::default() }).await.unwrap();
            assert_eq!(settled.gone.len(), bodies.len());
            ids.extend(sent.ids.iter().map(ToString::to_string));
        }
        ids
    })
}

/// How many messages a queue of the folder's store holds.
pub(crate) fn held(dir: &Path, queue: &str) -> u64 {
    json(&jadpo(dir, &["queues", "show", queue, "--json"]))["messages"].as_u64().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}

/// Receives these bodies as messages `m1`, `m2`, … on the queue, as a Worker on the same store would.
pub(crate) fn receive_into(store: &Path, app_text: &str, bodies: &[&str]) {
    let app = App::new(app::compile(app_text).program.unwrap());
    let open = OpenStore::create(store).unwrap();
    let host = NativeHost::new(open.handle());
    let sent_at_ms = host.now_ms();
    let message = |(index, body): (usize, &&str)| Message {
        id: format!("m{}", index + 1),
        sent_at_ms,
        attempts: 1,
        body: Body::Text((*body).to_owned()),
    };
    let messages: Vec<Message> = bodies.iter().enumerate().map(message).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let received = runtime.block_on(receive(&host, &app, Batch { queue: "stock".to_owned(), messages }));
    assert_eq!(received.answers.len(), bodies.len());
    drop((host, runtime, received));
    open.close();
}

/// A running `jadpo serve`, killed when the test is over.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    lines: mpsc::Receiver<serde_json::Value>,
}

impl Server {
    pub(crate) fn start(dir: &Path, args: &[&str], envs: &[(&str, &str)]) -> Self {
        Self::run(dir, &[&["serve", "--listen", "127.0.0.1:0", "--tick", "1"], args].concat(), envs)
    }

    /// A running `jadpo dev`, which drains every 50 ms.
    pub(crate) fn dev(dir: &Path, args: &[&str], envs: &[(&str, &str)]) -> Self {
        let listen: &[&str] = if args.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        Self::run(dir, &[&["dev", "--json", "--tick-ms", "50"], listen, args].concat(), envs)
    }

    fn run(dir: &Path, args: &[&str], envs: &[(&str, &str)]) -> Self {
        let mut child = command(dir, args).envs(envs.iter().copied()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|_| serde_json::json!({ "event": line }));
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut server = Self { child, url: String::new(), lines };
        let started = server.logged("server.started");
        started["url"].as_str().unwrap().clone_into(&mut server.url);
        server
    }

    /// Waits for a log line of this event.
    pub(crate) fn logged(&self, event: &str) -> serde_json::Value {
        let end = Instant::now() + Duration::from_secs(60);
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if line["event"] == event {
                return line;
            }
            seen.push(line);
        }
        panic!("no {event}; logged: {seen:?}");
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn stop(mut self, signal: &str) -> Option<i32> {
        self::signal(&self.child, signal);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One raw HTTP request; status and body of the answer.
pub(crate) fn http(url: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    // The server may answer and close before it has read all of a body that is too large.
    let _ = stream.write_all(body);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let answer = String::from_utf8_lossy(&bytes).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned());
    (status, body)
}

/// A subscriber that answers every request with this status; what it got comes out of the receiver.
pub(crate) fn subscriber(status: u16) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    let (sender, calls) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while reader.read_line(&mut head).unwrap() > 2 {}
            let head = head.to_lowercase();
            let len = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()?.parse().ok());
            let mut body = vec![0; len.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            if sender.send(head + &String::from_utf8_lossy(&body)).is_err() {
                return;
            }
        }
    });
    (url, calls)
}
