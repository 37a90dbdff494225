use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use crate::support::{Server, TOKEN, command, dead_letters, held, jadpo, json, signal, stderr, stdout};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn bodies(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| format!("letter {n}").into_bytes()).collect()
}

fn die(dir: &Path, queue: &str, count: usize, error: &str) -> Vec<String> {
    let bodies = bodies(count);
    dead_letters(dir, queue, &bodies.iter().map(Vec::as_slice).collect::<Vec<_>>(), error)
}

fn redrive(dir: &Path, args: &[&str]) -> Value {
    json(&jadpo(dir, &[&["queues", "redrive", "--json"], args].concat()))
}

fn figures(redrive: &Value) -> (&str, u64) {
    (redrive["state"].as_str().unwrap(), redrive["moved"].as_u64().unwrap())
}

fn ids(dir: &Path, queue: &str) -> Vec<String> {
    let all = json(&jadpo(dir, &["queues", "peek", queue, "--limit", "100000", "--json"]));
    let mut ids: Vec<String> =
        all["messages"].as_array().unwrap().iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect();
    ids.sort_unstable();
    ids
}

/// Waits until the redrive has moved some.
fn until_moved(dir: &Path, id: u64) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let listed = redrive(dir, &["--list"]);
        let it = listed["redrives"].as_array().unwrap().iter().find(|redrive| redrive["id"] == id);
        if it.is_some_and(|redrive| redrive["moved"].as_u64() > Some(0)) {
            return;
        }
        assert!(Instant::now() < end, "nothing moves: {listed}");
    }
}

#[test]
fn what_died_is_listed_with_when_where_and_why() {
    let dir = folder();
    let id = dead_letters(dir.path(), "jobs", &[b"\xff\x00poison"], "handle_payment: answered 500").remove(0);
    let told = stdout(&jadpo(dir.path(), &["queues", "dead-letters", "jobs"]));
    for part in [
        id.as_str(),
        "0 s ago",
        "jobs",
        "failed, 1 attempt",
        "handle_payment: answered 500",
        "1 dead letter; whole bodies",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    for name in ["jobs", "jobs-dead"] {
        let listed = json(&jadpo(dir.path(), &["queues", "dead-letters", name, "--json"]));
        let (letter, dead) = (&listed["messages"][0], &listed["messages"][0]["dead"]);
        assert_eq!((&listed["queue"], &letter["id"]), (&"jobs-dead".into(), &Value::from(id.clone())));
        assert_eq!(BASE64.decode(letter["body_base64"].as_str().unwrap()).unwrap(), b"\xff\x00poison");
        assert_eq!((&dead["queue"], &dead["attempts"], &dead["reason"]), (&"jobs".into(), &1.into(), &"failed".into()));
        assert!(dead["died_at_ms"].as_i64() >= dead["first_at_ms"].as_i64(), "{dead}");
    }
    let shown = stdout(&jadpo(dir.path(), &["queues", "dead-letters", "jobs", "--full"]));
    assert!(shown.contains("1 attempt, the first at") && shown.contains("poison"), "{shown}");
    let listed = stdout(&jadpo(dir.path(), &["queues"]));
    assert!(listed.contains("dead letters of jobs"), "{listed}");
    let hinted = stdout(&jadpo(dir.path(), &["deliveries"]));
    assert!(hinted.contains("the queue jobs has 1 dead letter: jadpo queues dead-letters jobs"), "{hinted}");
    let slip = jadpo(dir.path(), &["deliveries", "show", &id]);
    assert!(stderr(&slip).contains("jadpo queues dead-letters NAME"), "{}", stderr(&slip));
}

#[test]
fn a_queue_that_keeps_no_dead_letters_says_so() {
    let dir = folder();
    jadpo(dir.path(), &["queues", "create", "plain"]);
    jadpo(dir.path(), &["queues", "create", "fresh", "--dead-letter-queue", "fresh-dead"]);
    for verb in ["dead-letters", "redrive"] {
        let plain = jadpo(dir.path(), &["queues", verb, "plain"]);
        assert_eq!(plain.status.code(), Some(2), "{}", stderr(&plain));
        assert!(stderr(&plain).contains("`plain` has no dead-letter queue"), "{}", stderr(&plain));
    }
    let fresh = jadpo(dir.path(), &["queues", "dead-letters", "fresh"]);
    assert_eq!(stdout(&fresh), "fresh has no dead letters\n");
    let nothing = jadpo(dir.path(), &["queues", "redrive", "fresh"]);
    assert_eq!((nothing.status.code(), stderr(&nothing).as_str()), (Some(1), "error: `fresh` has no dead letters\n"));
}

#[test]
fn a_dry_run_counts_where_they_would_go_and_moves_nothing() {
    let dir = folder();
    die(dir.path(), "jobs", 250, "refused");
    let told = jadpo(dir.path(), &["queues", "redrive", "jobs", "--dry-run"]);
    assert!(
        stdout(&told).contains("250 messages of jobs-dead would be put back\n         250 into jobs"),
        "{}",
        stdout(&told)
    );
    let counted = redrive(dir.path(), &["jobs", "--dry-run", "--limit", "7"]);
    assert_eq!((&counted["queue"], &counted["by_target"]["jobs"]), (&"jobs-dead".into(), &7.into()));
    jadpo(dir.path(), &["queues", "delete", "jobs", "--force"]);
    let stay = stdout(&jadpo(dir.path(), &["queues", "redrive", "jobs-dead", "--dry-run"]));
    assert!(stay.contains("250 would stay: there is no queue to go back to; --to QUEUE names one"), "{stay}");
    assert_eq!(held(dir.path(), "jobs-dead"), 250);
    assert_eq!(redrive(dir.path(), &["--list"])["redrives"], serde_json::json!([]));
}

#[test]
fn letters_go_back_where_they_died_with_the_ids_they_had() {
    let dir = folder();
    let mut died = die(dir.path(), "jobs", 1_234, "refused");
    died.sort_unstable();
    let done = jadpo(dir.path(), &["queues", "redrive", "jobs"]);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let told = "redrive 1 is done: 1,234 messages of jobs-dead put back into the queues they died in\n";
    assert_eq!(stdout(&done), told);
    assert_eq!((ids(dir.path(), "jobs"), held(dir.path(), "jobs-dead")), (died, 0));
    let again = redrive(dir.path(), &["jobs"]);
    assert_eq!(figures(&again), ("done", 0), "there is nothing left, and that is no failure");
}

#[test]
fn filters_choose_which_and_another_queue_may_take_them() {
    let dir = folder();
    let refused = die(dir.path(), "jobs", 5, "connection refused");
    die(dir.path(), "jobs", 3, "answered 500");
    jadpo(dir.path(), &["queues", "create", "by-hand"]);
    let by_id = redrive(dir.path(), &["jobs", "--to", "by-hand", "--id", &refused[1], "--id", &refused[3]]);
    assert_eq!(figures(&by_id), ("done", 2));
    let mut chosen = vec![refused[1].clone(), refused[3].clone()];
    chosen.sort_unstable();
    assert_eq!(ids(dir.path(), "by-hand"), chosen);
    for (args, moved) in [
        (&["--error", "no such text"][..], 0),
        (&["--reason", "lease-ended"], 0),
        (&["--origin", "by-hand"], 0),
        (&["--died-before", "2020-01-01"], 0),
        (&["--died-after", "1h", "--error", "refused", "--limit", "2"], 2),
        (&["--reason", "failed", "--error", "answered 500"], 3),
        (&["--died-after", "1h"], 1),
    ] {
        assert_eq!(figures(&redrive(dir.path(), &[&["jobs"], args].concat())), ("done", moved), "{args:?}");
    }
    let listed = stdout(&jadpo(dir.path(), &["queues", "redrive", "--list"]));
    for part in ["2 ids", "error has `no such text`", "died before 2020-01-01T00:00:00Z", "by-hand", "where they died"]
    {
        assert!(listed.contains(part), "{part}: {listed}");
    }
}

#[test]
fn what_is_asked_wrongly_is_refused() {
    let dir = folder();
    die(dir.path(), "jobs", 1, "refused");
    for (args, said) in [
        (&[][..], "required"),
        (&["jobs", "--list"], "cannot be used with"),
        (&["--cancel", "1", "--resume"], "cannot be used with"),
        (&["--list", "--to", "jobs"], "go with a queue's name"),
        (&["jobs", "--dry-run", "--detach"], "cannot be used with"),
        (&["--list", "--dry-run"], "cannot be used with"),
        (&["jobs", "--id", "17"], "32 hex digits"),
        (&["jobs", "--rate", "0"], "between 1 and 10000"),
        (&["jobs", "--died-after", "yesterday"], "2026-11-30T12:00:00Z"),
        (&["jobs", "--reason", "bored"], "lease-ended"),
        (&["jobs", "--to", "jobs-dead"], "in `jobs-dead` already"),
    ] {
        let refused = jadpo(dir.path(), &[&["queues", "redrive"], args].concat());
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(said), "{args:?}: {}", stderr(&refused));
    }
    let none = jadpo(dir.path(), &["queues", "redrive", "--cancel", "9"]);
    assert!(none.status.code() == Some(1) && stderr(&none).contains("there is no redrive 9"), "{}", stderr(&none));
}

#[test]
fn one_that_is_killed_outright_is_gone_on_with_and_loses_nothing() {
    let dir = folder();
    let mut died = die(dir.path(), "jobs", 600, "refused");
    died.sort_unstable();
    for round in 0..3 {
        let args: &[&str] = if round == 0 { &["jobs", "--rate", "150"] } else { &["--resume"] };
        let mut child = command(dir.path(), &[&["queues", "redrive"], args].concat()).spawn().unwrap();
        until_moved(dir.path(), 1);
        std::thread::sleep(Duration::from_millis(300));
        child.kill().unwrap();
        child.wait().unwrap();
        let (back, dead) = (held(dir.path(), "jobs"), held(dir.path(), "jobs-dead"));
        assert_eq!(back + dead, 600, "round {round}");
        assert!(back > 0 && dead > 0, "round {round}: {back} are back, {dead} dead");
    }
    let listed = stdout(&jadpo(dir.path(), &["queues", "redrive", "--list"]));
    assert!(listed.contains("running") && listed.contains("150/s"), "{listed}");
    let second = jadpo(dir.path(), &["queues", "redrive", "jobs"]);
    assert_eq!(second.status.code(), Some(2));
    assert!(stderr(&second).contains("jadpo queues redrive --cancel 1"), "{}", stderr(&second));
    let resumed = jadpo(dir.path(), &["queues", "redrive", "--resume"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
    assert!(stdout(&resumed).contains("redrive 1 is done: 600 messages"), "{}", stdout(&resumed));
    assert_eq!((ids(dir.path(), "jobs"), held(dir.path(), "jobs-dead")), (died, 0));
    assert_eq!(stdout(&jadpo(dir.path(), &["queues", "redrive", "--resume"])), "no redrive runs\n");
}

#[test]
fn ctrl_c_leaves_it_where_it_is_and_a_cancelled_one_is_over() {
    let dir = folder();
    die(dir.path(), "jobs", 500, "refused");
    let start = || {
        let mut command = command(dir.path(), &["queues", "redrive", "jobs", "--rate", "50"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let child = start();
    until_moved(dir.path(), 1);
    signal(&child, "INT");
    let left = child.wait_with_output().unwrap();
    assert_eq!(left.status.code(), Some(1));
    for part in ["redrive 1 goes on", "--resume", "--cancel 1"] {
        assert!(stdout(&left).contains(part), "{part}: {}", stdout(&left));
    }
    let cancelled = redrive(dir.path(), &["--cancel", "1"]);
    let (state, moved) = figures(&cancelled);
    assert!(state == "cancelled" && cancelled["ended_at_ms"].is_i64(), "{cancelled}");
    assert_eq!(held(dir.path(), "jobs"), moved, "what was put back stays");

    let child = start();
    until_moved(dir.path(), 2);
    redrive(dir.path(), &["--cancel", "2"]);
    let watched = child.wait_with_output().unwrap();
    assert_eq!(watched.status.code(), Some(1), "whoever waited for it did not get it");
    assert!(stdout(&watched).contains("redrive 2 was cancelled"), "{}", stdout(&watched));
}

#[test]
fn a_server_carries_it_out_and_the_command_waits_for_it() {
    let dir = folder();
    std::fs::write(
        dir.path().join("app.jadpo"),
        "app: \"shop\"\nconnections: { q: { driver: Driver.local_queue, queue: \"q\" } }\n",
    )
    .unwrap();
    die(dir.path(), "jobs", 300, "refused");
    let server = Server::dev(dir.path(), &[], &[("JADPO_ADMIN_TOKEN", TOKEN)]);
    let begun = redrive(dir.path(), &["jobs", "--rate", "100", "--detach"]);
    assert_eq!(figures(&begun), ("running", 0));
    until_moved(dir.path(), 1);
    let watched = redrive(dir.path(), &["--watch", "1"]);
    assert_eq!(figures(&watched), ("done", 300));
    assert_eq!(server.logged("redrive.done")["moved"], 300, "the server did it");

    // Watched from afar, over a restart of the server.
    die(dir.path(), "parcels", 300, "refused");
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let mut watch = command(dir.path(), &["queues", "redrive", "parcels", "--rate", "100", "--json"]);
    let watch = watch.args(["--url", &server.url, "--token", TOKEN]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let watch = watch.spawn().unwrap();
    until_moved(dir.path(), 2);
    drop(server);
    std::thread::sleep(Duration::from_secs(1));
    let server = Server::dev(dir.path(), &["--listen", &address], &[("JADPO_ADMIN_TOKEN", TOKEN)]);
    let watched = watch.wait_with_output().unwrap();
    assert_eq!(watched.status.code(), Some(0), "{}", stderr(&watched));
    assert!(stderr(&watched).contains("waiting for it"), "{}", stderr(&watched));
    assert_eq!(figures(&json(&watched)), ("done", 300));

    die(dir.path(), "mails", 40, "refused");
    let at = ["--url", &server.url, "--token", TOKEN];
    let far = redrive(dir.path(), &[&["mails"], &at[..]].concat());
    assert_eq!(figures(&far), ("done", 40));
    let listed = redrive(dir.path(), &[&["--list"], &at[..]].concat());
    assert_eq!(listed, redrive(dir.path(), &["--list"]));
}
