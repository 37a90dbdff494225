//! Random operations, faults, restarts and clocks, against a model that is too simple to be wrong.

use std::collections::BTreeMap;

use fastrand::Rng;
use jadpo_core::broker::{
    BrokerError, Lease, MessageRef, Moment, NewBatch, Once, Peek, Redrive, RedriveFilter, RedriveState, Retaken, Retry,
    SentOnce, Settings, Settle, Sql, Take, TakenOnce,
};

use super::model::{Count, Model, QUEUES, VISIBILITY_MS};
use super::support::{Fixture, delayed, message, retry, settings};

struct Simulation {
    rng: Rng,
    broker: Fixture,
    model: Model,
    next: usize,
    /// The redrive that runs, and how many it moved.
    redrive: Option<(u64, u64)>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut broker = Fixture::new();
        broker.create("jobs", queue(2, Some("dead")));
        broker.create("dead", queue(1, None));
        Self { rng: Rng::with_seed(seed), broker, model: Model::default(), next: 0, redrive: None }
    }

    /// One operation, which a fault may end at any statement: then nothing of it is there.
    fn run<T>(
        &mut self,
        operation: impl FnOnce(&mut jadpo_core::broker::Broker, &mut dyn Sql, Moment) -> Result<T, BrokerError>,
    ) -> Option<T> {
        if self.rng.u8(..10) == 0 {
            self.broker.fails_in = Some(self.rng.u32(..8));
        }
        match self.broker.run(operation) {
            Ok(done) => Some(done),
            Err(BrokerError::Store(_)) => {
                self.model.count.faults += 1;
                None
            }
            Err(refused) => panic!("{refused}"),
        }
    }

    fn now_ms(&self) -> i64 {
        self.broker.at.steady_ms
    }

    fn step(&mut self) {
        match self.rng.u8(..35) {
            0..=5 => self.send(),
            6..=10 => self.take(),
            11..=15 => self.settle(),
            16 => {
                if let Some(swept) = self.run(|broker, sql, at| broker.sweep(sql, at)) {
                    self.model.left(&swept.gone);
                }
            }
            17 => self.broker.pass_ms(self.rng.i64(0..40_000)),
            18 => self.broker.at.wall_ms += self.rng.i64(-43_200_000..43_200_000),
            19 => self.broker.restart_with_its_clock(),
            20 => self.send_once(),
            21 => self.occur(),
            22 => self.send_taken(),
            23 | 24 => self.retry_taken(),
            25 => self.release(),
            26 => self.look(),
            27 => self.remove(),
            28..=30 => self.begin_or_cancel_redrive(),
            _ => self.redrive_slice(),
        }
        self.broker.check_against_the_store();
    }

    fn any_queue(&mut self) -> &'static str {
        QUEUES[usize::from(self.rng.u8(..3) == 0)]
    }

    fn body(&mut self) -> String {
        self.next += 1;
        format!("m{}", self.next)
    }

    fn send(&mut self) {
        let queue = QUEUES[usize::from(self.rng.u8(..8) == 0)];
        let bodies: Vec<String> = (0..self.rng.usize(1..6)).map(|_| self.body()).collect();
        let delay_s = self.rng.bool().then(|| self.rng.u32(..40));
        let of = |body: &String| delay_s.map_or_else(|| message(body), |delay_s| delayed(body, delay_s));
        let batch = NewBatch { messages: bodies.iter().map(of).collect(), delay_s: None };
        if let Some(sent) = self.run(|broker, sql, at| broker.send(sql, at, queue, &batch)) {
            bodies.iter().zip(sent.ids).for_each(|(body, id)| self.model.sent(queue, body, id));
        }
    }

    fn send_once(&mut self) {
        let (body, key) = (self.body(), self.rng.u8(..6).to_string());
        let once = Once { scope: "s", key: &key };
        if self.rng.bool() {
            let visibility_ms = VISIBILITY_MS as u32;
            let sent = self
                .run(|broker, sql, at| broker.send_once_taken(sql, at, "jobs", once, &message(&body), visibility_ms));
            match sent {
                None => {}
                Some(TakenOnce::Taken(taken)) => {
                    let id = taken.message.id;
                    assert_eq!(self.model.once.insert(key, id), None, "once");
                    self.model.sent("jobs", &body, id);
                    self.model.taken("jobs", &taken, self.broker.at.steady_ms);
                }
                Some(TakenOnce::Repeat(id)) => assert_eq!(self.model.once.get(&key), Some(&id)),
            }
            return;
        }
        match self.run(|broker, sql, at| broker.send_once(sql, at, "jobs", once, &message(&body))) {
            None => {}
            Some(SentOnce::Sent(id)) => {
                assert_eq!(self.model.once.insert(key, id), None, "once");
                self.model.sent("jobs", &body, id);
            }
            Some(SentOnce::Repeat(id)) => {
                assert_eq!(self.model.once.get(&key), Some(&id));
                self.model.count.repeats += 1;
            }
        }
    }

    fn occur(&mut self) {
        let (body, at_ms) = (self.body(), self.rng.i64(..200));
        match self.run(|broker, sql, at| broker.occur(sql, at, "s", at_ms, "jobs", &message(&body))) {
            None => {}
            Some(Some(id)) => {
                assert!(self.model.last_occurrence < Some(at_ms), "an occurrence happens once");
                self.model.last_occurrence = Some(at_ms);
                self.model.sent("jobs", &body, id);
                self.model.count.occurred += 1;
            }
            Some(None) => assert!(self.model.last_occurrence >= Some(at_ms), "an occurrence was left out"),
        }
    }

    fn send_taken(&mut self) {
        let body = self.body();
        let visibility_ms = VISIBILITY_MS as u32;
        let sent = self.run(|broker, sql, at| broker.send_taken(sql, at, "jobs", &message(&body), visibility_ms));
        if let Some(taken) = sent {
            self.model.sent("jobs", &body, taken.message.id);
            self.model.taken("jobs", &taken, self.broker.at.steady_ms);
        }
    }

    fn take(&mut self) {
        let queue = self.any_queue();
        let take = Take { max: self.rng.usize(1..8), visibility_ms: None };
        if let Some(batch) = self.run(|broker, sql, at| broker.take(sql, at, queue, take)) {
            self.model.batch(queue, &batch, self.broker.at.steady_ms);
        }
    }

    /// A lease that some message of the queue has or had: of those that are gone seldom.
    fn leases(&mut self, queue: &str) -> Vec<(String, Lease)> {
        let mut leases = Vec::new();
        for (body, known) in self.model.messages.iter().filter(|(_, known)| known.queue == queue && !known.late) {
            let Some((lease, _)) = self.rng.choice(&known.leases).copied() else { continue };
            let often = if known.gone { 20 } else { 3 };
            if self.rng.u8(..often) == 0 {
                leases.push((body.clone(), lease));
            }
        }
        leases
    }

    /// Acks and retries any leases there ever were in a queue, current, late or stale.
    fn settle(&mut self) {
        let (queue, now_ms) = (self.any_queue(), self.now_ms());
        let mut settle = Settle::default();
        let (mut acked, mut retried) = (Vec::new(), Vec::new());
        for (body, lease) in self.leases(queue) {
            let known = &self.model.messages[&body];
            let (there, holds) = (!known.gone, known.holds(&lease, now_ms));
            if self.rng.bool() {
                settle.acks.push(lease);
                acked.extend(there.then_some((body, !holds)));
            } else {
                let progress = self.rng.bool().then(|| format!("p{}", self.rng.u8(..)));
                let delay_s = self.rng.bool().then(|| self.rng.u32(..40));
                settle.retries.push(Retry { progress: progress.clone(), ..retry(lease, delay_s) });
                retried.extend((there && holds).then_some((body, progress)));
            }
        }
        self.rng.shuffle(&mut settle.acks);
        let Some(settled) = self.run(|broker, sql, at| broker.settle(sql, at, queue, &settle)) else { return };
        assert_eq!((settled.acked, settled.retried), (acked.len(), retried.len()), "{settle:?}");
        assert_eq!(settled.warnings.len(), settle.acks.len() + settle.retries.len() - acked.len() - retried.len());
        for (body, late) in acked {
            self.model.gone(&body, late);
            self.model.count.acked += 1;
        }
        for (body, progress) in retried {
            let known = self.model.known(&body);
            // Its lease is over: what it had can be named again, as one that is stale.
            known.leases.last_mut().unwrap().1 = now_ms;
            known.progress = progress.or(known.progress.take());
        }
        self.model.left(&settled.gone);
    }

    fn release(&mut self) {
        let (queue, now_ms) = (self.any_queue(), self.now_ms());
        let leases = self.leases(queue);
        let releases: Vec<Lease> = leases.iter().map(|(_, lease)| *lease).collect();
        let settle = Settle { releases, ..Settle::default() };
        let Some(settled) = self.run(|broker, sql, at| broker.settle(sql, at, queue, &settle)) else { return };
        let mut released = 0;
        for (body, lease) in &leases {
            let known = self.model.known(body);
            if !known.gone && known.holds(lease, now_ms) {
                known.leases.pop();
                known.attempts -= 1;
                released += 1;
            }
        }
        assert_eq!((settled.released, settled.warnings.len()), (released, leases.len() - released));
        self.model.count.released += released;
    }

    fn retry_taken(&mut self) {
        let now_ms = self.now_ms();
        let Some((body, lease)) = self.leases("jobs").pop() else { return };
        let progress = self.rng.bool().then(|| format!("p{}", self.rng.u8(..)));
        let retry = Retry { progress: progress.clone(), ..retry(lease, Some(40)) };
        let visibility_ms = VISIBILITY_MS as u32;
        let retaken = self.run(|broker, sql, at| broker.retry_taken(sql, at, "jobs", &retry, visibility_ms));
        let Some(retaken) = retaken else { return };
        let known = self.model.known(&body);
        let held = !known.gone && known.holds(&lease, now_ms);
        assert_eq!(held, !matches!(retaken, Retaken::Lost(_)), "{body}: {retaken:?}");
        if held {
            known.leases.last_mut().unwrap().1 = now_ms;
            known.progress = progress.or(known.progress.take());
        }
        match retaken {
            Retaken::Lost(_) => {}
            Retaken::Gone(gone) => self.model.left(&[gone]),
            Retaken::Taken(taken) => {
                self.model.taken("jobs", &taken, now_ms);
                self.model.count.at_once += 1;
            }
        }
    }

    /// Everything in a queue, page by page, with its places.
    fn list(&mut self, queue: &'static str) -> BTreeMap<String, MessageRef> {
        let mut bodies = BTreeMap::new();
        let mut after = None;
        loop {
            let peek = Peek { max: 7, after };
            let page = self.broker.run(|broker, sql, at| broker.peek(sql, at, queue, peek)).unwrap();
            let Some(last) = page.last() else { return bodies };
            after = Some(last.reference);
            for one in page {
                let body = String::from_utf8(one.message.body).unwrap();
                assert_eq!(bodies.insert(body, one.reference), None, "a message is seen once");
            }
        }
    }

    fn look(&mut self) {
        let queue = self.any_queue();
        let there = self.list(queue);
        let known = self.model.messages.iter().filter(|(_, known)| known.queue == queue && !known.gone);
        assert!(there.keys().eq(known.map(|(body, _)| body)), "what the model says is there, and nothing else");
        let seen = there.into_iter().map(|(body, place)| (place, queue, self.model.messages[&body].moves, body));
        self.model.seen.extend(seen);
        if self.model.seen.len() > 200 {
            self.model.seen.drain(..100);
        }
    }

    /// Removes what was seen at some time, wherever it stands now.
    fn remove(&mut self) {
        let Some((reference, queue, moves, body)) = self.rng.choice(&self.model.seen).cloned() else { return };
        let Some(removed) = self.run(|broker, sql, _| broker.remove(sql, queue, &[reference])) else { return };
        let known = self.model.known(&body);
        let there = !known.gone && known.moves == moves;
        assert_eq!(removed.removed, usize::from(there), "{body}");
        if there {
            self.model.gone(&body, true);
            self.model.count.removed += 1;
        }
    }

    fn begin_or_cancel_redrive(&mut self) {
        if let Some((id, _)) = self.redrive {
            if self.rng.u8(..12) == 0
                && let Some(task) = self.run(|broker, sql, at| broker.cancel_redrive(sql, at, id))
            {
                assert_eq!(task.state, RedriveState::Cancelled);
                self.redrive = None;
            }
            return;
        }
        let filter = RedriveFilter { limit: self.rng.bool().then(|| self.rng.u64(..9)), ..RedriveFilter::default() };
        let rate_per_s = self.rng.bool().then(|| self.rng.u32(1..50));
        let redrive = Redrive { source: "jobs".to_owned(), to: None, filter, rate_per_s };
        self.redrive = self.run(|broker, sql, at| broker.redrive(sql, at, &redrive)).map(|task| (task.id, 0));
    }

    fn redrive_slice(&mut self) {
        let Some((id, before)) = self.redrive else { return };
        let max = self.rng.usize(1..5);
        let Some(task) = self.run(|broker, sql, at| broker.redrive_step(sql, at, id, max)) else { return };
        let (now_ms, dead, jobs) = (self.now_ms(), self.list("dead"), self.list("jobs"));
        assert!(dead.keys().all(|body| !jobs.contains_key(body)), "a message is in one place");
        let was_dead = |body: &&String| self.model.messages[*body].queue == "dead";
        let moved: Vec<String> = jobs.keys().filter(was_dead).cloned().collect();
        assert_eq!(task.moved - before, moved.len() as u64);
        assert!(moved.len() <= max && task.redrive.filter.limit.is_none_or(|limit| task.moved <= limit));
        moved.iter().for_each(|body| self.model.put_back(body, now_ms));
        self.redrive = Some((id, task.moved));
        if task.state == RedriveState::Done {
            self.redrive = None;
            self.model.count.skipped += task.skipped as usize;
        }
    }

    /// Takes and acknowledges everything, and counts it all up.
    fn drain(&mut self) {
        for _ in 0..1_000 {
            if self.model.left_over() == 0 {
                break;
            }
            self.broker.pass_s(20);
            for queue in QUEUES {
                let batch = self.broker.try_take(queue, 100).unwrap();
                self.model.batch(queue, &batch, self.broker.at.steady_ms);
                let settled = self.broker.ack(queue, &batch.messages);
                assert_eq!(settled.acked, batch.messages.len());
                for taken in batch.messages {
                    self.model.gone(std::str::from_utf8(&taken.message.body).unwrap(), false);
                    self.model.count.acked += 1;
                }
            }
        }
        let Count { acked, expired, dropped, removed, .. } = self.model.count;
        assert_eq!(self.model.messages.len(), acked + expired + dropped + removed, "every message ends in one way");
        self.broker.pass_s(86_400);
        self.broker.sweep_all();
        assert_eq!(self.broker.count("SELECT count(*) FROM jadpo_queue_messages"), 0);
        assert_eq!(self.broker.count("SELECT count(*) FROM jadpo_queue_due"), 0);
    }
}

fn queue(max_retries: u32, dead: Option<&str>) -> Settings {
    settings(|settings| {
        settings.retention_s = 200;
        settings.consumer.max_retries = max_retries;
        settings.consumer.dead_letter_queue = dead.map(str::to_owned);
    })
}

impl Fixture {
    fn restart_with_its_clock(&mut self) {
        // As a process that was killed and started at once; the wall clock is right again.
        let wall_ms = self.at.wall_ms;
        let steady_ms = self.at.steady_ms;
        self.run(|broker, sql, at| Ok(broker.reload(sql, at)?)).unwrap();
        (self.at.wall_ms, self.at.steady_ms) = (wall_ms, steady_ms);
    }

    /// What is kept in memory is what a new process would read; no body is without its row, no row without its body
    /// unless it was leased, and no message is there twice.
    fn check_against_the_store(&mut self) {
        let before: Vec<_> = QUEUES.map(|queue| self.metrics(queue)).into();
        self.run(|broker, sql, at| Ok(broker.reload(sql, at)?)).unwrap();
        let after: Vec<_> = QUEUES.map(|queue| self.metrics(queue)).into();
        assert_eq!(before, after);
        let none = [
            "SELECT count(*) FROM jadpo_queue_messages WHERE seq NOT IN (SELECT seq FROM jadpo_queue_due)",
            "SELECT count(*) FROM jadpo_queue_due WHERE attempts = 0 AND leased = 1",
            "SELECT count(*) - count(DISTINCT id) FROM jadpo_queue_messages",
            "SELECT count(*) - count(DISTINCT seq) FROM jadpo_queue_due",
        ];
        for one in none {
            assert_eq!(self.count(one), 0, "{one}");
        }
    }
}

/// A broker that does not do what one of its statements is for, and what that is.
const BROKEN: [(&str, &str); 12] = [
    ("an ack leaves the message's place", "DELETE FROM jadpo_queue_due WHERE queue = ?1 AND due_at = ?2 AND seq = ?3"),
    ("acks leave bodies", "DELETE FROM jadpo_queue_messages WHERE seq BETWEEN"),
    ("an ack that comes late leaves the body", "DELETE FROM jadpo_queue_messages WHERE seq = ?1"),
    ("a take leases nothing", "SET due_at = ?1, attempts = attempts + 1, leased = 1, first_at"),
    ("a retry changes nothing", "SET due_at = ?1, leased = 0, error"),
    ("a release changes nothing", "SET due_at = 0, leased = 0, attempts = attempts - 1"),
    ("an immediate attempt is not leased again", "SET due_at = ?1, leased = 1, attempts = attempts + 1, error"),
    ("a letter that is put back has no place", "CASE WHEN ?4 THEN dead_progress"),
    ("a redrive does not know how far it was", "UPDATE jadpo_redrives"),
    ("a key is not remembered", "INSERT INTO jadpo_queue_once"),
    ("an occurrence is not recorded", "INSERT INTO jadpo_triggers"),
    ("numbers are given again", "UPDATE jadpo_broker SET next_seq"),
];

#[test]
fn a_broker_that_leaves_anything_out_is_found_out() {
    for (what, statement) in BROKEN {
        let is_found_out = (0..10).any(|seed| {
            let run = std::panic::catch_unwind(|| {
                let mut simulation = Simulation::new(seed);
                simulation.broker.left_out = Some(statement);
                (0..300).for_each(|_| simulation.step());
                simulation.drain();
            });
            run.is_err()
        });
        assert!(is_found_out, "nobody sees it when {what}");
    }
}

#[test]
fn whatever_happens_every_message_is_acknowledged_dead_lettered_expired_or_there() {
    let seeds = std::env::var("JADPO_TEST_SEEDS").map_or(60, |seeds| seeds.parse().expect("a number"));
    let mut total = Count::default();
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(|| {
            let mut simulation = Simulation::new(seed);
            for _ in 0..300 {
                simulation.step();
            }
            simulation.drain();
            simulation.model.count
        });
        total.add(&run.unwrap_or_else(|_| panic!("seed {seed}")));
    }
    // Or it would not have tested what it says.
    let Count { faults, dead_lettered, expired, dropped, removed, released, put_back, .. } = total;
    assert!(faults > 300 && dead_lettered > 50 && expired > 50 && dropped > 50, "{total:?}");
    assert!(removed > 50 && released > 50 && put_back > 50, "{total:?}");
    assert!(total.skipped > 5 && total.repeats > 50 && total.occurred > 50 && total.at_once > 50, "{total:?}");
}
