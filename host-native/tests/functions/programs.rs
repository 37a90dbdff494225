//! Functions that are programs: a real shell runs them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use jadpo_core::program::Target;
use jadpo_core::trigger::FunctionOutcome;

use crate::{Fixture, LONG, call, error};

/// Writes a program into a folder.
fn script(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn words(words: &[&str]) -> Target {
    Target::Exec(words.iter().map(|word| (*word).to_owned()).collect())
}

fn shell(text: &str) -> Target {
    words(&["sh", "-c", text])
}

fn read(fixture: &Fixture, name: &str) -> String {
    fs::read_to_string(fixture.path().join(name)).unwrap()
}

/// Waits until a file has a line, and gives it.
async fn line_of(path: &Path) -> String {
    let started = Instant::now();
    loop {
        if let Some(line) = fs::read_to_string(path).ok().filter(|text| text.ends_with('\n')) {
            return line.trim().to_owned();
        }
        assert!(started.elapsed() < LONG, "{} was never written", path.display());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process is there and not only its remains.
fn runs(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

async fn ends(pid: &str) {
    let started = Instant::now();
    while runs(pid) {
        assert!(started.elapsed() < LONG, "process {pid} goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_program_of_the_app_s_folder_gets_the_body_on_its_input_and_exit_0_is_done() {
    let fixture = Fixture::new().await;
    script(fixture.path(), "handle.sh", "#!/bin/sh\ncat > got\npwd > where\necho \"$@\" > arguments\n");
    let outcome = fixture.call(words(&["./handle.sh", "--once", "a b", "$HOME"]), b"\x00\xFF\n{", LONG).await;
    assert_eq!(outcome, FunctionOutcome::Exited { code: Some(0), stderr: String::new() });
    assert_eq!(fs::read(fixture.path().join("got")).unwrap(), b"\x00\xFF\n{");
    let folder = fs::canonicalize(fixture.path()).unwrap();
    assert_eq!(fs::canonicalize(read(&fixture, "where").trim()).unwrap(), folder);
    assert_eq!(read(&fixture, "arguments"), "--once a b $HOME\n", "no shell reads the arguments");
}

#[tokio::test]
async fn what_is_known_of_the_message_is_in_its_environment() {
    let fixture = Fixture::new().await;
    let mut call = call(shell("env > env.txt"), b"", LONG);
    call.query = Some("a=1&b=%00".to_owned());
    call.headers.extend([("X-Tag".to_owned(), b"\xE9".to_vec()), ("x-tag".to_owned(), b"two".to_vec())]);
    assert!(fixture.functions.call(call).await.is_done());
    let environment = read(&fixture, "env.txt");
    for line in [
        "JADPO_QUEUE=jobs",
        "JADPO_MESSAGE_ID=000000000000000000000000000000ab",
        "JADPO_ATTEMPT=3",
        "JADPO_FUNCTION=handle",
        "JADPO_RECEIVED_AT=2026-09-21T14:13:20.001Z",
        "JADPO_QUERY=a=1&b=%00",
        "CONTENT_TYPE=application/json",
        r#"JADPO_HEADERS=[["Content-Type","application/json"],["X-Tag","é"],["x-tag","two"]]"#,
    ] {
        assert!(environment.lines().any(|found| found == line), "{line} is not in\n{environment}");
    }
}

#[tokio::test]
async fn an_exit_that_is_not_0_is_a_failure_with_the_end_of_what_it_said() {
    let fixture = Fixture::new().await;
    let outcome = fixture.call(shell("echo to nobody; echo no such card >&2; exit 3"), b"{}", LONG).await;
    assert_eq!(error(&outcome), "ended with exit code 3: no such card");
    let outcome = fixture.call(shell("kill -9 $$"), b"{}", LONG).await;
    assert_eq!(error(&outcome), "was ended by a signal");
}

#[tokio::test]
async fn what_is_not_text_is_shown_as_far_as_it_is() {
    let fixture = Fixture::new().await;
    let outcome = fixture.call(shell(r"printf 'caf\351 \377 closed' >&2; exit 1"), b"{}", LONG).await;
    assert_eq!(error(&outcome), "ended with exit code 1: caf\u{FFFD} \u{FFFD} closed");
}

#[tokio::test]
async fn a_program_may_close_its_input_early_or_never_read_it() {
    let fixture = Fixture::new().await;
    let body = vec![b'x'; 128_000];
    for text in ["exec <&-; sleep 0.1; exit 0", "exit 0", "head -c 1 > /dev/null"] {
        let outcome = fixture.call(shell(text), &body, LONG).await;
        assert!(outcome.is_done(), "{text}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_flood_of_output_neither_fills_memory_nor_stops_the_program() {
    let fixture = Fixture::new().await;
    let text =
        "head -c 30000000 /dev/zero | tr '\\0' x >&2; head -c 30000000 /dev/zero; echo the last line >&2; exit 1";
    let FunctionOutcome::Exited { code: Some(1), stderr } = fixture.call(shell(text), b"{}", LONG).await else {
        panic!("it did not end")
    };
    assert!(stderr.len() <= 2_000 && stderr.ends_with("xthe last line\n"), "{}", stderr.len());
}

#[tokio::test]
async fn at_the_limit_a_program_is_killed_with_what_it_started() {
    let fixture = Fixture::new().await;
    // The grandchild ignores what a terminal would send, and holds the output open.
    let text = "(trap '' HUP TERM INT; sh -c 'echo $$ > grandchild; sleep 60') & echo $$ > child; wait";
    let started = Instant::now();
    let outcome = fixture.call(shell(text), b"{}", Duration::from_millis(700)).await;
    assert_eq!(error(&outcome), "it did not end within 0.7 s and was killed, with what it had started");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    for name in ["child", "grandchild"] {
        ends(&line_of(&fixture.path().join(name)).await).await;
    }
}

#[tokio::test]
async fn whoever_stops_waiting_for_a_program_ends_it() {
    let fixture = Fixture::new().await;
    let functions = fixture.functions.clone();
    let call = call(shell("sh -c 'echo $$ > grandchild; sleep 60' & wait"), b"{}", LONG);
    let calling = tokio::spawn(async move { functions.call(call).await });
    let pid = line_of(&fixture.path().join("grandchild")).await;
    assert!(runs(&pid));
    calling.abort();
    ends(&pid).await;
}

#[tokio::test]
async fn what_a_program_leaves_running_keeps_nobody_waiting() {
    let fixture = Fixture::new().await;
    let started = Instant::now();
    let outcome = fixture.call(shell("sleep 5 & echo said >&2; exit 4"), b"{}", LONG).await;
    assert_eq!(outcome, FunctionOutcome::Exited { code: Some(4), stderr: "said\n".to_owned() });
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_program_that_cannot_be_run_is_named_and_what_to_do_is_said() {
    let fixture = Fixture::new().await;
    fs::write(fixture.path().join("plain.sh"), "#!/bin/sh\n").unwrap();
    script(fixture.path(), "lost.sh", "#!/nowhere/sh\n");
    let missing = fixture.path().join("./missing.sh");
    let said = error(&fixture.call(words(&["./missing.sh"]), b"{}", LONG).await);
    assert_eq!(said, format!("there is no program {}, or what its first line names is not there", missing.display()));
    let said = error(&fixture.call(words(&["no-program-of-this-name"]), b"{}", LONG).await);
    assert!(said.starts_with("there is no program no-program-of-this-name"), "{said}");
    let said = error(&fixture.call(words(&["./plain.sh"]), b"{}", LONG).await);
    assert!(said.contains("plain.sh may not be run") && said.ends_with("make it executable"), "{said}");
    let said = error(&fixture.call(words(&["./lost.sh"]), b"{}", LONG).await);
    assert!(said.contains("what its first line names is not there"), "{said}");
    assert_eq!(error(&fixture.call(words(&[]), b"{}", LONG).await), "it names no program");
}

#[tokio::test]
async fn many_programs_run_side_by_side_and_leave_nothing() {
    let fixture = Fixture::new().await;
    let calls = (0..40).map(|_| fixture.call(shell("cat > /dev/null; sleep 0.2"), b"{}", LONG));
    let started = Instant::now();
    let outcomes = futures_util::future::join_all(calls).await;
    assert!(outcomes.iter().all(FunctionOutcome::is_done));
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_secrets_of_webhooks_are_in_no_program_s_environment() {
    // Cargo gives every test this one; here it stands for a secret, and for what is none.
    let name = "CARGO_PKG_NAME";
    for (secret, expected) in [(vec![name.to_owned()], ""), (vec![], "jadpo")] {
        let fixture = Fixture::with_secrets(secret).await;
        assert!(fixture.call(shell("printf %s \"$CARGO_PKG_NAME\" > got"), b"", LONG).await.is_done());
        assert_eq!(read(&fixture, "got"), expected);
    }
}
