//! A connection of an app that reads the server's queue: messages kept a second, and where the time goes.
//!
//! The reader is the `jadpo` binary too. Both run on this machine and share its processors.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader as AsyncBufReader};
use tokio::net::{TcpListener, TcpStream};

use super::server::{self, Server};
use super::{BODY_BYTES, Outcome};

/// Messages that are read in one case.
const MESSAGES: usize = 30_000;
/// How long a case may take.
const TIME_MAX: Duration = Duration::from_secs(120);

/// How the queue is read.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// Messages of one pull.
    pub(crate) batch: usize,
    /// Whether each event is delivered to a subscriber, over HTTP.
    pub(crate) delivers: bool,
}

/// Fills the queue and has it read to its end.
pub(crate) async fn measure(case: Case) -> Outcome<Value> {
    let (of_server, of_reader) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let server = Server::start(of_server.path())?;
    let body = json!({ "n": 1, "text": "x".repeat(BODY_BYTES - 20) });
    server.fill_with(MESSAGES, &body, "json").await?;
    let subscriber = subscriber().await?;
    fs::write(of_reader.path().join("app.jadpo"), app(&server, case, subscriber))?;
    let mut watch = server.client().await?;
    let before = cpu_s(server.pid());
    let reader = Reader::start(of_reader.path(), &server)?;
    let begun = Instant::now();
    while watch.backlog().await? > 0 {
        if begun.elapsed() > TIME_MAX {
            return Err("the queue was not read in time".into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let (of_server, of_reader) = (cpu_s(server.pid()) - before, cpu_s(reader.process.id()));
    let spent = reader.end()?;
    let share = |name: &str| spent.get(name).and_then(Value::as_f64).unwrap_or_default();
    let each = |ms: &str, count: &str| share(ms) / share(count).max(1.0);
    Ok(json!({
        "batch": case.batch,
        "delivers": case.delivers,
        "kept_per_s": MESSAGES as f64 / seconds,
        "seconds": seconds,
        "pull_ms": each("pulling_ms", "pulls"),
        "commit_ms": each("receiving_ms", "batches"),
        "ack_ms": each("settling_ms", "settles"),
        "pulls": share("pulls"),
        "settles": share("settles"),
        "server_cpu_s": of_server,
        "reader_cpu_s": of_reader,
    }))
}

fn app(server: &Server, case: Case, subscriber: SocketAddr) -> String {
    let subscribers = if case.delivers {
        format!("subscribers: {{ sink: {{ on: Moved, call: \"http://{subscriber}/\" }} }}")
    } else {
        String::new()
    };
    format!(
        r#"app: "reader"
        connections: {{ supply: {{ driver: Driver.cloudflare_pull, account: env("ACCOUNT"), queue_id: "{}"
            token: env("TOKEN"), base_url: "http://{}/client/v4", batch_size: {}, visibility: 10m }} }}
        events: {{ Moved: Json }}
        receiving: {{ supply: {{ event: Moved }} }}
        {subscribers}
        deployables: {{ server: {{ target: Target.native, triggers: [Trigger.tick] }} }}"#,
        server.queue, server.at, case.batch
    )
}

/// A running reader.
struct Reader {
    process: Child,
    log: std::thread::JoinHandle<Option<Value>>,
}

impl Reader {
    /// Starts it, and waits until it has begun.
    fn start(dir: &Path, server: &Server) -> Outcome<Self> {
        let mut command: Command = server::command(dir);
        command.args(["serve", "app.jadpo"]).env("ACCOUNT", &server.account).env("TOKEN", &server.token);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(process.stderr.take().ok_or("no log")?).lines();
        let is = |line: &Value, event: &str| line.get("event").is_some_and(|said| said == event);
        while let Some(line) = lines.next().transpose()? {
            if is(&serde_json::from_str(&line)?, "pull.started") {
                let find = move || {
                    let lines = lines.map_while(Result::ok);
                    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
                    lines.filter(|line| is(line, "pull.ended")).last()
                };
                return Ok(Self { process, log: std::thread::spawn(find) });
            }
        }
        Err("the reader did not start".into())
    }

    /// Stops it, and gives what it says of its work.
    fn end(mut self) -> Outcome<Value> {
        Command::new("kill").arg(self.process.id().to_string()).status()?;
        self.process.wait()?;
        self.log.join().ok().flatten().ok_or_else(|| "the reader said nothing of its work".into())
    }
}

/// Answers every request with 204.
async fn subscriber() -> Outcome<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let at = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    Ok(at)
}

async fn answer(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = AsyncBufReader::new(stream);
    let (mut line, mut body) = (String::new(), Vec::new());
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            match line.trim_end().to_ascii_lowercase().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().unwrap_or(0),
                None if line.trim_end().is_empty() => break,
                _ => {}
            }
        }
        body.resize(length, 0);
        stream.read_exact(&mut body).await?;
        stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
    }
}

/// Seconds of processor time that a process has used.
fn cpu_s(pid: u32) -> f64 {
    const TICKS_PER_S: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_PER_S
}
