use std::fs;
use std::process::{Command, Stdio};

use crate::support::{command, dead_letters, jadpo, jadpo_reading, json, stderr, stdout};

/// A folder with a store in which there is a queue `jobs`.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let made =
        jadpo(dir.path(), &["queues", "create", "jobs", "--max-receives", "3", "--dead-letter-queue", "jobs-dead"]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    dir
}

#[test]
fn a_queue_is_made_with_its_settings_and_listed_with_what_it_holds() {
    let dir = tempfile::tempdir().unwrap();
    let args =
        ["--retention", "14d", "--visibility", "1m", "--delay", "5", "--retry-delay", "90s", "--batch-size", "7"];
    let more = ["--batch-wait", "250ms", "--concurrency", "2", "--max-receives", "1", "--paused", "--json"];
    let made = json(&jadpo(dir.path(), &[&["queues", "create", "slow"], &args[..], &more].concat()));
    let settings = &made["settings"];
    for (name, value) in [
        ("retention_s", 1_209_600),
        ("visibility_ms", 60_000),
        ("delivery_delay_s", 5),
        ("retry_delay_s", 90),
        ("batch_size", 7),
        ("batch_wait_ms", 250),
        ("max_concurrency", 2),
        ("max_retries", 0),
    ] {
        assert_eq!(settings[name], value, "{name}: {made}");
    }
    assert_eq!((&made["paused"], &made["dead_letter_queue"]), (&true.into(), &serde_json::Value::Null));

    jadpo(dir.path(), &["queues", "create", "jobs", "--dead-letter-queue", "jobs-dead"]);
    jadpo(dir.path(), &["queues", "send", "jobs", "1234"]);
    jadpo(dir.path(), &["queues", "send", "jobs", "56", "--delay", "1h"]);
    let listed = json(&jadpo(dir.path(), &["queues", "list", "--json"]));
    let jobs = &listed["queues"][0];
    let figures =
        ["messages", "in_flight", "delayed", "bytes", "dead_letters"].map(|name| jobs[name].as_u64().unwrap());
    assert_eq!((jobs["name"].as_str(), figures), (Some("jobs"), [2, 0, 1, 6, 0]));
    assert!(jobs["oldest_sent_at_ms"].as_i64().unwrap() > 1_700_000_000_000);
    let told = stdout(&jadpo(dir.path(), &["queues"]));
    for part in ["jobs", "slow", "paused", "6 B", "2 queues, 2 messages"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let busy = stdout(&jadpo(dir.path(), &["queues", "list", "--busy"]));
    assert!(busy.contains("jobs") && !busy.contains("slow"), "{busy}");
}

#[test]
fn a_queue_that_is_there_already_or_cannot_be_is_refused_in_words_that_help() {
    let dir = folder();
    for (args, said) in [
        (&["jobs"][..], "there is a queue `jobs` already"),
        (&["Jobs!"], "lowercase letters, digits and dashes"),
        (&["short", "--retention", "10s"], "between 60 and 1209600"),
        (&["short", "--retention", "soon"], "write 30s, 5m, 2h, 4d"),
        (&["short", "--dead-letter-queue", "short"], "its own dead-letter queue"),
        (&["short", "--max-receives", "0"], "0 is not in 1..=101"),
    ] {
        let refused = jadpo(dir.path(), &[&["queues", "create"], args].concat());
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(said), "{args:?}: {}", stderr(&refused));
    }
}

#[test]
fn a_name_that_no_queue_has_is_answered_with_the_one_that_was_probably_meant() {
    let dir = folder();
    dead_letters(dir.path(), "mails", &[b"x"], "gone");
    for args in [
        &["show", "job"][..],
        &["send", "job", "x"],
        &["push", "job"],
        &["peek", "job"],
        &["dead-letters", "job"],
        &["redrive", "job"],
        &["redrive", "job", "--dry-run"],
        &["redrive", "mails", "--to", "job"],
        &["pause", "job"],
        &["resume", "job"],
        &["purge", "job", "--force"],
        &["delete", "job", "--force"],
        &["purge", "job"],
        &["remove", "job", "x"],
    ] {
        let refused = jadpo(dir.path(), &[&["queues"], args].concat());
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains("there is no queue `job`; did you mean `jobs`?"), "{}", stderr(&refused));
        assert_eq!(stdout(&refused), "", "{args:?}");
    }
    let far = jadpo(dir.path(), &["queues", "show", "something-else"]);
    assert!(stderr(&far).contains("`jadpo queues list` shows"), "{}", stderr(&far));
    let odd = jadpo(dir.path(), &["queues", "show", "../jobs?x=\u{1b}[2J/%2e"]);
    assert_eq!(odd.status.code(), Some(2));
    assert!(stderr(&odd).contains("`../jobs?x=\\u{1b}[2J/%2e`"), "{}", stderr(&odd));
}

#[test]
fn a_failure_is_one_object_for_programs() {
    let dir = folder();
    let failed = json(&jadpo(dir.path(), &["queues", "peek", "job", "--json"]));
    assert_eq!(failed["code"], "queue_not_found");
    assert!(failed["error"].as_str().unwrap().contains("did you mean `jobs`"), "{failed}");
    let missing = json(&jadpo(dir.path(), &["queues", "--store", "nowhere.db", "--json"]));
    assert!(missing["help"].as_str().unwrap().contains("jadpo dev"), "{missing}");
    assert!(!dir.path().join("nowhere.db").exists());
}

#[test]
fn a_paused_queue_is_told_to_be_and_goes_on_when_it_is_resumed() {
    let dir = folder();
    jadpo(dir.path(), &["queues", "send", "jobs", "1"]);
    let paused = jadpo(dir.path(), &["queues", "pause", "jobs"]);
    assert!(stdout(&paused).contains("jobs is paused; 1 message in it"), "{}", stdout(&paused));
    assert_eq!(json(&jadpo(dir.path(), &["queues", "show", "jobs", "--json"]))["paused"], true);
    assert_eq!(jadpo(dir.path(), &["queues", "send", "jobs", "2"]).status.code(), Some(0));
    assert_eq!(json(&jadpo(dir.path(), &["queues", "resume", "jobs", "--json"]))["paused"], false);
    let shown = stdout(&jadpo(dir.path(), &["queues", "show", "jobs"]));
    for part in ["2 (0 in flight, 0 delayed), 2 B", "0 in jobs-dead", "2 times at most (max_retries)", "4 d", " ago)"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn what_is_removed_for_good_needs_a_yes_on_a_terminal_and_force_elsewhere() {
    let dir = folder();
    for _ in 0..3 {
        jadpo(dir.path(), &["queues", "send", "jobs", "1"]);
    }
    for verb in ["purge", "delete"] {
        let refused = jadpo_reading(dir.path(), &["queues", verb, "jobs"], b"y\n");
        assert_eq!(refused.status.code(), Some(2), "{verb}");
        let said = stderr(&refused);
        assert!(said.contains("3 messages") && said.contains("--force"), "{verb}: {said}");
    }
    // `script` gives it a terminal.
    let asked = |verb: &str, answer: &str| {
        let run = format!("{} queues {verb} jobs", env!("CARGO_BIN_EXE_jadpo"));
        let mut child = Command::new("script")
            .args(["-qec", &run, "/dev/null"])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`script` of util-linux gives the test a terminal");
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), stdout(&output))
    };
    for answer in ["\n", "n\n", "maybe\n"] {
        let (code, said) = asked("purge", answer);
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("remove 3 messages from jobs, for good? [y/N]") && said.contains("nothing was done"),
            "{said}"
        );
    }
    let (code, said) = asked("purge", "y\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("jobs is empty: 3 messages removed, 3 B"), "{said}");
    let (code, said) = asked("delete", "yes\n");
    assert!(code == Some(0) && said.contains("delete the queue jobs with 0 messages"), "{said}");
    assert_eq!(json(&jadpo(dir.path(), &["queues", "--json"]))["queues"], serde_json::json!([]));
}

#[test]
fn with_force_nobody_is_asked_and_what_was_lost_is_told() {
    let dir = folder();
    jadpo(dir.path(), &["queues", "send", "jobs", "12345", "--count", "250"]);
    let purged = json(&jadpo(dir.path(), &["queues", "purge", "jobs", "--force", "--json"]));
    assert_eq!(purged, serde_json::json!({"queue": "jobs", "messages": 250, "bytes": 1_250}));
    jadpo(dir.path(), &["queues", "send", "jobs", "1"]);
    let deleted = jadpo(dir.path(), &["queues", "delete", "jobs", "--force"]);
    assert_eq!(stdout(&deleted), "jobs is deleted, with 1 message, 1 B\n");
}

#[test]
fn single_messages_are_removed_by_their_ids_wherever_they_stand() {
    let dir = tempfile::tempdir().unwrap();
    let bodies: Vec<String> = (0..250).map(|n| format!("letter {n}")).collect();
    let bodies: Vec<&[u8]> = bodies.iter().map(String::as_bytes).collect();
    let ids = dead_letters(dir.path(), "jobs", &bodies, "hopeless");
    let refused = jadpo(dir.path(), &["queues", "remove", "jobs-dead", &ids[3]]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("would remove 1 message from jobs-dead"), "{}", stderr(&refused));
    let args = ["queues", "remove", "jobs-dead", &ids[249], &ids[3], &ids[3], "none", "--force"];
    let removed = jadpo(dir.path(), &args);
    assert_eq!(removed.status.code(), Some(1), "one of them is not there");
    assert_eq!(stdout(&removed), "2 messages removed from jobs-dead\n");
    assert!(stderr(&removed).contains("jobs-dead holds no message none"), "{}", stderr(&removed));
    let again = json(&jadpo(dir.path(), &[&args[..], &["--json"]].concat()));
    assert_eq!(again["removed"], 0);
    let left = json(&jadpo(dir.path(), &["queues", "peek", "jobs-dead", "--limit", "1000", "--json"]));
    let left: Vec<&str> = left["messages"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert!(left.len() == 248 && !left.contains(&ids[3].as_str()) && !left.contains(&ids[249].as_str()));
}

#[test]
fn looking_takes_nothing_and_shows_where_each_message_stands() {
    let dir = folder();
    jadpo_reading(
        dir.path(),
        &["queues", "push", "jobs"],
        &(1..=130).map(|n| format!("{n}\n")).collect::<String>().into_bytes(),
    );
    jadpo(dir.path(), &["queues", "send", "jobs", "\"later\"", "--delay", "1d"]);
    let first = json(&jadpo(dir.path(), &["queues", "peek", "jobs", "--limit", "2", "--json"]));
    assert_eq!((&first["more"], first["messages"].as_array().unwrap().len()), (&true.into(), 2));
    let all = json(&jadpo(dir.path(), &["queues", "peek", "jobs", "--limit", "1000", "--full", "--json"]));
    let messages = all["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &all["more"]), (131, &false.into()), "more than a page");
    assert_eq!(
        (&messages[0]["preview"], &messages[0]["body_base64"], &messages[0]["state"]),
        (&"1".into(), &"MQ==".into(), &"ready".into())
    );
    assert_eq!(messages[130]["state"], "delayed");
    assert!(messages[130]["for_ms"].as_u64().unwrap() > 86_000_000);
    assert!(messages.iter().all(|message| message["attempts"] == 0), "nothing was taken");
    let told = stdout(&jadpo(dir.path(), &["queues", "peek", "jobs", "--limit", "3"]));
    assert!(told.contains("the first 3 messages; --limit shows more"), "{told}");
}

#[test]
fn nothing_that_somebody_sent_steers_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let nasty = "a\u{1b}[2J\u{7}\u{202e}\u{9b}31m\r\n\u{0}z";
    dead_letters(dir.path(), "jobs", &[nasty.as_bytes()], nasty);
    jadpo_reading(dir.path(), &["queues", "send", "jobs", "-"], nasty.as_bytes());
    for args in [
        &["queues", "peek", "jobs"][..],
        &["queues", "peek", "jobs", "--full"],
        &["queues", "dead-letters", "jobs"],
        &["queues", "dead-letters", "jobs", "--full"],
        &["queues", "redrive", "jobs", "--error", nasty.trim_end_matches("\u{0}z"), "--detach"],
        &["queues", "redrive", "--list"],
    ] {
        let output = jadpo(dir.path(), args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        let told = stdout(&output) + &stderr(&output);
        let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!told.contains(steers), "{args:?}: {told:?}");
        if !args.contains(&"--detach") {
            assert!(told.contains("\\u{1b}[2J"), "{args:?}: {told}");
        }
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let dir = folder();
    jadpo(dir.path(), &["queues", "send", "jobs", "1", "--count", "500"]);
    for args in [&["queues", "peek", "jobs", "--limit", "500"][..], &["queues"], &["queues", "--help"], &["triggers"]] {
        let mut child = command(dir.path(), args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{args:?}");
    }
    let mut child = command(dir.path(), &["queues", "show", "job"]).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2), "nobody hears the error, and it is no panic");
}

#[test]
fn every_command_teaches_its_use() {
    let dir = tempfile::tempdir().unwrap();
    for (args, parts) in [
        (&["queues"][..], &["Examples:", "redrive", "--store", "Exit codes"][..]),
        (&["queues", "push"], &["NDJSON", "--skip", "Examples:", "--files"]),
        (&["queues", "redrive"], &["--dry-run", "--rate", "--resume", "Examples:"]),
        (&["queues", "dead-letters"], &["body_base64", "died_at_ms"]),
        (&["triggers"], &["queue:NAME", "Examples:", "last_run"]),
        (&["webhooks"], &["--base", "rotate", "credential"]),
    ] {
        let help = stdout(&jadpo(dir.path(), &[args, &["--help"]].concat()));
        for part in parts {
            assert!(help.contains(part), "{args:?}, {part}: {help}");
        }
    }
}

#[test]
fn a_store_of_an_older_build_is_brought_up_to_change_it_unless_a_server_runs_on_it_and_never_to_look() {
    use jadpo_core::broker::schema::MIGRATIONS as BROKERS;
    use jadpo_core::store::schema::MIGRATIONS;
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(".jadpo")).unwrap();
    let path = dir.path().join(".jadpo/queues.db");
    let old = rusqlite::Connection::open(&path).unwrap();
    for migration in MIGRATIONS.iter().chain(&BROKERS[..1]) {
        old.execute_batch(migration.sql).unwrap();
    }
    drop(old);
    let lock = jadpo::store::StoreLock::take(&path).unwrap();
    let refused = jadpo(dir.path(), &["queues", "pause", "jobs"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("start that server again with this build"), "{}", stderr(&refused));
    assert_eq!(jadpo(dir.path(), &["deliveries"]).status.code(), Some(0), "they need no queues");
    drop(lock);
    let version = || {
        let store = rusqlite::Connection::open(&path).unwrap();
        store.query_row("SELECT version FROM jadpo_broker", [], |row| row.get::<_, u32>(0)).unwrap()
    };
    for looks in [&["queues"][..], &["queues", "peek", "jobs"], &["triggers"], &["webhooks"], &["tokens"]] {
        let refused = jadpo(dir.path(), looks);
        assert_eq!(refused.status.code(), Some(1), "{looks:?}");
        assert!(stderr(&refused).contains("is of an older build"), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("brings it up to date when it starts"), "{}", stderr(&refused));
    }
    assert_eq!(version(), 1);
    let unknown = jadpo(dir.path(), &["queues", "pause", "jobs"]);
    assert!(stderr(&unknown).contains("there is no queue `jobs`"), "{}", stderr(&unknown));
    assert_eq!(version(), BROKERS.last().unwrap().version);
    assert_eq!(stdout(&jadpo(dir.path(), &["queues"])), "there are no queues\n");
}
