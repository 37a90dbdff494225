use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::support::{command, held, jadpo, jadpo_reading, json, signal, stderr, stdout};

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(jadpo(dir.path(), &["queues", "create", "jobs"]).status.code(), Some(0));
    dir
}

/// The messages of the queue, as content type and body.
fn messages(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let all = json(&jadpo(dir, &["queues", "peek", "jobs", "--limit", "5000", "--full", "--json"]));
    let one = |message: &serde_json::Value| {
        let body = BASE64.decode(message["body_base64"].as_str().unwrap()).unwrap();
        (message["content_type"].as_str().unwrap().to_owned(), body)
    };
    all["messages"].as_array().unwrap().iter().map(one).collect()
}

fn kept(dir: &Path, content: &str, body: &[u8]) -> bool {
    messages(dir).contains(&(content.to_owned(), body.to_vec()))
}

#[test]
fn a_message_is_kept_byte_for_byte_and_as_what_it_is() {
    let dir = folder();
    let sent = jadpo(dir.path(), &["queues", "send", "jobs", r#"{"kind": "resize", "id": 42}"#]);
    assert_eq!(sent.status.code(), Some(0), "{}", stderr(&sent));
    let id = stdout(&sent).trim().rsplit(' ').next().unwrap().to_owned();
    assert!(stdout(&sent).starts_with("sent 1 message to jobs: ") && id.len() == 32, "{}", stdout(&sent));
    assert!(kept(dir.path(), "json", br#"{"kind": "resize", "id": 42}"#));

    let bytes: Vec<u8> = (0..=255).collect();
    fs::write(dir.path().join("body.bin"), &bytes).unwrap();
    jadpo(dir.path(), &["queues", "send", "jobs", "@body.bin"]);
    assert!(kept(dir.path(), "bytes", &bytes));
    jadpo_reading(dir.path(), &["queues", "send", "jobs", "-"], b"line one\nline two\n");
    assert!(kept(dir.path(), "text", b"line one\nline two\n"));
    jadpo(dir.path(), &["queues", "send", "jobs", "17", "--content-type", "text"]);
    assert!(kept(dir.path(), "text", b"17"));
    jadpo(dir.path(), &["queues", "send", "jobs", "-5"]);
    assert!(kept(dir.path(), "json", b"-5"));
    jadpo(dir.path(), &["queues", "send", "jobs", ""]);
    assert!(kept(dir.path(), "text", b""));
}

#[test]
fn a_mime_type_is_kept_with_the_message() {
    let dir = folder();
    jadpo(dir.path(), &["queues", "send", "jobs", "<a/>", "--content-type", "application/xml"]);
    let all = json(&jadpo(dir.path(), &["queues", "peek", "jobs", "--full", "--json"]));
    let meta: serde_json::Value = serde_json::from_str(all["messages"][0]["meta"].as_str().unwrap()).unwrap();
    assert_eq!(meta["headers"], serde_json::json!([["Content-Type", "application/xml"]]));
    let slip = jadpo(dir.path(), &["queues", "send", "jobs", "1", "--content-type", "jsn"]);
    assert_eq!(slip.status.code(), Some(2));
    assert!(stderr(&slip).contains("json, text, bytes or a MIME type"), "{}", stderr(&slip));
}

#[test]
fn what_cannot_be_sent_is_refused_before_anything_is() {
    let dir = folder();
    fs::write(dir.path().join("big"), vec![b'x'; 129_000]).unwrap();
    fs::write(dir.path().join("most"), vec![b'x'; 128_000]).unwrap();
    for (args, said) in [
        (&["@big"][..], "a message has at most 128,000"),
        (&["@missing"], "`missing` cannot be read"),
        (&["{", "--content-type", "json"], "it is not JSON"),
        (&["1", "--delay", "2d"], "86400"),
        (&["1", "--count", "0"], "0 is not in 1.."),
    ] {
        let refused = jadpo(dir.path(), &[&["queues", "send", "jobs"], args].concat());
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(said), "{args:?}: {}", stderr(&refused));
    }
    assert_eq!(held(dir.path(), "jobs"), 0);
    assert_eq!(jadpo(dir.path(), &["queues", "send", "jobs", "@most"]).status.code(), Some(0));
}

#[test]
fn one_message_is_sent_many_times_on_request() {
    let dir = folder();
    let sent = json(&jadpo(dir.path(), &["queues", "send", "jobs", "1", "--count", "1234", "--json"]));
    let mut ids: Vec<&str> = sent["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), &sent["sent"]), (1234, &1234.into()));
    assert_eq!(held(dir.path(), "jobs"), 1234);
    let told = stdout(&jadpo(dir.path(), &["queues", "send", "jobs", "1", "--count", "1000"]));
    assert_eq!(told, "sent 1,000 messages to jobs\n");
}

#[test]
fn every_line_is_a_message_in_its_order() {
    let dir = folder();
    let lines: String = (1..=1_050).map(|n| format!("{{\"n\": {n}}}\r\n\n")).collect();
    let pushed = jadpo_reading(dir.path(), &["queues", "push", "jobs"], lines.as_bytes());
    assert_eq!((pushed.status.code(), stdout(&pushed).as_str()), (Some(0), "1,050 messages accepted\n"));
    let bodies: Vec<String> =
        messages(dir.path()).into_iter().map(|(_, body)| String::from_utf8(body).unwrap()).collect();
    let sent: Vec<String> = (1..=1_050).map(|n| format!("{{\"n\": {n}}}")).collect();
    assert_eq!(bodies, sent);
}

#[test]
fn lines_come_from_files_too_and_may_name_files() {
    let dir = folder();
    fs::write(dir.path().join("monday"), "1\n2\n").unwrap();
    fs::write(dir.path().join("tuesday"), "3").unwrap();
    fs::write(dir.path().join("picture"), [0xff, 0xd8]).unwrap();
    let pushed = json(&jadpo(dir.path(), &["queues", "push", "jobs", "monday", "tuesday", "--json"]));
    assert_eq!(pushed, serde_json::json!({"queue": "jobs", "accepted": 3, "skipped": 0}));
    let named = jadpo_reading(dir.path(), &["queues", "push", "jobs", "--files"], b"picture\ntuesday\n");
    assert_eq!(named.status.code(), Some(0), "{}", stderr(&named));
    let kept = messages(dir.path());
    let (last, one_before) = (kept.last().unwrap(), &kept[kept.len() - 2]);
    assert_eq!(one_before, &("bytes".to_owned(), vec![0xff, 0xd8]));
    assert_eq!(last, &("json".to_owned(), b"3".to_vec()));
}

#[test]
fn a_bad_line_is_named_what_came_before_is_kept_and_the_rest_can_follow() {
    let dir = folder();
    let lines = "1\n2\n\nnope\n4\n";
    let pushed = jadpo_reading(dir.path(), &["queues", "push", "jobs"], lines.as_bytes());
    assert_eq!(pushed.status.code(), Some(2));
    assert_eq!(stdout(&pushed), "2 messages accepted\n");
    for part in ["line 4 of standard input", "it is not JSON", "--content-type text", "--skip 2"] {
        assert!(stderr(&pushed).contains(part), "{part}: {}", stderr(&pushed));
    }
    let rest = jadpo_reading(
        dir.path(),
        &["queues", "push", "jobs", "--skip", "2", "--content-type", "text", "--json"],
        lines.as_bytes(),
    );
    assert_eq!(json(&rest), serde_json::json!({"queue": "jobs", "accepted": 2, "skipped": 2}));
    let long = format!("1\n\"{}\"\n", "x".repeat(200_000));
    let long = json(&jadpo_reading(dir.path(), &["queues", "push", "jobs", "--json"], long.as_bytes()));
    assert_eq!(long["accepted"], 1);
    assert!(long["error"].as_str().unwrap().contains("line 2 of standard input"), "{long}");
    assert!(long["error"].as_str().unwrap().contains("at most 128,000"), "{long}");
    let missing = jadpo(dir.path(), &["queues", "push", "jobs", "nowhere"]);
    assert!(missing.status.code() == Some(2) && stderr(&missing).contains("`nowhere` cannot be read"));
}

#[test]
fn big_messages_go_in_batches_that_a_queue_takes() {
    let dir = folder();
    let line = format!("\"{}\"\n", "é\u{1}".repeat(100));
    let lines = format!("\"{}\"\n", "x".repeat(127_000)).repeat(7) + &line.replace('\u{1}', "\\u0001").repeat(150);
    let pushed = jadpo_reading(dir.path(), &["queues", "push", "jobs"], lines.as_bytes());
    assert_eq!(stdout(&pushed), "157 messages accepted\n", "{}", stderr(&pushed));
}

#[test]
fn ctrl_c_loses_nothing_that_was_accepted_and_tells_how_to_go_on() {
    let dir = folder();
    let mut push = command(dir.path(), &["queues", "push", "jobs"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = push.stdin.take().unwrap();
    input.write_all("7\n".repeat(777).as_bytes()).unwrap();
    // Lines that come slowly are sent without waiting for a full batch.
    let end = Instant::now() + Duration::from_secs(30);
    while held(dir.path(), "jobs") < 777 {
        assert!(Instant::now() < end, "what was written is not sent while more may come");
    }
    signal(&push, "INT");
    let output = push.wait_with_output().unwrap();
    drop(input);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(stdout(&output), "777 messages accepted\n");
    assert!(stderr(&output).contains("--skip 777"), "{}", stderr(&output));
    assert_eq!(held(dir.path(), "jobs"), 777);
}

#[test]
fn a_push_that_is_interrupted_amid_its_work_tells_exactly_what_is_kept() {
    let dir = folder();
    for _ in 0..5 {
        let before = held(dir.path(), "jobs");
        let mut push = command(dir.path(), &["queues", "push", "jobs", "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = push.stdin.take().unwrap();
        let writer = std::thread::spawn(move || while input.write_all(&b"[1,2,3]\n".repeat(512)).is_ok() {});
        let end = Instant::now() + Duration::from_secs(30);
        while held(dir.path(), "jobs") == before && Instant::now() < end {}
        signal(&push, "INT");
        let line = BufReader::new(push.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        assert_eq!(push.wait().unwrap().code(), Some(1));
        writer.join().unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(held(dir.path(), "jobs") - before, told["accepted"].as_u64().unwrap(), "{told}");
    }
}
