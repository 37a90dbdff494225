//! Answers that wait to be sent to the queue, in groups.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use super::trouble::{Kind, Trouble};
use crate::queue::Answer;

/// Messages settled by one request, at most: as many as one pull may give.
pub const SETTLED_AT_ONCE_MAX: usize = 100;
/// Requests side by side, at most. A group that is not full goes only when no other is under way, so that it grows
/// meanwhile.
const SIDE_BY_SIDE_MAX: usize = 8;

/// Messages that are settled by one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group(Vec<Entry>);

/// A message's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    lease_id: String,
    answer: Answer,
    /// When its lease ends, in the course's time. What is not settled until then comes again.
    ends_ms: i64,
    /// A request that it was part of was refused, so it goes by itself: one must not be in the way of others.
    alone: bool,
}

impl Group {
    /// The leases and what is answered for each.
    pub fn answers(&self) -> impl Iterator<Item = (&str, Answer)> {
        self.0.iter().map(|entry| (entry.lease_id.as_str(), entry.answer))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none, which no group of a course's has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What waits to be settled, and what is under way.
#[derive(Debug, Default)]
pub(super) struct Settles {
    waiting: VecDeque<Entry>,
    /// Requests under way, and the messages that they settle.
    requests: usize,
    under_way: usize,
    /// When leases end of what waits or is under way, and how many end then.
    ends: BTreeMap<i64, usize>,
    not_before_ms: i64,
}

impl Settles {
    pub(super) fn push(&mut self, lease_id: String, answer: Answer, ends_ms: i64) {
        *self.ends.entry(ends_ms).or_default() += 1;
        self.waiting.push_back(Entry { lease_id, answer, ends_ms, alone: false });
    }

    /// Messages that are not settled, be their leases over or not.
    pub(super) fn held(&self) -> usize {
        self.waiting.len() + self.under_way
    }

    /// Those of them whose leases last still. A message whose lease is over is the queue's again.
    pub(super) fn lasting(&self, now_ms: i64) -> usize {
        self.ends.range((Excluded(now_ms), Unbounded)).map(|(_, count)| count).sum()
    }

    /// When the next lease ends.
    pub(super) fn next_end(&self, now_ms: i64) -> Option<i64> {
        self.ends.range((Excluded(now_ms), Unbounded)).next().map(|(ends_ms, _)| *ends_ms)
    }

    /// Nothing is settled before this.
    pub(super) fn not_before_ms(&self) -> i64 {
        self.not_before_ms
    }

    /// Whether a request is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.requests > 0
    }

    /// The next group, if its time has come.
    pub(super) fn next(&mut self, now_ms: i64) -> Option<Group> {
        let first = self.waiting.front()?;
        if now_ms < self.not_before_ms || !self.may_go() {
            return None;
        }
        let count = if first.alone {
            1
        } else {
            self.waiting.iter().take(SETTLED_AT_ONCE_MAX).take_while(|entry| !entry.alone).count()
        };
        let group: Vec<Entry> = self.waiting.drain(..count).collect();
        self.requests += 1;
        self.under_way += group.len();
        Some(Group(group))
    }

    /// Whether a group may go beside those that are under way.
    fn may_go(&self) -> bool {
        let is_full =
            self.waiting.len() >= SETTLED_AT_ONCE_MAX || self.waiting.front().is_some_and(|first| first.alone);
        self.requests == 0 || (is_full && self.requests < SIDE_BY_SIDE_MAX)
    }

    /// When the next group may go, unless that is for one under way to say.
    pub(super) fn wakes_at(&self) -> Option<i64> {
        (!self.waiting.is_empty() && self.may_go()).then_some(self.not_before_ms)
    }

    /// The group's request ended.
    pub(super) fn done(&mut self, group: &Group) {
        self.requests = self.requests.saturating_sub(1);
        self.under_way = self.under_way.saturating_sub(group.len());
        for entry in &group.0 {
            if let Some(count) = self.ends.get_mut(&entry.ends_ms) {
                *count -= 1;
                if *count == 0 {
                    self.ends.remove(&entry.ends_ms);
                }
            }
        }
    }

    /// The group's request came to nothing. What can still be settled waits for `until_ms` and is tried again; how
    /// many cannot is told.
    pub(super) fn again(&mut self, group: Group, trouble: &Trouble, now_ms: i64, until_ms: i64) -> usize {
        self.done(&group);
        let mut given_up = 0;
        let many = group.len() > 1;
        for mut entry in group.0.into_iter().rev() {
            if trouble.kind == Kind::Refused {
                // One of them is what is refused: each goes alone, and that one is found.
                if !many {
                    given_up += 1;
                    continue;
                }
                entry.alone = true;
            } else if entry.ends_ms <= now_ms {
                given_up += 1;
                continue;
            }
            *self.ends.entry(entry.ends_ms).or_default() += 1;
            self.waiting.push_front(entry);
        }
        self.not_before_ms = self.not_before_ms.max(until_ms);
        given_up
    }
}
