//! A program from an app file or from the program.json that a build made of one.

use std::fs;
use std::path::Path;

use jadpo_core::program::{PROGRAM_FORMAT, Program};
use serde_json::json;

use super::diagnostics;
use super::output::{self, Exit};

/// A program, or the exit code after it was said why there is none.
pub(crate) enum Load {
    /// It is checked.
    Program(Box<Program>),
    /// What is wrong was printed.
    Reported(Exit),
}

/// Reads and checks the file. What is wrong with it is printed as `jadpo check` prints it.
pub(crate) fn program(file: &Path, as_json: bool) -> Load {
    if file.extension().is_none_or(|extension| extension != "json") {
        return match diagnostics::program_of(file, as_json) {
            Ok(program) => Load::Program(Box::new(program)),
            Err(exit) => Load::Reported(exit),
        };
    }
    match read(file) {
        Ok(program) => Load::Program(Box::new(program)),
        Err((what, help)) => {
            if as_json {
                println!("{}", json!({"ok": false, "error": what, "help": help}));
            } else {
                output::error(&what, help.as_deref());
            }
            Load::Reported(Exit::Wrong)
        }
    }
}

fn read(file: &Path) -> Result<Program, (String, Option<String>)> {
    let text = fs::read_to_string(file).map_err(|error| {
        let what = format!("cannot read `{}`: {error}", file.display());
        (what, Some("name the app file: jadpo build PATH".to_owned()))
    })?;
    let program: Program = serde_json::from_str(&text).map_err(|error| {
        let what = format!("`{}` is not a program.json: {error}", file.display());
        (what, Some("build it anew from the app file".to_owned()))
    })?;
    if program.format != PROGRAM_FORMAT {
        let what =
            format!("`{}` has the form {}, and this jadpo reads {PROGRAM_FORMAT}", file.display(), program.format);
        return Err((what, Some("build it anew from the app file with this jadpo".to_owned())));
    }
    Ok(program)
}
