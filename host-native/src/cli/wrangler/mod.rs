//! A Wrangler file, shown as jadpo reads it, with what is wrong in it.

mod shown;

use std::path::{Path, PathBuf};

use annotate_snippets::Level;
use jadpo_core::app::{Lines, Span};
use jadpo_core::workers::{Format, Given, Note, Worker, read};
use serde_json::{Value, json};

use super::diagnostics::{self, AppFile, Shown, counted};
use super::output::{self, Exit};

/// Their names, in the order in which Wrangler looks for them.
const NAMES: [&str; 3] = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"];
/// What a folder may hold that makes it an app's.
const APPS: [&str; 2] = ["app.jadpo", "project.toml"];

/// The Wrangler file that a path means, if it means one: itself, or that of a folder without an app file.
pub(super) fn found(path: &Path) -> Option<PathBuf> {
    // What `jadpo check` means where nothing is named.
    let is_default = path.as_os_str() == APPS[0] && !path.exists();
    let path = if is_default { Path::new(".") } else { path };
    if path.is_dir() {
        let file = |name: &&str| Some(path.join(name)).filter(|file| file.is_file());
        let is_app = APPS.iter().find_map(file).is_some();
        return NAMES.iter().find_map(file).filter(|_| !is_app);
    }
    let name = path.file_name()?.to_str()?;
    let is_json = path.extension().is_some_and(|extension| extension == "json" || extension == "jsonc");
    (is_json || (name.starts_with("wrangler") && is_toml(path))).then(|| path.to_owned())
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

/// Checks the file for one environment: shows the Worker that it describes, or what is wrong.
pub(super) fn check(path: &Path, environment: Option<&str>, as_json: bool) -> Exit {
    let file = match AppFile::read(path) {
        Ok(file) => file,
        Err(error) => {
            let note = Note { path: String::new(), message: error.message, help: error.help, span: None };
            if as_json {
                print(
                    &json!({"file": error.path, "ok": false, "problems": [shown_note(&note, None, "error")], "notes": []}),
                );
            } else {
                output::error(&note.message, note.help.as_deref());
            }
            return error.exit;
        }
    };
    let format = if is_toml(path) { Format::Toml } else { Format::Json };
    let (worker, problems, warnings) = match read(&file.source, format, environment) {
        Ok(Given { worker, warnings }) => (Some(worker), Vec::new(), warnings),
        Err(problems) => (None, problems, Vec::new()),
    };
    if as_json {
        print(&report(&file, worker.as_ref(), &problems, &warnings));
    } else {
        tell(&file, worker.as_ref(), &problems, &warnings);
    }
    if worker.is_some() { Exit::Done } else { Exit::Wrong }
}

fn print(report: &Value) {
    output::line(&format!("{report:#}"));
}

fn report(file: &AppFile, worker: Option<&Worker>, problems: &[Note], warnings: &[Note]) -> Value {
    let lines = Lines::new(&file.source);
    let notes = |notes: &[Note], severity| -> Vec<Value> {
        notes.iter().map(|note| shown_note(note, Some(&lines), severity)).collect()
    };
    let mut report = json!({
        "file": file.path,
        "ok": worker.is_some(),
        "problems": notes(problems, "error"),
        "notes": notes(warnings, "warning"),
    });
    if let (Some(worker), Some(report)) = (worker, report.as_object_mut()) {
        report.insert("worker".to_owned(), shown::json(worker));
    }
    report
}

fn shown_note(note: &Note, lines: Option<&Lines<'_>>, severity: &str) -> Value {
    let mut shown = json!({"path": note.path, "message": note.message, "help": note.help, "severity": severity});
    if let (Some(span), Some(lines), Some(shown)) = (&note.span, lines, shown.as_object_mut()) {
        let ((line, column), (end_line, end_column)) = (lines.position(span.start), lines.position(span.end));
        let places = [("line", line), ("column", column), ("end_line", end_line), ("end_column", end_column)];
        shown.extend(places.map(|(name, at)| (name.to_owned(), at.into())));
    }
    shown
}

fn tell(file: &AppFile, worker: Option<&Worker>, problems: &[Note], warnings: &[Note]) {
    let lines = Lines::new(&file.source);
    let leveled = problems.iter().map(|note| (Level::ERROR, note));
    for (level, note) in leveled.chain(warnings.iter().map(|note| (Level::WARNING, note))) {
        let span = note.span.as_ref().map_or_else(Span::default, |span| Span { start: span.start, end: span.end });
        let code = if note.path.is_empty() { "file" } else { note.path.as_str() };
        let (message, help) = (note.message.as_str(), note.help.as_deref());
        diagnostics::show(file, &lines, &Shown { level, code, span, message, help, related: None });
    }
    let warned = if warnings.is_empty() { String::new() } else { format!(", {}", counted(warnings.len(), "warning")) };
    match worker {
        Some(worker) => {
            output::line(&shown::table(worker));
            output::line(&format!("{}: no problems{warned}", file.path));
        }
        None => anstream::eprintln!("{}: {}", file.path, counted(problems.len(), "problem")),
    }
}
