//! The small set of the simulation of the whole: every seed holds, and every deliberate mistake is caught.
//!
//! A failure prints its seed; `cargo xtask torture --seed 17` runs that one alone.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::atomic::{AtomicU64, Ordering};

use jadpo_core::broken::Variant;
use jadpo_host_test::torture::{self, Fault, LEFT_OUT, Mistake, Seen, Step};

/// Seeds of the small set.
const SEEDS: u64 = 300;

/// Runs seeds on two threads and gives what they saw, or the first failure.
fn run(seeds: u64, mistake: Option<Mistake>) -> Result<Seen, String> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut all = Seen::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return Ok(all);
            }
            match torture::run(seed, mistake) {
                Ok(seen) => all.add(&seen),
                Err(failure) => {
                    next.store(seeds, Ordering::Relaxed);
                    return Err(format!(
                        "seed {seed}: {failure}; run it alone with `cargo xtask torture --seed {seed}`"
                    ));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let one = work();
        let mut all = one?;
        all.add(&other.join().unwrap()?);
        Ok(all)
    })
}

#[test]
fn whatever_dies_nothing_is_lost_nothing_doubled_and_in_the_end_everything_settles() {
    let seen = run(SEEDS, None).unwrap_or_else(|what| panic!("{what}"));
    let enough = seen.events > 500
        && seen.parked > 200
        && seen.sent > 500
        && seen.dead > 20
        && seen.put_back > 2
        && seen.expired > 2;
    assert!(enough, "the runs saw too little: {seen:?}");
    for (fault, step) in [
        (Fault::DiesBefore, Step::Keep),
        (Fault::DiesAfter, Step::Keep),
        (Fault::AnswerLost, Step::Keep),
        (Fault::DiesAfter, Step::Call),
        (Fault::DiesAfter, Step::Settle),
        (Fault::Commit, Step::Settle),
        (Fault::Statement, Step::Take),
    ] {
        assert!(seen.coverage.of(fault, step) > 0, "no {fault} at {step}");
    }
}

#[test]
fn seeds_that_once_failed_hold() {
    let seeds: Vec<u64> = include_str!("../seeds.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.parse().expect("a seed, or a comment that begins with #"))
        .collect();
    assert!(!seeds.is_empty());
    for seed in seeds {
        torture::run(seed, None).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

#[test]
fn each_deliberate_mistake_is_caught_within_the_small_set() {
    let survivors: Vec<Variant> =
        Variant::ALL.iter().copied().filter(|variant| run(SEEDS, Some(Mistake::Variant(*variant))).is_ok()).collect();
    assert!(survivors.is_empty(), "nobody sees it when the code is wrong so: {survivors:?}");
}

#[test]
fn a_broker_that_leaves_anything_out_is_found_out() {
    let survivors: Vec<&str> = LEFT_OUT
        .into_iter()
        .filter(|(_, statement)| run(SEEDS, Some(Mistake::LeftOut(statement))).is_ok())
        .map(|(what, _)| what)
        .collect();
    assert!(survivors.is_empty(), "nobody sees it when {survivors:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..8 {
        assert_eq!(torture::run(seed, None), torture::run(seed, None), "seed {seed}");
    }
}

#[test]
fn a_seed_that_fails_says_what_happened_last_and_counts_what_it_saw() {
    let mistake = Some(Mistake::named("AckBeforeCommit").unwrap());
    let (seed, failure) = (0..SEEDS).find_map(|seed| Some((seed, torture::run(seed, mistake).err()?))).unwrap();
    assert!(failure.seen.turns > 0 && Step::ALL.iter().any(|step| failure.seen.coverage.steps(*step) > 0));
    let last = torture::explain(seed, mistake, 20);
    assert_eq!((last.len(), torture::explain(seed, mistake, 20)), (20, last.clone()), "it is the same again");
    assert!(last.iter().any(|line| line.contains("process ") && line.contains(" s  ")), "{last:#?}");
    let all = torture::explain(seed, mistake, 10_000);
    for word in ["Cloudflare hands over from", "✗ ", "sent to "] {
        assert!(all.iter().any(|line| line.contains(word)), "no {word}");
    }
    assert!(torture::explain(seed, None, 1).len() == 1, "and nothing is kept of it for the next run");
}

#[test]
fn every_mistake_has_a_name_that_finds_it_and_says_what_it_is() {
    let all = Mistake::all();
    assert_eq!(all.len(), Variant::ALL.len() + LEFT_OUT.len());
    for (name, about, mistake) in all {
        assert_eq!(Mistake::named(&name), Some(mistake));
        assert!(about.len() > 10 && !about.ends_with('.'), "{name}: {about}");
    }
    assert_eq!((Mistake::named("LeftOut12"), Mistake::named("Nothing")), (None, None));
}

/// Runs the program that `cargo xtask torture` runs and gives its report. When it has said something, its input may end.
fn report_of(args: &[&str], cut_short: bool) -> serde_json::Value {
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_torture"));
    let piped = std::process::Stdio::piped;
    let mut running = program.args(args).stdin(piped()).stdout(piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(running.stdout.take().unwrap()));
    let first = lines.next().unwrap().unwrap();
    let input = running.stdin.take().filter(|_| !cut_short);
    let last = lines.map(Result::unwrap).last().unwrap_or(first);
    drop(input);
    assert!(running.wait().unwrap().success());
    serde_json::from_str::<serde_json::Value>(&last).unwrap()["report"].take()
}

#[test]
fn who_wants_no_more_gets_the_report_of_what_was_done() {
    let all = u64::MAX.to_string();
    let report = report_of(&["0", &all, "0", "1", "0"], true);
    assert!(report["cut_short"] == true && report["seeds"].as_u64() < Some(2_000), "{report}");
}

#[test]
fn the_last_seed_is_run_and_none_after_it() {
    let last = u64::MAX.to_string();
    let report = report_of(&[&last, "5", "0", "2", "0"], false);
    assert!(report["seeds"] == 1 && report["cut_short"] == false, "{report}");
}
