//! Functions that send messages from queue to queue until they are where they were: such a message never ends.

use std::collections::{BTreeMap, BTreeSet};

use super::code::Code;
use super::problem::{Findings, Span, quote};
use super::syntax::{Block, What};
use crate::program::{Connection, Function, Target};

/// Says which functions send messages round. `declared` is the block that declares them.
pub(super) fn check(
    findings: &mut Findings,
    declared: &Block,
    connections: &BTreeMap<String, Connection>,
    functions: &BTreeMap<String, Function>,
) {
    let edges = edges(connections, functions);
    let round = on_the_way_round(&edges);
    let mut said = BTreeSet::new();
    for (from, to, function) in &edges {
        if !round.contains(from) || !round.contains(to) || !said.insert(*function) {
            continue;
        }
        let message = if from == to {
            format!(
                "function {} sends the messages of queue {} to that queue, without end",
                quote(function),
                quote(from)
            )
        } else {
            format!(
                "function {} sends messages of queue {} to queue {}, from where they come back, without end",
                quote(function),
                quote(from),
                quote(to)
            )
        };
        let help = "send to a queue whose functions do not send them back";
        findings.problem(Code::FunctionValueInvalid, span(declared, function), message).help(help);
    }
}

type Edge<'a> = (&'a str, &'a str, &'a str);

/// From queue, to queue, by function.
fn edges<'a>(
    connections: &'a BTreeMap<String, Connection>,
    functions: &'a BTreeMap<String, Function>,
) -> Vec<Edge<'a>> {
    let mut edges = Vec::new();
    for connection in connections.values() {
        let Connection::LocalQueue { queue, functions: called, .. } = connection else { continue };
        for name in called {
            if let Some(Function { target: Target::Send(to), .. }) = functions.get(name) {
                edges.push((queue.as_str(), to.as_str(), name.as_str()));
            }
        }
    }
    edges
}

/// The queues that are left when those are taken away, again and again, that nothing is sent to or from.
fn on_the_way_round<'a>(edges: &[Edge<'a>]) -> BTreeSet<&'a str> {
    let mut left: BTreeSet<&str> = edges.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
    for forwards in [true, false] {
        let ends = |edge: &Edge<'a>| if forwards { (edge.0, edge.1) } else { (edge.1, edge.0) };
        let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut before: BTreeMap<&str, usize> = BTreeMap::new();
        for (from, to) in edges.iter().map(ends).filter(|(from, to)| left.contains(from) && left.contains(to)) {
            next.entry(from).or_default().push(to);
            *before.entry(to).or_default() += 1;
        }
        let mut free: Vec<&str> = left.iter().copied().filter(|queue| !before.contains_key(queue)).collect();
        while let Some(queue) = free.pop() {
            left.remove(queue);
            for to in next.remove(queue).unwrap_or_default() {
                if let Some(count) = before.get_mut(to) {
                    *count -= 1;
                    if *count == 0 {
                        free.push(to);
                    }
                }
            }
        }
    }
    left
}

fn span(declared: &Block, function: &str) -> Span {
    let Some(entry) = declared.entry(function) else { return Span::default() };
    let What::Block(fields) = &entry.value.what else { return entry.key_span };
    fields.entry("send").map_or(entry.key_span, |send| send.value.span)
}
