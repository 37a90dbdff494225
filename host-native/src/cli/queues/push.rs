//! `jadpo queues push`: many messages, from lines or from files.
//!
//! What is accepted is on disk and counted. If anything ends it early, a bad line, a failure or Ctrl-C, what was
//! accepted so far is told, and how to go on behind it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use jadpo_core::broker::limits::MESSAGE_BYTES_MAX;
use tokio::sync::mpsc;

use super::super::output::{self, Exit};
use super::super::spans::seconds;
use super::super::words::{count, plain};
use super::outbox::{ContentType, Outbox};
use crate::operator::{Operator, OperatorError};

/// Messages that are read ahead of what is sent.
const READ_AHEAD: usize = 256;
/// How long a batch waits for more before it is sent as it is.
const IDLE: Duration = Duration::from_millis(100);

/// Arguments of `jadpo queues push`.
#[derive(clap::Args)]
#[command(after_help = "\
Every line is a message's body, as in NDJSON; empty lines are left out. With --files, every line names a file, and the \
file is the body. They are sent in batches of up to 100, in their order, and each batch is kept whole or not at all.

Examples:
  jadpo queues push jobs < jobs.ndjson
  jadpo queues push jobs monday.ndjson tuesday.ndjson
  jadpo queues push mails --content-type text < addresses.txt
  find orders -name '*.json' | jadpo queues push jobs --files

If it ends early, by Ctrl-C too, it says how many were accepted; those are kept. --skip goes on behind them.
With --json: {\"queue\", \"accepted\", \"skipped\"}, and of a failure also {\"error\", \"code\", \"help\"}.")]
pub(super) struct Args {
    /// The queue
    name: String,
    /// Where the lines are read from [default: standard input]
    #[arg(value_name = "FILE")]
    sources: Vec<PathBuf>,
    /// Every line names a file, which is the body
    #[arg(long = "files")]
    lines_name_files: bool,
    /// What the bodies are: json, text, bytes or a MIME type [default: json for lines; for files, json or text if they are, else bytes]
    #[arg(long, value_name = "TYPE", value_parser = ContentType::parse)]
    content_type: Option<ContentType>,
    /// How long they wait before they are handed over, up to a day: 30s, 5m, or seconds
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    delay: Option<u32>,
    /// Leave out the first messages
    #[arg(long, value_name = "MESSAGES", default_value_t = 0)]
    skip: u64,
}

/// What there is to do next.
enum Next {
    Line(Result<(ContentType, Vec<u8>), OperatorError>),
    Pause,
    End,
}

/// How it ended.
enum End {
    All,
    Interrupted,
    Failed(OperatorError),
}

pub(super) async fn run(args: &Args, operator: &Operator, as_json: bool) -> Result<Exit, OperatorError> {
    // A name that is no queue's is told before anything is read.
    operator.queue(&args.name).await?;
    let (read, lines) = mpsc::channel(READ_AHEAD);
    let reader =
        Reader { sources: args.sources.clone(), files: args.lines_name_files, content: args.content_type.clone() };
    // It may wait for a line without end, so nobody waits for it.
    std::thread::spawn(move || reader.run(&read));
    let progress = progress();
    let mut outbox = Outbox::new(operator, &args.name, args.delay, false);
    let mut skipped = 0;
    let end = push(args, lines, &mut outbox, &mut skipped, &progress).await;
    progress.finish_and_clear();
    Ok(tell(args, end, &outbox, skipped, as_json))
}

async fn push(
    args: &Args,
    mut lines: mpsc::Receiver<Result<(ContentType, Vec<u8>), OperatorError>>,
    outbox: &mut Outbox<'_>,
    skipped: &mut u64,
    progress: &ProgressBar,
) -> End {
    let mut interrupted = match Interrupt::new() {
        Ok(interrupted) => interrupted,
        Err(error) => return End::Failed(OperatorError::failed(format!("cannot listen for signals: {error}"), None)),
    };
    loop {
        let line = tokio::select! {
            biased;
            () = interrupted.next() => return End::Interrupted,
            line = lines.recv() => line.map_or(Next::End, Next::Line),
            // Whoever writes the lines slowly does not wait for a batch to be full.
            () = tokio::time::sleep(IDLE), if outbox.has_waiting() => Next::Pause,
        };
        let sending = async {
            match line {
                Next::Line(Ok(_)) if *skipped < args.skip => *skipped += 1,
                Next::Line(Ok((content, body))) => outbox.put(&content, &body).await?,
                // What came before a bad line is sent.
                Next::Line(Err(error)) => return outbox.flush().await.and(Err(error)),
                Next::Pause => outbox.flush().await?,
                Next::End => return outbox.flush().await.map(|()| true),
            }
            Ok(false)
        };
        let (sent, was_interrupted) = interrupted.hold(sending).await;
        progress.set_position(outbox.accepted);
        match sent {
            Ok(true) => return End::All,
            Ok(false) if was_interrupted => return End::Interrupted,
            Ok(false) => {}
            Err(error) => return End::Failed(error),
        }
    }
}

fn tell(args: &Args, end: End, outbox: &Outbox<'_>, skipped: u64, as_json: bool) -> Exit {
    let accepted = outbox.accepted;
    let (exit, error) = match end {
        End::All => (Exit::Done, None),
        End::Interrupted => (Exit::Failed, Some(OperatorError::failed("it was interrupted", None))),
        End::Failed(error) => (if error.is_input { Exit::Wrong } else { Exit::Failed }, Some(error)),
    };
    let help = error.as_ref().map(|error| {
        let on = format!("--skip {} goes on behind what was accepted", skipped + accepted);
        error.help.as_ref().map_or(on.clone(), |help| format!("{help}; {on}"))
    });
    if as_json {
        let mut told = serde_json::Map::new();
        told.insert("queue".into(), args.name.as_str().into());
        told.insert("accepted".into(), accepted.into());
        told.insert("skipped".into(), skipped.into());
        if let Some(error) = error {
            told.insert("code".into(), error.code().into());
            told.insert("error".into(), error.what.into());
            told.insert("help".into(), help.into());
        }
        output::line(&serde_json::Value::Object(told).to_string());
        return exit;
    }
    if let Some(error) = error {
        output::error(&plain(&error.what), help.as_deref().map(plain).as_deref());
    }
    output::line(&format!("{} accepted", count(accepted, "message")));
    exit
}

/// A count on standard error, if that is a terminal.
fn progress() -> ProgressBar {
    let progress = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {human_pos} accepted, {per_sec}") {
        progress.set_style(style);
    }
    progress
}

/// Ctrl-C, as often as it is pressed.
struct Interrupt(tokio::signal::unix::Signal);

impl Interrupt {
    fn new() -> std::io::Result<Self> {
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).map(Self)
    }

    async fn next(&mut self) {
        self.0.recv().await;
    }

    /// Sees a sending through, and tells whether Ctrl-C was pressed meanwhile: the answer tells whether the batch is
    /// kept. Who presses it twice does not wait for that.
    async fn hold<T>(
        &mut self,
        sending: impl Future<Output = Result<T, OperatorError>>,
    ) -> (Result<T, OperatorError>, bool) {
        let mut sending = std::pin::pin!(sending);
        tokio::select! {
            biased;
            sent = &mut sending => return (sent, false),
            () = self.next() => output::note("waiting for the answer to what was sent; once more to leave at once"),
        }
        tokio::select! {
            sent = &mut sending => (sent, true),
            () = self.next() => {
                let what = "it was left while a batch was on its way, of which nobody knows whether it is kept";
                (Err(OperatorError::failed(what, None)), true)
            }
        }
    }
}

/// Reads messages, on a thread of its own: a terminal or a pipe may give nothing for as long as it likes.
struct Reader {
    sources: Vec<PathBuf>,
    files: bool,
    content: Option<ContentType>,
}

type Messages = mpsc::Sender<Result<(ContentType, Vec<u8>), OperatorError>>;

impl Reader {
    fn run(self, messages: &Messages) {
        let read = if self.sources.is_empty() {
            self.lines(&mut std::io::stdin().lock(), "standard input", messages)
        } else {
            self.sources.iter().try_for_each(|source| {
                let name = format!("`{}`", source.display());
                let unreadable = |error| OperatorError::input(format!("{name} cannot be read: {error}"), None);
                let file = File::open(source).map_err(unreadable)?;
                self.lines(&mut BufReader::new(file), &name, messages)
            })
        };
        if let Err(error) = read {
            let _ = messages.blocking_send(Err(error));
        }
    }

    fn lines(&self, source: &mut impl BufRead, name: &str, messages: &Messages) -> Result<(), OperatorError> {
        // A line break more than what a message may have, so that one that is too long is seen and never held whole.
        let most = MESSAGE_BYTES_MAX as u64 + 2;
        for number in 1_u64.. {
            let at = |why: String| OperatorError::input(format!("line {number} of {name}: {why}"), None);
            let mut line = Vec::new();
            let read = source.by_ref().take(most).read_until(b'\n', &mut line);
            if read.map_err(|error| at(format!("it cannot be read: {error}")))? == 0 {
                return Ok(());
            }
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.trim_ascii().is_empty() {
                continue;
            }
            let (content, body) = if self.files {
                let body = file(line).map_err(at)?;
                (self.content.clone().unwrap_or_else(|| ContentType::of(&body)), body)
            } else {
                (self.content.clone().unwrap_or(ContentType::Json), line.to_owned())
            };
            content.check(&body).map_err(|why| {
                let help = "--content-type text takes lines as they are";
                let help = (self.content.is_none() && content == ContentType::Json).then(|| help.to_owned());
                OperatorError { help, ..at(why) }
            })?;
            // Nobody listens any more once it was interrupted.
            if messages.blocking_send(Ok((content, body))).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The file of this name, one byte past what a message may have at most.
fn file(name: &[u8]) -> Result<Vec<u8>, String> {
    let name = std::str::from_utf8(name).map_err(|_| "it is no file's name".to_owned())?;
    let mut body = Vec::new();
    let read = File::open(name).and_then(|file| file.take(MESSAGE_BYTES_MAX as u64 + 1).read_to_end(&mut body));
    read.map(|_| body).map_err(|error| format!("`{name}` cannot be read: {error}"))
}
