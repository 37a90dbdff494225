//! Apps from their files and folders; problems are told with the file that has them.

use std::path::Path;

use jadpo_core::app::{Compiled, Lines, compile, project};
use jadpo_core::start::App;

/// The app of a file (`app.jadpo`, `project.toml` or `program.json`), or of a folder that holds one of the first two.
///
/// # Panics
/// When there is none, or it has problems.
#[track_caller]
pub(crate) fn load(path: &Path) -> App {
    let is_project = path.file_name().is_some_and(|name| name == "project.toml");
    if path.is_file() && !is_project {
        return built(&read(path), Some(path));
    }
    let folder = if is_project { path.parent().unwrap_or(path) } else { path };
    if !path.exists() {
        let here = std::env::current_dir().unwrap_or_default();
        panic!(
            "{}: there is no such file or folder in {}, which a test's paths are relative to",
            path.display(),
            here.display()
        );
    }
    let app = folder.join("app.jadpo");
    if app.is_file() && !is_project {
        return built(&read(&app), Some(&app));
    }
    let file = folder.join("project.toml");
    assert!(file.is_file(), "{}: there is no app.jadpo and no project.toml in this folder", path.display());
    of_project(&file, &folder.join("dev.toml"))
}

#[track_caller]
fn of_project(file: &Path, dev_file: &Path) -> App {
    let dev = dev_file.is_file().then(|| read(dev_file));
    let source = read(file);
    let project = project::compile(&source, dev.as_deref());
    let of_dev = project.dev.zip(dev).map(|(compiled, source)| problems(&source, &compiled, Some(dev_file)));
    let found = problems(&source, &project.project, Some(file)) + &of_dev.unwrap_or_default();
    match project.project.program {
        Some(program) => App::new(program),
        None => panic!("the project has problems:{found}"),
    }
}

#[track_caller]
fn read(path: &Path) -> String {
    match std::fs::read_to_string(path) {
        Ok(source) => source,
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

/// Builds an app from its file's text, or from what `jadpo build` made of that.
///
/// # Panics
/// When it has problems, or is no program that this build runs.
#[track_caller]
pub(crate) fn built(source: &str, path: Option<&Path>) -> App {
    if source.trim_start().starts_with('{') {
        match App::start(source) {
            Ok(app) => return app,
            Err(error) => panic!("{error}"),
        }
    }
    let compiled = compile(source);
    let found = problems(source, &compiled, path);
    match compiled.program {
        Some(program) => App::new(program),
        None => panic!("the app file has problems:{found}"),
    }
}

/// What is wrong in a file, a line each.
fn problems(source: &str, compiled: &Compiled, path: Option<&Path>) -> String {
    let lines = Lines::new(source);
    let file = path.map(|path| format!("{}:", path.display())).unwrap_or_default();
    let problems = compiled.problems.iter().map(|problem| {
        let (line, column) = lines.position(problem.span.start);
        format!("\n  {file}{line}:{column} {}: {}", problem.code, problem.message)
    });
    problems.collect()
}
