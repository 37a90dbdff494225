//! What the targets refuse of an app, with its place: what a native host cannot carry out, and what keeps two Workers
//! from living beside each other.

use std::collections::BTreeMap;

use super::code::Code;
use super::problem::{Findings, quote};
use super::syntax::Block;
use super::{deployables, forms, refusal};
use crate::program::{Connection, Deployable, Platform, Program, Trigger};
use crate::wrangler;

const SUBSCRIBERS: &str = "Trigger.subscribers";

/// Checks every deployable, or the one that is wanted. `declared` is the block that declares them.
pub(super) fn check(findings: &mut Findings, declared: &Block, program: &Program, wanted: Option<&str>) {
    let names = declared.entries.iter().map(|entry| entry.key.as_str());
    let names: Vec<&str> = names.filter(|name| wanted.is_none_or(|wanted| wanted == *name)).collect();
    for name in &names {
        let span = deployables::trigger_span(declared, name, SUBSCRIBERS);
        for refusal in refusal(program, name) {
            findings.problem(refusal.code, span, refusal.message).help(refusal.help);
        }
    }
    let workers: Vec<(&str, &Deployable)> = names
        .iter()
        .filter_map(|name| Some((*name, program.deployables.get(*name)?)))
        .filter(|(_, deployable)| deployable.target == Platform::Workers)
        .collect();
    one_consumer(findings, declared, program, &workers);
    if !program.app.is_empty() {
        worker_names(findings, declared, program, &workers);
    }
}

/// A queue at Cloudflare has one consumer, so one Worker at most receives.
fn one_consumer(findings: &mut Findings, declared: &Block, program: &Program, workers: &[(&str, &Deployable)]) {
    let mut pushed =
        program.connections.iter().filter(|(_, found)| matches!(found, Connection::CloudflareQueues { .. }));
    let Some((connection, _)) = pushed.next() else { return };
    let mut receivers = workers.iter().filter(|(_, found)| found.triggers.contains(&Trigger::Subscribers));
    let Some((first, _)) = receivers.next() else { return };
    for (name, _) in receivers {
        let message = format!(
            "deployables {} and {} would both consume the queue of connection {}, and a queue has one consumer",
            quote(first),
            quote(name),
            quote(connection)
        );
        findings
            .problem(Code::TargetConsumerTwice, deployables::trigger_span(declared, name, SUBSCRIBERS), message)
            .help(format!("remove {SUBSCRIBERS} from {} or {}", quote(first), quote(name)))
            .related(deployables::trigger_span(declared, first, SUBSCRIBERS), "the first is here");
    }
}

/// Each deployable on Workers is a Worker with a name of its own, made of the app's and the deployable's.
fn worker_names(findings: &mut Findings, declared: &Block, program: &Program, workers: &[(&str, &Deployable)]) {
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    for (name, _) in workers {
        let Some(span) = declared.entry(name).map(|entry| entry.key_span) else { continue };
        let worker = wrangler::worker_name(&program.app, name);
        if let Err(fault) = forms::label(&worker) {
            let message =
                format!("the Worker of deployable {} would be {}: {}", quote(name), quote(&worker), fault.why);
            let help = "a Worker's name is the app's, a dash and the deployable's: give the deployable another name";
            findings.problem(Code::TargetNameRefused, span, message).help(help);
        } else if let Some(other) = taken.get(&worker) {
            let message =
                format!("deployables {} and {} would both be Worker {}", quote(other), quote(name), quote(&worker));
            let help = "a Worker's name has no capitals and no underscores: give one of them another name";
            findings.problem(Code::TargetNameRefused, span, message).help(help);
        } else {
            taken.insert(worker, name);
        }
    }
}
