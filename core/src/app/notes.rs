//! What is worth knowing of an app that is right: things that nothing uses, and things that a deployable cannot do.

use std::collections::BTreeSet;

use super::code::{Area, Code};
use super::problem::{Findings, Span, quote};
use super::syntax::{Block, What};
use crate::program::{Connection, Deployable, Platform, Program, Target, Trigger};

/// Adds the notes of a program. `file` has the places.
pub(super) fn add(findings: &mut Findings, file: &Block, program: &Program) {
    let mut notes = Notes { findings, file, program };
    notes.connections();
    notes.functions();
    notes.webhooks();
    notes.events();
    notes.deployables();
}

struct Notes<'a> {
    findings: &'a mut Findings,
    file: &'a Block,
    program: &'a Program,
}

impl Notes<'_> {
    fn say(&mut self, code: Code, area: Area, name: &str, message: String, help: &str) {
        let span = name_span(self.file, area, name);
        self.findings.note(code, span, message, Some(help.to_owned()));
    }

    fn connections(&mut self) {
        let program = self.program;
        for (name, connection) in &program.connections {
            let is_received = program.receiving.contains_key(name);
            let quoted = quote(name);
            let has_functions = matches!(connection, Connection::LocalQueue { functions, .. } if !functions.is_empty());
            if !is_received && !has_functions {
                let message = match connection {
                    Connection::CloudflareQueues { .. } => format!(
                        "nothing receives connection {quoted}: every message is retried until it is a dead letter"
                    ),
                    Connection::CloudflarePull { .. } => {
                        format!("nothing receives connection {quoted}: it is not read")
                    }
                    Connection::LocalQueue { .. } => {
                        format!("nothing receives connection {quoted}: it keeps its messages")
                    }
                };
                let help = match connection {
                    Connection::LocalQueue { .. } => {
                        "give it `functions: [NAME]`, or name it in `receiving:` with the event that its messages become"
                    }
                    _ => "name it in `receiving:` with the event that its messages become",
                };
                self.say(Code::NoteUnused, Area::Connection, name, message, help);
                continue;
            }
            if is_received && matches!(connection, Connection::LocalQueue { .. }) {
                self.received_locally(name);
            }
            let runs_it = |found: &Deployable| match connection {
                Connection::CloudflareQueues { .. } => is_workers_receiver(found),
                _ => runs_queues(found),
            };
            if !program.deployables.is_empty() && !program.deployables.values().any(runs_it) {
                let (wanted, help) = match connection {
                    Connection::CloudflareQueues { .. } => (
                        "Workers deployable with Trigger.subscribers",
                        "add `target: Target.workers` with Trigger.subscribers",
                    ),
                    _ => (NATIVE_RUNNER, NATIVE_RUNNER_HELP),
                };
                let message = format!("no deployable receives connection {quoted}: it needs a {wanted}");
                self.say(Code::NoteUnreachable, Area::Connection, name, message, help);
            }
        }
    }

    /// What is wrong with a message that is received is parked, so nothing counts its deliveries.
    fn received_locally(&mut self, name: &str) {
        let Some(What::Block(connections)) = self.file.entry(Area::Connection.key()).map(|entry| &entry.value.what)
        else {
            return;
        };
        let Some(What::Block(block)) = connections.entry(name).map(|entry| &entry.value.what) else { return };
        if let Some(entry) = block.entry("max_receives") {
            let message = format!(
                "`max_receives` of connection {} does nothing: its messages are received, and what cannot be is parked \
                 at once",
                quote(name)
            );
            self.findings.note(Code::NoteUnused, entry.key_span, message, Some("remove it".to_owned()));
        }
    }

    fn functions(&mut self) {
        let program = self.program;
        let called: BTreeSet<&String> = program.connections.values().flat_map(functions_of).collect();
        for (name, function) in &program.functions {
            if !called.contains(name) && function.schedule.is_none() {
                let message = format!("nothing calls function {}", quote(name));
                let help = "name it in a local queue's `functions:`, or give it a `schedule:`";
                self.say(Code::NoteUnused, Area::Function, name, message, help);
            }
            if function.schedule.is_some()
                && !program.deployables.is_empty()
                && !program.deployables.values().any(runs_queues)
            {
                let message =
                    format!("no deployable runs the schedule of function {}: it needs a {NATIVE_RUNNER}", quote(name));
                self.say(Code::NoteUnreachable, Area::Function, name, message, NATIVE_RUNNER_HELP);
            }
        }
    }

    fn webhooks(&mut self) {
        let program = self.program;
        let answers = |found: &Deployable| found.target == Platform::Native && found.triggers.contains(&Trigger::Http);
        if program.deployables.is_empty() || program.deployables.values().any(answers) {
            return;
        }
        for name in program.webhooks.keys() {
            let message = format!(
                "no deployable answers webhook {}: it needs a native deployable with Trigger.http",
                quote(name)
            );
            let help = "add a deployable with `target: Target.native` and Trigger.http";
            self.say(Code::NoteUnreachable, Area::Webhook, name, message, help);
        }
    }

    fn events(&mut self) {
        let program = self.program;
        for name in program.events.keys() {
            let is_made = program.receiving.values().any(|receiving| receiving.event == *name);
            let is_heard = program.subscribers.values().any(|subscriber| subscriber.on == *name);
            let quoted = quote(name);
            let (message, help) = match (is_made, is_heard) {
                (true, true) => continue,
                (true, false) => (
                    format!("event {quoted} has no subscriber: it is kept and goes nowhere"),
                    "add one under `subscribers:`",
                ),
                (false, true) => {
                    (format!("event {quoted} never happens: no connection becomes it"), "name it in `receiving:`")
                }
                (false, false) => (format!("nothing uses event {quoted}"), "name it in `receiving:`, or remove it"),
            };
            self.say(Code::NoteUnused, Area::Event, name, message, help);
        }
    }

    fn deployables(&mut self) {
        let program = self.program;
        for (name, deployable) in &program.deployables {
            let ticks = deployable.triggers.contains(&Trigger::Tick);
            if is_workers_receiver(deployable) && !ticks {
                let message = format!(
                    "deployable {} has no tick: what it cannot deliver at once, and what an operator retries, waits",
                    quote(name)
                );
                self.say(Code::NoteUnreachable, Area::Deployable, name, message, "add Trigger.tick");
            }
            if deployable.target == Platform::Native && ticks && !deployable.triggers.contains(&Trigger::Subscribers) {
                self.native_tick(name);
            }
        }
    }

    /// A native tick runs the deliveries of its own store, and has no service bindings to run them with.
    fn native_tick(&mut self, deployable: &str) {
        let program = self.program;
        let read_natively = program.receiving.iter().filter(|(connection, _)| {
            let connection = program.connections.get(*connection);
            !matches!(connection, Some(Connection::CloudflareQueues { .. }) | None)
        });
        let events: BTreeSet<&str> = read_natively.map(|(_, receiving)| receiving.event.as_str()).collect();
        for (name, subscriber) in &program.subscribers {
            if matches!(subscriber.target, Target::Service(_)) && events.contains(subscriber.on.as_str()) {
                let message = format!(
                    "native deployable {} has no service bindings: a delivery to {} in its own store would wait and fail",
                    quote(deployable),
                    quote(name)
                );
                let help = "use `call:` with the Worker's address";
                self.say(Code::NoteUnreachable, Area::Subscriber, name, message, help);
            }
        }
    }
}

/// What runs local queues, pulled ones and schedules.
const NATIVE_RUNNER: &str = "native deployable with Trigger.tick";
const NATIVE_RUNNER_HELP: &str = "add a deployable with `target: Target.native` and Trigger.tick";

fn runs_queues(deployable: &Deployable) -> bool {
    let runs = |trigger: &Trigger| matches!(trigger, Trigger::Tick | Trigger::Subscribers);
    deployable.target == Platform::Native && deployable.triggers.iter().any(runs)
}

fn functions_of(connection: &Connection) -> &[String] {
    match connection {
        Connection::LocalQueue { functions, .. } => functions,
        _ => &[],
    }
}

fn is_workers_receiver(deployable: &Deployable) -> bool {
    deployable.target == Platform::Workers && deployable.triggers.contains(&Trigger::Subscribers)
}

/// Where a named thing is declared.
pub(super) fn name_span(file: &Block, area: Area, name: &str) -> Span {
    match file.entry(area.key()).map(|entry| &entry.value.what) {
        Some(What::Block(block)) => block.entry(name).map_or_else(Span::default, |entry| entry.key_span),
        _ => Span::default(),
    }
}
