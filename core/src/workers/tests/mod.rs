//! Wrangler files and what becomes of them.

mod beside;
mod dotenv;
mod environments;
mod keys;
mod queues;
mod robust;
mod whole;
mod written;

use super::{Format, Given, Note, Worker, read};

/// A right file's Worker.
pub(super) fn worker(json: &str) -> Worker {
    given(json, None).worker
}

pub(super) fn given(json: &str, environment: Option<&str>) -> Given {
    read(json, Format::Json, environment).unwrap_or_else(|problems| panic!("refused: {problems:#?}"))
}

/// A file with this in it beside what every file needs.
pub(super) fn with(more: &str) -> String {
    format!("{{ \"name\": \"w\", \"main\": \"w.js\", \"compatibility_date\": \"2026-11-01\", {more} }}")
}

/// What is said, a line for each: the path, the bytes of the text that it is about, the message, the help.
pub(super) fn said(text: &str, notes: &[Note]) -> String {
    let mut lines = String::new();
    for Note { path, message, help, span } in notes {
        let place = span.clone().map_or("-", |span| text.get(span).expect("a span within the text"));
        let help = help.as_deref().unwrap_or("-");
        let path = if path.is_empty() { "file" } else { path };
        let place = if place.is_empty() { "nothing" } else { place };
        lines.push_str(&format!("{path} @ {place}\n  {message}\n  help: {help}\n"));
    }
    lines
}

/// What a file is refused for.
pub(super) fn problems(json: &str, environment: Option<&str>) -> String {
    match read(json, Format::Json, environment) {
        Ok(given) => panic!("taken as {given:#?}"),
        Err(problems) => said(json, &problems),
    }
}

/// What is said of a file that is taken.
pub(super) fn warnings(json: &str, environment: Option<&str>) -> String {
    said(json, &given(json, environment).warnings)
}
