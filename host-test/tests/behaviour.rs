//! The behaviour suite on the test host.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use jadpo_core::broken::{self, Variant};
use jadpo_host_test::scenario;

#[test]
fn every_scenario_holds_on_the_test_host() {
    let scenarios = scenario::load(Path::new("scenarios"));
    let outcome = scenario::run_all("test", &scenarios, scenario::test_stage);
    println!("{} scenarios hold, {} do not apply", outcome.ran, outcome.left_out);
}

/// The suite's checks are checked: these deliberate mistakes show in it. The others need a race or a crash that no
/// sentence has, and are found by the simulation of the whole.
#[test]
fn deliberate_mistakes_are_found() {
    let scenarios = scenario::load(Path::new("scenarios"));
    let is_found = |variant: Variant| {
        let stage = |scenario: &scenario::Scenario| {
            broken::choose(Some(variant));
            scenario::test_stage(scenario)
        };
        catch_unwind(AssertUnwindSafe(|| scenario::run_all("test", &scenarios, stage))).is_err()
    };
    for variant in [
        Variant::AckBeforeCommit,
        Variant::DedupeOutsideTheTransaction,
        Variant::ParkedCopyKept,
        Variant::UnfitNotParked,
        Variant::AttemptsFallBack,
        Variant::UnansweredCountsAsDone,
        Variant::DeliveryGivenUpEarly,
        Variant::OneRetryTooMany,
        Variant::AckTakesTheBatch,
        Variant::RetryWithoutDelay,
        Variant::ProgressLost,
        Variant::RedriveInTwoSteps,
        Variant::PurgeForgetsGarbage,
        Variant::OccurrenceRecordedLater,
        Variant::KeyRememberedLater,
    ] {
        assert!(is_found(variant), "no scenario fails with {variant:?}");
    }
}
