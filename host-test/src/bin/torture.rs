//! Runs seeds of the simulation on all cores, for `cargo xtask torture`: says how far it is, an object a line, and in
//! the end which fault met which step.
//!
//! `torture FIRST COUNT SECONDS THREADS [VARIANT]`: seeds from FIRST on, COUNT of them or until SECONDS have passed (0:
//! no limit). Exit code 1 if one failed.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use jadpo_core::broken::Variant;
use jadpo_host_test::torture::{self, Fault, Mistake, Seen, Step};
use serde_json::json;

/// How often it is said how far it is.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// Failing seeds that are told, at most.
const FAILURES_MAX: usize = 10;

struct Runs {
    next: AtomicU64,
    end: u64,
    until: Option<Instant>,
    stopped: AtomicBool,
    done: AtomicU64,
    seen: Mutex<Seen>,
    failures: Mutex<Vec<(u64, String)>>,
    variant: Option<Mistake>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| args.get(index).and_then(|text| text.parse::<u64>().ok());
    let (Some(first), Some(count), Some(seconds), Some(threads)) = (number(0), number(1), number(2), number(3)) else {
        eprintln!("usage: torture FIRST COUNT SECONDS THREADS [VARIANT]");
        return ExitCode::from(2);
    };
    let variant = args.get(4).map(|name| Mistake::named(name));
    if variant == Some(None) {
        let names: Vec<String> = Variant::ALL.iter().map(|variant| format!("{variant:?}")).collect();
        eprintln!("there is no such variant; there are: {}", names.join(", "));
        return ExitCode::from(2);
    }
    // What a run panics with is told with its seed.
    std::panic::set_hook(Box::new(|_| {}));
    let started = Instant::now();
    let runs = Runs {
        next: AtomicU64::new(first),
        end: first.saturating_add(count),
        until: (seconds > 0).then(|| started + Duration::from_secs(seconds)),
        stopped: AtomicBool::new(false),
        done: AtomicU64::new(0),
        seen: Mutex::default(),
        failures: Mutex::default(),
        variant: variant.flatten(),
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(|| runs.work())).collect();
        while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(TELL_EVERY.min(started.elapsed() / 4 + Duration::from_millis(5)));
            println!("{}", json!({"done": runs.done.load(Ordering::Relaxed), "of": count}));
        }
    });
    let failures = runs.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    let seen = runs.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{}", json!({ "report": report(&seen, &failures, runs.done.into_inner(), started.elapsed()) }));
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Runs {
    fn work(&self) {
        let mut all = Seen::default();
        while !self.stopped.load(Ordering::Relaxed) && self.until.is_none_or(|until| Instant::now() < until) {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end {
                break;
            }
            match torture::run(seed, self.variant) {
                Ok(seen) => all.add(&seen),
                Err(what) => {
                    let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
                    println!("{}", json!({"failed": seed, "what": what}));
                    failures.push((seed, what));
                    if failures.len() >= FAILURES_MAX {
                        self.stopped.store(true, Ordering::Relaxed);
                    }
                }
            }
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).add(&all);
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
