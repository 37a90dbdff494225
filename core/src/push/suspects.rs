//! Whose doing it was that workerd ended.
//!
//! All Workers share one workerd. When it crashes, or is killed since a handler held its thread, every batch in it is cut
//! off, and nobody can tell which of them did it. So what was cut off in company is given back, its attempt does not
//! count, and it is a suspect: it is handed out again alone, with nothing else in workerd, until a handler has ended with
//! it. Who is alone when workerd ends did it, and has failed. Between two that are tried alone everybody else has a turn.
//!
//! Requests to a Worker's address are company too, and cannot be held back. So that it ends all the same, what was cut off
//! in company [so often](IN_COMPANY_MAX) fails from then on.

use std::collections::{BTreeMap, VecDeque};

use super::verdict::{Verdict, failed};
use crate::broker::{MessageId, Taken};

/// How often a message may be cut off in company before that counts.
pub const IN_COMPANY_MAX: u32 = 3;
/// Suspects that are known at a time: those that died are never seen to end.
const KNOWN_MAX: usize = 100_000;

/// What is known of messages that were there when workerd ended. It is in memory only: another server begins anew.
#[derive(Debug, Clone, Default)]
pub struct Suspects {
    /// How often each was cut off in company.
    known: BTreeMap<MessageId, u32>,
    /// The queues that have some of them to be tried, each once.
    waiting: VecDeque<String>,
    /// Whether one is tried now.
    is_alone: bool,
    /// Whether one was tried just now, so that the others are next.
    others_first: bool,
}

/// Of whom batches may be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Of nobody, until what runs has ended.
    Nobody,
    /// Of everybody who does not [wait](Suspects::waits).
    All,
    /// One batch of this queue.
    One(String),
}

/// What is to be done with a batch that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is to be handed to its handler.
    Hand,
    /// It is to be released, since it must be alone.
    GiveBack,
}

/// How a workerd ended over a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutOff<'a> {
    /// In Cloudflare's word.
    pub outcome: &'a str,
    /// In ours.
    pub why: &'a str,
    /// Whether anything else ran in it.
    pub in_company: bool,
}

impl Suspects {
    /// Who is next, while so many batches run.
    #[must_use]
    pub fn turn(&self, under_way: usize) -> Turn {
        match self.waiting.front() {
            _ if self.is_alone && under_way > 0 => Turn::Nobody,
            Some(_) if !self.others_first && under_way > 0 => Turn::Nobody,
            Some(queue) if !self.others_first => Turn::One(queue.clone()),
            _ => Turn::All,
        }
    }

    /// Whether a queue waits for its batch to be tried alone.
    #[must_use]
    pub fn waits(&self, queue: &str) -> bool {
        self.waiting.iter().any(|waiting| waiting == queue)
    }

    /// Whether somebody is to be tried at once, if so many run.
    #[must_use]
    pub fn is_due(&self, under_way: usize) -> bool {
        under_way == 0 && !self.waiting.is_empty()
    }

    /// What becomes of a batch that was taken in this turn.
    pub fn taken(&mut self, turn: &Turn, queue: &str, taken: &[Taken]) -> Next {
        let is_suspect = !self.known.is_empty() && taken.iter().any(|one| self.known.contains_key(&one.message.id));
        match turn {
            Turn::One(_) => {
                self.is_alone = true;
                // What was given back stands in front. If there is none of it, it is found when it is due.
                self.out_of_the_row(queue);
                if is_suspect {
                    self.wait(queue);
                }
                Next::Hand
            }
            _ if is_suspect => {
                self.wait(queue);
                Next::GiveBack
            }
            _ => Next::Hand,
        }
    }

    /// A turn is over in which so many batches were begun.
    pub fn turned(&mut self, turn: &Turn, begun: usize) {
        match turn {
            Turn::One(queue) if begun == 0 => self.out_of_the_row(queue),
            Turn::All => self.others_first = false,
            Turn::One(_) | Turn::Nobody => {}
        }
    }

    /// A batch's call has ended without workerd, whatever its handler said.
    pub fn ended(&mut self, ids: &[MessageId]) {
        self.over();
        if !self.known.is_empty() {
            self.known.retain(|id, _| !ids.contains(id));
        }
    }

    /// A batch reached no handler, or was called off. That says nothing of it.
    pub fn called_off(&mut self) {
        self.over();
    }

    /// A batch was cut off, since workerd ended. What becomes of its messages.
    pub fn cut_off(&mut self, queue: &str, taken: &[Taken], cut_off: CutOff<'_>) -> Verdict {
        self.over();
        let CutOff { outcome, why, in_company } = cut_off;
        let mut verdict =
            Verdict { outcome: Some(outcome.to_owned()), error: Some(why.to_owned()), ..Verdict::default() };
        for one in taken {
            let times = self.known.entry(one.message.id).or_default();
            if in_company && *times < IN_COMPANY_MAX {
                *times += 1;
                verdict.settle.releases.push(one.lease);
            } else {
                let how = if in_company {
                    format!("it was there {times} times before when that happened, never alone")
                } else {
                    "nothing else ran in it".to_owned()
                };
                verdict.settle.retries.push(failed(one, format!("{outcome}: {why}; {how}")));
            }
        }
        while self.known.len() > KNOWN_MAX {
            self.known.pop_first();
        }
        if !verdict.settle.releases.is_empty() {
            verdict.error = Some(format!("{why}; nobody knows whose doing it was, so it is tried again alone"));
            self.wait(queue);
        }
        verdict
    }

    fn over(&mut self) {
        if std::mem::take(&mut self.is_alone) {
            self.others_first = true;
        }
    }

    fn wait(&mut self, queue: &str) {
        if !self.waits(queue) {
            self.waiting.push_back(queue.to_owned());
        }
    }

    fn out_of_the_row(&mut self, queue: &str) {
        self.waiting.retain(|waiting| waiting != queue);
    }
}
