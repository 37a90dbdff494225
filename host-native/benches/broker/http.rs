//! The server over HTTP: the `jadpo` binary as it is run, and clients that write and read HTTP and do no more.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const TOKEN: &str = "a-token-for-the-bench";
const APP: &str = r#"app: "bench"
connections: { bench: { driver: Driver.local_queue, queue: "bench" } }
deployables: { server: { target: Target.native, triggers: [Trigger.http] } }
"#;

/// A server, ended when this is dropped.
pub(crate) struct Server {
    at: SocketAddr,
    process: Child,
}

/// One client's connection.
pub(crate) struct Client {
    stream: BufStream<TcpStream>,
    /// A request, ready to be written.
    request: Vec<u8>,
}

impl Server {
    pub(crate) fn start(dir: &Path) -> Outcome<Self> {
        fs::write(dir.join("app.jadpo"), APP)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_jadpo"));
        command.args(["serve", "app.jadpo", "--listen", "127.0.0.1:0", "--store", "server.db"]);
        command.current_dir(dir).env("JADPO_ENQUEUE_TOKEN", TOKEN).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn()?;
        let log = process.stderr.take().ok_or("no log")?;
        let mut lines = BufReader::new(log).lines();
        let mut at = None;
        while let Some(line) = lines.next().transpose()? {
            let line: serde_json::Value = serde_json::from_str(&line)?;
            let text = |name| line.get(name).and_then(serde_json::Value::as_str);
            if text("event") == Some("server.started") {
                at = text("url").and_then(|url| url.strip_prefix("http://")?.parse().ok());
                break;
            }
        }
        // So that the server never waits for whoever reads its log.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self { at: at.ok_or("the server did not start")?, process })
    }

    /// A client that sends `count` bodies with each request.
    pub(crate) async fn client(&self, body: &[u8], count: usize) -> Outcome<Client> {
        let (path, kind, content) = if count == 1 {
            ("/_queues/bench", "application/octet-stream", body.to_vec())
        } else {
            let message = format!(r#"{{"body":"{}","content_type":"bytes"}}"#, BASE64.encode(body));
            let content = format!(r#"{{"messages":[{}]}}"#, vec![message; count].join(","));
            ("/_queues/bench/batch", "application/json", content.into_bytes())
        };
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n\r\n",
            self.at,
            content.len()
        )
        .into_bytes();
        request.extend_from_slice(&content);
        let stream = TcpStream::connect(self.at).await?;
        stream.set_nodelay(true)?;
        Ok(Client { stream: BufStream::with_capacity(16 << 10, 256 << 10, stream), request })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Client {
    /// Sends the request and waits for its answer.
    pub(crate) async fn send(&mut self) -> Outcome<()> {
        self.stream.write_all(&self.request).await?;
        self.stream.flush().await?;
        let mut status = String::new();
        self.stream.read_line(&mut status).await?;
        if !status.starts_with("HTTP/1.1 202") {
            return Err(format!("the server answered {status}").into());
        }
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            self.stream.read_line(&mut line).await?;
            match line.trim_end().split_once(": ") {
                Some(("content-length", value)) => length = value.parse()?,
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok(())
    }
}
