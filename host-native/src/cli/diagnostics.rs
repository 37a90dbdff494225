//! An app file read from disk, and what was found in it, shown to a person or written as JSON.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use jadpo_core::app::project::{self, DevSettings, Project};
use jadpo_core::app::{self, Compiled, Lines, Reach, SOURCE_LEN_MAX, Span};
use jadpo_core::program::Program;
use serde::Serialize;

use super::output::{self, Exit};

/// A source line longer than this is not shown; only its place is.
const SHOWN_LINE_LEN_MAX: usize = 2_000;

/// The two files that an app may be in.
const APP: &str = "app.jadpo";
const PROJECT: &str = "project.toml";

/// An app file's text.
pub(crate) struct AppFile {
    /// The path as a person sees it.
    pub(crate) path: String,
    pub(crate) source: String,
}

/// Why there is no text to check.
pub(crate) struct Unreadable {
    pub(crate) path: String,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    pub(crate) exit: Exit,
}

impl AppFile {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<AppFile, Unreadable> {
        let shown = path.display().to_string();
        let fail = |message: String, help: Option<&str>, exit: Exit| Unreadable {
            path: shown.clone(),
            message,
            help: help.map(str::to_owned),
            exit,
        };
        let len = match fs::metadata(path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Where nothing was named, either file would do.
                let (what, help) = if path.file_name().is_some_and(|name| name == APP) {
                    let help = "write one of them, or name the folder that holds it after the command";
                    (format!("there is no file `{shown}`, and no {PROJECT} beside it"), help)
                } else {
                    let help = "name the app file after the command, or go to the folder that holds it";
                    (format!("there is no file `{shown}`"), help)
                };
                return Err(fail(what, Some(help), Exit::Wrong));
            }
            Err(error) => return Err(fail(format!("`{shown}` cannot be read: {error}"), None, Exit::Failed)),
        };
        if len > SOURCE_LEN_MAX as u64 {
            let message = format!("`{shown}` has {len} bytes, and an app file has at most {SOURCE_LEN_MAX}");
            return Err(fail(message, Some("is it an app file?"), Exit::Wrong));
        }
        let bytes =
            fs::read(path).map_err(|error| fail(format!("`{shown}` cannot be read: {error}"), None, Exit::Failed))?;
        let source = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let line = error.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
            fail(format!("`{shown}` is not UTF-8 text: line {line}, byte {at}"), Some("save it as UTF-8"), Exit::Wrong)
        })?;
        Ok(AppFile { path: shown, source })
    }
}

/// An app, checked: the files that it is in, what was found in each, and the program if nothing is wrong.
pub(crate) struct Checked {
    pub(crate) files: Vec<(AppFile, Compiled)>,
    pub(crate) program: Option<Program>,
    /// How a developer wants queues to be run, where a dev.toml says.
    pub(crate) settings: DevSettings,
}

impl Checked {
    /// Reads and checks an app file, or a project.toml and, `with_dev`, the dev.toml beside it.
    pub(crate) fn read(path: &Path, deployable: Option<&str>, with_dev: bool) -> Result<Self, Unreadable> {
        let path = found(path);
        let file = AppFile::read(&path)?;
        if path.extension().is_none_or(|extension| extension != "toml") {
            let mut compiled = app::compile_for(&file.source, deployable);
            let program = compiled.program.take();
            return Ok(Self { files: vec![(file, compiled)], program, settings: DevSettings::default() });
        }
        let dev = path.with_file_name("dev.toml");
        let dev = if with_dev && dev.exists() { Some(AppFile::read(&dev)?) } else { None };
        let Project { mut project, dev: dev_found, settings } =
            project::compile(&file.source, dev.as_ref().map(|dev| dev.source.as_str()));
        let program = project.program.take();
        let files = [Some((file, project)), dev.zip(dev_found)];
        Ok(Self { files: files.into_iter().flatten().collect(), program, settings })
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_right(&self) -> bool {
        self.files.iter().all(|(_, compiled)| compiled.problems.is_empty())
    }
}

/// The file that is meant: itself, or of a folder its app.jadpo, or where there is none, its project.toml.
pub(crate) fn found(path: &Path) -> PathBuf {
    let app = if path.is_dir() { path.join(APP) } else { path.to_owned() };
    let project = app.with_file_name(PROJECT);
    let is_app = app.file_name().is_some_and(|name| name == APP);
    if is_app && !app.exists() && project.exists() { project } else { app }
}

/// Reads and checks an app for the commands that need a program. What is wrong is printed as `jadpo check` prints it;
/// notes are left to that command. With a deployable's name, what the targets of the others refuse is left out.
pub(crate) fn program_of(
    path: &Path,
    deployable: Option<&str>,
    with_dev: bool,
    as_json: bool,
) -> Result<(Program, DevSettings), Exit> {
    let mut checked = Checked::read(path, deployable, with_dev).map_err(|error| {
        if as_json {
            print_json(&unreadable_json(&error));
        } else {
            output::error(&error.message, error.help.as_deref());
        }
        error.exit
    })?;
    if let Some(program) = checked.program.take() {
        return Ok((program, checked.settings));
    }
    if as_json {
        print_json(&json(&checked, None));
    } else {
        checked.files.iter().for_each(|(file, compiled)| print(file, compiled));
    }
    Err(Exit::Wrong)
}

/// One thing that is shown, a problem or a note.
pub(super) struct Shown<'a> {
    pub(super) level: Level<'static>,
    pub(super) code: &'a str,
    pub(super) span: Span,
    pub(super) message: &'a str,
    pub(super) help: Option<&'a str>,
    pub(super) related: Option<&'a (Span, String)>,
}

/// Shows everything that was found, with its source, and a summary line.
pub(crate) fn print(file: &AppFile, compiled: &Compiled) {
    let lines = Lines::new(&file.source);
    let problems = compiled.problems.iter().map(|problem| Shown {
        level: Level::ERROR,
        code: problem.code.as_str(),
        span: problem.span,
        message: &problem.message,
        help: problem.help.as_deref(),
        related: problem.related.as_ref(),
    });
    let notes = compiled.notes.iter().map(|note| Shown {
        level: Level::NOTE,
        code: note.code.as_str(),
        span: note.span,
        message: &note.message,
        help: note.help.as_deref(),
        related: None,
    });
    problems.chain(notes).for_each(|shown| show(file, &lines, &shown));
    summary(file, compiled);
}

/// Shows one thing with its source, on standard error.
pub(super) fn show(file: &AppFile, lines: &Lines<'_>, shown: &Shown<'_>) {
    let text = Renderer::styled().decor_style(DecorStyle::Ascii).render(&[group(file, lines, shown)]);
    anstream::eprintln!("{text}\n");
}

fn group<'a>(file: &'a AppFile, lines: &Lines<'_>, shown: &Shown<'a>) -> Group<'a> {
    let title = shown.level.clone().primary_title(shown.message).id(shown.code);
    let (line, column) = lines.position(shown.span.start);
    let related_start = shown.related.map_or(shown.span.start, |(span, _)| span.start);
    let window = lines_around(&file.source, shown.span.start.min(related_start), shown.span.start.max(related_start));
    let source = file.source.get(window.clone()).unwrap_or_default();
    let group = if source.lines().any(|line| line.len() > SHOWN_LINE_LEN_MAX) {
        title.element(Origin::path(&file.path).line(line).char_column(column))
    } else {
        let (first_line, _) = lines.position(window.start);
        let at = |span: Span| within_line(source, span.start - window.start, span.end.saturating_sub(window.start));
        let mut snippet = Snippet::source(source)
            .path(&file.path)
            .line_start(first_line)
            .annotation(AnnotationKind::Primary.span(at(shown.span)));
        if let Some((span, label)) = shown.related {
            snippet = snippet.annotation(AnnotationKind::Context.span(at(*span)).label(label.as_str()));
        }
        title.element(snippet)
    };
    match shown.help {
        Some(help) => group.element(Level::HELP.message(help)),
        None => group,
    }
}

/// The whole lines that hold both bytes.
fn lines_around(source: &str, first: usize, last: usize) -> Range<usize> {
    let start = source.get(..first).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let end = source.get(last..).and_then(|after| after.find('\n')).map_or(source.len(), |at| last + at);
    start..end.max(start)
}

/// A span cut at the end of its first line: what is wrong starts there, and a long block under it says nothing.
fn within_line(source: &str, start: usize, end: usize) -> Range<usize> {
    let rest = source.get(start..).unwrap_or_default();
    let line_end = start + rest.find('\n').unwrap_or(rest.len());
    start..end.min(line_end).max(start)
}

fn summary(file: &AppFile, compiled: &Compiled) {
    let path = &file.path;
    let notes = match compiled.notes.len() {
        0 => String::new(),
        count => format!(", {}", counted(count, "note")),
    };
    if compiled.problems.is_empty() {
        super::output::line(&format!("{path}: no problems{notes}"));
    } else {
        let more = match compiled.problems_more {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        anstream::eprintln!("{path}: {}{more}{notes}", counted(compiled.problems.len(), "problem"));
    }
}

pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// What `--json` prints: one object.
#[derive(Serialize)]
pub(crate) struct Report {
    file: String,
    ok: bool,
    problems: Vec<Finding>,
    problems_more: usize,
    notes: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<Vec<Reach>>,
}

#[derive(Serialize)]
struct Finding {
    /// The file, if it is not the one that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    code: &'static str,
    message: String,
    help: Option<String>,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
    severity: &'static str,
}

pub(crate) fn json(checked: &Checked, network: Option<Vec<Reach>>) -> Report {
    let named = checked.files.first().map(|(file, _)| file.path.clone()).unwrap_or_default();
    let mut report = Report {
        ok: checked.is_right(),
        problems: Vec::new(),
        problems_more: checked.files.iter().map(|(_, compiled)| compiled.problems_more).sum(),
        notes: Vec::new(),
        network,
        file: named,
    };
    for (file, compiled) in &checked.files {
        let lines = Lines::new(&file.source);
        let finding = |code: app::Code, span: Span, message: &str, help: &Option<String>, severity| {
            let (line, column) = lines.position(span.start);
            let (end_line, end_column) = lines.position(span.end);
            let (message, help, code) = (message.to_owned(), help.clone(), code.as_str());
            let file = (file.path != report.file).then(|| file.path.clone());
            Finding { file, code, message, help, line, column, end_line, end_column, severity }
        };
        let problems = compiled.problems.iter();
        let problems: Vec<Finding> =
            problems.map(|found| finding(found.code, found.span, &found.message, &found.help, "error")).collect();
        let notes = compiled.notes.iter();
        let notes: Vec<Finding> =
            notes.map(|found| finding(found.code, found.span, &found.message, &found.help, "note")).collect();
        report.problems.extend(problems);
        report.notes.extend(notes);
    }
    report
}

/// The report of a file that could not be checked at all.
pub(crate) fn unreadable_json(error: &Unreadable) -> Report {
    let problem = Finding {
        file: None,
        code: "file.unreadable",
        message: error.message.clone(),
        help: error.help.clone(),
        line: 1,
        column: 1,
        end_line: 1,
        end_column: 1,
        severity: "error",
    };
    let file = error.path.clone();
    Report { file, ok: false, problems: vec![problem], problems_more: 0, notes: Vec::new(), network: None }
}

pub(crate) fn print_json(report: &Report) {
    // A report holds nothing that JSON cannot; a closed pipe is its reader's choice.
    if let Ok(text) = serde_json::to_string_pretty(report) {
        super::output::line(&text);
    }
}
