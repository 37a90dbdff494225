//! The behaviour suite on the test host.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;

use jadpo_host_test::scenario;

#[test]
fn every_scenario_holds_on_the_test_host() {
    let scenarios = scenario::load(Path::new("scenarios"));
    let outcome = scenario::run_all("test", &scenarios, scenario::test_stage);
    println!("{} scenarios hold, {} do not apply", outcome.ran, outcome.left_out);
}
