//! What an app may declare beside a queue with an address: schedules, programs, queues that send on or become events,
//! and all of it in a project.toml.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use jadpo::store::OpenStore;

use jadpo_core::broker::Peek;

use crate::support::{Answer, Function, Server, folder, jadpo, on_store, request};

#[test]
fn an_occurrence_happens_once_however_often_the_server_starts_and_those_before_it_are_counted() {
    let function = Function::answering(200);
    let dir = folder(&format!(
        "app: \"shop\"\nconnections: {{ jobs: {{ driver: Driver.local_queue, queue: \"jobs\" }} }}\n\
         functions: {{\n    sweep: {{ call: \"{}\", schedule: \"* * * * *\" }}\n    \
             nightly: {{ send: \"jobs\", body: \"go\", schedule: \"* * * * *\" }}\n    \
             off: {{ send: \"jobs\", body: \"never\", schedule: \"* * * * *\" }}\n}}\n",
        function.url
    ));
    // As if the last one had been at the beginning of the minute ten minutes ago.
    let path = dir.path().join(".jadpo/queues.db");
    OpenStore::create(&path).unwrap().close();
    let minute = 60_000;
    let last_ms = jadpo::host::now_ms() / minute * minute - 10 * minute;
    on_store(&path, async |broker| {
        for schedule in ["sweep", "nightly", "off"] {
            broker.pass(schedule, last_ms).await?;
        }
        broker.enable_trigger("schedule:off", false).await
    })
    .unwrap();
    let server = Server::dev(dir.path(), &[]);
    let missed = server.logged("schedule.missed");
    assert!((9..=10).contains(&missed["count"].as_u64().unwrap()), "{missed}");
    let call = function.call();
    let body: serde_json::Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!((&body["schedule"], call.header("jadpo-queue")), (&"sweep".into(), Some("schedule-sweep")));
    assert_eq!(call.header("content-type"), Some("application/json"));
    let first = body["scheduled_at"].as_str().unwrap().to_owned();
    server.wait_until_empty("schedule-sweep");
    let sent = server.beside(async |broker| broker.peek("jobs", Peek { max: 10, after: None }).await).unwrap();
    assert!(!sent.is_empty() && sent.iter().all(|sent| sent.message.body == b"go"), "{sent:?}");
    drop(server);
    for _ in 0..3 {
        drop(Server::dev(dir.path(), &[]));
    }
    let server = Server::dev(dir.path(), &[]);
    std::thread::sleep(Duration::from_millis(1_500));
    // A minute may have begun meanwhile; what came before it does not come again.
    for call in function.calls() {
        let body: serde_json::Value = serde_json::from_slice(&call.body).unwrap();
        assert_ne!(body["scheduled_at"], first.as_str());
    }
    drop(server);
}

#[test]
fn a_schedule_that_a_clock_ahead_has_run_is_told_in_the_log_with_when_it_goes_on() {
    let app = "app: \"shop\"\nfunctions: { sweep: { call: \"http://127.0.0.1:9/\", schedule: \"0 * * * *\" } }\n";
    let dir = folder(app);
    let server = Server::dev(dir.path(), &[]);
    let ahead_ms = jadpo::host::now_ms() + 12 * 3_600_000;
    server.beside(async |broker| broker.pass("sweep", ahead_ms).await).unwrap();
    let waits = server.logged("schedule.waits");
    assert_eq!(waits["schedule"], "sweep");
    assert!(waits["until"].as_str().unwrap().ends_with(":00:00.000Z"), "{waits}");
}

#[test]
fn a_program_gets_the_body_and_what_is_known_of_the_message_and_its_exit_code_counts() {
    let dir = folder(
        "app: \"shop\"\nconnections: { jobs: { driver: Driver.local_queue, queue: \"jobs\", functions: [pay], max_receives: 2 } }\n\
         functions: { pay: { exec: [\"./pay.sh\", \"--once\"] } }\n",
    );
    let script = "#!/bin/sh\n{ cat; echo \" $1 $JADPO_QUEUE $JADPO_ATTEMPT $JADPO_FUNCTION $CONTENT_TYPE [$JADPO_QUERY]\"; } >> got.txt\n\
        [ \"$JADPO_ATTEMPT\" = 2 ] || { echo 'not yet' >&2; exit 7; }\n";
    let path = dir.path().join("pay.sh");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::dev(dir.path(), &["--visibility-ms", "1000"]);
    let json = [("content-type", "application/json")];
    assert_eq!(request(&server.url, "POST", "/_queues/jobs?a=1", &json, b"{\"id\":1}").status, 202);
    let failed = server.logged("function.failed");
    assert_eq!((&failed["exit"], &failed["error"]), (&7.into(), &"ended with exit code 7: not yet".into()));
    let done = server.wait_until_empty("jobs");
    assert_eq!(done["dead_letters"]["messages"], 0);
    let got = fs::read_to_string(dir.path().join("got.txt")).unwrap();
    assert_eq!(
        got,
        "{\"id\":1} --once jobs 1 pay application/json [a=1]\n{\"id\":1} --once jobs 2 pay application/json [a=1]\n"
    );
}

#[test]
fn a_function_may_send_its_message_on_to_another_queue() {
    let function = Function::answering(200);
    let dir = folder(&format!(
        "app: \"shop\"\nconnections: {{\n    first: {{ driver: Driver.local_queue, queue: \"first\", functions: [on] }}\n\
             second: {{ driver: Driver.local_queue, queue: \"second\", functions: [pay] }}\n}}\n\
         functions: {{ on: {{ send: \"second\" }}, pay: {{ call: \"{}\" }} }}\n",
        function.url
    ));
    let server = Server::dev(dir.path(), &[]);
    let odd = [("x-tag", "kept"), ("content-type", "text/csv")];
    assert_eq!(request(&server.url, "POST", "/_queues/first", &odd, b"a;b").status, 202);
    let call = function.call();
    assert_eq!(
        (call.text().as_str(), call.header("x-tag"), call.header("content-type")),
        ("a;b", Some("kept"), Some("text/csv"))
    );
    assert_eq!(call.header("jadpo-queue"), Some("second"));
}

#[test]
fn a_local_queue_named_in_receiving_becomes_events_that_subscribers_get_once() {
    let function = Function::answering(204);
    let dir = folder(&format!(
        "app: \"shop\"\nconnections: {{ orders: {{ driver: Driver.local_queue, queue: \"orders\" }} }}\n\
         events: {{ OrderPlaced: {{ order: Int, note: Text? }} }}\n\
         receiving: {{ orders: {{ event: OrderPlaced, id: \"order\" }} }}\n\
         subscribers: {{ ledger: {{ on: OrderPlaced, call: \"{}\" }} }}\n",
        function.url
    ));
    let server = Server::dev(dir.path(), &[]);
    for body in ["{\"order\": 1}", "{\"order\": 1}", "{\"order\": \"one\"}", "{\"order\": 2, \"more\": [1]}"] {
        server.send("orders", body);
    }
    let mut got =
        [function.call(), function.call()].map(|call| (call.text(), call.header("jadpo-event").map(str::to_owned)));
    got.sort();
    let event = Some("OrderPlaced".to_owned());
    assert_eq!(
        got,
        [("{\"order\": 1}".to_owned(), event.clone()), ("{\"order\": 2, \"more\": [1]}".to_owned(), event)]
    );
    server.wait_until_empty("orders");
    assert!(function.call_within(Duration::from_millis(500)).is_none());
    let parked = jadpo(dir.path(), &["deliveries", "--json", "--store", ".jadpo/queues.db"]);
    let parked: serde_json::Value = serde_json::from_slice(&parked.stdout).unwrap();
    assert_eq!(parked["items"].as_array().unwrap().len(), 1, "{parked}");
    assert_eq!(parked["items"][0]["queue"], "orders");
}

#[test]
fn a_project_toml_and_the_dev_toml_beside_it_are_run_as_their_documentation_says() {
    let function = Function::with(|call| Answer::Status(if call.attempt() < 3 { 500 } else { 200 }));
    let dir = tempfile::tempdir().unwrap();
    let project = "[[queues]]\nname = \"jobs\"\nfunctions = [\"handle-payment\"]\nmax_receives = 3\n\n\
        [[webhooks]]\nname = \"stripe-events\"\nqueue = \"jobs\"\n";
    let dev = format!(
        "[dev]\nqueue_tick_ms = 100\nqueue_visibility_ms = 1000\n\n[functions]\nhandle-payment = \"{}\"\n",
        function.url
    );
    fs::write(dir.path().join("project.toml"), project).unwrap();
    fs::write(dir.path().join("dev.toml"), &dev).unwrap();
    let server = Server::plain(dir.path(), &[]);
    assert_eq!(server.post("/_webhooks/stripe-events", b"{\"kind\": \"resize\", \"id\": 42}").status, 202);
    let calls = [function.call(), function.call(), function.call()];
    assert_eq!(calls.each_ref().map(|call| call.attempt()), [1, 2, 3]);
    for pair in calls.windows(2) {
        assert!(pair[1].at - pair[0].at >= Duration::from_millis(700), "the window of dev.toml");
    }
    assert_eq!(calls[0].text(), "{\"kind\": \"resize\", \"id\": 42}");
    server.wait_until_empty("jobs");
    drop(server);
    fs::write(dir.path().join("dev.toml"), dev.replace("[dev]\n", "[dev]\nqueues = \"immediate\"\n")).unwrap();
    let server = Server::plain(dir.path(), &[]);
    let reply = server.post("/_queues/jobs", b"{}");
    assert_eq!((reply.status, &reply.json()["outcome"]), (200, &"done".into()));
    drop(server);
    let server = Server::plain(dir.path(), &["--queues=async"]);
    assert_eq!(server.post("/_queues/jobs", b"{}").status, 202, "the command line stands before the file");
}
