//! One workerd, from its start to its end: its sockets, what it says, and whether it still answers.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use jadpo_core::host::{Level, LogEntry};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::child::Nursery;
use super::config::Places;
use super::failure::Failure;
use super::link::Link;
use super::maps::Maps;
use super::phase::{End, Running, Up};
use super::project::Project;
use crate::log;

/// How long workerd may take until its sockets are open: what Workers do at their start is part of that.
const START_MAX: Duration = Duration::from_secs(30);
/// How often it is asked whether its thread is free, and how long a handler may hold it: Cloudflare's limit of CPU time.
const PING_EVERY: Duration = Duration::from_secs(1);
/// How long it has for its own end.
const END_MAX: Duration = Duration::from_secs(2);
/// Lines that are kept of what it said at its start, and bytes of one.
const LINES_KEPT: usize = 60;
const LINE_BYTES_MAX: usize = 64 * 1024;

/// A workerd that runs.
pub(super) struct Process {
    pub(super) up: Up,
    child: Child,
    folder: PathBuf,
    end: watch::Sender<Option<End>>,
}

/// A line of workerd's own log.
#[derive(Deserialize)]
struct Said {
    event: Option<String>,
    socket: Option<String>,
    level: Option<String>,
    message: Option<String>,
    /// Where in workerd it was said; a Worker's `console` has none.
    source: Option<String>,
}

impl Process {
    /// Starts workerd on the config that was written, and waits until it can be asked.
    pub(super) async fn start(
        nursery: &Nursery,
        program: &Path,
        projects: &[Project],
        places: &Places<'_>,
    ) -> Result<Self, Failure> {
        let child = nursery.workerd(program, &places.config(), places.folder).await;
        let mut child = child.map_err(|error| {
            let help = "name another with --workerd, or leave that out: it is then found or fetched by npm";
            Failure::failed(format!("workerd ({}) cannot be run: {error}", program.display()), help)
        })?;
        let kept = Kept { only: only(projects), ..Kept::default() };
        let (opened, is_open) = oneshot::channel();
        let sockets = projects.len() + 1;
        let out = child.stdout.take().map(|out| tokio::spawn(listen(out, kept.clone(), Some((sockets, opened)))));
        let err = child.stderr.take().map(|err| tokio::spawn(listen(err, kept.clone(), None)));
        tokio::select! {
            opened = is_open => if opened.is_err() {
                return Err(not_started(&mut child, (out, err), &kept, projects).await);
            },
            () = sleep(START_MAX) => {
                let _ = child.kill().await;
                let what = format!("workerd was not ready within {} s", START_MAX.as_secs());
                return Err(Failure::wrong(what, "a Worker holds its thread while its script is first run: a loop, or much to do"));
            }
        }
        let workers = (0..projects.len()).map(|index| Link::to(places.worker(index))).collect();
        let (end, ends) = watch::channel(None);
        let up = Up {
            dispatcher: Link::to(places.dispatcher()),
            workers: Arc::new(workers),
            running: Arc::new(watch::Sender::new(Running::default())),
            end: ends,
        };
        Ok(Self { up, child, folder: places.folder.to_owned(), end })
    }

    /// Until it ends by itself.
    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => format!("workerd ended: {}", how(status)),
            Err(error) => format!("nobody knows whether workerd still runs: {error}"),
        }
    }

    /// Until it has not answered for so long.
    /// With Cloudflare's word for that.
    pub(super) fn hangs(&self, limit: Duration) -> impl Future<Output = (&'static str, String)> + use<> {
        let dispatcher = self.up.dispatcher.clone();
        let id = self.child.id();
        async move {
            loop {
                sleep(PING_EVERY).await;
                let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
                let request = Request::get("/ping").header(hyper::header::HOST, "dispatcher").body(body);
                let Ok(request) = request else { continue };
                // One that is broken off says that it ends, and that is somebody else's to see.
                if timeout(limit, dispatcher.send(request)).await.is_err() {
                    let limit = limit.as_secs();
                    if id.is_some_and(is_stopped) {
                        let why = format!("workerd was stopped by a signal (SIGSTOP), and did not go on for {limit} s");
                        return ("daemonDown", why);
                    }
                    return ("exceededCpu", format!("a handler held workerd's only thread for {limit} s"));
                }
            }
        }
    }

    /// Ends it, and says why to whoever waits for an answer of it.
    pub(super) async fn end(mut self, outcome: &'static str, why: String) {
        // First the word, so that whoever sees a connection break finds it.
        let running = *self.up.running.borrow();
        let _ = self.end.send(Some(End { outcome, why, running }));
        let is_told = outcome != "exceededCpu" && self.tell();
        if !is_told || timeout(END_MAX, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }

    fn tell(&self) -> bool {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        id.is_some_and(|id| kill_process(id, Signal::TERM).is_ok())
    }
}

/// Whether a signal holds a process, where the system tells.
fn is_stopped(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // Its state follows its name, which is in brackets and may hold some.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "in an unknown way".to_owned(),
    }
}

/// What it said until its sockets were open, and whether they are.
#[derive(Clone, Default)]
struct Kept {
    lines: Arc<Mutex<VecDeque<String>>>,
    is_open: Arc<AtomicBool>,
    /// Lines of this second, once the sockets are open.
    said: Arc<AtomicUsize>,
    /// The Worker, if there is only one: what is logged at the start has no name with it.
    only: Option<Arc<str>>,
}

/// Its lines that are written in a second. What fails for it fails for every request, and more lines say no more.
const LINES_A_SECOND: usize = 10;

impl Kept {
    /// Whether a line may still be written in this second. Those that are not are counted, and that is said.
    fn may_say(&self) -> bool {
        let before = self.said.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            let said = self.said.clone();
            tokio::spawn(async move {
                sleep(Duration::from_secs(1)).await;
                let more = said.swap(0, Ordering::Relaxed).saturating_sub(LINES_A_SECOND);
                if more > 0 {
                    let text = format!("workerd said {more} lines more within a second");
                    log::write(&LogEntry {
                        level: Level::Warn,
                        event: "workerd.log",
                        fields: vec![("text", text.into())],
                    });
                }
            });
        }
        before < LINES_A_SECOND
    }
}

fn only(projects: &[Project]) -> Option<Arc<str>> {
    match projects {
        [project] => Some(project.worker.name.as_str().into()),
        _ => None,
    }
}

type Listening = Option<tokio::task::JoinHandle<()>>;

/// Why it did not start: what it said, in the names that the person knows.
async fn not_started(
    child: &mut Child,
    (out, err): (Listening, Listening),
    kept: &Kept,
    projects: &[Project],
) -> Failure {
    let status = timeout(END_MAX, child.wait()).await;
    for listening in [out, err].into_iter().flatten() {
        let _ = timeout(END_MAX, listening).await;
    }
    let _ = child.kill().await;
    let said: Vec<String> = kept.lines.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
    let said = in_their_names(&said, projects);
    let help = if said.contains("No such module \"node:") {
        "a module of Node.js is there with `\"compatibility_flags\": [\"nodejs_compat\"]` in the Wrangler file"
    } else if said.contains("No such module") {
        "an import that is not bundled must be a file that a rule of the Wrangler file makes a module"
    } else {
        ""
    };
    let names: Vec<&str> = projects.iter().map(|project| project.worker.name.as_str()).collect();
    let of = names.join(", ");
    let what = match status {
        _ if !said.is_empty() => format!("workerd refuses what it is to run ({of}):\n{said}"),
        Ok(Ok(status)) => format!("workerd ended at its start: {}", how(status)),
        _ => "workerd did not start".to_owned(),
    };
    Failure::wrong(what, help)
}

/// What workerd says of its services, as what they are for who wrote them: Workers, and places in their sources.
fn in_their_names(said: &[String], projects: &[Project]) -> String {
    let maps = Maps::default();
    maps.set(projects);
    let mut worker = String::new();
    let lines = said.iter().flat_map(|said| said.lines()).map(|line| {
        if let Some((name, _)) = line.strip_prefix("service worker:").and_then(|rest| rest.split_once(": ")) {
            name.clone_into(&mut worker);
        }
        maps.mapped(&worker, &line.replace("service worker:", "Worker ")).into_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Reads what workerd says. Until its sockets are open all of it counts; after that a Worker's `console` comes another
/// way, with the event that it belongs to, and only workerd's own words are left.
async fn listen(from: impl AsyncRead + Unpin, kept: Kept, mut opening: Option<(usize, oneshot::Sender<()>)>) {
    let is_out = opening.is_some();
    let mut lines = BufReader::new(from);
    let mut line = Vec::new();
    while let Ok(count @ 1..) = read_line(&mut lines, &mut line).await {
        let _ = count;
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        let said: Option<Said> = serde_json::from_str(&text).ok();
        if let Some(Said { event: Some(event), .. }) = &said {
            if event == "listen" && said.as_ref().is_some_and(|said| said.socket.is_some()) {
                opening = match opening.take() {
                    Some((1, opened)) => {
                        kept.is_open.store(true, Ordering::Release);
                        let _ = opened.send(());
                        None
                    }
                    Some((more, opened)) => Some((more - 1, opened)),
                    None => None,
                };
            }
            continue;
        }
        match said {
            Some(said) => tell(&said, &kept),
            // A classic script's `console` comes as it is.
            None if is_out && !kept.is_open.load(Ordering::Acquire) => tell_start(Level::Info, &text, &kept),
            None => keep(&kept, text),
        }
    }
}

/// What a script logs when it is first run.
fn tell_start(level: Level, text: &str, kept: &Kept) {
    let fields = vec![("worker", kept.only.as_deref().into()), ("during", "start".into()), ("text", text.into())];
    log::write(&LogEntry { level, event: "worker.log", fields });
}

fn tell(said: &Said, kept: &Kept) {
    let is_open = kept.is_open.load(Ordering::Acquire);
    let (Some(message), level) = (&said.message, said.level.as_deref().unwrap_or("info")) else { return };
    let level = match level {
        "error" | "fatal" => Level::Error,
        "warn" | "warning" => Level::Warn,
        _ => Level::Info,
    };
    if said.source.is_none() {
        if !is_open {
            tell_start(level, message, kept);
        }
        return;
    }
    if !is_open {
        keep(kept, message.clone());
    }
    // What a handler threw comes with its event and its stack; a client that went away is no event of ours.
    if is_open && !message.contains("Uncaught exception") && !message.contains("disconnected") {
        // Its own stack is for who builds workerd.
        let text = message.split("\nstack:").next().unwrap_or_default();
        if kept.may_say() {
            log::write(&LogEntry { level, event: "workerd.log", fields: vec![("text", text.into())] });
        }
    }
}

fn keep(kept: &Kept, line: String) {
    if line.is_empty() {
        return;
    }
    let mut kept = kept.lines.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() == LINES_KEPT {
        kept.pop_front();
    }
    kept.push_back(line);
}

/// A line, without what of it is too long.
async fn read_line(from: &mut (impl AsyncBufReadExt + Unpin), line: &mut Vec<u8>) -> std::io::Result<usize> {
    line.clear();
    let mut read = 0;
    loop {
        let (used, is_end) = {
            let chunk = from.fill_buf().await?;
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = chunk.get(..end.map_or(chunk.len(), |end| end + 1)).unwrap_or(chunk);
            let room = LINE_BYTES_MAX.saturating_sub(line.len());
            line.extend(part.iter().take(room));
            (part.len(), end.is_some() || chunk.is_empty())
        };
        from.consume(used);
        read += used;
        if is_end {
            return Ok(read);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_many_lines_within_a_second_the_first_are_written() {
        let kept = Kept::default();
        assert_eq!((0..100).filter(|_| kept.may_say()).count(), LINES_A_SECOND);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_a_signal_holds_is_told_from_one_that_is_busy() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!is_stopped(child.id()));
        let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(id, Signal::STOP).unwrap();
        let held = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            is_stopped(child.id())
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(held);
    }
}
