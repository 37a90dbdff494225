//! The server: the `jadpo` binary as it is run, with a queue that is pulled and a token for it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::client::Client;
use super::{Outcome, QUEUE};

const APP: &str = r#"app: "bench"
deployables: { server: { target: Target.native, triggers: [Trigger.http] } }
"#;

/// A server, ended when this is dropped.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    pub(crate) account: String,
    pub(crate) token: String,
    pub(crate) queue: String,
    process: Child,
}

impl Server {
    pub(crate) fn start(dir: &Path) -> Outcome<Self> {
        fs::write(dir.join("app.jadpo"), APP)?;
        let queue = jadpo(dir, &["queues", "create", QUEUE, "--http-pull"])?;
        let token = jadpo(dir, &["tokens", "create", QUEUE])?;
        let text = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_str).map(str::to_owned).ok_or("a command said nothing")
        };
        let mut command = command(dir);
        command.args(["serve", "app.jadpo", "--listen", "127.0.0.1:0"]);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(process.stderr.take().ok_or("no log")?).lines();
        let mut at = None;
        while let Some(line) = lines.next().transpose()? {
            let line: Value = serde_json::from_str(&line)?;
            if line.get("event").is_some_and(|event| event == "server.started") {
                at = line.get("url").and_then(Value::as_str).and_then(|url| url.strip_prefix("http://")?.parse().ok());
                break;
            }
        }
        // So that the server never waits for whoever reads its log.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Self {
            at: at.ok_or("the server did not start")?,
            account: text(&token, "account")?,
            token: text(&token, "secret")?,
            queue: text(&queue, "id")?,
            process,
        })
    }

    pub(crate) async fn client(&self) -> Outcome<Client> {
        let path = format!("/client/v4/accounts/{}/queues/{}", self.account, self.queue);
        Client::connect(self.at, &path, &self.token).await
    }

    /// Empties the queue and sends it so many messages, in hundreds.
    pub(crate) async fn fill(&self, messages: usize, body_bytes: usize) -> Outcome<()> {
        self.fill_with(messages, &json!("x".repeat(body_bytes)), "text").await
    }

    /// The same with this body.
    pub(crate) async fn fill_with(&self, messages: usize, body: &Value, content_type: &str) -> Outcome<()> {
        let mut client = self.client().await?;
        client.post("/purge", "{}").await?;
        let message = json!({ "body": body, "content_type": content_type });
        let batch = json!({ "messages": vec![message; 100] }).to_string();
        for _ in 0..messages / 100 {
            client.post("/messages/batch", &batch).await?;
        }
        Ok(())
    }
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn command(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jadpo"));
    command.current_dir(dir);
    command
}

fn jadpo(dir: &Path, args: &[&str]) -> Outcome<Value> {
    let output = command(dir).args(args).arg("--json").output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
