//! Other queues on this machine that promise the same: what is answered is on disk. Redis with its append-only file
//! synced always, used by streams and a consumer group; beanstalkd with its log synced on every write.
//!
//! They are spoken to by their own protocols, over loopback, by clients that do no more than that.

use std::error::Error;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A queue that is not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `redis-server --appendonly yes --appendfsync always`.
    Redis,
    /// `beanstalkd -b DIR -f 0`.
    Beanstalkd,
}

/// A peer's server, ended when this is dropped.
pub(crate) struct Peer {
    kind: Kind,
    port: u16,
    process: Child,
}

/// One client's connection.
pub(crate) struct Client {
    kind: Kind,
    stream: BufStream<TcpStream>,
    /// What sends one message, ready to be written.
    send: Vec<u8>,
}

impl Peer {
    /// Starts one with its files in `dir`; `None` if it is not installed.
    pub(crate) async fn start(kind: Kind, dir: &Path) -> Outcome<Option<Self>> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = match kind {
            Kind::Redis => {
                let mut command = Command::new("redis-server");
                let port = port.to_string();
                command.args(["--port", &port, "--bind", "127.0.0.1", "--appendonly", "yes"]);
                command.args(["--appendfsync", "always", "--save", "", "--dir"]).arg(dir);
                command
            }
            Kind::Beanstalkd => {
                let mut command = Command::new("beanstalkd");
                command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-f", "0", "-b"]).arg(dir);
                command
            }
        };
        let process = match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(process) => process,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let peer = Self { kind, port, process };
        for _ in 0..100 {
            if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                if kind == Kind::Redis {
                    peer.client(&[]).await?.command(&["XGROUP", "CREATE", "q", "g", "0", "MKSTREAM"]).await?;
                }
                return Ok(Some(peer));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("a peer does not listen".into())
    }

    pub(crate) async fn client(&self, body: &[u8]) -> Outcome<Client> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let mut send = match self.kind {
            Kind::Redis => format!("*5\r\n$4\r\nXADD\r\n$1\r\nq\r\n$1\r\n*\r\n$1\r\nb\r\n${}\r\n", body.len()),
            Kind::Beanstalkd => format!("put 0 0 60 {}\r\n", body.len()),
        }
        .into_bytes();
        send.extend_from_slice(body);
        send.extend_from_slice(b"\r\n");
        Ok(Client { kind: self.kind, stream: BufStream::with_capacity(256 << 10, 256 << 10, stream), send })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Client {
    /// Sends so many, one behind the other, and waits for all answers.
    pub(crate) async fn send(&mut self, count: usize) -> Outcome<()> {
        for _ in 0..count {
            self.stream.write_all(&self.send).await?;
        }
        self.stream.flush().await?;
        for _ in 0..count {
            self.reply().await?;
        }
        Ok(())
    }

    /// Takes so many and acknowledges them.
    pub(crate) async fn take_and_ack(&mut self, count: usize) -> Outcome<()> {
        match self.kind {
            Kind::Redis => {
                let number = count.to_string();
                let read = ["XREADGROUP", "GROUP", "g", "c", "COUNT", &number, "STREAMS", "q", ">"];
                let ids = self.command(&read).await?;
                let ids: Vec<&str> = ids.iter().map(String::as_str).filter(|text| text.contains('-')).collect();
                if ids.len() != count {
                    return Err(format!("redis gave {} of {count}", ids.len()).into());
                }
                self.write_command(&[&["XACK", "q", "g"], ids.as_slice()].concat()).await?;
                self.write_command(&[&["XDEL", "q"], ids.as_slice()].concat()).await?;
                self.stream.flush().await?;
                self.reply().await?;
                self.reply().await?;
            }
            Kind::Beanstalkd => {
                for _ in 0..count {
                    self.stream.write_all(b"reserve-with-timeout 0\r\n").await?;
                }
                self.stream.flush().await?;
                let mut ids = Vec::with_capacity(count);
                for _ in 0..count {
                    ids.extend(self.reply().await?);
                }
                for id in &ids {
                    self.stream.write_all(format!("delete {id}\r\n").as_bytes()).await?;
                }
                self.stream.flush().await?;
                for _ in &ids {
                    self.reply().await?;
                }
            }
        }
        Ok(())
    }

    async fn command(&mut self, words: &[&str]) -> Outcome<Vec<String>> {
        self.write_command(words).await?;
        self.stream.flush().await?;
        self.reply().await
    }

    async fn write_command(&mut self, words: &[&str]) -> Outcome<()> {
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        Ok(self.stream.write_all(text.as_bytes()).await?)
    }

    /// Reads one answer and gives the ids in it.
    async fn reply(&mut self) -> Outcome<Vec<String>> {
        match self.kind {
            Kind::Redis => self.resp().await,
            Kind::Beanstalkd => {
                let line = self.line().await?;
                let words: Vec<&str> = line.split(' ').collect();
                match words.as_slice() {
                    ["RESERVED", id, bytes] => {
                        let id = (*id).to_owned();
                        self.skip(bytes.parse::<usize>()? + 2).await?;
                        Ok(vec![id])
                    }
                    ["INSERTED", _] | ["DELETED"] => Ok(Vec::new()),
                    _ => Err(format!("beanstalkd answered {line}").into()),
                }
            }
        }
    }

    /// Redis's protocol: arrays are counted down, and what is short enough for an id is kept.
    async fn resp(&mut self) -> Outcome<Vec<String>> {
        const ID_BYTES_MAX: usize = 64;
        let (mut left, mut ids) = (1_usize, Vec::new());
        while left > 0 {
            left -= 1;
            let line = self.line().await?;
            let (kind, rest) = line.split_at_checked(1).ok_or("redis broke off")?;
            match kind {
                "*" => left += rest.parse::<usize>()?,
                "$" => {
                    let bytes: usize = rest.parse()?;
                    if bytes > ID_BYTES_MAX {
                        self.skip(bytes + 2).await?;
                    } else {
                        ids.push(self.line().await?);
                    }
                }
                "-" => return Err(format!("redis answered {line}").into()),
                _ => {}
            }
        }
        Ok(ids)
    }

    async fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err("the peer hung up".into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }

    async fn skip(&mut self, bytes: usize) -> Outcome<()> {
        let mut skipped = vec![0; bytes];
        self.stream.read_exact(&mut skipped).await?;
        Ok(())
    }
}
