//! Programs: the body on standard input, the rest in the environment, and the exit code says how it went.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jadpo_core::bindings;
use jadpo_core::inbound::rfc3339;
use jadpo_core::trigger::{FunctionCall, FunctionOutcome};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};

use crate::http::lacks;

/// Bytes that are kept of the end of standard error.
const STDERR_KEPT: usize = 2_000;
/// How long standard error is read after the program ended. Something that it left running may hold it open.
const STDERR_AFTER_END: Duration = Duration::from_millis(200);

/// The groups of the programs that run.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Runs a program in a folder, `limit` at most; then it is killed with all that it started. It gets the environment
/// without what is `secret`.
pub(super) async fn run(
    words: &[String],
    folder: &Path,
    secret: &BTreeSet<String>,
    call: &FunctionCall,
    limit: Duration,
) -> FunctionOutcome {
    let mut child = match spawn(words, folder, secret, call) {
        Ok(child) => child,
        Err(outcome) => return outcome,
    };
    let group = Group::of(child.id());
    match tokio::time::timeout(limit, talk(&mut child, &call.body)).await {
        Ok((ended, stderr)) => {
            group.has_ended();
            match ended {
                Ok(status) => FunctionOutcome::Exited { code: status.code(), stderr },
                Err(error) => FunctionOutcome::Unanswered(format!("nobody knows how it ended: {error}")),
            }
        }
        Err(_) => FunctionOutcome::Unanswered(format!(
            "it did not end within {} s and was killed, with what it had started",
            limit.as_secs_f32()
        )),
    }
}

/// Kills every program that runs, with all that they started: this process ends at once, and waits for none of them.
pub(super) fn kill_all() {
    let all = std::mem::take(&mut *running());
    all.into_iter().for_each(kill);
}

fn spawn(
    words: &[String],
    folder: &Path,
    secret: &BTreeSet<String>,
    call: &FunctionCall,
) -> Result<Child, FunctionOutcome> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(FunctionOutcome::Unanswered("it names no program".to_owned()));
    };
    // A name without a slash is looked for where programs are; any other is a place in the app's folder.
    let place = if program.contains('/') { folder.join(program) } else { program.into() };
    let mut command = Command::new(&place);
    command.args(arguments).current_dir(folder).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    for token in [bindings::ADMIN_TOKEN, bindings::ENQUEUE_TOKEN].into_iter().chain(secret.iter().map(String::as_str)) {
        command.env_remove(token);
    }
    command.envs(environment(call));
    command.spawn().map_err(|error| {
        let program = place.display();
        if lacks::is_of_this_machine(&error) {
            return FunctionOutcome::NotStarted(format!("{program} could not be started: {error}"));
        }
        FunctionOutcome::Unanswered(match error.kind() {
            ErrorKind::NotFound => format!("there is no program {program}, or what its first line names is not there"),
            ErrorKind::PermissionDenied => format!("{program} may not be run: {error}; make it executable"),
            _ => format!("{program} cannot be run: {error}"),
        })
    })
}

fn environment(call: &FunctionCall) -> [(&'static str, String); 8] {
    let latin = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
    let headers: Vec<(&str, String)> = call.headers.iter().map(|(name, value)| (name.as_str(), latin(value))).collect();
    [
        ("JADPO_QUEUE", call.queue.clone()),
        ("JADPO_MESSAGE_ID", call.message_id.clone()),
        ("JADPO_ATTEMPT", call.attempt.to_string()),
        ("JADPO_FUNCTION", call.function.clone()),
        ("JADPO_RECEIVED_AT", rfc3339(call.received_at_ms)),
        ("JADPO_QUERY", call.query.clone().unwrap_or_default()),
        ("CONTENT_TYPE", call.header("content-type").unwrap_or_default().to_owned()),
        ("JADPO_HEADERS", serde_json::json!(headers).to_string()),
    ]
}

/// Feeds the program and listens to it until it has ended.
async fn talk(child: &mut Child, body: &[u8]) -> (std::io::Result<ExitStatus>, String) {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let mut tail = Vec::new();
    let ended = {
        let both = async { tokio::join!(feed(stdin, body), listen(stderr, &mut tail)) };
        tokio::pin!(both);
        tokio::select! {
            ended = child.wait() => {
                let _ = tokio::time::timeout(STDERR_AFTER_END, both).await;
                ended
            }
            _ = &mut both => child.wait().await,
        }
    };
    (ended, String::from_utf8_lossy(&tail).into_owned())
}

/// A program may end, or close its input, before it has read all of it. That is its own business.
async fn feed(stdin: Option<ChildStdin>, body: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(body).await;
    }
}

/// Reads whatever comes, so that the program never waits for us, and keeps the end of it.
async fn listen(stderr: Option<ChildStderr>, tail: &mut Vec<u8>) {
    let Some(mut stderr) = stderr else { return };
    let mut chunk = [0; 8_192];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        tail.extend(chunk.iter().take(count));
        let over = tail.len().saturating_sub(STDERR_KEPT);
        tail.drain(..over);
    }
}

/// A process group that is killed whole unless it has ended.
pub(crate) struct Group(Option<u32>);

impl Group {
    /// Of the program that leads it.
    pub(crate) fn of(id: Option<u32>) -> Self {
        running().extend(id);
        Self(id)
    }

    /// It has ended by itself, and its number may be another's soon.
    pub(crate) fn has_ended(mut self) {
        if let Some(id) = self.0.take() {
            running().remove(&id);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.0.filter(|id| running().remove(id)) {
            kill(id);
        }
    }
}

fn running() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kill(group: u32) {
    if let Some(pid) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}
