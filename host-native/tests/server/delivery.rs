//! What becomes of a message: accepted, delivered at a tick, tried again, done or dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jadpo_core::broker::{Peek, Redrive, RedriveFilter};
use serde_json::json;

use crate::support::{Answer, Function, LONG, Server, app, folder, request};

#[test]
fn a_message_is_accepted_at_once_and_delivered_at_the_tick_and_not_before() {
    let function = Function::answering(200);
    let dir = folder(&app(&[("pay", &function.url)], ""));
    let server = Server::dev(dir.path(), &["--tick-ms", "3000"]);
    let started = Instant::now();
    let id = server.send("jobs", "{\"id\":42}");
    assert!(started.elapsed() < Duration::from_millis(700));
    let waiting = server.queue("jobs");
    assert_eq!((&waiting["messages"], &waiting["in_flight"], &waiting["delayed"]), (&1.into(), &0.into(), &0.into()));
    assert!(function.call_within(Duration::from_millis(1_500)).is_none(), "nothing is delivered before the tick");
    let call = function.call();
    assert_eq!((call.text(), call.attempt()), ("{\"id\":42}".to_owned(), 1));
    assert_eq!(call.header("jadpo-message-id"), Some(id.as_str()));
    assert_eq!(call.header("jadpo-queue"), Some("jobs"));
    assert_eq!(call.header("idempotency-key"), Some(format!("{id}.pay").as_str()));
    let done = server.wait_until_empty("jobs");
    assert_eq!(done["recent"][0]["outcome"], "done");
    assert_eq!(done["recent"][0]["status"], 200);
    assert_eq!(done["trigger"]["last_run"]["outcome"], "done");
    assert_eq!(done["trigger"]["last_run"]["message"], id.as_str());
}

#[test]
fn a_failed_message_comes_again_after_its_window_with_one_attempt_more_and_dies_of_the_last_one() {
    let function = Function::answering(500);
    let dir = folder(&app(&[("pay", &function.url)], "max_receives: 3"));
    let server = Server::dev(dir.path(), &["--visibility-ms", "1000"]);
    let id = server.send("jobs", "x");
    let calls = [function.call(), function.call(), function.call()];
    assert_eq!(calls.each_ref().map(|call| call.attempt()), [1, 2, 3]);
    for pair in calls.windows(2) {
        let window = pair[1].at - pair[0].at;
        // It is counted from when the message was taken, and the function may be slow to see the call.
        assert!(window >= Duration::from_millis(700), "{window:?}");
    }
    let dead = server.wait_for_dead("jobs");
    assert_eq!(dead["messages"], 0);
    let letter = &dead["dead_letters"]["items"][0];
    assert_eq!((&letter["id"], &letter["attempts"], &letter["preview"]), (&id.into(), &3.into(), &"x".into()));
    assert_eq!(letter["error"], "pay: answered 500");
    assert!(function.call_within(Duration::from_millis(1_300)).is_none(), "a dead letter is not delivered");
    assert_eq!(server.logged("queue.dead_lettered")["attempts"], 3);
}

#[test]
fn a_function_that_already_succeeded_is_not_called_again_because_another_one_failed() {
    let good = Function::answering(204);
    let bad = Function::with(|call| Answer::Status(if call.attempt() < 3 { 503 } else { 200 }));
    let dir = folder(&app(&[("good", &good.url), ("bad", &bad.url)], "visibility: 1s, max_receives: 5"));
    let server = Server::dev(dir.path(), &["--visibility-ms", "500"]);
    server.send("jobs", "x");
    let attempts = [bad.call(), bad.call(), bad.call()].map(|call| call.attempt());
    assert_eq!(attempts, [1, 2, 3]);
    let done = server.wait_until_empty("jobs");
    assert_eq!(done["dead_letters"]["messages"], 0);
    assert_eq!(good.calls().len(), 1);
    assert!(bad.calls().is_empty());
}

#[test]
fn any_2xx_is_done_and_nothing_else_is_and_a_redirect_is_not_followed() {
    let elsewhere = Function::answering(200);
    for status in [200, 204, 299, 300, 302, 404, 410, 429, 500] {
        let location = elsewhere.url.clone();
        let function = Function::with(move |_| {
            let head = format!("HTTP/1.1 {status} X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
            Answer::Bytes(head.into_bytes())
        });
        let dir = folder(&app(&[("pay", &function.url)], "max_receives: 1"));
        let server = Server::dev(dir.path(), &[]);
        server.send("jobs", "x");
        let left = server.wait_until_empty("jobs");
        let dead = usize::from(!(200..300).contains(&status));
        assert_eq!(left["dead_letters"]["messages"], dead, "{status}");
        assert_eq!(left["recent"][0]["status"], status);
        assert_eq!(function.calls().len(), 1, "{status}");
    }
    assert!(elsewhere.calls().is_empty());
}

#[test]
fn a_message_is_tried_as_often_as_its_queue_says_and_then_lies_among_the_dead() {
    for receives in [4, 2, 1] {
        let function = Function::answering(500);
        let dir = folder(&app(&[("pay", &function.url)], &format!("max_receives: {receives}")));
        let server = Server::dev(dir.path(), &["--visibility-ms", "500"]);
        let id = server.send("jobs", "body");
        let dead = server.wait_for_dead("jobs");
        assert_eq!(dead["dead_letters"]["items"][0]["id"], id.as_str());
        assert_eq!(function.calls().len(), receives);
        // In the dead-letter queue it begins anew.
        let peeked = server.beside(async |broker| broker.peek("jobs-dead", Peek { max: 1, after: None }).await);
        let peeked = peeked.unwrap();
        assert_eq!((peeked[0].message.attempts, peeked[0].message.body.as_slice()), (0, b"body".as_slice()));
    }
}

#[test]
fn a_function_that_is_not_there_is_told_plainly_and_the_message_keeps_its_budget() {
    let dir = folder(&app(&[("pay", "http://127.0.0.1:9/")], "max_receives: 2"));
    let server = Server::dev(dir.path(), &["--visibility-ms", "500"]);
    server.send("jobs", "x");
    let said = server.logged("function.failed");
    assert_eq!(said["function"], "pay");
    assert!(said["error"].as_str().unwrap().contains("no connection"), "{said}");
    let dead = server.wait_for_dead("jobs");
    assert_eq!(dead["dead_letters"]["items"][0]["attempts"], 2);
}

#[test]
fn a_function_that_hangs_is_cut_off_when_its_window_ends_and_a_slow_one_is_left_to_end() {
    let slow = Function::with(|_| Answer::After(Duration::from_millis(1_500), 200));
    let dir = folder(&app(&[("slow", &slow.url)], ""));
    let server = Server::dev(dir.path(), &["--visibility-ms", "5000"]);
    let hang = Function::with(|_| Answer::Bytes(Vec::new()));
    let hung = folder(&app(&[("hang", &hang.url)], "max_receives: 2"));
    let hanging = Server::dev(hung.path(), &["--visibility-ms", "800"]);
    server.send("jobs", "x");
    hanging.send("jobs", "x");
    let dead = hanging.wait_for_dead("jobs");
    assert_eq!(dead["dead_letters"]["items"][0]["error"], "hang: no answer within 0.8 s");
    assert_eq!(hang.calls().iter().map(|call| call.attempt()).collect::<Vec<_>>(), [1, 2]);
    let ms = dead["recent"][0]["ms"].as_u64().unwrap();
    assert!((750..10_000).contains(&ms), "{ms}");
    server.wait_until_empty("jobs");
    assert_eq!(slow.calls().len(), 1, "thirty ticks came while it ran");
}

#[test]
fn a_function_that_floods_its_answer_is_judged_by_its_status_and_one_that_closes_has_failed() {
    let flood = Function::with(|_| Answer::Flood);
    let close = Function::with(|_| Answer::Close);
    let half = Function::with(|_| Answer::Bytes(b"HTTP/1.1 20".to_vec()));
    let noise = Function::with(|_| Answer::Bytes(vec![0xff; 300_000]));
    let functions = [("flood", flood.url.as_str()), ("close", &close.url), ("half", &half.url), ("noise", &noise.url)];
    let dir = folder(&app(&functions, "max_receives: 1"));
    let server = Server::dev(dir.path(), &["--visibility-ms", "2000"]);
    server.send("jobs", "x");
    let dead = server.wait_for_dead("jobs");
    let outcome = |name: &str| {
        let recent = dead["recent"].as_array().unwrap();
        recent.iter().find(|called| called["function"] == name).unwrap()["outcome"].clone()
    };
    assert_eq!(outcome("flood"), "done");
    for name in ["close", "half", "noise"] {
        assert_eq!(outcome(name), "failed", "{name}");
    }
}

#[test]
fn ticks_that_overlap_never_deliver_one_message_twice() {
    let function = Function::with(|_| Answer::After(Duration::from_millis(700), 200));
    let dir = folder(&app(&[("slow", &function.url)], "concurrency: 2"));
    let server = Server::dev(dir.path(), &["--tick-ms", "100"]);
    let mut sent: Vec<String> = (0..6).map(|number| server.send("jobs", &number.to_string())).collect();
    server.wait_until_empty("jobs");
    let mut got: Vec<String> =
        function.calls().iter().map(|call| call.header("jadpo-message-id").unwrap().to_owned()).collect();
    sent.sort();
    got.sort();
    assert_eq!(sent, got);
}

#[test]
fn one_at_a_time_keeps_the_order_in_which_messages_were_sent() {
    let inside = Arc::new(AtomicUsize::new(0));
    let counted = inside.clone();
    let function = Function::with(move |_| {
        assert_eq!(counted.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
        std::thread::sleep(Duration::from_millis(5));
        counted.fetch_sub(1, Ordering::SeqCst);
        Answer::Status(200)
    });
    let dir = folder(&app(&[("pay", &function.url)], "concurrency: 1"));
    let server = Server::dev(dir.path(), &[]);
    for number in 0..30 {
        server.send("jobs", &number.to_string());
    }
    server.wait_until_empty("jobs");
    let got: Vec<String> = function.calls().iter().map(|call| call.text()).collect();
    assert_eq!(got, (0..30).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_delayed_message_waits_for_its_time_and_a_delay_that_is_none_is_refused() {
    let function = Function::answering(200);
    let dir = folder(&app(&[("pay", &function.url)], ""));
    let server = Server::dev(dir.path(), &[]);
    let sent = Instant::now();
    assert_eq!(server.post("/_queues/jobs?delay=2&a=1", b"later").status, 202);
    assert_eq!(server.queue("jobs")["delayed"], 1);
    let call = function.call();
    assert!(call.at - sent >= Duration::from_millis(1_990), "{:?}", call.at - sent);
    assert!(call.head.starts_with("POST /handle?a=1 "), "{}", call.head);
    for delay in ["", "x", "-1", "86401", "1.5", "99999999999999999999"] {
        let reply = server.post(&format!("/_queues/jobs?delay={delay}"), b"x");
        assert_eq!((reply.status, reply.code().as_str()), (400, "delay_invalid"), "{delay}");
    }
    assert_eq!(server.wait_until_empty("jobs")["messages"], 0);
}

#[test]
fn a_thousand_messages_sent_at_once_are_all_accepted_and_each_is_delivered_once() {
    let function = Function::answering(200);
    let dir = folder(&app(&[("pay", &function.url)], "concurrency: 50"));
    let server = Server::dev(dir.path(), &["--tick-ms", "500"]);
    let url = &server.url;
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..1_000)
            .map(|number| {
                let body = format!("{number:0>1000}");
                scope.spawn(move || request(url, "POST", "/_queues/jobs", &[], body.as_bytes()).status)
            })
            .collect();
        for sender in senders {
            assert_eq!(sender.join().unwrap(), 202);
        }
    });
    server.wait_until_empty("jobs");
    let mut bodies: Vec<usize> = function.calls().iter().map(|call| call.text().parse().unwrap()).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_function_that_sends_to_its_own_queue_drains_it_to_the_end() {
    let url = Arc::new(std::sync::OnceLock::<String>::new());
    let own = url.clone();
    let function = Function::with(move |call| {
        let text = call.text();
        let (generation, kind) = text.split_once(' ').unwrap();
        let generation: u32 = generation.parse().unwrap();
        if kind == "lead" && generation < 20 {
            let body = |number| format!("{} {}", generation + 1, if number == 0 { "lead" } else { "-" });
            let messages: Vec<_> =
                (0..100).map(|number| json!({"body": body(number), "content_type": "text"})).collect();
            let batch = json!({ "messages": messages }).to_string();
            let reply = request(own.get().unwrap(), "POST", "/_queues/jobs/batch", &[], batch.as_bytes());
            assert_eq!((reply.status, reply.json()["ids"].as_array().unwrap().len()), (202, 100));
        }
        Answer::Status(200)
    });
    let dir = folder(&app(&[("grow", &function.url)], "concurrency: 16"));
    let server = Server::dev(dir.path(), &[]);
    url.set(server.url.clone()).unwrap();
    server.send("jobs", "0 lead");
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..2_001 {
        let call = function.call();
        assert!(ids.insert(call.header("jadpo-message-id").unwrap().to_owned()), "each once");
    }
    server.wait_until_empty("jobs");
    assert!(function.calls().is_empty());
}

#[test]
fn the_257th_call_that_sends_to_a_queue_at_once_is_told_to_come_back_and_no_other_is_lost() {
    let dir = folder(&app(&[], "max_receives: 1").replace("functions: [], ", ""));
    let server = Server::dev(dir.path(), &[]);
    let other = rusqlite::Connection::open(dir.path().join(".jadpo/queues.db")).unwrap();
    other.busy_timeout(LONG).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let url = &server.url;
    let statuses = std::thread::scope(|scope| {
        let send = || request(url, "POST", "/_queues/jobs", &[], b"x");
        let senders: Vec<_> = (0..257).map(|_| scope.spawn(send)).collect();
        std::thread::sleep(Duration::from_millis(4_200));
        other.execute_batch("ROLLBACK").unwrap();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect::<Vec<_>>()
    });
    let refused: Vec<_> = statuses.iter().filter(|reply| reply.status != 202).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!((refused[0].status, refused[0].code().as_str()), (429, "overloaded"));
    assert_eq!(refused[0].headers["retry-after"], "1");
    assert_eq!(refused[0].json()["error"]["cloudflare_code"], 10_250);
    assert_eq!(server.queue("jobs")["messages"], 256);
}

#[test]
fn a_disabled_trigger_and_a_paused_queue_leave_messages_waiting() {
    let function = Function::answering(200);
    let dir = folder(&app(&[("pay", &function.url)], ""));
    let server = Server::dev(dir.path(), &[]);
    let quiet = Duration::from_millis(1_000);
    server.beside(async |broker| broker.enable_trigger("queue:jobs", false).await).unwrap();
    server.send("jobs", "disabled");
    assert!(function.call_within(quiet).is_none());
    assert_eq!(server.queue("jobs")["trigger"]["enabled"], false);
    server.beside(async |broker| broker.enable_trigger("queue:jobs", true).await).unwrap();
    assert_eq!(function.call().text(), "disabled");
    server.beside(async |broker| broker.pause("jobs", true).await).unwrap();
    server.send("jobs", "paused");
    assert!(function.call_within(quiet).is_none());
    assert_eq!((&server.queue("jobs")["paused"], &server.queue("jobs")["messages"]), (&true.into(), &1.into()));
    server.beside(async |broker| broker.pause("jobs", false).await).unwrap();
    let call = function.call();
    assert_eq!((call.text().as_str(), call.attempt()), ("paused", 1));
    assert!(server.log().iter().all(|line| line["level"] != "error"));
}

#[test]
fn a_server_that_was_killed_outright_goes_on_where_it_was() {
    let function = Function::with(|call| match call.attempt() {
        1 => Answer::Bytes(Vec::new()),
        _ => Answer::Status(200),
    });
    let dir = folder(&app(&[("pay", &function.url)], "concurrency: 2"));
    let server = Server::dev(dir.path(), &["--visibility-ms", "1000"]);
    for number in 0..5 {
        server.send("jobs", &number.to_string());
    }
    assert_eq!([function.call(), function.call()].map(|call| call.attempt()), [1, 1]);
    assert_eq!(server.stop("KILL"), None);
    let server = Server::dev(dir.path(), &["--visibility-ms", "1000"]);
    server.wait_until_empty("jobs");
    let mut attempts = std::collections::BTreeMap::new();
    for call in function.calls() {
        let last = attempts.insert(call.text(), call.attempt()).unwrap_or(0);
        assert!(call.attempt() > last);
    }
    assert_eq!(attempts.len(), 5, "{attempts:?}");
}

#[test]
fn a_dead_letter_that_is_put_back_begins_anew_with_its_body_and_headers() {
    let function = Function::with(|call| Answer::Status(if call.header("x-fixed").is_some() { 200 } else { 500 }));
    let dir = folder(&app(&[("pay", &function.url)], "max_receives: 2"));
    let server = Server::dev(dir.path(), &["--visibility-ms", "500"]);
    let tag = [("x-tag", "one"), ("content-type", "application/json")];
    let reply = request(&server.url, "POST", "/_queues/jobs?a=1", &tag, b"{\"id\":1}");
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    server.wait_for_dead("jobs");
    let before = function.calls();
    let redrive = Redrive { source: "jobs".to_owned(), to: None, filter: RedriveFilter::default(), rate_per_s: None };
    let task = server.beside(async |broker| broker.redrive(redrive).await).unwrap();
    assert_eq!(server.logged("redrive.done")["redrive"], task.id);
    let again = [function.call(), function.call()];
    assert_eq!(again.each_ref().map(|call| call.attempt()), [1, 2], "its count begins anew");
    for call in &again {
        assert_eq!(call.header("jadpo-message-id"), Some(id.as_str()));
        assert_eq!((&call.body, call.header("x-tag")), (&before[0].body, Some("one")));
        assert_eq!(call.head.lines().next(), before[0].head.lines().next());
    }
    server.wait_for_dead("jobs");
}
