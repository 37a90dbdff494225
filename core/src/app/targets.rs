//! `functions:` and `subscribers:` — who is called, and how.

use std::collections::BTreeMap;

use super::code::{Area, Code};
use super::fields::{Fields, optional, required};
use super::flow::LocalQueues;
use super::names::Names;
use super::problem::{closest, quote};
use super::scheduled::Scheduled;
use super::syntax::{Block, Entry, Value, What};
use super::values::Reading;
use super::{forms, loops, written};
use crate::program::{Connection, Function, Setting, Subscriber, Target};

const ADDRESS_RULE: &str = "write an address like `https://ledger.example.com/events`";

/// Targets that a function or a subscriber does not take. Each is refused as a key.
const MISPLACED: [&str; 3] = ["exec", "service", "send"];

pub(super) fn functions(
    reading: &mut Reading<'_>,
    block: &Block,
    names: &Names<'_>,
    connections: &BTreeMap<String, Connection>,
) -> BTreeMap<String, Function> {
    let queues = LocalQueues::of(names, connections);
    let mut functions = BTreeMap::new();
    let mut scheduled = Scheduled::default();
    for entry in &block.entries {
        if let Some(function) = function(reading, entry, &queues) {
            if let Some(wrong) = scheduled.add(&entry.key, &function, entry.key_span) {
                let said = reading.findings.problem(Code::FunctionValueInvalid, entry.key_span, wrong.message);
                let said = said.help(wrong.help);
                if let Some(first) = wrong.first {
                    said.related(first, "the first is here");
                }
            }
            functions.insert(entry.key.clone(), function);
        }
    }
    functions
}

fn function(reading: &mut Reading<'_>, entry: &Entry, queues: &LocalQueues<'_>) -> Option<Function> {
    let fields = Fields::of(reading, Area::Function, entry, "{ call: \"http://127.0.0.1:3000/…\" }")?;
    let known = ["call", "exec", "run", "send", "schedule", "body"].map(optional);
    let refused = [("service", "a function runs natively, where there are no service bindings: use `call:`")];
    fields.check(reading, &known, &refused);
    let target = target(reading, fields, &["call", "exec", "run", "send"], Some(queues));
    let schedule = match fields.entry("schedule") {
        Some(entry) => {
            let rule =
                "its fields are minute, hour, day of the month, month and day of the week, in UTC: \"0 * * * *\"";
            let read = reading.formed(fields.key("schedule"), &entry.value, "schedule", forms::schedule, rule);
            Some(read?.0.text.to_owned())
        }
        None => None,
    };
    let body = match fields.entry("body") {
        Some(entry) => Some(written::body(reading, fields.key("body"), &entry.value)?),
        None => None,
    };
    let target = target?;
    if let Some(entry) = fields.entry("body").filter(|_| schedule.is_none() && !matches!(target, Target::Send(_))) {
        let message = format!("nothing sends the `body:` of function {}", quote(fields.name));
        let help = "remove it, since the function is called with each message's own body; or give it a `schedule:`";
        reading.findings.problem(Code::FunctionKeyInvalid, entry.key_span, message).help(help);
    }
    Some(Function { target, schedule, body })
}

/// Says which functions send messages round without end.
pub(super) fn check_loops(
    reading: &mut Reading<'_>,
    declared: &Block,
    connections: &BTreeMap<String, Connection>,
    functions: &BTreeMap<String, Function>,
) {
    for (function, message) in loops::found(connections, functions) {
        let Some(entry) = declared.entry(&function) else { continue };
        let send = match &entry.value.what {
            What::Block(fields) => fields.entry("send"),
            _ => None,
        };
        let span = send.map_or(entry.key_span, |send| send.value.span);
        reading.findings.problem(Code::FunctionValueInvalid, span, message).help(loops::HELP);
    }
}

pub(super) fn subscribers(reading: &mut Reading<'_>, block: &Block, names: &Names<'_>) -> BTreeMap<String, Subscriber> {
    let mut subscribers = BTreeMap::new();
    for entry in &block.entries {
        if let Some(subscriber) = subscriber(reading, entry, names) {
            subscribers.insert(entry.key.clone(), subscriber);
        }
    }
    subscribers
}

fn subscriber(reading: &mut Reading<'_>, entry: &Entry, names: &Names<'_>) -> Option<Subscriber> {
    let fields = Fields::of(reading, Area::Subscriber, entry, "{ on: StockMoved, call: \"https://…\" }")?;
    let an_event = "StockMoved";
    let known = [required("on", an_event), optional("call"), optional("service"), optional("run"), optional("secret")];
    let refused = [
        ("exec", "only a function runs a program; a subscriber is reached by `call:`, `service:` or `run:`"),
        ("send", "only a function sends to a queue; a subscriber is reached by `call:`, `service:` or `run:`"),
        ("schedule", "only a function has a schedule; a subscriber is called when its event happens"),
        ("event", "the event is named by `on:`"),
    ];
    fields.check(reading, &known, &refused);
    let on = fields.entry("on").and_then(|entry| {
        let name = reading.name(fields.key("on"), &entry.value, "an event")?;
        if !names.has(Area::Event, name.text) {
            let declare = || format!("declare it: `events: {{ {}: Json }}`", name.text);
            reading.unknown(Area::Subscriber, name, "event", names.of(Area::Event), declare);
            return None;
        }
        Some(name.text.to_owned())
    });
    let target = target(reading, fields, &["call", "service", "run"], None);
    let secret = secret(reading, fields);
    Some(Subscriber { on: on?, target: target?, secret: secret? })
}

/// The secret that signs, or that there is none; nothing when what is written is wrong.
fn secret(reading: &mut Reading<'_>, fields: Fields<'_>) -> Option<Option<Setting>> {
    let Some(entry) = fields.entry("secret") else { return Some(None) };
    if fields.entry("run").is_some() && fields.entry("call").is_none() && fields.entry("service").is_none() {
        let message = format!("subscriber {} signs nothing: it is a function in this host", quote(fields.name));
        let help = "remove `secret:`; it signs what is sent by `call:` and `service:`";
        reading.findings.problem(Code::SubscriberKeyInvalid, entry.key_span, message).help(help);
        return None;
    }
    let example = format!("{}_SECRET", fields.name.to_ascii_uppercase());
    reading.secret(fields.key("secret"), &entry.value, &example).map(Some)
}

/// Exactly one of the ways to be reached.
fn target(
    reading: &mut Reading<'_>,
    fields: Fields<'_>,
    ways: &[&'static str],
    queues: Option<&LocalQueues<'_>>,
) -> Option<Target> {
    let mut written = ways.iter().filter_map(|way| Some((*way, fields.entry(way)?)));
    let Some((way, entry)) = written.next() else {
        let meant = |entry: &Entry| {
            MISPLACED.contains(&entry.key.as_str()) || closest(&entry.key, ways.iter().copied()).is_some()
        };
        if fields.block.entries.iter().any(meant) {
            return None; // the key that was meant as the target is already refused
        }
        let all: Vec<String> = ways.iter().map(|way| format!("`{way}:`")).collect();
        let help =
            format!("add one line to it: {}", ways.iter().map(|way| example(way)).collect::<Vec<_>>().join(" or "));
        fields.missing(reading, &format!("target, one of {}", all.join(", ")), &help);
        return None;
    };
    let mut is_one = true;
    for (other, second) in written {
        is_one = false;
        let message = format!("{} {} has `{way}:` and `{other}:`", fields.area.noun(), quote(fields.name));
        let help = format!("keep one of them; for both, write a second {}", fields.area.noun());
        let said = reading.findings.problem(fields.area.key_invalid(), second.key_span, message);
        said.help(help).related(entry.key_span, "the first is here");
    }
    let target = match way {
        "call" => call(reading, fields, &entry.value),
        "service" => service(reading, fields, &entry.value),
        "exec" => exec(reading, fields, &entry.value),
        "send" => queues.and_then(|queues| {
            queues.named(reading, fields.key("send"), &entry.value, "a function sends to").map(Target::Send)
        }),
        _ => reading
            .name(fields.key("run"), &entry.value, "a linked function")
            .map(|name| Target::Run(name.text.to_owned())),
    };
    target.filter(|_| is_one)
}

fn example(way: &str) -> &'static str {
    match way {
        "call" => "`call: \"https://ledger.example.com/events\"`",
        "service" => "`service: \"reorder-worker\"`",
        "exec" => "`exec: [\"./pay.sh\"]`",
        "send" => "`send: \"jobs\"`",
        _ => "`run: audit`",
    }
}

fn call(reading: &mut Reading<'_>, fields: Fields<'_>, value: &Value) -> Option<Target> {
    let (text, url) = reading.formed(fields.key("call"), value, "address", forms::address, ADDRESS_RULE)?;
    if url.scheme() == "http" && !forms::is_loopback(&url) && fields.entry("secret").is_some() {
        let message = "a signed body travels over http:// to another machine".to_owned();
        reading.findings.note(Code::NotePlainHttp, text.span, message, Some("use https://".to_owned()));
    }
    Some(Target::Call(text.text.to_owned()))
}

fn service(reading: &mut Reading<'_>, fields: Fields<'_>, value: &Value) -> Option<Target> {
    let rule = "a Worker's name has lowercase letters, digits and dashes, as in its own Wrangler file";
    let (text, ()) = reading.formed(fields.key("service"), value, "Worker name", forms::label, rule)?;
    Some(Target::Service(text.text.to_owned()))
}

fn exec(reading: &mut Reading<'_>, fields: Fields<'_>, value: &Value) -> Option<Target> {
    let key = fields.key("exec");
    let items = reading.list(key, value, "[\"./pay.sh\"]")?;
    let words: Option<Vec<String>> =
        items.iter().map(|item| reading.text(key, item).map(|text| text.text.to_owned())).collect();
    let words = words?;
    if words.first().is_none_or(String::is_empty) || words.iter().any(|word| word.contains('\0')) {
        let message = "`exec` names no program".to_owned();
        let help = "write the program and its arguments: `exec: [\"./pay.sh\", \"--once\"]`";
        reading.findings.problem(fields.area.value_invalid(), value.span, message).help(help);
        return None;
    }
    Some(Target::Exec(words))
}
