//! `project.toml` and `dev.toml`: the short way to declare queues, webhooks and functions, read into a [`Program`].
//!
//! What is wrong in either is found in one run, with its place, as in an app file. Names of queues and functions may
//! have dashes here. A queue is a connection of its own name.

mod functions;
mod queues;
mod table;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};

use super::code::{Area, Code};
use super::problem::{Findings, Lines, Problem, Span};
use super::{Compiled, SOURCE_LEN_MAX, UNNAMED_APP, forms};
use crate::program::{Deployable, PROGRAM_FORMAT, Platform, Program, Trigger};
use table::{Source, Table};

/// The deployable that every project has: a server that answers HTTP and runs the queues.
pub const DEPLOYABLE: &str = "server";

/// What became of a project's files.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    /// What was found in project.toml, and the program when nothing is wrong in either file.
    pub project: Compiled,
    /// What was found in dev.toml, if there is one. It holds no program.
    pub dev: Option<Compiled>,
    /// How a developer wants queues to be run.
    pub settings: DevSettings,
}

/// `[dev]` of dev.toml: how `jadpo dev` runs the queues. What is not said is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DevSettings {
    /// Whether a POST runs the functions and answers with every attempt's outcome.
    pub immediate: Option<bool>,
    /// The time between two drain ticks, in milliseconds.
    pub tick_ms: Option<u32>,
    /// How long a failed message stays hidden, for every queue, in milliseconds.
    pub visibility_ms: Option<u32>,
}

/// Shortest and longest time between two drain ticks, in milliseconds.
const TICK_MS: (u32, u32) = (10, 3_600_000);
/// Shortest and longest visibility, in milliseconds. Tests want it short.
const VISIBILITY_MS: (u32, u32) = (1, 43_200_000);

/// Which of the two files something is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum File {
    Project,
    Dev,
}

/// Where something is.
type Place = (File, Span);

/// Both files' findings.
#[derive(Default)]
struct Both {
    project: Findings,
    dev: Findings,
}

impl Both {
    fn of(&mut self, file: File) -> &mut Findings {
        match file {
            File::Project => &mut self.project,
            File::Dev => &mut self.dev,
        }
    }
}

/// Reads and checks project.toml, and dev.toml beside it if that is what is wanted: a server for production has none.
#[must_use]
pub fn compile(project: &str, dev: Option<&str>) -> Project {
    let mut found = Both::default();
    let program = parts(project, dev, &mut found);
    let is_right = !found.project.has_problems() && !found.dev.has_problems();
    let (program, settings) = program.unzip();
    Project {
        project: compiled(project, found.project, is_right, program),
        dev: dev.map(|dev| compiled(dev, found.dev, is_right, None)),
        settings: settings.unwrap_or_default(),
    }
}

fn compiled(source: &str, findings: Findings, is_right: bool, program: Option<Program>) -> Compiled {
    let (mut problems, problems_more, mut notes) = findings.finish();
    // What could not be parsed makes nonsense of the rest of its line.
    let lines = Lines::new(source);
    let line = |problem: &Problem| lines.position(problem.span.start).0;
    let is_syntax = |problem: &Problem| problem.code == Code::SyntaxTomlInvalid;
    let damaged: BTreeSet<usize> = problems.iter().filter(|problem| is_syntax(problem)).map(line).collect();
    problems.retain(|problem| is_syntax(problem) || !damaged.contains(&line(problem)));
    // Whether something is used shows when all is right.
    notes.retain(|note| is_right || note.code != Code::NoteUnused);
    Compiled { program: program.filter(|_| is_right), problems, problems_more, notes }
}

fn parts(project: &str, dev: Option<&str>, found: &mut Both) -> Option<(Program, DevSettings)> {
    let project = sized(project, File::Project, found)?;
    let dev = match dev {
        Some(dev) => sized(dev, File::Dev, found)?,
        None => "",
    };
    let project = Source::parse(project, File::Project, found);
    let dev = Source::parse(dev, File::Dev, found);
    let (top, dev_top) = (project.top(), dev.top());
    check_keys(&top, &dev_top, found);
    let app = top.formed(found, "name", "app name", forms::label, "it has lowercase letters, digits and dashes");
    let names = queues::names(&top);
    let functions = functions::read(&top, &dev_top, &names, found);
    let connections = queues::read(&top, &functions, found);
    functions::check(&functions, &connections, found);
    let webhooks = webhooks::read(&top, &names, found);
    let settings = settings(&dev_top, found);
    let triggers = vec![Trigger::Http, Trigger::Tick];
    let server = Deployable { target: Platform::Native, triggers };
    let program = Program {
        format: PROGRAM_FORMAT,
        app: app.unwrap_or(UNNAMED_APP).to_owned(),
        connections,
        functions: functions.into_functions(),
        webhooks,
        events: BTreeMap::new(),
        receiving: BTreeMap::new(),
        subscribers: BTreeMap::new(),
        deployables: BTreeMap::from([(DEPLOYABLE.to_owned(), server)]),
    };
    Some((program, settings))
}

fn sized<'a>(source: &'a str, file: File, found: &mut Both) -> Option<&'a str> {
    if source.len() <= SOURCE_LEN_MAX {
        return Some(source);
    }
    let message = format!("the file has {} bytes, and {SOURCE_LEN_MAX} are the most", source.len());
    found.of(file).problem(Code::FileTooLarge, Span::default(), message).help("keep data elsewhere");
    None
}

fn check_keys(project: &Table<'_>, dev: &Table<'_>, found: &mut Both) {
    const DEV: &str = "write it in dev.toml, beside this file: a server for production does not read that";
    const SCHEDULE: &str = "a schedule belongs to its function: under `[functions]` write \
        `sweep = { exec = [\"./sweep.sh\"], schedule = \"0 * * * *\" }`";
    let elsewhere = [("dev", DEV), ("schedules", SCHEDULE), ("schedule", SCHEDULE)];
    project.check(found, &["name", "queues", "webhooks", "functions"], &elsewhere);
    const DECLARE: &str = "declare it in project.toml: it is the same for every developer";
    let elsewhere = [("queues", DECLARE), ("webhooks", DECLARE), ("name", DECLARE), ("schedules", SCHEDULE)];
    dev.check(found, &["dev", "functions"], &elsewhere);
}

fn settings(dev: &Table<'_>, found: &mut Both) -> DevSettings {
    let Some(table) = dev.table(found, "dev", Area::Dev, "[dev]") else { return DevSettings::default() };
    table.check(found, &["queues", "queue_tick_ms", "queue_visibility_ms"], &[]);
    let how = table.text(found, "queues").and_then(|(how, span)| match how {
        "immediate" => Some(true),
        "async" => Some(false),
        _ => {
            let message = "`queues` is neither \"immediate\" nor \"async\"";
            let said = found.of(table.file).problem(Code::DevValueInvalid, span, message);
            said.help("write `queues = \"immediate\"`: a POST then runs the functions and answers with every attempt");
            None
        }
    });
    DevSettings {
        immediate: how,
        tick_ms: table.count(found, "queue_tick_ms", TICK_MS.0, TICK_MS.1),
        visibility_ms: table.count(found, "queue_visibility_ms", VISIBILITY_MS.0, VISIBILITY_MS.1),
    }
}
