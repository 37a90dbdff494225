//! Runs seeds of the simulation on all cores, for `cargo xtask torture`: says how far it is, an object a line, and in
//! the end which fault met which step.
//!
//! `torture FIRST COUNT SECONDS THREADS TRACE [VARIANT]`: seeds from FIRST on, COUNT of them or until SECONDS have passed
//! (0: no limit); what happened in the last TRACE steps is told of a seed that failed. With a variant the first seed that
//! fails is enough. It ends early, with its report, when its standard input does: so it is told that whoever started it
//! wants no more. `torture variants` tells those. Exit code 1 if a seed failed.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jadpo_host_test::torture::{self, Fault, Mistake, Seen, Step};
use serde_json::json;

/// How often it is said how far it is.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// Failing seeds that are told, at most.
const FAILURES_MAX: usize = 10;

/// Nobody wants more.
static CUT_SHORT: AtomicBool = AtomicBool::new(false);

struct Runs {
    first: u64,
    count: u64,
    /// Seeds that were begun.
    begun: AtomicU64,
    until: Option<Instant>,
    /// Enough seeds failed.
    stopped: AtomicBool,
    done: AtomicU64,
    seen: Mutex<Seen>,
    failures: Mutex<Vec<(u64, String)>>,
    mistake: Option<Mistake>,
    /// Lines that are told of a failure.
    trace: usize,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "variants") {
        for (name, about, _) in Mistake::all() {
            println!("{}", json!({"variant": name, "about": about}));
        }
        return ExitCode::SUCCESS;
    }
    let number = |index: usize| args.get(index).and_then(|text| text.parse::<u64>().ok());
    let (Some(first), Some(count), Some(seconds), Some(threads), Some(trace)) =
        (number(0), number(1), number(2), number(3), number(4))
    else {
        eprintln!("usage: torture FIRST COUNT SECONDS THREADS TRACE [VARIANT]");
        return ExitCode::from(2);
    };
    let mistake = args.get(5).map(|name| Mistake::named(name));
    if mistake == Some(None) {
        println!("{}", json!({"unknown": args.get(5)}));
        return ExitCode::from(2);
    }
    // What a run panics with is told with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let started = Instant::now();
    let runs = Runs {
        first,
        count,
        begun: AtomicU64::new(0),
        until: (seconds > 0).then(|| started + Duration::from_secs(seconds)),
        stopped: AtomicBool::new(false),
        done: AtomicU64::new(0),
        seen: Mutex::default(),
        failures: Mutex::default(),
        mistake: mistake.flatten(),
        trace: usize::try_from(trace).unwrap_or(usize::MAX),
    };
    std::thread::spawn(|| {
        // Whatever it ends with, it has ended.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        CUT_SHORT.store(true, Ordering::Relaxed);
    });
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(|| runs.work())).collect();
        while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(TELL_EVERY.min(started.elapsed() / 4 + Duration::from_millis(5)));
            let done = runs.done.load(Ordering::Relaxed);
            println!("{}", json!({"done": done, "of": count, "seconds": started.elapsed().as_secs()}));
        }
    });
    let mut failures = runs.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort();
    let seen = runs.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (wanted, done) = (runs.until.map_or(runs.count, |_| u64::MAX), runs.done.into_inner());
    let mut report = report(&seen, &failures, done, started.elapsed());
    if let Some(report) = report.as_object_mut() {
        let is_cut_short = CUT_SHORT.load(Ordering::Relaxed) && done < wanted;
        report.insert("cut_short".to_owned(), is_cut_short.into());
    }
    println!("{}", json!({ "report": report }));
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Runs {
    /// The next seed, as long as there are any and anybody wants to know.
    fn next(&self) -> Option<u64> {
        let enough = self.stopped.load(Ordering::Relaxed) || CUT_SHORT.load(Ordering::Relaxed);
        if enough || self.until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        let index = self.begun.fetch_add(1, Ordering::Relaxed);
        if index < self.count { self.first.checked_add(index) } else { None }
    }

    fn work(&self) {
        let mut all = Seen::default();
        while let Some(seed) = self.next() {
            match torture::run(seed, self.mistake) {
                Ok(seen) => all.add(&seen),
                Err(failure) => {
                    all.add(&failure.seen);
                    self.failed(seed, failure.what);
                }
            }
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).add(&all);
    }

    fn failed(&self, seed: u64, what: String) {
        let enough = if self.mistake.is_some() { 1 } else { FAILURES_MAX };
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= enough {
            return; // found on the other core meanwhile
        }
        let trace = if self.trace > 0 { torture::explain(seed, self.mistake, self.trace) } else { Vec::new() };
        println!("{}", json!({"failed": seed, "what": what, "trace": trace}));
        failures.push((seed, what));
        if failures.len() >= enough {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }
}

fn report(seen: &Seen, failures: &[(u64, String)], done: u64, time: Duration) -> serde_json::Value {
    let steps: Vec<_> = Step::ALL
        .iter()
        .map(|step| {
            let met: Vec<u64> = Fault::ALL.iter().map(|fault| seen.coverage.of(*fault, *step)).collect();
            json!({"step": step.name(), "done": seen.coverage.steps(*step), "met": met})
        })
        .collect();
    json!({
        "seeds": done,
        "seconds": time.as_secs_f64(),
        "turns": seen.turns,
        "events": seen.events,
        "parked": seen.parked,
        "sent": seen.sent,
        "dead": seen.dead,
        "put_back": seen.put_back,
        "expired": seen.expired,
        "failures": failures.iter().map(|(seed, what)| json!({"seed": seed, "what": what})).collect::<Vec<_>>(),
        "faults": Fault::ALL.iter().map(|fault| fault.name()).collect::<Vec<_>>(),
        "steps": steps,
    })
}
