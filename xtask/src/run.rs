//! Runs other programs: as a step with progress and a log, or with their output passed through.

use crate::problem::{Problem, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How many of the last lines of a failed program are shown beside the log's path.
const LAST_LINES: usize = 20;

/// A program of `cargo run`'s making must not see what cargo told xtask about xtask's own package.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") || text == "CARGO_PRIMARY_PACKAGE" {
            command.env_remove(&name);
        }
    }
    command
}

/// The program's standard output, trimmed, or `None` when it is missing or fails.
pub(crate) fn ask(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs `command` as one step of the set-up or of a build. On a terminal its last line runs along behind a spinner;
/// elsewhere one line says that it started and one that it ended. Its whole output goes to `log`.
///
/// # Errors
/// When the program is missing or ends with anything but 0: with its last lines and the log's path.
pub(crate) fn step(title: &str, command: &mut Command, log: &Path) -> Result<()> {
    let started = Instant::now();
    let progress = Progress::start(title);
    let outcome = logged(command, log, |line| progress.line(line));
    match outcome {
        Ok(()) => {
            progress.done(&format!("{title} ({})", seconds(started.elapsed())));
            Ok(())
        }
        Err(problem) => {
            progress.failed(&format!("{title}: failed"));
            Err(problem)
        }
    }
}

/// Says that something is done that took no program, or no time.
pub(crate) fn say(text: &str) {
    anstream::eprintln!("{text}");
}

/// Runs a program whose own output is what the person wants to see.
///
/// # Errors
/// When the program is missing or ends with anything but 0.
pub(crate) fn through(command: &mut Command) -> Result<()> {
    let name = program_name(command);
    let status = command.status().map_err(|e| missing(&name, &e))?;
    if status.success() { Ok(()) } else { Err(Problem::new(format!("{name} ended with {status}"))) }
}

/// Runs a program that says something in JSON, an object a line, and hands each to `each`. Other lines are shown.
///
/// # Errors
/// When the program is missing or ends with anything but 0.
pub(crate) fn lines(command: &mut Command, mut each: impl FnMut(&Value)) -> Result<()> {
    let name = program_name(command);
    let io = |e: &std::io::Error| Problem::io(format!("running {name}"), e);
    let mut child = spawn_apart(command).map_err(|e| missing(&name, &e))?;
    // Ctrl-C is for us. The program learns of it by the end of its standard input, and what it says until it has ended
    // is still heard. A second handler is refused, and the first one does.
    let input = Mutex::new(child.stdin.take());
    let _ = ctrlc::set_handler(move || drop(input.lock().map(|mut input| input.take())));
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let line = line.map_err(|e| io(&e))?;
        match serde_json::from_str::<Value>(&line) {
            Ok(said) if said.is_object() => each(&said),
            _ => say(&line),
        }
    }
    let status = child.wait().map_err(|e| io(&e))?;
    if status.success() { Ok(()) } else { Err(Problem::new(format!("{name} ended with {status}"))) }
}

/// Starts a program that a terminal's Ctrl-C does not reach.
fn spawn_apart(command: &mut Command) -> std::io::Result<Child> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

/// A duration as people say it: `8.3 s`, `2 min 5 s`.
pub(crate) fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        whole => format!("{} min {} s", whole / 60, whole % 60),
    }
}

fn logged(command: &mut Command, log: &Path, mut each: impl FnMut(&str)) -> Result<()> {
    let name = program_name(command);
    let io = |e: std::io::Error| Problem::io(format!("writing {}", log.display()), &e);
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).map_err(io)?;
    }
    let mut file = File::create(log).map_err(io)?;
    writeln!(file, "$ {command:?}").map_err(io)?;

    // One pipe for both streams keeps their lines in order.
    let (reader, writer) = std::io::pipe().map_err(io)?;
    command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(io)?).stderr(writer);
    let mut child = command.spawn().map_err(|e| missing(&name, &e))?;
    // The command still holds our ends of the pipe, and the reader would wait for them for ever.
    command.stdout(Stdio::null()).stderr(Stdio::null());

    let mut last = VecDeque::with_capacity(LAST_LINES);
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.map_err(io)?;
        let line = String::from_utf8_lossy(&line);
        writeln!(file, "{line}").map_err(io)?;
        if line.trim().is_empty() {
            continue;
        }
        each(line.trim());
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(line.trim_end().to_owned());
    }
    let status = child.wait().map_err(|e| Problem::io(format!("waiting for {name}"), &e))?;
    if status.success() {
        return Ok(());
    }
    Err(Problem::new(format!("{name} ended with {status}")).log(last.into(), log.to_path_buf()))
}

fn missing(name: &str, error: &std::io::Error) -> Problem {
    let problem = Problem::new(format!("{name} cannot be started: {error}"));
    if error.kind() == std::io::ErrorKind::NotFound {
        return problem.help(format!("install {name}, or put it on the PATH"));
    }
    problem
}

fn program_name(command: &Command) -> String {
    let program = Path::new(command.get_program());
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

/// How far something is, on a terminal; elsewhere nothing is shown.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar that is not shown yet.
    pub(crate) fn new() -> Self {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("  {bar:30} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Shows `done` of `all`.
    pub(crate) fn show(&self, done: u64, all: u64, what: &'static str) {
        if self.0.is_finished() {
            self.0.reset();
        }
        self.0.set_length(all);
        self.0.set_message(what);
        self.0.set_position(done);
    }

    /// Takes it away until it is shown again.
    pub(crate) fn hide(&self) {
        self.0.finish_and_clear();
    }
}

/// A step that is under way.
struct Progress {
    /// Only on a terminal.
    bar: Option<ProgressBar>,
}

impl Progress {
    fn start(title: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            say(&format!("- {title} …"));
            return Self { bar: None };
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} {elapsed:.dim} {wide_msg:.dim}") {
            bar.set_style(style);
        }
        bar.set_prefix(title.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar: Some(bar) }
    }

    fn line(&self, line: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(line.to_owned());
        }
    }

    fn done(self, text: &str) {
        self.end();
        say(&format!("\x1b[32m✓\x1b[0m {text}"));
    }

    fn failed(self, text: &str) {
        self.end();
        say(&format!("\x1b[31m✗\x1b[0m {text}"));
    }

    fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
