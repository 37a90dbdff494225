//! Seeds: a test runs under many, a failure prints the one that it failed with, and a test or `JADPO_SEED` pins one.

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
/// When the test does.
pub fn with_seeds(seeds: u64, test: impl Fn(u64)) {
    let chosen = pinned().map_or(0..seeds, |seed| seed..seed.saturating_add(1));
    for seed in chosen {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            eprintln!("failed under seed {seed}; to run it alone: {VARIABLE}={seed}");
            resume_unwind(panic);
        }
    }
}
