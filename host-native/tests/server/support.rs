//! What the tests share: the binary running, raw HTTP, and functions that answer as a test wants.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use jadpo::broker::Broker;
use jadpo::store::OpenStore;
use serde_json::Value;
use tempfile::TempDir;

/// How long a test waits for what must happen.
pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const TOKEN: &str = "a-token-for-enqueueing";

/// A folder with this app in it.
pub(crate) fn folder(app: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("app.jadpo"), app).unwrap();
    dir
}

/// An app with the queue `jobs`, handled by functions at these addresses, and more settings of the queue.
pub(crate) fn app(functions: &[(&str, &str)], more: &str) -> String {
    let names: Vec<&str> = functions.iter().map(|(name, _)| *name).collect();
    let declared: String = functions.iter().map(|(name, url)| format!("    {name}: {{ call: \"{url}\" }}\n")).collect();
    format!(
        "app: \"shop\"\nconnections: {{\n    jobs: {{ driver: Driver.local_queue, queue: \"jobs\", functions: [{}]{}{more} }}\n}}\n\
         functions: {{\n{declared}}}\n",
        names.join(", "),
        if more.is_empty() { "" } else { ", " },
    )
}

pub(crate) fn payload(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/payloads").join(name)).unwrap()
}

/// A running server, killed when the test is over.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    /// What it said of its API when it started.
    pub(crate) api: Value,
    store: PathBuf,
    lines: mpsc::Receiver<Value>,
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jadpo"));
    command.current_dir(dir);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("JADPO_")) {
        command.env_remove(name);
    }
    command
}

/// Runs the binary to its end.
pub(crate) fn jadpo(dir: &Path, args: &[&str]) -> Output {
    command(dir).args(args).output().unwrap()
}

impl Server {
    /// `jadpo dev` with these arguments, its tick fast unless they say otherwise.
    pub(crate) fn dev(dir: &Path, args: &[&str]) -> Self {
        Self::dev_with(dir, args, &[])
    }

    pub(crate) fn dev_with(dir: &Path, args: &[&str], envs: &[(&str, &str)]) -> Self {
        let fast: &[&str] = if args.contains(&"--tick-ms") { &[] } else { &["--tick-ms", "50"] };
        Self::start(dir, &[&["dev", "--json"], fast, args].concat(), envs)
    }

    /// `jadpo dev` with nothing but these arguments.
    pub(crate) fn plain(dir: &Path, args: &[&str]) -> Self {
        Self::start(dir, &[&["dev", "--json"], args].concat(), &[])
    }

    pub(crate) fn serve(dir: &Path, args: &[&str], envs: &[(&str, &str)]) -> Self {
        Self::start(dir, &[&["serve"], args].concat(), envs)
    }

    fn start(dir: &Path, args: &[&str], envs: &[(&str, &str)]) -> Self {
        Self::start_by(command(dir), dir, args, envs)
    }

    /// `jadpo dev`, to which the system gives no more than so many file descriptors.
    pub(crate) fn dev_with_few_descriptors(dir: &Path, most: u32) -> Self {
        let mut by_shell = Command::new("sh");
        by_shell.args(["-c", &format!("ulimit -n {most}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_jadpo")]);
        by_shell.current_dir(dir);
        Self::start_by(by_shell, dir, &["dev", "--json", "--tick-ms", "50"], &[])
    }

    fn start_by(mut command: Command, dir: &Path, args: &[&str], envs: &[(&str, &str)]) -> Self {
        let listen: &[&str] = if args.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let mut child = command
            .args(args)
            .args(listen)
            .envs(envs.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
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
        let store = dir.join(".jadpo/queues.db");
        let mut server = Self { child, url: String::new(), api: Value::Null, store, lines };
        let mut before = Vec::new();
        let started = server.logged_after("server.started", &mut before);
        started["url"].as_str().unwrap_or_default().clone_into(&mut server.url);
        server.api = before.into_iter().find(|line| line["event"] == "api.ready").unwrap_or_default();
        server
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a log line of this event.
    pub(crate) fn logged(&self, event: &str) -> Value {
        self.logged_after(event, &mut Vec::new())
    }

    /// As [`Server::logged`], with the lines before it.
    fn logged_after(&self, event: &str, seen: &mut Vec<Value>) -> Value {
        let end = Instant::now() + LONG;
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            if line["event"] == event {
                return line;
            }
            seen.push(line);
        }
        panic!("no {event}; logged: {seen:?}");
    }

    /// The lines that were logged and not looked at yet.
    pub(crate) fn log(&self) -> Vec<Value> {
        self.lines.try_iter().collect()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the process to end.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Sends a signal and waits for the end.
    pub(crate) fn stop(mut self, signal: &str) -> Option<i32> {
        self.signal(signal);
        self.ended()
    }

    pub(crate) fn post(&self, path: &str, body: &[u8]) -> Reply {
        request(&self.url, "POST", path, &[], body)
    }

    /// Sends a message that must be accepted, and gives its id.
    pub(crate) fn send(&self, queue: &str, body: &str) -> String {
        let reply = self.post(&format!("/_queues/{queue}"), body.as_bytes());
        assert_eq!(reply.status, 202, "{reply:?}");
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let reply = request(&self.url, "GET", path, &[], b"");
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    pub(crate) fn queue(&self, queue: &str) -> Value {
        self.get(&format!("/_queues/{queue}"))
    }

    /// Waits until a queue looks like this.
    pub(crate) fn wait_for(&self, queue: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + LONG;
        loop {
            let looked = self.queue(queue);
            if is_right(&looked) {
                return looked;
            }
            assert!(Instant::now() < end, "{looked:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a queue's only message is dead. Its figures and those of its dead letters are not of one moment.
    pub(crate) fn wait_for_dead(&self, queue: &str) -> Value {
        self.wait_for(queue, |queue| queue["messages"] == 0 && queue["dead_letters"]["messages"] == 1)
    }

    pub(crate) fn wait_until_empty(&self, queue: &str) -> Value {
        self.wait_for(queue, |queue| queue["messages"] == 0)
    }

    /// Works on the server's store from outside, as a command does.
    pub(crate) fn beside<T>(&self, work: impl AsyncFnOnce(Broker) -> T) -> T {
        on_store(&self.store, work)
    }
}

/// Works on the queues of a store's file.
pub(crate) fn on_store<T>(path: &Path, work: impl AsyncFnOnce(Broker) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = OpenStore::existing(path).unwrap();
    let done = runtime.block_on(async { work(Broker::open(store.handle()).await.unwrap()).await });
    drop(runtime);
    store.close();
    done
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn read(answer: &[u8]) -> Self {
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(answer.len());
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        Self { status, headers, body: answer.get(end + 4..).unwrap_or_default().to_vec() }
    }
}

pub(crate) fn connect(url: &str) -> TcpStream {
    let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Sends these bytes and reads until the server closes.
pub(crate) fn raw(url: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(url);
    // The server may answer and close before it has read all.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// The head of a request, without its end.
pub(crate) fn head(url: &str, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let host = url.strip_prefix("http://").unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head
}

pub(crate) fn request(url: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let head = head(url, method, path, headers);
    let whole = [format!("{head}content-length: {}\r\n\r\n", body.len()).as_bytes(), body].concat();
    Reply::read(&raw(url, &whole))
}

/// A call that a function got.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The head as it came, each byte a character.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) at: Instant,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.header("jadpo-attempt").unwrap().parse().unwrap()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// How a function answers.
pub(crate) enum Answer {
    Status(u16),
    After(Duration, u16),
    /// These bytes, and then nothing while the caller waits.
    Bytes(Vec<u8>),
    /// Nothing: the connection is closed.
    Close,
    /// A head, and a body without end.
    Flood,
}

/// A function at an address, and the calls that it got.
pub(crate) struct Function {
    pub(crate) url: String,
    calls: mpsc::Receiver<Call>,
}

impl Function {
    pub(crate) fn answering(status: u16) -> Self {
        Self::with(move |_| Answer::Status(status))
    }

    /// A function that answers each call as this says, on a thread of its own.
    pub(crate) fn with(answer: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/handle", listener.local_addr().unwrap());
        let (sender, calls) = mpsc::channel();
        let answer = std::sync::Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (sender, answer) = (sender.clone(), answer.clone());
                std::thread::spawn(move || serve(stream, &sender, &*answer));
            }
        });
        Self { url, calls }
    }

    /// The next call, which must come.
    pub(crate) fn call(&self) -> Call {
        self.calls.recv_timeout(LONG).expect("a call")
    }

    pub(crate) fn call_within(&self, time: Duration) -> Option<Call> {
        self.calls.recv_timeout(time).ok()
    }

    /// The calls so far that were not looked at.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.try_iter().collect()
    }
}

fn serve(stream: TcpStream, sender: &mpsc::Sender<Call>, answer: &(dyn Fn(&Call) -> Answer + Send + Sync)) {
    let mut reader = BufReader::new(stream);
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        if reader.read_until(b'\n', &mut bytes).unwrap_or(0) == 0 {
            return; // a connection that was opened and not used
        }
        if bytes.len() - before <= 2 {
            break;
        }
    }
    let head: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    let length =
        head.to_lowercase().split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let call = Call { head, body, at: Instant::now() };
    let answer = answer(&call);
    let _ = sender.send(call);
    let stream = reader.get_mut();
    let status = |status: u16| format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    match answer {
        Answer::Status(code) => drop(stream.write_all(status(code).as_bytes())),
        Answer::After(time, code) => {
            std::thread::sleep(time);
            let _ = stream.write_all(status(code).as_bytes());
        }
        Answer::Bytes(bytes) => {
            let _ = stream.write_all(&bytes);
            let _ = stream.read_to_end(&mut Vec::new());
        }
        Answer::Close => {}
        Answer::Flood => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            while stream.write_all(format!("10000\r\n{}\r\n", "x".repeat(0x10000)).as_bytes()).is_ok() {}
        }
    }
}
