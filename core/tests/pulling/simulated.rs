//! A course against a queue that leases as Cloudflare's does, with faults everywhere and a clock of the test's own.
//! Nothing is lost, nothing is acknowledged that was not kept, and it comes to its end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use jadpo_core::pulling::{Act, Course, Found, Group, HELD_MAX, Kind, Lent, Pulled, Trouble};
use jadpo_core::queue::{Answer, Body, Message};
use proptest::prelude::*;

use crate::source_by_name;

/// A queue in which each message is out on a lease until a time.
struct Queue {
    messages: BTreeMap<u32, (i64, u32)>,
    leases: u64,
}

enum End {
    Found(Result<Found, Trouble>),
    Pulled(u32, i64, Result<Pulled, Trouble>),
    Received(Vec<(String, Answer)>, i64),
    Settled(Group, Result<(), Trouble>),
}

struct World {
    course: Course,
    queue: Queue,
    kept: BTreeSet<u32>,
    chance: u64,
    /// Faults in a hundred.
    faults: u64,
    now_ms: i64,
    ends: BinaryHeap<Reverse<(i64, u64)>>,
    what: BTreeMap<u64, End>,
    count: u64,
}

impl World {
    fn new(seed: u64, faults: u64, messages: u32) -> Self {
        let messages = (0..messages).map(|number| (number, (0, 0))).collect();
        Self {
            course: Course::new(source_by_name(), Some(10_000)),
            queue: Queue { messages, leases: 0 },
            kept: BTreeSet::new(),
            chance: seed,
            faults,
            now_ms: 0,
            ends: BinaryHeap::new(),
            what: BTreeMap::new(),
            count: 0,
        }
    }

    fn draw(&mut self) -> u64 {
        // SplitMix64.
        self.chance = self.chance.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.chance;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    fn fault(&mut self) -> Option<Trouble> {
        if self.draw() % 100 >= self.faults {
            return None;
        }
        let kinds = [
            Kind::Failed,
            Kind::Failed,
            Kind::Busy,
            Kind::Paused,
            Kind::TooLong,
            Kind::Token,
            Kind::NoQueue,
            Kind::Refused,
        ];
        let kind = kinds[usize::try_from(self.draw()).unwrap_or(0) % kinds.len()];
        let after_s = (kind == Kind::Busy).then(|| u32::try_from(self.draw() % 5).unwrap());
        Some(Trouble { kind, words: String::new(), after_s })
    }

    fn later(&mut self, end: End) {
        // Now and then an answer takes longer than a lease.
        let takes = if self.draw().is_multiple_of(50) { 40_000 } else { 1 + self.draw() % 300 };
        self.count += 1;
        self.ends.push(Reverse((self.now_ms + i64::try_from(takes).unwrap(), self.count)));
        self.what.insert(self.count, end);
    }

    /// What the server does with a request, which it may do though its answer is lost.
    fn serve(&mut self, act: Act) {
        let before = self.fault();
        let lost = self.fault();
        let end = match act {
            Act::Find { .. } => End::Found(lost.map_or(Ok(Found::Id("id".to_owned())), Err)),
            Act::Pull { batch_size, .. } => {
                let outcome = match before {
                    Some(trouble) => Err(trouble),
                    None => {
                        let pulled = self.lease(batch_size);
                        lost.map_or(Ok(pulled), Err)
                    }
                };
                End::Pulled(batch_size, self.now_ms, outcome)
            }
            Act::Settle { group, .. } => {
                let outcome = match before {
                    Some(trouble) => Err(trouble),
                    None => {
                        self.settle(&group);
                        lost.map_or(Ok(()), Err)
                    }
                };
                End::Settled(group, outcome)
            }
        };
        self.later(end);
    }

    fn lease(&mut self, most: u32) -> Pulled {
        let now_ms = self.now_ms;
        let mut lent = Vec::new();
        for (number, (until_ms, attempts)) in &mut self.queue.messages {
            if *until_ms <= now_ms && lent.len() < most as usize {
                (*until_ms, *attempts) = (now_ms + 30_000, *attempts + 1);
                self.queue.leases += 1;
                let body = Body::Text(number.to_string());
                let message = Message { id: number.to_string(), sent_at_ms: 0, attempts: *attempts, body };
                lent.push(Lent { lease_id: format!("{number}.{}", self.queue.leases), message });
            }
        }
        Pulled { lent, odd: 0 }
    }

    fn settle(&mut self, group: &Group) {
        for (lease, answer) in group.answers() {
            let number: u32 = lease.split('.').next().unwrap().parse().unwrap();
            match answer {
                Answer::Ack => {
                    assert!(self.kept.contains(&number), "{number} is acknowledged and was not kept");
                    self.queue.messages.remove(&number);
                }
                Answer::Retry { delay_s } => {
                    if let Some((until_ms, _)) = self.queue.messages.get_mut(&number) {
                        *until_ms = self.now_ms + i64::from(delay_s) * 1_000;
                    }
                }
            }
        }
    }

    /// The program takes a batch in, unless its store is away.
    fn receive(&mut self, lent: Vec<Lent>, asked_at_ms: i64) {
        let away = self.draw() % 100 < self.faults / 2;
        let answers = lent.into_iter().map(|lent| {
            if away {
                return (lent.lease_id, Answer::Retry { delay_s: 10 });
            }
            self.kept.insert(lent.message.id.parse().unwrap());
            (lent.lease_id, Answer::Ack)
        });
        let answers = answers.collect();
        self.later(End::Received(answers, asked_at_ms));
    }

    /// Goes on until nothing is left to do or the time is up. Answers whether it came to rest.
    fn run(&mut self, until_ms: i64, is_done: impl Fn(&Self) -> bool) -> bool {
        while self.now_ms < until_ms {
            let mut acts = 0;
            while let Some(act) = self.course.next(self.now_ms) {
                self.serve(act);
                acts += 1;
                assert!(acts < 1_000, "it never has enough");
            }
            assert!(self.course.held() <= HELD_MAX);
            if is_done(self) {
                return true;
            }
            let ends = self.ends.peek().map(|Reverse((at_ms, _))| *at_ms);
            let wakes = self.course.wakes_at(self.now_ms);
            let next = ends.into_iter().chain(wakes).min().expect("it neither works nor waits, and is not done");
            assert!(next > self.now_ms || ends == Some(next), "it is woken for nothing at {next}");
            self.now_ms = self.now_ms.max(next);
            while let Some(Reverse((at_ms, id))) =
                self.ends.peek().copied().filter(|Reverse((at, _))| *at <= self.now_ms)
            {
                self.ends.pop();
                let _ = at_ms;
                let end = self.what.remove(&id).unwrap();
                self.take(end);
            }
        }
        false
    }

    fn take(&mut self, end: End) {
        let random = self.draw();
        match end {
            End::Found(outcome) => self.course.found(outcome, self.now_ms, random),
            End::Pulled(size, asked_at_ms, outcome) => {
                let lent = self.course.pulled(size, outcome, asked_at_ms, self.now_ms, random);
                if !lent.is_empty() {
                    self.receive(lent, asked_at_ms);
                }
            }
            End::Received(answers, asked_at_ms) => self.course.received(answers, asked_at_ms, self.now_ms, random),
            End::Settled(group, outcome) => {
                self.course.settled(group, outcome.map(|()| Default::default()), self.now_ms, random);
            }
        }
        self.course.lines();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_message_is_kept_and_then_gone_whatever_fails(seed in any::<u64>(), faults in 0..40_u64, messages in 1..400_u32) {
        let mut world = World::new(seed, faults, messages);
        let empty = |world: &World| world.queue.messages.is_empty();
        prop_assert!(world.run(24 * 3_600_000, empty), "{} are left", world.queue.messages.len());
        prop_assert_eq!(world.kept.len(), messages as usize);
        // Nothing fails any more, so what is left of a course ends.
        world.faults = 0;
        world.course.stop();
        prop_assert!(world.run(world.now_ms + 3_600_000, |world| world.course.is_over()));
        prop_assert_eq!(world.course.held(), 0);
    }

    #[test]
    fn a_stop_at_any_moment_leaves_nothing_leased_that_nobody_kept(seed in any::<u64>(), at_ms in 0..5_000_i64) {
        let mut world = World::new(seed, 0, 300);
        world.run(at_ms, |world| world.queue.messages.is_empty());
        world.course.stop();
        prop_assert!(world.run(world.now_ms + 3_600_000, |world| world.course.is_over()));
        let held: Vec<u32> = world.queue.messages.iter().filter(|(_, (until_ms, _))| *until_ms > world.now_ms).map(|(number, _)| *number).collect();
        prop_assert!(held.is_empty(), "{held:?} are leased still");
        prop_assert_eq!(world.queue.messages.len() + world.kept.len(), 300);
    }
}
