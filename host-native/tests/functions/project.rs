//! A project.toml and its dev.toml, run by the binary; and what tests of running binaries share.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::LONG;

const PROJECT: &str = r#"
[[queues]]
name = "jobs"
functions = ["handle-payment"]
max_receives = 2

[[webhooks]]
name = "stripe-events"
queue = "jobs"
"#;

const DEV: &str = r#"
[dev]
queues = "immediate"
queue_visibility_ms = 5000

[functions]
handle-payment = ["sh", "-c", "cat >> got.txt; exit 1"]
"#;

/// An example of this package. Where tests are built one by one, cargo does not build it with them.
pub(crate) fn example(name: &str) -> PathBuf {
    let mut profile = std::env::current_exe().unwrap();
    profile.pop(); // deps
    profile.pop();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--offline", "--package", "jadpo", "--example", name]);
    // What cargo tells a test about its package would make it build half of the dependencies anew.
    for (name, _) in std::env::vars_os() {
        let of_this_test = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_EXE_", "CARGO_CRATE_", "OUT_DIR"];
        if of_this_test.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            cargo.env_remove(name);
        }
    }
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
    profile.join("examples").join(name)
}

/// Asks again until there is an answer.
pub(crate) fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < LONG, "there is no answer");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends a request; `None` if nobody answers yet.
pub(crate) fn http(url: &str, method: &str, path: &str, body: &str) -> Option<String> {
    let host = url.strip_prefix("http://")?;
    let mut stream = TcpStream::connect(host).ok()?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn jadpo(folder: &std::path::Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jadpo")).args(args).current_dir(folder).output().unwrap()
}

fn folder(project: &str, dev: Option<&str>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("project.toml"), project).unwrap();
    if let Some(dev) = dev {
        std::fs::write(folder.path().join("dev.toml"), dev).unwrap();
    }
    folder
}

#[test]
fn check_takes_a_project_s_files_and_says_what_is_wrong_in_each() {
    let right = folder(PROJECT, Some(DEV));
    for args in [["check"].as_slice(), &["check", "."], &["check", "project.toml"]] {
        let output = jadpo(right.path(), args);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(said.contains("project.toml: no problems\n") && said.contains("dev.toml: no problems\n"), "{said}");
    }
    let wrong = folder(&PROJECT.replace("max_receives", "max_recieves"), Some("[dev]\nqueues = 3\n"));
    let output = jadpo(wrong.path(), &["check"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    for line in [
        "error[queue.key_invalid]: queue `jobs` takes no `max_recieves`",
        "did you mean `max_receives`?",
        "project.toml:5:1",
        "5 | max_recieves = 2",
        "error[queue.name_unknown]: function `handle-payment` has no entry under [functions]",
        "error[dev.value_invalid]: `queues` takes a text, and this is a number",
        "dev.toml:2:10",
        "project.toml: 2 problems",
        "dev.toml: 1 problem",
    ] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    let output = jadpo(wrong.path(), &["check", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let problems = report["problems"].as_array().unwrap();
    assert_eq!((report["ok"].as_bool(), problems.len()), (Some(false), 3));
    assert_eq!(problems[0].get("file"), None);
    assert_eq!((problems[2]["file"].as_str(), problems[2]["line"].as_u64()), (Some("dev.toml"), Some(2)));
}

#[test]
fn an_app_file_stands_before_a_project_s() {
    let folder = folder(PROJECT, Some(DEV));
    std::fs::write(folder.path().join("app.jadpo"), "app: \"shop\"\n").unwrap();
    let output = jadpo(folder.path(), &["check"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "app.jadpo: no problems\n");
}

#[test]
fn a_server_for_production_does_not_read_the_developer_s_file() {
    let folder = folder(PROJECT, Some(DEV));
    let output = jadpo(folder.path(), &["serve"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("function `handle-payment` has no entry under [functions]"), "{said}");
}

#[test]
fn dev_runs_a_project_as_its_files_say() {
    let folder = folder(PROJECT, Some(DEV));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut server = Command::new(env!("CARGO_BIN_EXE_jadpo"))
        .args(["dev", "--listen", &address])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let url = format!("http://{address}");
    let answer = until(|| http(&url, "POST", "/_queues/jobs", "x"));
    server.kill().unwrap();
    server.wait().unwrap();
    // Inline, as dev.toml says; twice, as project.toml does; in the folder of the file.
    assert!(answer.contains(r#""outcome":"dead_lettered""#), "{answer}");
    assert_eq!(answer.matches(r#""attempt":"#).count(), 2, "{answer}");
    assert_eq!(std::fs::read_to_string(folder.path().join("got.txt")).unwrap(), "xx");
}
