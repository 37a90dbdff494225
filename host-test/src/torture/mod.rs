//! The torture chamber: everything there is, under one seeded scheduler that may let anything die at any step, lose an
//! answer after its effect, do things twice, late and in another order, while what must hold is looked at throughout.
//!
//! [`run`] runs one seed; the same seed gives the same run. `cargo xtask torture` runs as many as there is time for.
#![allow(clippy::indexing_slicing, reason = "what is indexed here was counted here")]

mod broker;
mod consumers;
mod coverage;
mod host;
mod ledger;
mod model;
mod native;
mod place;
mod sim;
mod state;
mod store;
mod trace;
mod worker;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use jadpo_core::broken::{self, Variant};
use jadpo_core::queue::Body;
use jadpo_core::start::App;

pub use coverage::{Coverage, Fault, Step};
use sim::{Runner, Scheduler, Sim, WORLD};
use state::{Callees, Place, Side, State};

use crate::clock::START_MS;
use crate::cloudflare::Cloudflare;

/// Turns of a run, at most.
const TURNS_MAX: u32 = 40_000;
/// Between two looks at everything.
const CHECK_EVERY: u32 = 48;
/// How long after the last fault everything has settled, in milliseconds.
const SETTLES_WITHIN_MS: i64 = 3 * 24 * 3_600_000;

/// What a run saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Which fault met which step.
    pub coverage: Coverage,
    /// Steps of the scheduler.
    pub turns: u64,
    /// Events that were kept.
    pub events: u64,
    /// The most messages that were parked at a time.
    pub parked: u64,
    /// Messages that were sent to the server's queues.
    pub sent: u64,
    /// Those that were dead-lettered.
    pub dead: u64,
    /// Those that were put back.
    pub put_back: u64,
    /// Those that expired.
    pub expired: u64,
}

impl Seen {
    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.coverage.add(&other.coverage);
        self.turns += other.turns;
        self.events += other.events;
        self.parked += other.parked;
        self.sent += other.sent;
        self.dead += other.dead;
        self.put_back += other.put_back;
        self.expired += other.expired;
    }
}

/// What must hold and did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What it is, in words.
    pub what: String,
    /// What the run saw until then.
    pub seen: Box<Seen>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// What is wrong with the code that runs, so that it must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// It does what a variant says.
    Variant(Variant),
    /// The broker leaves out what this statement is for.
    LeftOut(&'static str),
}

impl Mistake {
    /// All of them, each with its name and what is wrong then, in a sentence.
    #[must_use]
    pub fn all() -> Vec<(String, &'static str, Self)> {
        let variants = Variant::ALL.iter().map(|one| (format!("{one:?}"), one.about(), Self::Variant(*one)));
        let left_out = LEFT_OUT.iter().enumerate();
        let left_out =
            left_out.map(|(at, (about, statement))| (format!("LeftOut{at}"), *about, Self::LeftOut(statement)));
        variants.chain(left_out).collect()
    }

    /// A variant by its name, or as `LeftOut3` the third of [`LEFT_OUT`], counted from 0.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let left_out = name.strip_prefix("LeftOut").and_then(|index| index.parse::<usize>().ok());
        match left_out {
            Some(index) => LEFT_OUT.get(index).map(|(_, statement)| Self::LeftOut(statement)),
            None => Variant::named(name).map(Self::Variant),
        }
    }
}

/// Statements of the broker of which each one left out must be found, and what is left out with it.
pub const LEFT_OUT: [(&str, &str); 12] = [
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

/// Runs one seed, with everything right or wrong in one way.
///
/// # Errors
/// What must hold and did not.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Result<Seen, Failure> {
    let (variant, left_out) = match mistake {
        None => (None, None),
        Some(Mistake::Variant(variant)) => (Some(variant), None),
        Some(Mistake::LeftOut(statement)) => (None, Some(statement)),
    };
    broken::choose(variant);
    let (sim, sides) = begin(seed);
    sim.state().native.left_out = left_out;
    let mut turns = 0;
    let ran = catch_unwind(AssertUnwindSafe(|| play(&mut Runner::new(sim.clone()), sides, &mut turns)));
    broken::choose(None);
    let ran = ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    });
    let seen = seen(&sim, turns.into());
    match ran {
        Ok(()) => Ok(seen),
        Err(what) => Err(Failure { what, seen: Box::new(seen) }),
    }
}

/// Runs one seed again and gives the last `most` things that happened in it: steps, what came of them, faults.
#[must_use]
pub fn explain(seed: u64, mistake: Option<Mistake>, most: usize) -> Vec<String> {
    trace::start(most);
    // What it ends with is known.
    let _ = run(seed, mistake);
    trace::end()
}

/// What a run saw.
fn seen(sim: &Sim, turns: u64) -> Seen {
    let state = &mut *sim.state();
    let mut seen = Seen { coverage: state.scheduler.coverage.clone(), turns, ..Seen::default() };
    for side in &mut state.sides {
        let events = side.database.number("SELECT count(*) FROM jadpo_events", &[]).unwrap_or_default();
        seen.events += events.unsigned_abs();
        seen.parked += side.ledger.parked_ever;
    }
    let count = state.native.model.count;
    (seen.sent, seen.dead, seen.put_back, seen.expired) = (count.sent, count.dead, count.put_back, count.expired);
    seen
}

/// Which sides a run has.
#[derive(Clone, Copy)]
struct Sides {
    worker: bool,
    server: bool,
}

fn begin(seed: u64) -> (Sim, Sides) {
    static APPS: OnceLock<[Arc<App>; 2]> = OnceLock::new();
    let apps = APPS.get_or_init(|| [Arc::new(world::worker_app("int", false)), Arc::new(world::server_app(3))]);
    let mut scheduler = Scheduler::new(seed, START_MS);
    let sides = match scheduler.random.u32(0..5) {
        0 | 1 => Sides { worker: true, server: false },
        2 | 3 => Sides { worker: false, server: true },
        _ => Sides { worker: true, server: true },
    };
    scheduler.deaths = scheduler.pick(&[0, 5, 20]);
    scheduler.lags = scheduler.pick(&[0, 10, 40]);
    let mut cloudflare = Cloudflare::of(&apps[0].program);
    cloudflare.seed(seed);
    if scheduler.chance(30) {
        cloudflare.shuffle();
    }
    let mut native = native::Native { retention_s: scheduler.pick(&[1_209_600, 1_209_600, 600]), ..Default::default() };
    native.model.retention_ms = i64::from(native.retention_s) * 1_000;
    let skewed = scheduler.chance(15);
    let sim = Sim::new(State {
        scheduler,
        sides: [Side::new(apps[0].clone()), Side::new(apps[1].clone())],
        callees: Callees::default(),
        cloudflare,
        native,
        skewed,
        calm: false,
    });
    (sim, sides)
}

/// The faults, and then the calm in which everything must settle. Counts the turns.
fn play(runner: &mut Runner, sides: Sides, turns: &mut u32) -> Result<(), String> {
    let sim = runner.sim.clone();
    let left = Arc::new(std::sync::atomic::AtomicU32::new(0));
    {
        let state = &mut *sim.state();
        if sides.worker && state.scheduler.chance(12) {
            state.send("doom", Body::Json("1".to_owned()));
        }
    }
    let actions = sim.state().scheduler.random.u32(8..30);
    let acting = |work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        left.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let left = left.clone();
        sim.spawn(WORLD, async move {
            work.await;
            left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        });
    };
    if sides.worker {
        worker::start(&sim);
        acting(Box::pin(world::around_the_worker(sim.clone(), actions)));
    }
    if sides.server {
        native::start(&sim);
        acting(Box::pin(world::around_the_server(sim.clone(), actions)));
    }
    while left.load(std::sync::atomic::Ordering::Relaxed) > 0 {
        turn(runner, sides, turns)?;
    }
    check(&sim)?;
    calm(runner, sides, turns)
}

fn turn(runner: &mut Runner, sides: Sides, turns: &mut u32) -> Result<(), String> {
    *turns += 1;
    let open = |sim: &Sim| still_open(sim, sides).unwrap_or_else(|| "nothing is open".to_owned());
    if !runner.turn()? {
        return Err(format!("everybody waits, and nobody for a time: {}", open(&runner.sim)));
    }
    if *turns > TURNS_MAX {
        return Err(format!("it does not settle within {TURNS_MAX} steps: {}", open(&runner.sim)));
    }
    if turns.is_multiple_of(CHECK_EVERY) {
        check(&runner.sim)?;
    }
    Ok(())
}

fn check(sim: &Sim) -> Result<(), String> {
    let state = &mut *sim.state();
    for side in &mut state.sides {
        side.check()?;
    }
    let waiting: std::collections::BTreeSet<String> =
        state.cloudflare.waiting().into_iter().map(|(_, message)| message.id).collect();
    let ledger = &state.sides[Place::Worker as usize].ledger;
    let forgotten = ledger.sent.keys().find(|id| !ledger.acknowledged.contains(*id) && !waiting.contains(*id));
    if let Some(id) = forgotten {
        return Err(format!("{id} is neither answered nor in its queue"));
    }
    Ok(())
}

/// With the faults gone everything ends.
fn calm(runner: &mut Runner, sides: Sides, turns: &mut u32) -> Result<(), String> {
    let sim = runner.sim.clone();
    let until_ms = {
        let state = &mut *sim.state();
        state.calm_down();
        state.sides.iter().for_each(|side| side.database.migrate(true));
        trace::note(|| "nothing goes wrong from here on".to_owned());
        state.scheduler.now_ms + SETTLES_WITHIN_MS
    };
    if sides.server {
        let going_on = sim.clone();
        sim.spawn(WORLD, async move { world::let_go_on(&going_on).await });
    }
    for _ in 0..64 {
        turn(runner, sides, turns)?;
    }
    while let Some(open) = still_open(&sim, sides) {
        if sim.now_ms() > until_ms {
            return Err(format!("it does not settle: {open}"));
        }
        for _ in 0..16 {
            turn(runner, sides, turns)?;
        }
    }
    check(&sim)?;
    let state = &mut *sim.state();
    let database = &state.sides[Place::Native as usize].database;
    state.native.model.check(database);
    state.native.model.problem().map_or(Ok(()), Err)
}

/// What has not come to its end.
fn still_open(sim: &Sim, sides: Sides) -> Option<String> {
    let state = &mut *sim.state();
    if sides.worker && !state.cloudflare.is_empty() {
        return Some("messages are in Cloudflare's queues".to_owned());
    }
    if let Some(place) = state.sides.iter().position(|side| !side.is_settled()) {
        return Some(format!("deliveries are open on side {place}"));
    }
    if !sides.server {
        return None;
    }
    let dead = |queue: &str| queue.ends_with("-dead");
    if let Some((id, known)) =
        state.native.model.messages.iter().find(|(_, known)| known.is_there() && !dead(&known.queue))
    {
        return Some(format!("{id} is in {} still: {known:?}", known.queue));
    }
    let database = &state.sides[Place::Native as usize].database;
    let running = "SELECT (SELECT count(*) FROM jadpo_redrives WHERE state = 'running') + \
        (SELECT count(*) FROM jadpo_queue_garbage)";
    (database.number(running, &[]) != Some(0)).then(|| "a redrive runs, or garbage is there".to_owned())
}
