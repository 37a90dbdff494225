//! A program from an app file or from the program.json that a build made of one.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jadpo_core::app::project::DevSettings;
use jadpo_core::app::{self, Refusal};
use jadpo_core::program::Program;
use jadpo_core::start::App;
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

/// Reads and checks the file, for all deployables or the one that is named. What is wrong with it is printed as
/// `jadpo check` prints it.
pub(crate) fn program(file: &Path, deployable: Option<&str>, as_json: bool) -> Load {
    if file.extension().is_none_or(|extension| extension != "json") {
        return match diagnostics::program_of(file, deployable, false, as_json) {
            Ok((program, _)) => Load::Program(Box::new(program)),
            Err(exit) => Load::Reported(exit),
        };
    }
    let (exit, what, help) = match read(file) {
        Ok(program) => return unless_refused(program, deployable, as_json),
        Err(error) => error,
    };
    if as_json {
        output::line(&output::problem_json("file.unreadable", &what, help).to_string());
    } else {
        output::error(&what, help);
    }
    Load::Reported(exit)
}

/// The file that is meant where one is named: itself, or of a folder its app.jadpo, or where there is none, its
/// project.toml.
pub(crate) fn found(file: &Path) -> PathBuf {
    diagnostics::found(file)
}

/// Reads and checks the file for `jadpo dev`: of a project.toml, with the dev.toml beside it, and how that wants queues
/// to be run.
pub(crate) fn for_dev(file: &Path, as_json: bool) -> Result<(Program, DevSettings), Exit> {
    if file.extension().is_some_and(|extension| extension == "json") {
        return match program(file, None, as_json) {
            Load::Program(program) => Ok((*program, DevSettings::default())),
            Load::Reported(exit) => Err(exit),
        };
    }
    diagnostics::program_of(file, None, true, as_json)
}

/// A program.json was checked when it was written, by a build that may have refused less than this one.
fn unless_refused(program: Program, deployable: Option<&str>, as_json: bool) -> Load {
    let names = program.deployables.keys().filter(|name| deployable.is_none_or(|wanted| wanted == name.as_str()));
    let refusals: Vec<Refusal> = names.flat_map(|name| app::refusal(&program, name)).collect();
    if refusals.is_empty() {
        return Load::Program(Box::new(program));
    }
    if as_json {
        let problem =
            |r: &Refusal| json!({"code": r.code.as_str(), "message": r.message, "help": r.help, "severity": "error"});
        let problems: Vec<_> = refusals.iter().map(problem).collect();
        output::line(&json!({"ok": false, "problems": problems}).to_string());
    } else {
        for Refusal { code, message, help } in &refusals {
            output::refusal(code.as_str(), message, help);
        }
    }
    Load::Reported(Exit::Wrong)
}

fn read(file: &Path) -> Result<Program, (Exit, String, Option<&'static str>)> {
    let text = fs::read_to_string(file).map_err(|error| {
        let exit = if error.kind() == ErrorKind::NotFound { Exit::Wrong } else { Exit::Failed };
        (exit, format!("cannot read `{}`: {error}", file.display()), Some("name the app file or a program.json"))
    })?;
    match App::start(&text) {
        Ok(app) => Ok(app.program),
        Err(error) => Err((Exit::Wrong, format!("`{}`: {error}", file.display()), None)),
    }
}
