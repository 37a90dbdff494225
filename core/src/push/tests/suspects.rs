//! Queues whose handlers end workerd or do not, in a world of one workerd: whoever is innocent lives.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::broker::{Lease, Message, MessageId, Taken};

const MAX_RETRIES: u32 = 2;

/// A message that waits.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    id: u32,
    attempts: u32,
    due_at: u32,
}

#[derive(Debug, Clone)]
struct Batch {
    queue: String,
    taken: Vec<Taken>,
    is_guilty: bool,
    /// When it ends, or ends workerd.
    at: u32,
}

/// What there is, and what became of it. The queues called `g…` hold messages that end workerd; those called `i…` do not.
struct World {
    suspects: Suspects,
    queues: BTreeMap<String, Vec<Waiting>>,
    running: Vec<Batch>,
    now: u32,
    ended: u32,
    done: Vec<u32>,
    dead: Vec<(String, u32)>,
    /// How often each message of a guilty queue was cut off.
    cut_off: BTreeMap<u32, u32>,
    begun: u64,
    order: BTreeMap<String, Vec<u32>>,
}

/// How a queue of the world is consumed, and what comes to it: at which times.
#[derive(Debug, Clone)]
struct Given {
    is_guilty: bool,
    concurrency: usize,
    batch: usize,
    retry_delay: u32,
    takes: u32,
    sent_at: Vec<u32>,
}

fn given() -> impl Strategy<Value = Vec<Given>> {
    let one = (any::<bool>(), 1..4_usize, 1..3_usize, 0..40_u32, 1..20_u32, prop::collection::vec(0..60_u32, 1..8));
    let one = one.prop_map(|(is_guilty, concurrency, batch, retry_delay, takes, mut sent_at)| {
        sent_at.sort_unstable();
        Given { is_guilty, concurrency, batch, retry_delay, takes, sent_at }
    });
    prop::collection::vec(one, 1..5)
}

impl World {
    fn of(given: &[Given]) -> (Self, BTreeMap<String, Given>) {
        let name = |(at, one): (usize, &Given)| (format!("{}{at}", if one.is_guilty { "g" } else { "i" }), one.clone());
        let given: BTreeMap<String, Given> = given.iter().enumerate().map(name).collect();
        let mut id = 0;
        let mut waiting = |one: &Given| {
            let of = |due_at: &u32| {
                id += 1;
                Waiting { id, attempts: 0, due_at: *due_at }
            };
            one.sent_at.iter().map(of).collect::<Vec<_>>()
        };
        let queues = given.iter().map(|(name, one)| (name.clone(), waiting(one))).collect();
        let world = Self {
            suspects: Suspects::default(),
            queues,
            running: Vec::new(),
            now: 0,
            ended: 0,
            done: Vec::new(),
            dead: Vec::new(),
            cut_off: BTreeMap::new(),
            begun: 0,
            order: BTreeMap::new(),
        };
        (world, given)
    }

    /// As the host does it: asks whose turn it is, takes, begins.
    fn turn(&mut self, given: &BTreeMap<String, Given>) {
        for _ in 0..20 {
            let turn = self.suspects.turn(self.running.len());
            let mut begun = 0;
            for (name, one) in given {
                let room = one.concurrency - self.running.iter().filter(|batch| batch.queue == *name).count();
                let batches = match &turn {
                    Turn::Nobody => 0,
                    Turn::One(queue) => usize::from(queue == name),
                    Turn::All if self.suspects.waits(name) => 0,
                    Turn::All => room,
                };
                let found: Vec<_> =
                    (0..batches).map(|_| self.take(name, one)).filter(|taken| !taken.is_empty()).collect();
                for taken in found {
                    begun += usize::from(self.begin(name, one, &turn, taken));
                }
            }
            self.suspects.turned(&turn, begun);
            if turn == Turn::Nobody || !self.suspects.is_due(self.running.len()) {
                return;
            }
        }
        panic!("it turns and turns");
    }

    fn take(&mut self, name: &str, one: &Given) -> Vec<Taken> {
        let waiting = self.queues.get_mut(name).unwrap();
        let due: Vec<Waiting> = waiting.iter().filter(|it| it.due_at <= self.now).take(one.batch).copied().collect();
        waiting.retain(|it| due.iter().all(|due| due.id != it.id));
        due.iter().map(|it| taken(it.id, it.attempts + 1)).collect()
    }

    fn begin(&mut self, name: &str, one: &Given, turn: &Turn, taken: Vec<Taken>) -> bool {
        if self.suspects.taken(turn, name, &taken) == Next::GiveBack {
            self.back(name, &taken, self.now, -1);
            return false;
        }
        self.begun += 1;
        let at = self.now + 1 + (one.takes * 7 + self.begun as u32) % one.takes;
        self.order.entry(name.to_owned()).or_default().extend(taken.iter().map(id));
        self.running.push(Batch { queue: name.to_owned(), taken, is_guilty: one.is_guilty, at });
        true
    }

    /// They wait again, where they stood.
    fn back(&mut self, name: &str, taken: &[Taken], due_at: u32, attempts: i32) {
        let waiting = self.queues.get_mut(name).unwrap();
        for one in taken {
            let attempts = one.message.attempts.checked_add_signed(attempts).unwrap();
            waiting.push(Waiting { id: id(one), attempts, due_at });
        }
        waiting.sort_by_key(|it| it.id);
    }

    /// A step of time. `visitors` says whether somebody is at a Worker's address whenever workerd ends.
    fn step(&mut self, given: &BTreeMap<String, Given>, visitors: bool) {
        self.now += 1;
        let (over, running) = std::mem::take(&mut self.running).into_iter().partition(|batch| batch.at <= self.now);
        self.running = running;
        let over: Vec<Batch> = over;
        let (guilty, innocent): (Vec<_>, Vec<_>) = over.into_iter().partition(|batch| batch.is_guilty);
        for batch in innocent {
            let ids: Vec<MessageId> = batch.taken.iter().map(|one| one.message.id).collect();
            self.suspects.ended(&ids);
            self.done.extend(batch.taken.iter().map(id));
        }
        if !guilty.is_empty() {
            self.ended += 1;
            let cut: Vec<Batch> = guilty.into_iter().chain(std::mem::take(&mut self.running)).collect();
            let in_company = visitors || cut.len() > 1;
            cut.into_iter().for_each(|batch| self.cut(&given[&batch.queue], batch, in_company));
        }
        self.turn(given);
    }

    fn cut(&mut self, one: &Given, batch: Batch, in_company: bool) {
        let ended = CutOff { outcome: "daemonDown", why: "workerd ended", in_company };
        let settle = self.suspects.cut_off(&batch.queue, &batch.taken, ended).settle;
        assert_eq!(settle.releases.len() + settle.retries.len(), batch.taken.len(), "each has one end");
        for taken in &batch.taken {
            *self.cut_off.entry(id(taken)).or_default() += 1;
            if settle.releases.contains(&taken.lease) {
                assert!(in_company, "who was alone did it");
                self.back(&batch.queue, std::slice::from_ref(taken), self.now, -1);
            } else if taken.message.attempts > MAX_RETRIES {
                self.dead.push((batch.queue.clone(), id(taken)));
            } else {
                self.back(&batch.queue, std::slice::from_ref(taken), self.now + one.retry_delay, 0);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.running.is_empty() && self.queues.values().all(Vec::is_empty)
    }

    fn run(&mut self, given: &BTreeMap<String, Given>, visitors: bool) {
        self.turn(given);
        for _ in 0..50_000 {
            if self.is_over() {
                return;
            }
            self.step(given, visitors);
        }
        panic!("it does not end");
    }
}

fn taken(id: u32, attempts: u32) -> Taken {
    let message = Message {
        id: MessageId(id.into()),
        sent_at_ms: 0,
        attempts,
        content: Content::Text,
        body: Vec::new(),
        meta: None,
        progress: None,
        dead: None,
    };
    Taken { lease: Lease::of(id.into(), attempts), message }
}

fn id(taken: &Taken) -> u32 {
    u32::try_from(taken.lease.seq()).unwrap()
}

proptest! {
    #[test]
    fn an_innocent_queue_s_messages_never_die_by_others_faults(given in given()) {
        let (mut world, given) = World::of(&given);
        world.run(&given, false);
        let innocent = given.iter().filter(|(name, _)| name.starts_with('i'));
        let all: usize = innocent.map(|(_, one)| one.sent_at.len()).sum();
        prop_assert_eq!(world.done.len(), all, "all of them are done, once");
        prop_assert!(world.dead.iter().all(|(queue, _)| queue.starts_with('g')));
        for (name, _) in given.iter().filter(|(name, one)| name.starts_with('i') && one.concurrency == 1) {
            let mut begun = world.order[name].clone();
            begun.retain({ let mut seen = BTreeSet::new(); move |id| seen.insert(*id) });
            prop_assert!(begun.is_sorted(), "what is given back is not overtaken: {begun:?}");
        }
    }

    #[test]
    fn a_guilty_message_dies_within_a_bounded_number_of_restarts(given in given(), visitors: bool) {
        let (mut world, given) = World::of(&given);
        world.run(&given, visitors);
        let guilty: usize = given.values().filter(|one| one.is_guilty).map(|one| one.sent_at.len()).sum();
        prop_assert_eq!(world.dead.iter().filter(|(queue, _)| queue.starts_with('g')).count(), guilty);
        let most = MAX_RETRIES + 1 + IN_COMPANY_MAX;
        prop_assert!(world.cut_off.values().all(|times| *times <= most), "{:?}", world.cut_off);
        if !visitors {
            prop_assert!(world.ended <= guilty as u32 * (MAX_RETRIES + 2), "{} for {guilty}", world.ended);
        }
    }
}

#[test]
fn who_was_in_company_is_tried_alone_and_the_others_have_their_turn_in_between() {
    let mut suspects = Suspects::default();
    let (a, b) = ([taken(1, 1)], [taken(2, 1)]);
    let ended = CutOff { outcome: "daemonDown", why: "workerd ended", in_company: true };
    assert_eq!(suspects.turn(7), Turn::All);
    for (queue, batch) in [("a", &a), ("b", &b)] {
        let verdict = suspects.cut_off(queue, batch, ended);
        assert_eq!(verdict.settle.releases, [batch[0].lease]);
        assert!(verdict.error.unwrap().contains("tried again alone"));
    }
    let turn = suspects.turn(0);
    assert_eq!(turn, Turn::One("a".to_owned()));
    assert_eq!(suspects.taken(&turn, "a", &a), Next::Hand);
    suspects.turned(&turn, 1);
    assert_eq!(suspects.turn(1), Turn::Nobody, "nothing beside it");
    suspects.ended(&[a[0].message.id]);
    assert_eq!(suspects.turn(0), Turn::All);
    assert!(suspects.waits("b") && !suspects.waits("c"));
    assert_eq!(suspects.taken(&Turn::All, "c", &[taken(3, 1)]), Next::Hand);
    suspects.turned(&Turn::All, 1);
    assert_eq!(suspects.turn(1), Turn::Nobody, "what runs ends before the next is tried");
    suspects.ended(&[MessageId(3)]);
    let turn = suspects.turn(0);
    assert_eq!(suspects.taken(&turn, "b", &b), Next::Hand);
    suspects.turned(&turn, 1);
    let verdict = suspects.cut_off("b", &b, CutOff { in_company: false, ..ended });
    let error = "daemonDown: workerd ended; nothing else ran in it";
    assert_eq!(verdict.settle.retries[0].error.as_deref(), Some(error));
    suspects.turned(&Turn::All, 0);
    // Its retry comes with others one day, and is alone again.
    assert_eq!(suspects.taken(&Turn::All, "b", &b), Next::GiveBack);
    assert_eq!(suspects.turn(0), Turn::One("a".to_owned()));
    suspects.turned(&Turn::One("a".to_owned()), 0);
    assert_eq!(suspects.turn(0), Turn::One("b".to_owned()), "there was none of the other's");
}

#[test]
fn what_was_cut_off_in_company_three_times_counts_from_then_on() {
    let mut suspects = Suspects::default();
    let batch = [taken(1, 1)];
    let ended = CutOff { outcome: "exceededCpu", why: "held", in_company: true };
    for _ in 0..IN_COMPANY_MAX {
        assert!(suspects.cut_off("a", &batch, ended).settle.retries.is_empty());
    }
    let settle = suspects.cut_off("a", &batch, ended).settle;
    assert!(settle.releases.is_empty());
    assert!(settle.retries[0].error.as_deref().unwrap().contains("3 times before"));
}
