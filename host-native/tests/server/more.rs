//! Schedules, programs, and a local queue whose messages become events.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use jadpo::store::OpenStore;

use crate::support::{Function, Server, folder, on_store};

#[test]
fn an_occurrence_happens_once_however_often_the_server_starts_and_those_before_it_are_counted() {
    let function = Function::answering(200);
    let dir = folder(&format!(
        "app: \"shop\"\nfunctions: {{ sweep: {{ call: \"{}\", schedule: \"* * * * *\" }} }}\n",
        function.url
    ));
    // As if the last one had been at the beginning of the minute ten minutes ago.
    let path = dir.path().join(".jadpo/queues.db");
    OpenStore::create(&path).unwrap().close();
    let minute = 60_000;
    let last_ms = jadpo::host::now_ms() / minute * minute - 10 * minute;
    on_store(&path, async |broker| broker.pass("sweep", last_ms).await).unwrap();
    let server = Server::dev(dir.path(), &[]);
    let missed = server.logged("schedule.missed");
    assert!((9..=10).contains(&missed["count"].as_u64().unwrap()), "{missed}");
    let call = function.call();
    let body: serde_json::Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!((&body["schedule"], call.header("jadpo-queue")), (&"sweep".into(), Some("schedule-sweep")));
    assert_eq!(call.header("content-type"), Some("application/json"));
    let first = body["scheduled_at"].as_str().unwrap().to_owned();
    server.wait_until_empty("schedule-sweep");
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
    assert_eq!(crate::support::request(&server.url, "POST", "/_queues/jobs?a=1", &json, b"{\"id\":1}").status, 202);
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
    assert_eq!(crate::support::request(&server.url, "POST", "/_queues/first", &odd, b"a;b").status, 202);
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
    let parked = crate::support::jadpo(dir.path(), &["deliveries", "--json", "--store", ".jadpo/queues.db"]);
    let parked: serde_json::Value = serde_json::from_slice(&parked.stdout).unwrap();
    assert_eq!(parked["items"].as_array().unwrap().len(), 1, "{parked}");
    assert_eq!(parked["items"][0]["queue"], "orders");
}
