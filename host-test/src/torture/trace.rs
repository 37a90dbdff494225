//! What happened last in a run: for a person who wants to see how a seed failed.
//!
//! A run is one thread, so what is told is kept beside it and not handed through everything. Only a run that is
//! explained keeps anything; the same seed does the same again, so nobody else pays for it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;

use jadpo_core::broker::MessageId;

use super::sim::{Process, WORLD};
use crate::clock::START_MS;

/// The last lines of what happened.
#[derive(Default)]
struct Trace {
    most: usize,
    lines: VecDeque<String>,
}

thread_local! {
    static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
    static NOW_MS: Cell<i64> = const { Cell::new(START_MS) };
    static PROCESS: Cell<Process> = const { Cell::new(WORLD) };
}

/// Keeps the last `most` lines from now on, of a run that begins: whatever ran before on this thread is not its past.
pub(super) fn start(most: usize) {
    NOW_MS.set(START_MS);
    PROCESS.set(WORLD);
    TRACE.set(Some(Trace { most, lines: VecDeque::new() }));
}

/// Ends it and gives the lines.
pub(super) fn end() -> Vec<String> {
    TRACE.take().unwrap_or_default().lines.into()
}

/// What time it is from now on.
pub(super) fn at(now_ms: i64) {
    NOW_MS.set(now_ms);
}

/// Who does what is told from now on.
pub(super) fn by(process: Process) {
    PROCESS.set(process);
}

/// Tells something, if anybody listens.
pub(super) fn note(what: impl FnOnce() -> String) {
    let who = PROCESS.get();
    note_of(who, what);
}

/// Tells something of a process.
pub(super) fn note_of(process: Process, what: impl FnOnce() -> String) {
    TRACE.with_borrow_mut(|trace| {
        let Some(trace) = trace else { return };
        let ms = NOW_MS.get() - START_MS;
        let who = if process == WORLD { "world".to_owned() } else { format!("process {process}") };
        if trace.lines.len() >= trace.most {
            trace.lines.pop_front();
        }
        trace.lines.push_back(format!("{:>7}.{:03} s  {who:<12} {}", ms / 1_000, ms % 1_000, what()));
    });
}

/// A message by the first digits of its id, which suffice in a run.
pub(super) struct Short<'a>(pub(super) &'a MessageId);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0.to_string();
        f.write_str(id.get(..8).unwrap_or(&id))
    }
}

/// Messages by the first digits of their ids; how many more there are where they are many.
pub(super) fn all(ids: impl IntoIterator<Item = MessageId>) -> String {
    const TOLD_MAX: usize = 6;
    let ids: Vec<String> = ids.into_iter().map(|id| Short(&id).to_string()).collect();
    let more = if ids.len() > TOLD_MAX { format!(" and {} more", ids.len() - TOLD_MAX) } else { String::new() };
    ids.iter().take(TOLD_MAX).cloned().collect::<Vec<_>>().join(", ") + &more
}
