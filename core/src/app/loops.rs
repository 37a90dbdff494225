//! Functions that send messages from queue to queue until they are where they were: such a message never ends.

use std::collections::{BTreeMap, BTreeSet};

use super::problem::quote;
use crate::program::{Connection, Function, Target};

/// What to do about it.
pub(super) const HELP: &str = "send to a queue whose functions do not send them back";

/// The functions that send messages round, each once, and what is wrong with it.
pub(super) fn found(
    connections: &BTreeMap<String, Connection>,
    functions: &BTreeMap<String, Function>,
) -> Vec<(String, String)> {
    let edges = edges(connections, functions);
    let round = on_the_way_round(&edges);
    let mut said = BTreeSet::new();
    let mut found = Vec::new();
    for (from, to, function) in &edges {
        if !round.contains(from) || !round.contains(to) || !said.insert(*function) {
            continue;
        }
        let (from, to, name) = (quote(from), quote(to), quote(function));
        let message = if from == to {
            format!("function {name} sends the messages of queue {from} to that queue, without end")
        } else {
            format!(
                "function {name} sends messages of queue {from} to queue {to}, from where they come back, without end"
            )
        };
        found.push(((*function).to_owned(), message));
    }
    found
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
