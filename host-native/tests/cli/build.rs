use std::fs;
use std::path::Path;

use crate::support::{app_text, jadpo, json, stderr, stdout};

/// `(module (func) (export "queue" (func 0)))`.
const WASM: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x09\x01\x05queue\0\0\x0a\x04\x01\x02\0\x0b";

fn folder(app: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("app.jadpo"), app).unwrap();
    let worker = dir.path().join("worker");
    fs::create_dir(&worker).unwrap();
    fs::write(worker.join("worker.js"), "import './worker.wasm';").unwrap();
    fs::write(worker.join("worker.wasm"), WASM).unwrap();
    dir
}

fn good() -> String {
    app_text("sku: Text", "https://ledger.example.com/")
}

fn is_there(dir: &Path, name: &str) -> bool {
    dir.join(name).exists()
}

#[test]
fn every_deployable_gets_a_folder_below_build_and_the_next_steps_are_told() {
    let dir = folder(&good());
    let built = jadpo(dir.path(), &["build", "--worker", "worker"]);
    assert_eq!(built.status.code(), Some(0), "{}", stderr(&built));
    for file in ["build/edge/wrangler.json", "build/edge/index.js", "build/server/program.json"] {
        assert!(is_there(dir.path(), file), "{file}");
    }
    let told = stdout(&built);
    for step in
        ["wrangler queues create stock-dead", "d1 migrations apply DB --remote", "wrangler deploy", "jadpo serve"]
    {
        assert!(told.contains(step), "{step}: {told}");
    }
}

#[test]
fn one_deployable_alone_builds_to_the_same_bytes_from_its_own_program() {
    let dir = folder(&good());
    let args = ["build", "--worker", "worker", "--deployable", "edge", "--json", "--out"];
    let built = json(&jadpo(dir.path(), &[&args[..], &["one"]].concat()));
    assert!(is_there(dir.path(), "one/edge/wrangler.json"));
    assert_eq!(built["deployables"][0]["name"], "edge");
    assert!(!is_there(dir.path(), "one/server"));
    fs::copy(dir.path().join("one/edge/program.json"), dir.path().join("app.json")).unwrap();
    let again = json(&jadpo(
        dir.path(),
        &["build", "app.json", "--worker", "worker", "--deployable", "edge", "--out", "two", "--json"],
    ));
    assert_eq!(built["deployables"][0]["files"], again["deployables"][0]["files"]);
    assert_eq!(built["deployables"][0]["files"].as_array().unwrap().len(), 6);
}

#[test]
fn problems_are_said_as_check_says_them_and_nothing_is_written() {
    let dir = folder(&good().replace("dead_letter_queue: \"stock-dead\"", "domains: [\"a.example\"]"));
    let checked = jadpo(dir.path(), &["check"]);
    let built = jadpo(dir.path(), &["build", "--worker", "worker"]);
    assert_eq!((checked.status.code(), built.status.code()), (Some(2), Some(2)));
    assert!(stderr(&built).contains("connection.key_missing"), "{}", stderr(&built));
    assert_eq!(stderr(&checked), stderr(&built));
    assert!(!is_there(dir.path(), "build"));
    assert_eq!(json(&jadpo(dir.path(), &["build", "--json"])), json(&jadpo(dir.path(), &["check", "--json"])));
}

#[test]
fn a_native_deployable_that_receives_what_cloudflare_pushes_is_refused_by_every_command() {
    let app = good().replace("triggers: [Trigger.http, Trigger.tick]", "triggers: [Trigger.subscribers, Trigger.tick]");
    let dir = folder(&app);
    for command in ["check", "build", "serve"] {
        let refused = jadpo(dir.path(), &[command, "--deployable", "server"]);
        assert_eq!(refused.status.code(), Some(2), "{command}");
        let said = stderr(&refused);
        for part in ["target.driver_refused", "`server`", "`stock`", "Driver.cloudflare_pull"] {
            assert!(said.contains(part), "{command}, {part}: {said}");
        }
    }
    assert!(!is_there(dir.path(), ".jadpo"), "serve opened no store");

    // A program.json of a build that refused less.
    let good = folder(&good());
    jadpo(good.path(), &["build", "--worker", "worker"]);
    let text = fs::read_to_string(good.path().join("build/server/program.json")).unwrap();
    let mut program: serde_json::Value = serde_json::from_str(&text).unwrap();
    program["deployables"]["server"]["triggers"] = serde_json::json!(["subscribers"]);
    fs::write(dir.path().join("program.json"), program.to_string()).unwrap();
    for command in ["build", "serve"] {
        let refused = jadpo(dir.path(), &[command, "program.json"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains("error[target.driver_refused]"), "{}", stderr(&refused));
    }
}

#[test]
fn a_file_in_the_way_and_a_deployable_that_is_not_there_are_input_errors() {
    let dir = folder(&good());
    let unknown = jadpo(dir.path(), &["build", "--worker", "worker", "--deployable", "egde"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("edge, server"), "{}", stderr(&unknown));
    fs::create_dir_all(dir.path().join("build/edge")).unwrap();
    fs::write(dir.path().join("build/edge/index.js"), "mine").unwrap();
    let refused = jadpo(dir.path(), &["build", "--worker", "worker"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("not written by `jadpo build`"), "{}", stderr(&refused));
    assert!(!is_there(dir.path(), "build/server"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let dir = folder(&good());
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_jadpo"))
        .args(["build", "--worker", "worker", "--json"])
        .current_dir(dir.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}
