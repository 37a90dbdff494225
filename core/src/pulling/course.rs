//! What one connection does: when it pulls, settles and waits, and whether it is ready.
//!
//! A host asks [`Course::next`] what to do until there is nothing, does it side by side, and says what came of it. All
//! times are of one steady clock, in milliseconds; a clock that jumps moves nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::answer::{Found, Lent, Pulled};
use super::settles::{Group, Settles};
use super::source::Source;
use super::trouble::{Kind, Trouble};
use crate::host::{Level, LogEntry};
use crate::program::PullQueue;
use crate::pull::wire::Acked;
use crate::queue::Answer;

/// Pulls of one connection side by side, at most.
pub const PULLS_MAX: usize = 8;
/// Batches that were pulled and are not received yet, at most, those being pulled included: their bodies are in memory.
const IN_HAND_MAX: usize = 2 * PULLS_MAX;
/// How long a batch may take from its pull to the store before no more is pulled beside it, in milliseconds; half a
/// lease if that is shorter.
const SLOW_MS: i64 = 1_000;
/// Leases of one connection that last and are not settled, at most. Past it nothing is pulled: the queue takes no
/// answers.
pub const HELD_MAX: usize = 4_000;
/// The same with those whose leases are over and whose answers are on their way still: they are in memory.
const UNSETTLED_MAX: usize = 2 * HELD_MAX;
/// The longest that a server's `Retry-After` is followed, in milliseconds: one that asks for more is asked each hour.
const AWAY_MAX_MS: i64 = 3_600_000;
/// How long acknowledgements must wait for the connection not to be ready at once, in milliseconds.
const HELD_BACK_MS: i64 = 1_000;
/// The longest wait after a pull that gave nothing, in milliseconds.
pub const IDLE_MAX_MS: u64 = 5_000;
/// Waits by what they are for: the first and the longest, in milliseconds. Each is the double of the one before it.
const IDLE_MS: (u64, u64) = (200, IDLE_MAX_MS);
const PAUSED_MS: (u64, u64) = (2_000, 15_000);
const FAILED_MS: (u64, u64) = (500, 30_000);
const NOT_KEPT_MS: (u64, u64) = (1_000, 60_000);
const LASTING_MS: (u64, u64) = (5_000, 60_000);
/// How long something may fail that passes by itself before the connection is not ready, in milliseconds.
const FAILS_FOR_MS: i64 = 30_000;
/// Pulls that give something before more messages are asked for again, once an answer was too long.
const GOOD_PULLS: u32 = 20;

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Look for the queue's id on this page of the account's queues.
    Find {
        /// The page, from 1.
        page: u64,
    },
    /// Pull.
    Pull {
        /// The queue.
        queue_id: String,
        /// Messages at most.
        batch_size: u32,
    },
    /// Settle.
    Settle {
        /// The queue.
        queue_id: String,
        /// What is settled.
        group: Group,
    },
}

/// What can be in trouble by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Pull,
    Keep,
    Settle,
}

/// A trouble, and since when and how often in a row there was one.
#[derive(Debug, Clone)]
struct Lasting {
    trouble: Trouble,
    since_ms: i64,
    times: u32,
    /// The wait that followed the last time.
    wait_ms: i64,
}

/// What one connection does.
#[derive(Debug)]
pub struct Course {
    source: Arc<Source>,
    idle_max_ms: u64,
    queue_id: Option<String>,
    page: u64,
    finding: bool,
    /// Messages asked for now; fewer than the connection says once an answer was too long.
    batch_size: u32,
    good_pulls: u32,
    /// How many pulls there may be side by side now.
    side_by_side: usize,
    pulling: usize,
    /// When each batch was asked for that is being received.
    receiving: Vec<i64>,
    settles: Settles,
    /// Pulls in a row that gave nothing.
    empty: u32,
    /// Nothing is pulled before this for lack of messages.
    idle_until_ms: i64,
    /// Nothing is pulled before this for other reasons.
    not_before_ms: i64,
    /// Whether the queue has answered since the start.
    has_answered: bool,
    troubles: BTreeMap<Part, Lasting>,
    stopping: bool,
    lines: Vec<LogEntry>,
}

impl Course {
    /// A course that has not begun. Where the host has a tick, it is polled at least as often as it ticks.
    #[must_use]
    pub fn new(source: Arc<Source>, tick_ms: Option<u64>) -> Self {
        let queue_id = match &source.queue {
            PullQueue::Id(id) => Some(id.clone()),
            PullQueue::Name(_) => None,
        };
        Self {
            idle_max_ms: tick_ms.unwrap_or(IDLE_MAX_MS).clamp(IDLE_MS.0, IDLE_MAX_MS),
            queue_id,
            page: 1,
            finding: false,
            batch_size: source.batch_size,
            good_pulls: 0,
            side_by_side: 1,
            pulling: 0,
            receiving: Vec::new(),
            settles: Settles::default(),
            empty: 0,
            idle_until_ms: i64::MIN,
            not_before_ms: i64::MIN,
            has_answered: false,
            troubles: BTreeMap::new(),
            stopping: false,
            lines: Vec::new(),
            source,
        }
    }

    /// The connection.
    #[must_use]
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// What to begin now beside what is under way, if there is something.
    pub fn next(&mut self, now_ms: i64) -> Option<Act> {
        let Some(queue_id) = &self.queue_id else { return self.find(now_ms) };
        if let Some(group) = self.settles.next(now_ms) {
            return Some(Act::Settle { queue_id: queue_id.clone(), group });
        }
        let is_time = !self.stopping && now_ms >= self.pull_at_ms();
        if !is_time || !self.has_room(now_ms) {
            return None;
        }
        self.pulling += 1;
        Some(Act::Pull { queue_id: queue_id.clone(), batch_size: self.batch_size })
    }

    fn find(&mut self, now_ms: i64) -> Option<Act> {
        if self.stopping || self.finding || now_ms < self.pull_at_ms() {
            return None;
        }
        self.finding = true;
        Some(Act::Find { page: self.page })
    }

    /// Nothing is pulled while nothing can be settled: it would come again, and be one delivery nearer to its end.
    fn pull_at_ms(&self) -> i64 {
        self.idle_until_ms.max(self.not_before_ms).max(self.settles.not_before_ms())
    }

    fn has_room(&self, now_ms: i64) -> bool {
        self.has_hands(now_ms) && self.may_hold_more(now_ms)
    }

    fn may_hold_more(&self, now_ms: i64) -> bool {
        let asked_for = (self.in_hand() + 1) * self.batch_size as usize;
        self.settles.lasting(now_ms) + asked_for <= HELD_MAX && self.settles.held() + asked_for <= UNSETTLED_MAX
    }

    fn in_hand(&self) -> usize {
        self.pulling + self.receiving.len()
    }

    fn has_hands(&self, now_ms: i64) -> bool {
        // After a settle that failed, the next one says first whether the queue takes answers again.
        let is_probing = self.settles.is_under_way() && self.troubles.contains_key(&Part::Settle);
        // A store that hangs says nothing yet, and what is pulled meanwhile would lose a delivery for it.
        let slow_ms = SLOW_MS.min(i64::from(self.source.visibility_ms) / 2);
        !is_probing
            && self.pulling < self.side_by_side
            && self.in_hand() < IN_HAND_MAX
            && self.receiving.iter().all(|asked_at_ms| now_ms.saturating_sub(*asked_at_ms) < slow_ms)
    }

    /// When there is something to do if nothing happens before; `None` if only what is under way can bring something.
    #[must_use]
    pub fn wakes_at(&self, now_ms: i64) -> Option<i64> {
        let settles = self.settles.wakes_at().filter(|_| self.queue_id.is_some());
        let may_pull = if self.queue_id.is_some() { self.has_hands(now_ms) } else { !self.finding };
        // Where too much is held, leases that end make room.
        let room_at_ms = if self.may_hold_more(now_ms) { Some(i64::MIN) } else { self.settles.next_end(now_ms) };
        let pulls = room_at_ms.filter(|_| !self.stopping && may_pull).map(|at_ms| at_ms.max(self.pull_at_ms()));
        settles.into_iter().chain(pulls).min()
    }

    /// Says what came of looking for the queue.
    pub fn found(&mut self, outcome: Result<Found, Trouble>, now_ms: i64, random: u64) {
        self.finding = false;
        let page = std::mem::replace(&mut self.page, 1);
        match outcome {
            Ok(Found::Id(id)) => self.queue_id = Some(id),
            Ok(Found::More) => self.page = page.saturating_add(1),
            Ok(Found::Nowhere) => {
                let trouble = Trouble::new(Kind::NoQueue, "it is not in the list of the account's queues");
                self.pull_failed(trouble, now_ms, random);
            }
            Err(trouble) => self.pull_failed(trouble, now_ms, random),
        }
    }

    /// Says what a pull gave that was begun at `asked_at_ms`, and answers what is to be received of it.
    pub fn pulled(
        &mut self,
        batch_size: u32,
        outcome: Result<Pulled, Trouble>,
        asked_at_ms: i64,
        now_ms: i64,
        random: u64,
    ) -> Vec<Lent> {
        self.pulling = self.pulling.saturating_sub(1);
        let Pulled { lent, odd } = match outcome {
            Ok(pulled) => pulled,
            Err(trouble) => {
                self.pull_failed(trouble, now_ms, random);
                return Vec::new();
            }
        };
        self.has_answered = true;
        self.recovered(Part::Pull);
        if odd > 0 {
            self.say(Level::Warn, "pull.odd_messages", vec![("count", odd.into())]);
        }
        self.next_pull(batch_size, lent.len(), now_ms, random);
        if self.stopping {
            let ends_ms = self.ends_ms(asked_at_ms);
            for lent in lent {
                self.settles.push(lent.lease_id, Answer::Retry { delay_s: 0 }, ends_ms);
            }
            return Vec::new();
        }
        if !lent.is_empty() {
            self.receiving.push(asked_at_ms);
        }
        lent
    }

    /// When to pull again, and how much side by side.
    fn next_pull(&mut self, asked_for: u32, count: usize, now_ms: i64, random: u64) {
        if count == 0 {
            // Whoever is still under way is not joined by others; the last one says how it goes on.
            self.side_by_side = self.pulling.max(1);
            if self.pulling == 0 {
                self.empty = self.empty.saturating_add(1);
                let wait_ms = wait_ms((IDLE_MS.0, self.idle_max_ms), self.empty, random);
                self.idle_until_ms = now_ms.saturating_add(wait_ms);
            }
            return;
        }
        self.empty = 0;
        self.idle_until_ms = now_ms;
        if count >= asked_for as usize {
            self.side_by_side = (self.side_by_side + 1).min(PULLS_MAX);
        }
        if self.batch_size < self.source.batch_size {
            self.good_pulls += 1;
            if self.good_pulls >= GOOD_PULLS {
                self.good_pulls = 0;
                self.batch_size = (self.batch_size * 2).min(self.source.batch_size);
            }
        }
    }

    /// Says what the program answered for messages that were pulled at `asked_at_ms`.
    pub fn received(&mut self, answers: Vec<(String, Answer)>, asked_at_ms: i64, now_ms: i64, random: u64) {
        if let Some(place) = self.receiving.iter().position(|known| *known == asked_at_ms) {
            self.receiving.swap_remove(place);
        }
        let ends_ms = self.ends_ms(asked_at_ms);
        let is_kept = answers.iter().any(|(_, answer)| *answer == Answer::Ack);
        let is_empty = answers.is_empty();
        for (lease_id, answer) in answers {
            self.settles.push(lease_id, answer, ends_ms);
        }
        if is_kept {
            self.recovered(Part::Keep);
        } else if !is_empty {
            let words = "the store takes none of the messages; the log says why under `store.failed`";
            let wait = self.troubled(Part::Keep, Trouble::new(Kind::NotKept, words), now_ms, random);
            self.stay_away(wait, now_ms);
        }
    }

    /// Says what a settle gave.
    pub fn settled(&mut self, group: Group, outcome: Result<Acked, Trouble>, now_ms: i64, random: u64) {
        let trouble = match outcome {
            Ok(acked) => {
                self.settles.done(&group);
                self.recovered(Part::Settle);
                if let Some(warning) = acked.warnings.values().next() {
                    let warning = crate::deliver::bounded(warning);
                    let fields = vec![("count", acked.warnings.len().into()), ("why", warning.into())];
                    self.say(Level::Warn, "pull.settled_late", fields);
                }
                return;
            }
            Err(trouble) => trouble,
        };
        let (count, why) = (group.len(), self.source.in_words(&trouble));
        let isolates = trouble.kind == Kind::Refused && count > 1;
        let wait_ms = if isolates { 0 } else { self.troubled(Part::Settle, trouble.clone(), now_ms, random) };
        let given_up = self.settles.again(group, &trouble, now_ms, now_ms.saturating_add(wait_ms));
        if given_up > 0 {
            // They come again when their leases end, and those that were kept are repeats.
            self.say(Level::Warn, "pull.not_settled", vec![("count", given_up.into()), ("why", why.into())]);
        }
    }

    /// Nothing more is pulled. What is being pulled is given back, what is being received is settled.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Whether nothing is left to do after [`Course::stop`].
    #[must_use]
    pub fn is_over(&self) -> bool {
        let idle = self.pulling == 0 && self.receiving.is_empty() && !self.finding;
        self.stopping && idle && self.settles.held() == 0
    }

    /// Messages whose answers are not settled yet, be their leases over or not.
    #[must_use]
    pub fn held(&self) -> usize {
        self.settles.held()
    }

    /// Why the connection is not ready, in words; `None` if it is. What passes by itself is given some time to.
    #[must_use]
    pub fn not_ready(&self, now_ms: i64) -> Option<String> {
        if let Some(words) = self.troubles.iter().find_map(|(part, lasting)| self.complaint(*part, lasting, now_ms)) {
            return Some(words);
        }
        (!self.has_answered).then(|| format!("{} has not answered yet", self.source.host()))
    }

    /// What a trouble says against being ready, if it does.
    fn complaint(&self, part: Part, lasting: &Lasting, now_ms: i64) -> Option<String> {
        let kind = lasting.trouble.kind;
        let words = || self.source.in_words(&lasting.trouble);
        if kind.lasts() {
            return Some(words());
        }
        let fails_for_long = now_ms.saturating_sub(lasting.since_ms) >= FAILS_FOR_MS;
        if part == Part::Settle {
            // Once all is given up and the wait is over, it is pulled again, and the next answers show how it stands.
            let waits = now_ms < self.settles.not_before_ms() || self.settles.held() > 0;
            let wait_s = lasting.wait_ms.max(0).unsigned_abs().div_ceil(1_000);
            return (waits && (fails_for_long || lasting.wait_ms >= HELD_BACK_MS)).then(|| {
                format!("{}; acknowledgements wait for {wait_s} s, and nothing is pulled meanwhile", words())
            });
        }
        (kind != Kind::Paused && (fails_for_long || !self.has_answered)).then(words)
    }

    /// What there is to be logged since this was last asked.
    pub fn lines(&mut self) -> Vec<LogEntry> {
        std::mem::take(&mut self.lines)
    }

    fn ends_ms(&self, asked_at_ms: i64) -> i64 {
        asked_at_ms.saturating_add(i64::from(self.source.visibility_ms))
    }

    fn pull_failed(&mut self, trouble: Trouble, now_ms: i64, random: u64) {
        self.side_by_side = 1;
        match trouble.kind {
            // A name may belong to another queue by now.
            Kind::NoQueue if matches!(self.source.queue, PullQueue::Name(_)) && self.settles.held() == 0 => {
                self.queue_id = None;
            }
            Kind::TooLong if self.batch_size > 1 => {
                (self.batch_size, self.good_pulls) = (self.batch_size / 2, 0);
            }
            Kind::Paused => self.has_answered = true,
            _ => {}
        }
        let wait_ms = self.troubled(Part::Pull, trouble, now_ms, random);
        self.stay_away(wait_ms, now_ms);
    }

    fn stay_away(&mut self, wait_ms: i64, now_ms: i64) {
        self.side_by_side = 1;
        self.not_before_ms = self.not_before_ms.max(now_ms.saturating_add(wait_ms));
    }

    /// Remembers a trouble and tells of it if it is news. Answers how long to wait.
    fn troubled(&mut self, part: Part, trouble: Trouble, now_ms: i64, random: u64) -> i64 {
        let before = self.troubles.get(&part);
        let times = before.map_or(0, |lasting| lasting.times).saturating_add(1);
        let since_ms = before.map_or(now_ms, |lasting| lasting.since_ms);
        let is_news = before.is_none_or(|lasting| lasting.trouble.kind != trouble.kind);
        let wait_ms = match (trouble.kind, trouble.after_s) {
            (Kind::Busy, Some(seconds)) => {
                (i64::from(seconds) * 1_000 + i64::try_from(random % 100).unwrap_or(0)).min(AWAY_MAX_MS)
            }
            (Kind::TooLong, _) if self.batch_size > 1 => 0,
            (kind, _) => wait_ms(waits(kind), times, random),
        };
        if is_news {
            let words = self.source.in_words(&trouble);
            let (level, event) = match trouble.kind {
                Kind::Paused => (Level::Info, "pull.paused"),
                kind if kind.lasts() => (Level::Error, "pull.not_ready"),
                _ => (Level::Warn, "pull.failed"),
            };
            self.say(level, event, vec![("code", trouble.kind.as_str().into()), ("why", words.into())]);
        }
        self.troubles.insert(part, Lasting { trouble, since_ms, times, wait_ms });
        wait_ms
    }

    fn recovered(&mut self, part: Part) {
        if let Some(Lasting { trouble, times, .. }) = self.troubles.remove(&part) {
            let fields = vec![("after", trouble.kind.as_str().into()), ("times", times.into())];
            self.say(Level::Info, "pull.goes_on", fields);
        }
    }

    fn say(&mut self, level: Level, event: &'static str, more: Vec<(&'static str, serde_json::Value)>) {
        let mut fields =
            vec![("connection", self.source.connection.as_str().into()), ("queue", self.source.queue_name().into())];
        fields.extend(more);
        self.lines.push(LogEntry { level, event, fields });
    }
}

fn waits(kind: Kind) -> (u64, u64) {
    match kind {
        Kind::Paused => PAUSED_MS,
        Kind::Busy | Kind::Failed | Kind::TooLong => FAILED_MS,
        Kind::NotKept => NOT_KEPT_MS,
        Kind::Token | Kind::NoQueue | Kind::Refused | Kind::Redirected | Kind::Setting => LASTING_MS,
    }
}

/// The wait after the `times`th time in a row: the first doubled each time, up to the longest; of that, between a half
/// and the whole, so that many who wait do not come at once.
fn wait_ms((first, longest): (u64, u64), times: u32, random: u64) -> i64 {
    let doublings = times.saturating_sub(1).min(20);
    let whole = (first << doublings).min(longest);
    let half = whole / 2;
    i64::try_from(half + random % (whole - half + 1)).unwrap_or(i64::MAX)
}
