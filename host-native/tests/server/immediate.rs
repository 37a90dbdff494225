//! Immediate mode: a POST runs the functions and answers every attempt's outcome.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Answer, Function, Server, app, folder, jadpo, request};

fn dev(dir: &std::path::Path) -> Server {
    // A window of an hour: nothing may wait for it.
    Server::dev(dir, &["--queues", "immediate", "--visibility-ms", "3600000"])
}

#[test]
fn a_post_runs_every_attempt_at_once_and_tells_how_each_function_ended() {
    let good = Function::answering(200);
    let bad = Function::with(|call| Answer::Status(if call.attempt() < 3 { 500 } else { 200 }));
    let dir = folder(&app(&[("good", &good.url), ("bad", &bad.url)], ""));
    let server = dev(dir.path());
    let reply = server.post("/_queues/jobs", b"x");
    let answer = reply.json();
    assert_eq!((reply.status, &answer["outcome"]), (200, &"done".into()), "{answer}");
    let attempts = answer["attempts"].as_array().unwrap();
    let told: Vec<_> = attempts
        .iter()
        .map(|attempt| {
            let function = |function: &serde_json::Value| {
                (function["function"].as_str().unwrap().to_owned(), function["status"].as_u64().unwrap())
            };
            attempt["functions"].as_array().unwrap().iter().map(function).collect::<Vec<_>>()
        })
        .collect();
    let bad_alone = |status| vec![("bad".to_owned(), status)];
    assert_eq!(told, [vec![("good".to_owned(), 200), ("bad".to_owned(), 500)], bad_alone(500), bad_alone(200)]);
    assert_eq!(attempts[2]["attempt"], 3);
    assert_eq!(answer["id"].as_str().unwrap().len(), 32);
    assert_eq!(server.queue("jobs")["messages"], 0);
}

#[test]
fn a_message_that_never_succeeds_is_dead_when_the_post_is_answered() {
    let bad = Function::answering(500);
    let dir = folder(&app(&[("bad", &bad.url)], "max_receives: 2"));
    let server = dev(dir.path());
    let answer = server.post("/_queues/jobs", b"x").json();
    assert_eq!((&answer["outcome"], answer["attempts"].as_array().unwrap().len()), (&"dead_lettered".into(), 2));
    let left = server.queue("jobs");
    assert_eq!((&left["messages"], &left["dead_letters"]["messages"]), (&0.into(), &1.into()));
    assert_eq!(left["dead_letters"]["items"][0]["id"], answer["id"]);
    assert_eq!(left["trigger"]["last_run"]["outcome"], "failed");
}

#[test]
fn a_handler_that_posts_to_its_own_queue_neither_deadlocks_nor_goes_on_without_bound() {
    let url = Arc::new(OnceLock::<String>::new());
    let own = url.clone();
    let refused = Arc::new(AtomicUsize::new(0));
    let counted = refused.clone();
    let function = Function::with(move |_| {
        let reply = request(own.get().unwrap(), "POST", "/_queues/jobs", &[], b"again");
        if reply.status == 429 {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Answer::Status(200)
    });
    let dir = folder(&app(&[("again", &function.url)], ""));
    let server = dev(dir.path());
    url.set(server.url.clone()).unwrap();
    let reply = server.post("/_queues/jobs", b"first");
    assert_eq!((reply.status, &reply.json()["outcome"]), (200, &"done".into()));
    assert_eq!(function.calls().len(), 32, "as deep as it may go");
    assert_eq!(refused.load(Ordering::SeqCst), 1);
    assert_eq!(server.queue("jobs")["messages"], 0);
}

#[test]
fn what_is_delayed_comes_when_it_is_due_and_what_is_paused_waits() {
    let function = Function::answering(200);
    let dir = folder(&app(&[("pay", &function.url)], ""));
    let server = dev(dir.path());
    let why = |path: &str, body: &[u8]| {
        let reply = server.post(path, body);
        assert_eq!(reply.status, 202, "{reply:?}");
        reply.json()["waits"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(why("/_queues/jobs?delay=1", b"later"), "it is delayed");
    assert!(function.call_within(Duration::from_millis(700)).is_none());
    assert_eq!(function.call().text(), "later");
    server.beside(async |broker| broker.pause("jobs", true).await).unwrap();
    assert_eq!(why("/_queues/jobs", b"paused"), "the queue is paused");
    assert!(function.call_within(Duration::from_millis(700)).is_none());
    server.beside(async |broker| broker.pause("jobs", false).await).unwrap();
    assert_eq!(function.call().text(), "paused");
    server.beside(async |broker| broker.enable_trigger("queue:jobs", false).await).unwrap();
    assert_eq!(why("/_queues/jobs", b"disabled"), "the trigger is disabled");
    assert_eq!(why("/_queues/jobs/batch", br#"{"messages":[{"body":1}]}"#), "the trigger is disabled");
    assert!(function.call_within(Duration::from_millis(700)).is_none());
}

#[test]
fn a_batch_runs_too_and_tells_what_became_of_each_message() {
    let function = Function::with(|call| Answer::Status(if call.text() == "2" { 500 } else { 200 }));
    let dir = folder(&app(&[("pay", &function.url)], "max_receives: 2, concurrency: 1"));
    let server = dev(dir.path());
    let batch = br#"{"messages":[{"body":1},{"body":2},{"body":3,"delay_seconds":3600},{"body":4}]}"#;
    let reply = server.post("/_queues/jobs/batch", batch);
    let told = reply.json();
    assert_eq!(reply.status, 200, "{told}");
    let messages = told["messages"].as_array().unwrap();
    let outcomes: Vec<_> = messages.iter().map(|message| message["outcome"].as_str().unwrap_or_default()).collect();
    assert_eq!(outcomes, ["done", "dead_lettered", "", "done"]);
    assert_eq!(messages[2]["waits"], "it is delayed");
    assert_eq!(messages[1]["attempts"].as_array().unwrap().len(), 2);
    let ids: Vec<_> = messages.iter().map(|message| message["id"].clone()).collect();
    assert_eq!(told["ids"], serde_json::Value::from(ids));
    assert_eq!(function.calls().iter().map(|call| call.text()).collect::<Vec<_>>(), ["1", "2", "2", "4"]);
    let left = server.queue("jobs");
    assert_eq!(
        (&left["messages"], &left["delayed"], &left["dead_letters"]["messages"]),
        (&1.into(), &1.into(), &1.into())
    );
    let refused = server.post("/_queues/jobs/batch", br#"{"messages":[{"body":1},{"body":2,"delay_seconds":86401}]}"#);
    assert_eq!((refused.status, function.calls().len()), (400, 0), "all of it is kept, or none");
}

#[test]
fn a_webhook_runs_the_functions_too_and_a_repeat_runs_nothing() {
    let function = Function::with(|call| Answer::Status(if call.attempt() == 1 { 500 } else { 200 }));
    let webhooks = "webhooks: { hook: { queue: \"jobs\" } }\n";
    let dir = folder(&(app(&[("pay", &function.url)], "") + webhooks));
    let server = dev(dir.path());
    let delivery = [("x-github-delivery", "7a1c")];
    let post = || request(&server.url, "POST", "/_webhooks/hook", &delivery, b"{}");
    let (first, again) = (post(), post());
    assert_eq!((first.status, &first.json()["outcome"]), (202, &"done".into()), "{first:?}");
    assert_eq!(first.json()["attempts"].as_array().unwrap().len(), 2);
    assert_eq!((&again.json()["repeat"], &again.json()["id"]), (&true.into(), &first.json()["id"]));
    assert_eq!(function.calls().len(), 2);
}

#[test]
fn what_comes_by_another_way_waits_for_no_window_either() {
    let bad = Function::answering(500);
    let dir = folder(&app(&[("bad", &bad.url)], "max_receives: 3"));
    let server = dev(dir.path());
    assert_eq!(jadpo(dir.path(), &["queues", "send", "jobs", "1"]).status.code(), Some(0));
    server.wait_for_dead("jobs");
    assert_eq!(bad.calls().iter().map(|call| call.attempt()).collect::<Vec<_>>(), [1, 2, 3]);
}
