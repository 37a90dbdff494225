//! Declared queues that are deleted, or made again by hand, while the server runs.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Function, LONG, Server, app, folder, jadpo, request};

fn queues(dir: &Path, args: &[&str]) -> (Option<i32>, Value) {
    let output = jadpo(dir, &[&["queues", "--json"], args].concat());
    let told = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), told)
}

#[test]
fn a_declared_queue_that_is_deleted_comes_back_before_anything_is_sent_to_it() {
    let bad = Function::answering(500);
    let dir = folder(&app(&[("bad", &bad.url)], "max_receives: 2"));
    let server = Server::dev(dir.path(), &["--visibility-ms", "50"]);
    let (exit, told) = queues(dir.path(), &["delete", "jobs", "--force"]);
    assert_eq!((exit, &told["declared"]), (Some(0), &Value::Bool(true)));
    let (exit, _) = queues(dir.path(), &["delete", "jobs-dead", "--force"]);
    assert_eq!(exit, Some(0));
    server.logged("queue.declared_again");
    server.wait_for("jobs", |queue| queue["dead_letter_queue"] == "jobs-dead");
    let id = server.send("jobs", "x");
    let queue = server.wait_for_dead("jobs");
    assert_eq!(queue["dead_letters"]["items"][0]["id"], id.as_str(), "what fails is dead-lettered as ever");
    assert_eq!(bad.calls().iter().map(|call| call.attempt()).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn no_sender_and_no_provider_is_told_that_a_declared_queue_is_not_there() {
    let function = Function::answering(200);
    let webhooks = "webhooks: { hook: { queue: \"jobs\" } }\n";
    for (mode, accepted) in [("async", 202), ("immediate", 200)] {
        let dir = folder(&(app(&[("pay", &function.url)], "") + webhooks));
        let server = Server::dev(dir.path(), &["--queues", mode, "--create-queues"]);
        for (path, status) in [("/_queues/jobs", accepted), ("/_webhooks/hook", 202)] {
            server.beside(async |broker| broker.delete("jobs").await).unwrap();
            let reply = request(&server.url, "POST", path, &[("x-github-delivery", path)], b"{}");
            assert_eq!(reply.status, status, "{mode} {path}: {reply:?}");
            function.call();
            assert_eq!(server.queue("jobs")["dead_letter_queue"], "jobs-dead", "{mode} {path}");
        }
    }
}

#[test]
fn a_declared_queue_that_is_made_by_hand_is_made_as_it_is_declared() {
    let function = Function::answering(200);
    let dir = folder(&app(&[("pay", &function.url)], "max_receives: 7, visibility: 9s"));
    drop(Server::dev(dir.path(), &[]));
    let deleted = jadpo(dir.path(), &["queues", "delete", "jobs", "--force"]);
    assert!(String::from_utf8_lossy(&deleted.stdout).contains("the app declares it, so it comes back"), "{deleted:?}");
    queues(dir.path(), &["delete", "jobs-dead", "--force"]);
    let (exit, refused) = queues(dir.path(), &["create", "jobs", "--max-receives", "3"]);
    assert_eq!((exit, &refused["code"]), (Some(2), &"queue_declared".into()), "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("another max receives"), "{refused}");
    let (exit, made) = queues(dir.path(), &["create", "jobs", "--max-receives", "7", "--delay", "5", "--paused"]);
    assert_eq!((exit, &made["dead_letter_queue"]), (Some(0), &"jobs-dead".into()), "{made}");
    let settings = &made["settings"];
    assert_eq!((&settings["max_retries"], &settings["visibility_ms"]), (&6.into(), &9_000.into()), "{made}");
    assert_eq!(
        (&settings["delivery_delay_s"], &made["paused"]),
        (&5.into(), &true.into()),
        "the rest is the operator's"
    );
    let (exit, dead) = queues(dir.path(), &["show", "jobs-dead"]);
    assert_eq!((exit, &dead["settings"]["retention_s"]), (Some(0), &1_209_600.into()), "{dead}");
    let (exit, again) = queues(dir.path(), &["create", "jobs"]);
    assert_eq!((exit, &again["code"]), (Some(2), &"queue_exists".into()));
    assert!(again["help"].as_str().unwrap().contains("the app declares it"), "{again}");
}

#[test]
fn a_queue_that_was_made_past_the_declaration_is_brought_to_it() {
    let function = Function::answering(200);
    let dir = folder(&app(&[("pay", &function.url)], ""));
    let server = Server::dev(dir.path(), &[]);
    server.beside(async |broker| {
        broker.delete("jobs").await.unwrap();
        // Whoever is first: the server, or this.
        let _ = broker.create("jobs", jadpo_core::broker::Settings::default()).await;
    });
    server.wait_for("jobs", |queue| queue["dead_letter_queue"] == "jobs-dead");
    let end = Instant::now() + LONG;
    while server.beside(async |broker| broker.info("jobs").await).unwrap().settings.consumer.max_retries != 2 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(50));
    }
}
