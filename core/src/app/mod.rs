//! The app file: `app.jadpo` read and checked into a [`Program`].
//!
//! [`compile`] is the way in. A source goes through tokens (`lex`), the ends of its brackets (`groups`), entries
//! (`parse` into `syntax`), and then one reader per block. Nothing here stops at the first problem, and nothing
//! takes more than linear time and memory in the size of the source, which has a limit.

mod claims;
mod code;
mod connections;
mod deployables;
mod events;
mod fields;
mod flow;
mod forms;
mod groups;
mod lex;
mod literal;
mod local_queues;
mod loops;
mod names;
mod network;
mod notes;
mod parse;
mod problem;
pub mod project;
mod refusal;
mod scheduled;
mod syntax;
mod target_checks;
mod targets;
mod values;
mod written;

pub use code::Code;
pub use network::{Reach, network};
pub use problem::{Lines, Note, PROBLEMS_MAX, Problem, Span, closest};
pub use refusal::{Refusal, refusal};

use crate::program::{PROGRAM_FORMAT, Program};
use code::Area;
use names::Names;
use problem::Findings;
pub(crate) use problem::quote;
use syntax::{Block, What};
use values::{Key, Reading};

/// The most bytes of an app file.
pub const SOURCE_LEN_MAX: usize = 1024 * 1024;

/// The most named things in one block. It bounds what compares each with each.
const ENTRIES_MAX: usize = 1_000;

/// What became of an app file.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    /// The program, when there is no problem.
    pub program: Option<Program>,
    /// What is wrong, in the order of its place; at most [`PROBLEMS_MAX`].
    pub problems: Vec<Problem>,
    /// How many problems there are beside those.
    pub problems_more: usize,
    /// What is worth knowing, in the order of its place.
    pub notes: Vec<Note>,
}

/// Reads and checks an app file, for every deployable of it.
pub fn compile(source: &str) -> Compiled {
    compile_for(source, None)
}

/// Reads and checks an app file. With a deployable's name, what a target refuses (`target.…`) of the other
/// deployables is left out; everything else is checked all the same.
pub fn compile_for(source: &str, deployable: Option<&str>) -> Compiled {
    let mut findings = Findings::default();
    let program = if source.len() > SOURCE_LEN_MAX {
        let message = format!("the file has {} bytes, and {SOURCE_LEN_MAX} are the most", source.len());
        let help = "an app file declares what there is; keep data elsewhere";
        findings.problem(Code::FileTooLarge, Span::default(), message).help(help);
        None
    } else {
        read(source, deployable, &mut findings)
    };
    let is_right = !findings.has_problems();
    let (problems, problems_more, notes) = findings.finish();
    Compiled { program: program.filter(|_| is_right), problems, problems_more, notes }
}

fn read(source: &str, deployable: Option<&str>, findings: &mut Findings) -> Option<Program> {
    let file = parse::file(source, &Area::ALL.map(Area::key), findings);
    let names = Names::of_file(&file);
    check_names(&file, findings);
    let mut reading = Reading { source, findings };
    let app = app(&mut reading, &file);
    let empty = Block::default();
    let mut block = |area| block(&mut reading, &file, area).unwrap_or(&empty);
    let [connections, functions, webhooks, events, receiving, subscribers, deployables] = [
        block(Area::Connection),
        block(Area::Function),
        block(Area::Webhook),
        block(Area::Event),
        block(Area::Receiving),
        block(Area::Subscriber),
        block(Area::Deployable),
    ];
    let connections = connections::read(&mut reading, connections, &names);
    let declared = functions;
    let functions = targets::functions(&mut reading, declared, &names, &connections);
    targets::check_loops(&mut reading, declared, &connections, &functions);
    let webhooks = flow::webhooks(&mut reading, webhooks, &names, &connections);
    let events = events::read(&mut reading, events);
    let receiving = flow::receiving(&mut reading, receiving, &names, &connections, &events);
    let subscribers = targets::subscribers(&mut reading, subscribers, &names);
    let declared = deployables;
    let deployables = deployables::read(&mut reading, declared);
    let program = Program {
        format: PROGRAM_FORMAT,
        app: app.clone().unwrap_or_default(),
        connections,
        functions,
        webhooks,
        events,
        receiving,
        subscribers,
        deployables,
    };
    target_checks::check(findings, declared, &program, deployable);
    if !findings.has_problems() {
        notes::add(findings, &file, &program);
    }
    app.map(|_| program)
}

/// What an app is called whose file does not say.
const UNNAMED_APP: &str = "app";

fn app(reading: &mut Reading<'_>, file: &Block) -> Option<String> {
    let key = Key { area: Area::App, name: "app" };
    let Some(entry) = file.entry("app") else {
        let help = "start it with a line like `app: \"warehouse\"`";
        if file.entries.is_empty() {
            if !file.damaged {
                reading.findings.problem(Code::AppKeyMissing, Span::default(), "the file is empty").help(help);
            }
            return None;
        }
        // The driver's own documentation begins with a file that holds nothing but connections.
        let message = format!("the file does not name its app, so it is called `{UNNAMED_APP}`");
        reading.findings.note(Code::AppKeyMissing, Span::default(), message, Some(help.to_owned()));
        return Some(UNNAMED_APP.to_owned());
    };
    let rule = "an app's name has lowercase letters, digits and dashes, and at most 63 of them";
    reading.formed(key, &entry.value, "app name", forms::label, rule).map(|(text, ())| text.text.to_owned())
}

fn block<'a>(reading: &mut Reading<'_>, file: &'a Block, area: Area) -> Option<&'a Block> {
    let entry = file.entry(area.key())?;
    if let What::Block(block) = &entry.value.what {
        let Some(over) = block.entries.get(ENTRIES_MAX) else { return Some(block) };
        let message = format!("`{}` holds {} things, and {ENTRIES_MAX} are the most", area.key(), block.entries.len());
        reading.findings.problem(Code::FileTooMany, over.key_span, message).help("split the app in two");
        return None;
    }
    let key = Key { area, name: area.key() };
    reading.wrong_kind(key, &entry.value, "a block", format!("write `{}: {{ NAME: … }}`", area.key()));
    None
}

/// A thing's name is a name also where it is written in quotes, which the syntax allows for the fields of a body.
fn check_names(file: &Block, findings: &mut Findings) {
    for area in Area::ALL {
        let Some(What::Block(block)) = file.entry(area.key()).map(|entry| &entry.value.what) else { continue };
        for entry in &block.entries {
            // A wrong name without quotes was said when it was parsed.
            let is_quoted = entry.key_span.end - entry.key_span.start != entry.key.len();
            if is_quoted && !literal::is_name(&entry.key) {
                findings
                    .problem(Code::SyntaxNameInvalid, entry.key_span, format!("{} is not a name", quote(&entry.key)))
                    .help("names have at most 64 letters, digits and underscores, and start with a letter");
            }
        }
    }
}
