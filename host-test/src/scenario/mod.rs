//! The behaviour suite: the rules of receiving, delivering and queues as sentences, written once and run on every host.
//!
//! A scenario is data (`host-test/scenarios/*.toml`): an app, steps, and what must be seen after them. A host runs it
//! through a [`Stage`]. `scenarios/README.md` tells the format; the JavaScript runner in `host-workers/e2e` reads the
//! same files.

mod compare;
mod names;
mod run;
mod seen;
mod stage;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

pub use run::{Outcome, run_all};
pub use seen::{SEEN_DELIVERIES, SEEN_EVENTS, SEEN_PARKED, SeenCall};
pub use stage::test_stage;

/// The names that scenarios know hosts by.
pub const HOSTS: [&str; 4] = ["test", "native", "server", "workers"];

/// A file of scenarios.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The app that its scenarios run, unless they say otherwise.
    app: String,
    /// Variables and secrets.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Hosts that none of them applies to, each with the reason.
    #[serde(default)]
    not_on: BTreeMap<String, String>,
    /// Whether the server is in immediate mode.
    #[serde(default)]
    immediate: bool,
    scenario: Vec<Written>,
}

/// A scenario as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    says: String,
    app: Option<String>,
    #[serde(default)]
    not_on: BTreeMap<String, String>,
    steps: Vec<Spanned<Step>>,
}

/// One scenario: a sentence, and the steps that hold it true.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The file it stands in, without its folder and ending.
    pub file: String,
    /// The rule, in a sentence.
    pub says: String,
    /// The app file's text.
    pub app: String,
    /// Variables and secrets.
    pub env: BTreeMap<String, String>,
    /// Whether the server handles what is sent before it answers.
    pub immediate: bool,
    /// Hosts that it does not apply to, each with the reason.
    pub not_on: BTreeMap<String, String>,
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// The steps as they are written, each with its place.
    pub written: Vec<String>,
}

/// Something that happens, or that must be seen.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// What a subscriber or a function does from now on.
    Subscriber(Subscribing),
    /// What the store does from now on.
    Store(StoreDoes),
    /// The store refuses every transaction that carries this text.
    StoreRefuses(String),
    /// A queue hands a batch over.
    HandOver(HandOver),
    /// So much time goes by, in seconds; nothing runs meanwhile.
    SecondsPass(u32),
    /// The tick comes, so many times.
    Tick(u32),
    /// An operator asks the endpoint.
    Operator(Asked),
    /// Another build is deployed over the same store: an app file's text.
    Deploy(String),
    /// A message is sent to a queue of this server's own, or a webhook comes in.
    Send(Send),
    /// Everything that falls due within so many seconds is done.
    Settles(u32),
    /// Dead letters are put back into the queue that they died in.
    Redrive(Redrive),
    /// A queue of this server's own is emptied.
    Purge(Purge),
    /// What must be there now.
    See(BTreeMap<String, Value>),
}

/// What a subscriber does.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscribing {
    /// Its name.
    pub name: String,
    /// What it does with its next calls, one each: a status, `"hangs"`, `"closes"`, or `"429 after 90"`.
    #[serde(default)]
    pub answers: Vec<Does>,
    /// What it does with the calls after those; 200 if not said.
    pub then: Option<Does>,
    /// Only calls whose body holds this text are meant; others are answered 200.
    pub only: Option<String>,
}

/// What becomes of one call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub enum Does {
    /// It is answered with this status, at once.
    Answers(u16),
    /// It is answered with this status and a `Retry-After` header.
    AnswersAfter(u16, String),
    /// It is never answered.
    Hangs,
    /// Its connection is closed without an answer.
    Closes,
}

impl TryFrom<Value> for Does {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let wrong = || format!("{value} is no answer: write a status, \"hangs\", \"closes\" or \"429 after 90\"");
        if let Some(status) = value.as_u64() {
            return u16::try_from(status).map(Self::Answers).map_err(|_| wrong());
        }
        match value.as_str().ok_or_else(wrong)? {
            "hangs" => Ok(Self::Hangs),
            "closes" => Ok(Self::Closes),
            text => {
                let (status, after) = text.split_once(" after ").ok_or_else(wrong)?;
                Ok(Self::AnswersAfter(status.parse().map_err(|_| wrong())?, after.to_owned()))
            }
        }
    }
}

/// How the store does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreDoes {
    /// It does what it is asked.
    Well,
    /// It cannot be reached.
    Down,
    /// It runs everything, rolls it back and gives an error.
    RollsBack,
    /// It commits, and the answer is lost.
    LosesAnswers,
    /// It is a migration behind the build.
    Behind,
    /// The migration that it was behind by is run.
    Migrated,
}

/// A batch that a queue hands over.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandOver {
    /// The queue's name.
    pub queue: String,
    /// The messages, in their order.
    pub messages: Vec<Given>,
    /// The answer to each, in order, or the one that all get.
    pub answers: Answers,
    /// Where the isolate dies meanwhile, if it does.
    pub dies: Option<Dies>,
}

/// Where an isolate dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dies {
    /// Before the store has run anything.
    BeforeCommit,
    /// When the store has committed and no answer was given.
    AfterCommit,
}

/// What a queue is told.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Answers {
    /// Each message gets its own answer.
    Each(Vec<Answered>),
    /// All get this one.
    All(Answered),
}

/// What a queue is told about one message: `"ack"`, or the seconds until it comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Answered {
    /// It is acknowledged.
    Word(Ack),
    /// It comes again after so many seconds.
    Retry(u32),
}

/// The one word among answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ack {
    /// Acknowledged.
    Ack,
}

/// A message, or several that are alike: `{n}` in its id and its body is its number.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Given {
    /// Its id; in a host that makes ids, the name that it is known by here.
    pub id: String,
    /// A text body.
    pub text: Option<String>,
    /// A JSON body: the text of the value.
    pub json: Option<String>,
    /// A body of bytes, in hexadecimal.
    pub hex: Option<String>,
    /// How often it has been handed over, this time included; 1 if not said.
    pub attempts: Option<u32>,
    /// How many there are; 1 if not said.
    pub times: Option<u32>,
}

/// A message's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text.
    Text(String),
    /// JSON's text.
    Json(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Given {
    /// The messages that it stands for: each one's id and body.
    ///
    /// # Panics
    /// When it has no body, or more than one.
    #[must_use]
    pub fn each(&self) -> Vec<(String, Content)> {
        let content = match (&self.text, &self.json, &self.hex) {
            (Some(text), None, None) => Content::Text(text.clone()),
            (None, Some(json), None) => Content::Json(json.clone()),
            (None, None, Some(hex)) => Content::Bytes(bytes_of(hex)),
            _ => panic!("message {}: needs exactly one of text, json and hex", self.id),
        };
        let numbered = |text: &str, n: u32| text.replace("{n}", &n.to_string());
        (1..=self.times.unwrap_or(1))
            .map(|n| {
                let content = match &content {
                    Content::Text(text) => Content::Text(numbered(text, n)),
                    Content::Json(json) => Content::Json(numbered(json, n)),
                    Content::Bytes(bytes) => Content::Bytes(bytes.clone()),
                };
                (numbered(&self.id, n), content)
            })
            .collect()
    }
}

/// Bytes from their hexadecimal form.
fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|two| two.iter().fold(0, |byte, digit| byte * 16 + u8::try_from(*digit).unwrap_or(0)))
        .collect()
}

/// What an operator asks of the endpoint.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// A path below `/.jadpo/` to get.
    pub get: Option<String>,
    /// A path below `/.jadpo/` to post to.
    pub post: Option<String>,
    /// What is posted.
    pub body: Option<Value>,
    /// The status of the answer; 200 if not said.
    pub status: Option<u16>,
    /// What the answer must hold.
    pub answer: Option<Value>,
}

/// A message on its way to a queue of the server's own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The queue.
    pub queue: Option<String>,
    /// The webhook.
    pub webhook: Option<String>,
    /// The message.
    pub message: Given,
    /// Headers besides its content type.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Seconds that it is held back.
    pub delay_s: Option<u32>,
    /// The status of the answer; 202 if not said.
    pub status: Option<u16>,
    /// Whether it is known as the message that had this name.
    pub repeats: Option<String>,
}

/// Dead letters that are put back.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redrive {
    /// The queue that they died in.
    pub queue: String,
    /// How many are moved.
    pub moved: u64,
}

/// A queue that is emptied.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Purge {
    /// The queue.
    pub queue: String,
    /// How many messages it had.
    pub removed: u64,
}

/// A host, as scenarios use one: it is new at the start of each.
///
/// Every method panics, with words, where the host cannot do what the scenario asks: then the scenario does not apply
/// to it and has to say so.
pub trait Stage {
    /// What the subscriber does from now on.
    fn subscriber(&mut self, does: &Subscribing);
    /// What the store does from now on.
    fn store(&mut self, does: StoreDoes);
    /// What the store refuses from now on.
    fn store_refuses(&mut self, text: &str);
    /// Hands a batch over and gives the answers, in order; fewer if the isolate died.
    fn hand_over(&mut self, batch: &HandOver) -> Vec<Answered>;
    /// Lets time go by.
    fn seconds_pass(&mut self, seconds: u32);
    /// Lets a tick come.
    fn tick(&mut self);
    /// Asks the operator's endpoint and gives the status and the body.
    fn operator(&mut self, method: &str, path: &str, body: &str) -> (u16, String);
    /// Deploys another build.
    fn deploy(&mut self, app: &str);
    /// Sends a message to a queue of the server's own; gives the status and the name it is kept under, if it is kept.
    fn send(&mut self, send: &Send) -> (u16, Option<String>);
    /// Does everything that falls due within so many seconds.
    fn settles(&mut self, within_s: u32);
    /// Puts a queue's dead letters back and says how many.
    fn redrive(&mut self, queue: &str) -> u64;
    /// Empties a queue and says how many messages it had.
    fn purge(&mut self, queue: &str) -> u64 {
        panic!("{queue} cannot be emptied on this stage: it has no queues of its own")
    }
    /// What is there now: `events`, `parked`, `deliveries`, `calls`, `log`; `queues` and `bodies` where it has any.
    fn seen(&mut self) -> Value;
    /// How long to go on looking for what must be seen, in milliseconds; 0 where all is done when a step ends.
    fn patience_ms(&self) -> u64 {
        0
    }
}

/// Every scenario of a folder's files, in the order of the files' names.
///
/// # Panics
/// When a file cannot be read or is wrong, or names a host, a queue, a subscriber or a function that is none.
#[must_use]
pub fn load(folder: &Path) -> Vec<Scenario> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    let all: Vec<Scenario> = paths.iter().flat_map(|path| read(path)).collect();
    assert!(!all.is_empty(), "{} holds no scenarios", folder.display());
    all
}

fn read(path: &Path) -> Vec<Scenario> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: File = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let line_of = |at: usize| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    let as_written = |step: &Spanned<Step>| {
        let at = step.span();
        format!("{}:{}: {}", path.display(), line_of(at.start), text.get(at).unwrap_or_default())
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let scenario = |written: Written| {
        let not_on: BTreeMap<String, String> = file.not_on.clone().into_iter().chain(written.not_on).collect();
        for (host, why) in &not_on {
            let known = HOSTS.contains(&host.as_str());
            assert!(
                known && !why.is_empty(),
                "{name}: {}: not_on.{host} needs a known host and a reason",
                written.says
            );
        }
        let scenario = Scenario {
            file: name.clone(),
            says: written.says,
            app: written.app.unwrap_or_else(|| file.app.clone()),
            env: file.env.clone(),
            immediate: file.immediate,
            not_on,
            written: written.steps.iter().map(as_written).collect(),
            steps: written.steps.into_iter().map(Spanned::into_inner).collect(),
        };
        if let Some(why) = names::wrong(&scenario) {
            panic!("{}: {}: {why}", path.display(), scenario.says);
        }
        scenario
    };
    file.scenario.into_iter().map(scenario).collect()
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.says)
    }
}
