//! Whether the programs that an app's functions name can be run on this machine. On another they may be there, so this
//! is worth knowing and no more.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jadpo_core::app::{Code, Note, Span};
use jadpo_core::program::{Program, Target};

use super::diagnostics::Checked;

/// Adds a note for each program that is not there or may not be run, at its place in the app's files.
pub(crate) fn note_missing(checked: &mut Checked, program: &Program, folder: &Path) {
    for (function, declared) in &program.functions {
        let Target::Exec(words) = &declared.target else { continue };
        let Some(word) = words.first() else { continue };
        let Some((what, help)) = amiss(word, folder) else { continue };
        let literal = format!("\"{word}\"");
        let found = checked.files.iter_mut().find_map(|(file, compiled)| {
            let at = file.source.find(&literal)?;
            Some((compiled, Span { start: at, end: at + literal.len() }))
        });
        let place = match found {
            Some(place) => Some(place),
            // It is written with escapes.
            None => checked.files.first_mut().map(|(_, compiled)| (compiled, Span::default())),
        };
        if let Some((compiled, span)) = place {
            let message = format!("function `{function}` runs {what}");
            compiled.notes.push(Note { code: Code::NoteUnreachable, span, message, help: Some(help) });
            compiled.notes.sort_by_key(|note| note.span);
        }
    }
}

/// What is amiss with a program, and what to do. A name without a slash is looked for where programs are.
fn amiss(word: &str, folder: &Path) -> Option<(String, String)> {
    let is_program = |data: &Metadata| data.is_file() && data.permissions().mode() & 0o111 != 0;
    if !word.contains('/') {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |folder: PathBuf| folder.join(word).metadata().is_ok_and(|data| is_program(&data));
        let what = format!("`{word}`, and no such program is on the PATH");
        let help = format!("install it, or write `./{word}` if it is beside the app file");
        return (!std::env::split_paths(&path).any(is_there)).then_some((what, help));
    }
    let place = folder.join(word);
    match place.metadata() {
        Ok(data) if is_program(&data) => None,
        Ok(_) => {
            let help = format!("make it executable: chmod +x {}", place.display());
            Some((format!("`{word}`, which is no executable file"), help))
        }
        Err(_) => {
            let help = format!("write it to {}, or correct the name", place.display());
            Some((format!("`{word}`, which is not there"), help))
        }
    }
}
