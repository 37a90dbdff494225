//! `jadpo queues send`.

use std::io::Read;
use std::path::Path;

use jadpo_core::broker::limits::MESSAGE_BYTES_MAX;
use serde_json::json;

use super::super::output::{self, Exit};
use super::super::spans::seconds;
use super::super::words::{count, plain};
use super::outbox::{ContentType, Outbox};
use crate::operator::{Operator, OperatorError};

/// Most times that one message is sent.
const COUNT_MAX: u32 = 1_000_000;
/// Ids shown to people.
const IDS_SHOWN: u32 = 10;

/// Arguments of `jadpo queues send`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  jadpo queues send jobs '{\"kind\": \"resize\", \"id\": 42}'
  jadpo queues send jobs @order.json --delay 10m
  curl -s https://example.com/feed | jadpo queues send jobs -
  jadpo queues send jobs '{\"kind\": \"test\"}' --count 1000

It has been kept when the command says so. With --json: {\"queue\", \"sent\", \"ids\"}.")]
pub(super) struct Args {
    /// The queue
    name: String,
    /// The body; - reads it from standard input, @FILE from a file
    #[arg(allow_hyphen_values = true)]
    body: String,
    /// What the body is: json, text, bytes or a MIME type [default: json if it is JSON, else text if it is text, else bytes]
    #[arg(long, value_name = "TYPE", value_parser = ContentType::parse)]
    content_type: Option<ContentType>,
    /// How long it waits before it is handed over, up to a day: 30s, 5m, or seconds [default: as set for the queue]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    delay: Option<u32>,
    /// Send it so many times, as so many messages
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(COUNT_MAX)))]
    count: u32,
}

pub(super) async fn run(args: &Args, operator: &Operator, as_json: bool) -> Result<Exit, OperatorError> {
    let body = read(&args.body)?;
    let content = args.content_type.clone().unwrap_or_else(|| ContentType::of(&body));
    content.check(&body).map_err(|why| OperatorError::input(format!("this cannot be sent: {why}"), None))?;
    let mut outbox = Outbox::new(operator, &args.name, args.delay, true);
    let sent = async {
        for _ in 0..args.count {
            outbox.put(&content, &body).await?;
        }
        outbox.flush().await
    };
    let sent = sent.await;
    if let Err(mut error) = sent {
        if outbox.accepted > 0 {
            error.what = format!("{}; {} before that", error.what, count(outbox.accepted, "message was kept"));
        }
        return Err(error);
    }
    let ids = outbox.ids.take().unwrap_or_default();
    if as_json {
        output::line(&json!({"queue": args.name, "sent": ids.len(), "ids": ids}).to_string());
        return Ok(Exit::Done);
    }
    let shown = if args.count <= IDS_SHOWN { format!(": {}", ids.join(", ")) } else { String::new() };
    output::line(&format!("sent {} to {}{shown}", count(outbox.accepted, "message"), plain(&args.name)));
    Ok(Exit::Done)
}

/// The body, one byte past what a message may have at most.
fn read(body: &str) -> Result<Vec<u8>, OperatorError> {
    let most = MESSAGE_BYTES_MAX as u64 + 1;
    let mut bytes = Vec::new();
    let read = match body.strip_prefix('@') {
        Some(file) => std::fs::File::open(Path::new(file)).and_then(|file| file.take(most).read_to_end(&mut bytes)),
        None if body == "-" => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
        None => return Ok(body.as_bytes().to_owned()),
    };
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => {
            let what = body.strip_prefix('@').map_or("standard input".to_owned(), |file| format!("`{file}`"));
            let help = "a body that itself begins with @ goes through standard input, with - in its place";
            Err(OperatorError::input(format!("{what} cannot be read: {error}"), body.starts_with('@').then_some(help)))
        }
    }
}
