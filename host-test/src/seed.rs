//! Seeds: a test runs under many, a failure prints the one that it failed with, and a test or `JADPO_SEED` pins one.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The variable that pins a seed.
const VARIABLE: &str = "JADPO_SEED";

/// The seed that `JADPO_SEED` pins.
pub(crate) fn pinned() -> Option<u64> {
    let text = std::env::var(VARIABLE).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{VARIABLE}={text} is no seed: it is a whole number")))
}

/// Runs a test under `seeds` seeds, from 0 on; with `JADPO_SEED` under that one only. When it fails, the seed is printed
/// with the failure.
///
/// ```
/// use jadpo_host_test::{TestApp, json, with_seeds};
///
/// with_seeds(20, |seed| {
///     let app = TestApp::load("apps/warehouse/app.jadpo");
///     app.host.set_env("LEDGER_SECRET", "whsec_bm90LWEtcmVhbC1zZWNyZXQ=");
///     app.seed(seed);
///     app.shuffle();
///     app.cut_batches_at(3);
///     for n in 0..10 {
///         let body = format!(r#"{{"movement_id":"m{n}","sku":"A-1","quantity":3,"moved_at":"2026-11-30T12:00:00Z"}}"#);
///         app.send("warehouse-events", json(&body));
///     }
///     app.run_until_idle();
///     assert_eq!(app.events().len(), 10);
/// });
/// ```
///
/// # Panics
/// When the test does, or `seeds` is 0.
#[track_caller]
pub fn with_seeds(seeds: u64, test: impl Fn(u64)) {
    assert!(seeds > 0, "a test that runs under 0 seeds does not run");
    let chosen = pinned().map_or(0..seeds, |seed| seed..seed.saturating_add(1));
    for seed in chosen {
        TOLD_ELSEWHERE.set(true);
        let ran = catch_unwind(AssertUnwindSafe(|| test(seed)));
        TOLD_ELSEWHERE.set(false);
        if let Err(panic) = ran {
            tell(seed);
            resume_unwind(panic);
        }
    }
}

thread_local! {
    /// Whether somebody else tells the seed.
    static TOLD_ELSEWHERE: Cell<bool> = const { Cell::new(false) };
}

/// Says which seed a test failed under, and the command that runs it so again.
pub(crate) fn tell(seed: u64) {
    if !TOLD_ELSEWHERE.get() {
        let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
        eprintln!("{}", told(seed, &package, std::thread::current().name()));
    }
}

fn told(seed: u64, package: &str, thread: Option<&str>) -> String {
    let package = if package.is_empty() { String::new() } else { format!(" -p {package}") };
    // A test's thread has its name, unless there is only the main one.
    let test = thread.filter(|name| *name != "main").map(|name| format!(" {name}")).unwrap_or_default();
    format!("the test failed under seed {seed}; to run it so again: {VARIABLE}={seed} cargo test{package}{test}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_with_the_command_that_repeats_it() {
        let again = "the test failed under seed 7; to run it so again: JADPO_SEED=7 cargo test";
        assert_eq!(told(7, "shop", Some("orders::twice")), format!("{again} -p shop orders::twice"));
        assert_eq!(told(7, "", Some("main")), again);
    }
}
