//! The behaviour suite on the native host: its own store and HTTP, and the whole server as a process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod native;
mod server;
mod subscribers;
#[path = "../server/support.rs"]
#[allow(dead_code, reason = "shared with the server's own tests, which use all of it")]
mod support;

use std::path::Path;

use jadpo_host_test::scenario::{self, Scenario};

fn scenarios() -> Vec<Scenario> {
    scenario::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../host-test/scenarios"))
}

#[test]
fn every_scenario_holds_on_the_native_host() {
    let outcome = scenario::run_all("native", &scenarios(), |scenario| Box::new(native::NativeStage::new(scenario)));
    println!("{} scenarios hold, {} do not apply", outcome.ran, outcome.left_out);
}

#[test]
fn every_scenario_holds_on_the_server() {
    let outcome = scenario::run_all("server", &scenarios(), |scenario| Box::new(server::ServerStage::new(scenario)));
    println!("{} scenarios hold, {} do not apply", outcome.ran, outcome.left_out);
}
