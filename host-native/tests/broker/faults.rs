//! The store fails at each statement of each operation: nothing of it is there, and it works when it is done again.

use jadpo_core::broker::{
    BrokerError, ConsumerKind, Lease, NewApiToken, NewMessage, Once, Peek, Redrive, Retry, Run, RunOutcome, Settings,
    Settle,
};

use super::support::{Fixture, batch, message, retry, settings};

type Operation = fn(&mut Fixture) -> Result<(), BrokerError>;

/// Each with a name and with how many statements it has, at least.
const OPERATIONS: [(&str, usize, Operation); 24] = [
    ("send", 3, |f| f.send_batch("jobs", &batch(&["x", "y"])).map(drop)),
    ("take", 2, |f| f.try_take("jobs", 10).map(drop)),
    ("settle", 5, |f| {
        let leases = f.leases();
        let retries = leases[2..].iter().map(|lease| retry(*lease, None)).collect();
        let settle = Settle { acks: leases[..2].to_vec(), retries, ..Settle::default() };
        f.run(|broker, sql, at| broker.settle(sql, at, "jobs", &settle)).map(drop)
    }),
    ("release", 4, |f| {
        let settle = Settle { releases: f.leases(), ..Settle::default() };
        f.run(|broker, sql, at| broker.settle(sql, at, "jobs", &settle)).map(drop)
    }),
    ("sweep", 5, |f| {
        f.pass_s(40);
        f.run(|broker, sql, at| broker.sweep(sql, at)).map(drop)
    }),
    ("purge", 3, |f| f.run(|broker, sql, moment| broker.purge(sql, moment, "jobs")).map(drop)),
    ("delete", 2, |f| f.run(|broker, sql, _| broker.delete(sql, "jobs")).map(drop)),
    ("create", 2, |f| f.run(|broker, sql, at| broker.create(sql, at, "new", one_delivery(None))).map(drop)),
    ("pause", 1, |f| f.run(|broker, sql, at| broker.pause(sql, at, "jobs", true)).map(drop)),
    ("remove", 3, |f| {
        let seen = f.run(|broker, sql, at| broker.peek(sql, at, "jobs", Peek { max: 10, after: None }))?;
        f.fails_in = f.planned;
        let references: Vec<_> = seen.iter().map(|peeked| peeked.reference).collect();
        f.run(|broker, sql, _| broker.remove(sql, "jobs", &references)).map(drop)
    }),
    ("send once", 4, |f| {
        let once = Once { scope: "s", key: "k" };
        f.run(|broker, sql, at| broker.send_once(sql, at, "jobs", once, &message("x"))).map(drop)
    }),
    ("send taken", 2, |f| f.run(|broker, sql, at| broker.send_taken(sql, at, "jobs", &message("x"), 1)).map(drop)),
    ("send once and take", 4, |f| {
        let once = Once { scope: "s", key: "k" };
        f.run(|broker, sql, at| broker.send_once_taken(sql, at, "jobs", once, &message("x"), 1)).map(drop)
    }),
    ("retry taken, given up", 6, |f| retry_taken(f, "jobs")),
    ("retry taken", 3, |f| retry_taken(f, "patient")),
    ("occur", 4, |f| f.run(|broker, sql, at| broker.occur(sql, at, "s", 5, "jobs", &message("x"))).map(drop)),
    ("record runs", 2, |f| {
        let run = Run { at_ms: 1, outcome: RunOutcome::Failed, error: None, message: None };
        let runs = ["queue:jobs", "queue:dead"].map(|name| (name.to_owned(), run.clone()));
        f.run(|broker, sql, _| broker.record_runs(sql, &runs)).map(drop)
    }),
    ("enable", 1, |f| f.run(|broker, sql, _| broker.enable_trigger(sql, "queue:jobs", false)).map(drop)),
    ("begin a redrive", 3, |f| {
        let redrive = Redrive { source: "dead".to_owned(), to: Some("patient".to_owned()), ..Redrive::default() };
        f.run(|broker, sql, at| broker.redrive(sql, at, &redrive)).map(drop)
    }),
    ("add a consumer", 2, |f| {
        let (kind, settings) = (ConsumerKind::HttpPull, ConsumerKind::HttpPull.default_settings());
        f.run(|broker, sql, at| broker.add_consumer(sql, at, "jobs", kind, settings, None)).map(drop)
    }),
    ("remove a consumer", 2, |f| f.run(|broker, sql, at| broker.remove_consumer(sql, at, "patient")).map(drop)),
    ("create a token", 1, |f| f.run(|broker, sql, at| broker.create_token(sql, at, token("new")).map(drop))),
    ("revoke a token", 1, |f| f.run(|broker, sql, _| broker.revoke_token(sql, "old")).map(drop)),
    ("redrive", 12, |f| f.run(|broker, sql, at| broker.redrive_step(sql, at, 1, 100)).map(drop)),
];

fn retry_taken(f: &mut Fixture, name: &str) -> Result<(), BrokerError> {
    let lease = f.held.iter().find(|taken| (taken.message.body == b"p") == (name == "patient")).unwrap().lease;
    let retry = Retry { progress: Some("some".to_owned()), ..retry(lease, None) };
    f.run(|broker, sql, at| broker.retry_taken(sql, at, name, &retry, 60_000)).map(drop)
}

fn token(name: &str) -> NewApiToken {
    NewApiToken { name: name.to_owned(), may_read: true, may_write: false, queues: Vec::new(), expires_at_ms: None }
}

fn one_delivery(dead: Option<&str>) -> Settings {
    settings(|settings| {
        settings.retention_s = 200;
        settings.consumer.max_retries = 0;
        settings.consumer.dead_letter_queue = dead.map(str::to_owned);
    })
}

impl Fixture {
    fn leases(&self) -> Vec<Lease> {
        self.held.iter().filter(|taken| taken.message.body != b"p").map(|taken| taken.lease).collect()
    }

    /// `jobs` with four messages that are held and two that are ready, `dead` with two letters and a redrive of them
    /// that has begun, and `patient` with one that is held.
    fn busy() -> Self {
        let mut f = Self::new();
        f.create("jobs", one_delivery(Some("made-on-first-use")));
        f.create("other", one_delivery(Some("dead-of-other")));
        f.create("dead", settings(|_| {}));
        f.create("patient", settings(|_| {}));
        f.send_batch("other", &batch(&["1", "2"])).unwrap();
        let dying = f.take("other");
        f.retry("other", &dying, None);
        let redrive = Redrive { source: "other".to_owned(), ..Redrive::default() };
        f.run(|broker, sql, at| broker.redrive(sql, at, &redrive)).unwrap();
        f.send_batch("jobs", &batch(&["a", "b", "c", "d"])).unwrap();
        f.send("patient", "p");
        let kind = ConsumerKind::HttpPull;
        let set = kind.default_settings();
        f.run(|broker, sql, at| broker.add_consumer(sql, at, "patient", kind, set, None)).unwrap();
        f.run(|broker, sql, at| broker.create_token(sql, at, token("old"))).unwrap();
        f.held = f.take("jobs");
        let patient = f.take("patient");
        f.held.extend(patient);
        f.send_batch("jobs", &batch(&["e", "f"])).unwrap();
        f
    }
}

#[test]
fn a_fault_at_any_statement_leaves_nothing_of_the_operation() {
    for (name, least, operation) in OPERATIONS {
        let mut tried = 0;
        for statement in 0.. {
            let mut fixture = Fixture::busy();
            let before = fixture.dump();
            (fixture.planned, fixture.fails_in) = (Some(statement), Some(statement));
            let outcome = operation(&mut fixture);
            if outcome.is_ok() {
                assert_ne!(fixture.dump(), before, "{name} does something");
                break;
            }
            tried += 1;
            assert_eq!(fixture.dump(), before, "{name} at statement {statement}");
            (fixture.planned, fixture.fails_in) = (None, None);
            operation(&mut fixture).unwrap_or_else(|error| panic!("{name} after a fault: {error}"));
        }
        assert!(tried >= least, "{name} has {tried} statements");
    }
}

#[test]
fn what_is_refused_writes_nothing_even_in_the_middle_of_others_work() {
    // The fixture checks it for every operation; this one would be refused late if it were checked in its course.
    let mut fixture = Fixture::busy();
    let before = fixture.dump();
    let big = NewMessage { body: vec![0; 128_001], ..message("") };
    let once = Once { scope: "s", key: "k" };
    fixture.run(|broker, sql, at| broker.send_once(sql, at, "jobs", once, &big)).unwrap_err();
    fixture.run(|broker, sql, at| broker.occur(sql, at, "s", 5, "nowhere", &message("x"))).unwrap_err();
    fixture.run(|broker, sql, at| broker.send_taken(sql, at, "jobs", &message("x"), 43_200_001)).unwrap_err();
    let redrive = Redrive { source: "dead-of-other".to_owned(), ..Redrive::default() };
    fixture.run(|broker, sql, at| broker.redrive(sql, at, &redrive)).unwrap_err();
    assert_eq!(fixture.dump(), before);
}
