//! A client that writes and reads HTTP and does no more: what it costs is taken from the same two cores.

use std::fmt::Write as _;
use std::net::SocketAddr;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;

use super::Outcome;

/// One client's connection.
pub(crate) struct Client {
    stream: BufStream<TcpStream>,
    path: String,
    headers: String,
    answer: Vec<u8>,
}

#[derive(Deserialize)]
struct Answer {
    result: Pulled,
}

#[derive(Deserialize)]
struct Pulled {
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    lease_id: String,
}

impl Client {
    pub(crate) async fn connect(at: SocketAddr, path: &str, token: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(at).await?;
        stream.set_nodelay(true)?;
        let headers = format!("host: {at}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n");
        let stream = BufStream::with_capacity(64 << 10, 256 << 10, stream);
        Ok(Self { stream, path: path.to_owned(), headers, answer: Vec::new() })
    }

    /// Pulls, and gives the lease ids.
    pub(crate) async fn pull(&mut self, batch_size: usize, visibility_ms: u32) -> Outcome<Vec<String>> {
        let body = format!(r#"{{"batch_size":{batch_size},"visibility_timeout_ms":{visibility_ms}}}"#);
        self.post("/messages/pull", &body).await?;
        let answer: Answer = serde_json::from_slice(&self.answer)?;
        Ok(answer.result.messages.into_iter().map(|message| message.lease_id).collect())
    }

    pub(crate) async fn ack(&mut self, leases: &[String]) -> Outcome<()> {
        let mut body = String::from(r#"{"acks":["#);
        for (index, lease) in leases.iter().enumerate() {
            write!(body, r#"{}{{"lease_id":"{lease}"}}"#, if index == 0 { "" } else { "," })?;
        }
        body.push_str("]}");
        self.post("/messages/ack", &body).await?;
        let expected = format!(r#""ackCount":{},"#, leases.len());
        let answer = String::from_utf8_lossy(&self.answer);
        if answer.contains(&expected) { Ok(()) } else { Err(format!("not all were acknowledged: {answer}").into()) }
    }

    /// Messages that the queue holds.
    pub(crate) async fn backlog(&mut self) -> Outcome<u64> {
        self.ask("GET", "/metrics", "").await?;
        let answer: serde_json::Value = serde_json::from_slice(&self.answer)?;
        answer.pointer("/result/backlog_count").and_then(serde_json::Value::as_u64).ok_or_else(|| "no count".into())
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Outcome<()> {
        self.ask("POST", path, body).await
    }

    async fn ask(&mut self, method: &str, path: &str, body: &str) -> Outcome<()> {
        let head =
            format!("{method} {}{path} HTTP/1.1\r\n{}content-length: {}\r\n\r\n", self.path, self.headers, body.len());
        self.stream.write_all(head.as_bytes()).await?;
        self.stream.write_all(body.as_bytes()).await?;
        self.stream.flush().await?;
        let mut status = String::new();
        self.stream.read_line(&mut status).await?;
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
        self.answer.resize(length, 0);
        self.stream.read_exact(&mut self.answer).await?;
        if status.starts_with("HTTP/1.1 200") {
            return Ok(());
        }
        Err(format!("the server answered {status}{}", String::from_utf8_lossy(&self.answer)).into())
    }
}
