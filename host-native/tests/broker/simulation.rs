//! Random operations, faults, restarts and clocks, against a model that is too simple to be wrong.

use std::collections::BTreeMap;

use fastrand::Rng;
use jadpo_core::broker::{Batch, BrokerError, Gone, How, Lease, NewBatch, Settings, Settle, Sql, Take};

use super::support::{Fixture, delayed, message, retry, settings};

const QUEUES: [&str; 2] = ["jobs", "dead"];
const VISIBILITY_MS: i64 = 30_000;

/// What the model knows of a message; its body is its name.
#[derive(Debug, Clone)]
struct Known {
    queue: &'static str,
    attempts: u32,
    /// Leases given in this queue, the last one last, with the steady time at which they end.
    leases: Vec<(Lease, i64)>,
    gone: bool,
    /// Acknowledged under a lease that was not the last: whoever holds the last may still settle it.
    late: bool,
}

#[derive(Default)]
struct Model {
    messages: BTreeMap<String, Known>,
    ids: BTreeMap<String, String>,
    acked: usize,
    expired: usize,
    dropped: usize,
    dead_lettered: usize,
}

impl Model {
    fn sent(&mut self, queue: &'static str, body: &str, id: String) {
        self.ids.insert(id, body.to_owned());
        let known = Known { queue, attempts: 0, leases: Vec::new(), gone: false, late: false };
        assert!(self.messages.insert(body.to_owned(), known).is_none());
    }

    fn taken(&mut self, queue: &str, batch: &Batch, now_ms: i64, until_ms: i64) {
        self.left(&batch.gone);
        for taken in &batch.messages {
            let body = String::from_utf8(taken.message.body.clone()).unwrap();
            let known = self.messages.get_mut(&body).expect("a message that was sent");
            assert!(!known.gone, "{body} is gone and came again");
            assert_eq!(known.queue, queue, "{body} came from another queue");
            assert_eq!(taken.message.attempts, known.attempts + 1, "{body}: attempts grow by one");
            if let Some((_, until)) = known.leases.last() {
                assert!(*until <= now_ms, "{body} has a holder");
            }
            known.attempts += 1;
            known.leases.push((taken.lease, until_ms));
        }
    }

    fn left(&mut self, gone: &[Gone]) {
        for one in gone {
            let known = self.messages.get_mut(&self.ids[&one.id.to_string()]).unwrap();
            assert!(!known.gone, "{one:?} left twice");
            assert_eq!(known.attempts, one.attempts, "{one:?}");
            match &one.how {
                How::DeadLettered(to) => {
                    assert_eq!((known.queue, to.as_str()), ("jobs", "dead"));
                    assert_eq!(known.attempts, 3, "three deliveries, not fewer");
                    *known = Known { queue: "dead", attempts: 0, leases: Vec::new(), gone: false, late: false };
                    self.dead_lettered += 1;
                }
                How::Dropped => {
                    assert_eq!((known.queue, known.attempts), ("dead", 2));
                    known.gone = true;
                    self.dropped += 1;
                }
                How::Expired => {
                    known.gone = true;
                    self.expired += 1;
                }
            }
        }
    }

    fn left_over(&self) -> usize {
        self.messages.values().filter(|known| !known.gone).count()
    }
}

struct Simulation {
    rng: Rng,
    broker: Fixture,
    model: Model,
    next: usize,
    faults: usize,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut broker = Fixture::new();
        broker.create("jobs", queue(2, Some("dead")));
        broker.create("dead", queue(1, None));
        Self { rng: Rng::with_seed(seed), broker, model: Model::default(), next: 0, faults: 0 }
    }

    /// One operation, which a fault may end at any statement: then nothing of it is there.
    fn run<T>(
        &mut self,
        operation: impl FnOnce(
            &mut jadpo_core::broker::Broker,
            &mut dyn Sql,
            jadpo_core::broker::Moment,
        ) -> Result<T, BrokerError>,
    ) -> Option<T> {
        if self.rng.u8(..10) == 0 {
            self.broker.fails_in = Some(self.rng.u32(..8));
        }
        match self.broker.run(operation) {
            Ok(done) => Some(done),
            Err(BrokerError::Store(_)) => {
                self.faults += 1;
                None
            }
            Err(refused) => panic!("{refused}"),
        }
    }

    fn step(&mut self) {
        match self.rng.u8(..20) {
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
            _ => self.broker.restart_with_its_clock(),
        }
        self.broker.check_against_the_store();
    }

    fn send(&mut self) {
        let queue = QUEUES[usize::from(self.rng.u8(..8) == 0)];
        let bodies: Vec<String> = (0..self.rng.usize(1..6)).map(|n| format!("m{}", self.next + n)).collect();
        self.next += bodies.len();
        let delay_s = self.rng.bool().then(|| self.rng.u32(..40));
        let of = |body: &String| delay_s.map_or_else(|| message(body), |delay_s| delayed(body, delay_s));
        let batch = NewBatch { messages: bodies.iter().map(of).collect(), delay_s: None };
        if let Some(sent) = self.run(|broker, sql, at| broker.send(sql, at, queue, &batch)) {
            bodies.iter().zip(sent.ids).for_each(|(body, id)| self.model.sent(queue, body, id.to_string()));
        }
    }

    fn take(&mut self) {
        let queue = QUEUES[usize::from(self.rng.u8(..3) == 0)];
        let take = Take { max: self.rng.usize(1..8), visibility_ms: None };
        if let Some(batch) = self.run(|broker, sql, at| broker.take(sql, at, queue, take)) {
            let now_ms = self.broker.at.steady_ms;
            self.model.taken(queue, &batch, now_ms, now_ms + VISIBILITY_MS);
        }
    }

    /// Acks and retries any leases there ever were in a queue, current, late or stale.
    fn settle(&mut self) {
        let queue = QUEUES[usize::from(self.rng.u8(..3) == 0)];
        let now_ms = self.broker.at.steady_ms;
        let mut settle = Settle::default();
        let (mut acked, mut retried) = (Vec::new(), Vec::new());
        for (body, known) in self.model.messages.iter().filter(|(_, known)| known.queue == queue && !known.late) {
            let Some((lease, until)) = self.rng.choice(&known.leases).copied() else { continue };
            let is_current = known.leases.last() == Some(&(lease, until)) && until > now_ms;
            if !known.gone && self.rng.u8(..3) > 0 || known.gone && self.rng.u8(..20) > 0 {
                continue;
            }
            if self.rng.bool() {
                settle.acks.push(lease);
                if !known.gone {
                    acked.push((body.clone(), !is_current));
                }
            } else {
                settle.retries.push(retry(lease, self.rng.bool().then(|| self.rng.u32(..40))));
                if !known.gone && is_current {
                    retried.push(body.clone());
                }
            }
        }
        self.rng.shuffle(&mut settle.acks);
        let Some(settled) = self.run(|broker, sql, at| broker.settle(sql, at, queue, &settle)) else { return };
        assert_eq!(settled.acked, acked.len(), "{settle:?}");
        assert_eq!(settled.retried, retried.len(), "{settle:?}");
        assert_eq!(settled.warnings.len(), settle.acks.len() + settle.retries.len() - acked.len() - retried.len());
        for (body, late) in acked {
            let known = self.model.messages.get_mut(&body).unwrap();
            (known.gone, known.late) = (true, late);
            self.model.acked += 1;
        }
        for body in retried {
            // Its lease is over: what it had can be named again, as one that is stale.
            self.model.messages.get_mut(&body).unwrap().leases.last_mut().unwrap().1 = now_ms;
        }
        self.model.left(&settled.gone);
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
                let now_ms = self.broker.at.steady_ms;
                self.model.taken(queue, &batch, now_ms, now_ms + VISIBILITY_MS);
                let settled = self.broker.ack(queue, &batch.messages);
                assert_eq!(settled.acked, batch.messages.len());
                for taken in batch.messages {
                    let body = String::from_utf8(taken.message.body).unwrap();
                    self.model.messages.get_mut(&body).unwrap().gone = true;
                    self.model.acked += 1;
                }
            }
        }
        let model = &self.model;
        assert_eq!(
            model.messages.len(),
            model.acked + model.expired + model.dropped,
            "sent is acked, expired or dropped"
        );
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

    /// What is kept in memory is what a new process would read; no body is without its row, and no row without its
    /// body unless it was leased.
    fn check_against_the_store(&mut self) {
        let before: Vec<_> = QUEUES.map(|queue| self.metrics(queue)).into();
        self.run(|broker, sql, at| Ok(broker.reload(sql, at)?)).unwrap();
        let after: Vec<_> = QUEUES.map(|queue| self.metrics(queue)).into();
        assert_eq!(before, after);
        let bodies_alone =
            "SELECT count(*) FROM jadpo_queue_messages WHERE seq NOT IN (SELECT seq FROM jadpo_queue_due)";
        assert_eq!(self.count(bodies_alone), 0);
        let rows_alone = "SELECT count(*) FROM jadpo_queue_due WHERE attempts = 0 AND \
            seq NOT IN (SELECT seq FROM jadpo_queue_messages)";
        assert_eq!(self.count(rows_alone), 0);
    }
}

#[test]
fn whatever_happens_every_message_is_acknowledged_dead_lettered_expired_or_there() {
    let (mut faults, mut dead, mut expired, mut dropped) = (0, 0, 0, 0);
    for seed in 0..60 {
        let run = std::panic::catch_unwind(|| {
            let mut simulation = Simulation::new(seed);
            for _ in 0..250 {
                simulation.step();
            }
            simulation.drain();
            (simulation.faults, simulation.model)
        });
        let (run_faults, model) = run.unwrap_or_else(|_| panic!("seed {seed}"));
        faults += run_faults;
        dead += model.dead_lettered;
        expired += model.expired;
        dropped += model.dropped;
    }
    // Or it would not have tested what it says.
    assert!(faults > 300 && dead > 50 && expired > 50 && dropped > 50, "{faults} {dead} {expired} {dropped}");
}

#[test]
fn a_fault_at_any_statement_leaves_nothing_of_the_operation() {
    type Operation = fn(&mut Fixture) -> Result<(), BrokerError>;
    let operations: [(&str, Operation); 7] = [
        ("send", |f| f.send_batch("jobs", &super::support::batch(&["x", "y"])).map(drop)),
        ("take", |f| f.try_take("jobs", 10).map(drop)),
        ("settle", |f| {
            let leases: Vec<Lease> = f.held.iter().map(|taken| taken.lease).collect();
            let retries = leases[2..].iter().map(|lease| retry(*lease, None)).collect();
            let settle = Settle { acks: leases[..2].to_vec(), retries, ..Settle::default() };
            f.run(|broker, sql, at| broker.settle(sql, at, "jobs", &settle)).map(drop)
        }),
        ("sweep", |f| {
            f.pass_s(40);
            f.run(|broker, sql, at| broker.sweep(sql, at)).map(drop)
        }),
        ("purge", |f| f.run(|broker, sql, _| broker.purge(sql, "jobs")).map(drop)),
        ("delete", |f| f.run(|broker, sql, _| broker.delete(sql, "jobs")).map(drop)),
        ("create", |f| f.run(|broker, sql, at| broker.create(sql, at, "new", queue(1, None))).map(drop)),
    ];
    for (name, operation) in operations {
        let mut tried = 0;
        for statement in 0.. {
            let mut fixture = Fixture::new();
            fixture.create("jobs", queue(0, Some("made-on-first-use")));
            fixture.send_batch("jobs", &super::support::batch(&["a", "b", "c", "d"])).unwrap();
            fixture.held = fixture.take("jobs");
            fixture.send_batch("jobs", &super::support::batch(&["e", "f"])).unwrap();
            let before = fixture.dump();
            fixture.fails_in = Some(statement);
            let outcome = operation(&mut fixture);
            if outcome.is_ok() {
                assert_ne!(fixture.dump(), before, "{name} does something");
                break;
            }
            tried += 1;
            assert_eq!(fixture.dump(), before, "{name} at statement {statement}");
            fixture.fails_in = None;
            operation(&mut fixture).unwrap_or_else(|error| panic!("{name} after a fault: {error}"));
        }
        assert!(tried >= 2, "{name} has {tried} statements");
    }
}
