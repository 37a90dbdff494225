//! What a test itself does wrong is told, in words, and never passes for an app that is right.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use jadpo_host_test::{Reply, Request, StoreFault, Subscriber, TestApp, TestServer, json, text};

const CLINIC: &str = r#"
app: "clinic"
connections: {
    bookings: { driver: Driver.cloudflare_queues, queue: "clinic-bookings", dead_letter_queue: "clinic-dead" }
}
events: { Booked: { room: Text } }
receiving: { bookings: { event: Booked, id: "room" } }
subscribers: {
    calendar: { on: Booked, call: "https://calendar.example.com/", secret: env("CALENDAR_SECRET") }
    audit: { on: Booked, run: audit }
}
"#;

const PRINTS: &str = r#"
app: "prints"
connections: { jobs: { driver: Driver.local_queue, queue: "print-jobs", functions: [print], max_receives: 2 } }
functions: { print: { call: "https://print.example.com/" }, sweep: { run: sweep, schedule: "0 * * * *" } }
"#;

fn clinic() -> TestApp {
    let app = TestApp::of(CLINIC);
    app.host.set_env("CALENDAR_SECRET", "whsec_bm90LWEtcmVhbC1zZWNyZXQ=");
    app.host.link("audit", |_| Ok(()));
    app
}

/// What the test is told.
fn told<T>(test: impl FnOnce() -> T) -> String {
    match catch_unwind(AssertUnwindSafe(test)) {
        Ok(_) => "nothing".to_owned(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
        }
    }
}

/// What the test is told by an app that it does something with.
fn told_of(test: impl FnOnce(&TestApp)) -> String {
    told(|| test(&clinic()))
}

fn told_by_server(test: impl FnOnce(&TestServer)) -> String {
    told(|| test(&TestServer::of(PRINTS)))
}

#[test]
fn a_queue_that_the_app_does_not_receive_is_told_with_those_that_it_does() {
    let more = "TestServer has an app's local queues; send_unreceived sends to a queue that nobody receives";
    assert_eq!(
        told_of(|app| drop(app.send("clinic-booking", text("x")))),
        format!(
            "the app has no queue `clinic-booking`; did you mean `clinic-bookings`? It has clinic-bookings, clinic-dead. {more}"
        )
    );
    assert_eq!(
        told_of(|app| drop(app.send("bookings", text("x")))),
        format!("`bookings` is the connection's name; its queue is `clinic-bookings`. {more}")
    );
    let app = clinic();
    app.send_unreceived("surprise", text("x"));
    app.may_lose();
    app.run_until_idle();
    assert_eq!((app.lost().len(), app.events().len()), (1, 0), "a Worker that is made its consumer sends it back");
}

#[test]
fn a_callee_that_the_app_has_not_is_told_with_those_that_it_has() {
    let calender = "the app has no subscriber or function `calender`; did you mean `calendar`? It has audit, calendar";
    assert_eq!(told_of(|app| drop(app.host.subscriber("calender"))), calender);
    assert_eq!(told_of(|app| drop(app.host.calls_to("calender"))), calender);
    let audits = "the app has no `run:` with the name `audits`; did you mean `audit`? It has audit";
    assert_eq!(told_of(|app| app.host.link("audits", |_| Ok(()))), audits);
    let prnt = "the app has no subscriber or function `prnt`; did you mean `print`? It has print, sweep";
    assert_eq!(told_by_server(|server| drop(server.host.subscriber("prnt"))), prnt);
}

#[test]
fn what_a_later_build_calls_has_a_name_from_then_on() {
    let app = clinic();
    app.redeploy(&CLINIC.replace("audit: {", "ledger: {").replace("clinic-dead", "clinic-letters"));
    let _ = app.host.subscriber("ledger").answers([500]);
    app.send("clinic-letters", text("x"));
    app.run_until_idle();
    assert_eq!(app.parked().len(), 1);
    assert!(app.host.calls_to("audit").is_empty(), "the build before had it");
}

#[test]
fn an_app_of_local_queues_is_a_test_servers_and_one_of_cloudflares_a_test_apps() {
    let why = told(|| TestApp::of(PRINTS));
    assert!(why.ends_with("a Worker runs neither those nor schedules: use TestServer"), "{why}");
    let why = told(|| TestServer::of(CLINIC).send("clinic-bookings", text("x")));
    assert_eq!(why, "`clinic-bookings` is a queue at Cloudflare, which TestApp has in front of the app");
}

#[test]
fn a_queue_that_the_server_has_not_is_told_by_whatever_asks_for_it() {
    let why = "the app has no queue `print-job`; did you mean `print-jobs`? It has print-jobs, print-jobs-dead, \
        schedule-sweep, schedule-sweep-dead";
    assert_eq!(told_by_server(|server| drop(server.send("print-job", text("x")))), why);
    assert_eq!(told_by_server(|server| drop(server.messages("print-job"))), why);
    assert_eq!(told_by_server(|server| drop(server.dead_letters("print-job"))), why);
    assert_eq!(told_by_server(|server| assert_eq!(server.redrive("print-job"), 0)), why);
    let why = "`jobs` is the connection's name; its queue is `print-jobs`";
    assert_eq!(told_by_server(|server| drop(server.send("jobs", text("x")))), why);
    let server = TestServer::of(PRINTS);
    assert_eq!((server.post("print-job", Request::of(text("x"))).status, server.redrive("print-jobs")), (404, 0));
}

#[test]
fn a_fault_that_nobody_lifts_is_told_at_once_and_so_is_a_message_that_is_lost() {
    let why = told_of(|app| {
        app.host.store_fails_until_lifted(StoreFault::Down);
        app.send("clinic-bookings", json(r#"{"room":"a"}"#));
        app.run_until_idle();
    });
    assert_eq!(
        why,
        "the store fault `Down` is still in force, and nothing settles until lift_faults(); 1 message waiting, the \
         first in `clinic-bookings`: run_for_ms() runs meanwhile"
    );
    let why = told_by_server(|server| {
        server.send("print-jobs", text("x"));
        server.host.store_fails_until_lifted(StoreFault::Down);
        server.run_until_idle();
    });
    assert!(why.contains("`Down` is still in force") && why.contains("1 message waiting in `print-jobs`"), "{why}");
    let why = told_of(|app| {
        app.host.store_refuses("room");
        app.send("clinic-bookings", json(r#"{"room":"a"}"#));
        app.run_until_idle();
    });
    assert!(why.starts_with("Cloudflare deleted 1 message whose retries were spent, the first "), "{why}");
    assert!(why.contains("the store still refuses \"room\"") && why.ends_with("app.may_lose()"), "{why}");
    let why = told_of(|app| {
        app.host.store_is_behind();
        app.send("clinic-bookings", json(r#"{"room":"a"}"#));
        app.run_until_idle();
    });
    assert!(why.contains("the store is at version") && why.contains("and the build needs"), "{why}");
}

#[test]
fn a_store_that_fails_again_and_again_is_told_with_what_waits() {
    let why = told_by_server(|server| {
        server.send("print-jobs", text("x"));
        server.host.store_fails_by(|_| Some(StoreFault::BeforeCommit));
        server.run_until_idle();
    });
    assert_eq!(
        why,
        "the server does not settle; 1 message waiting in `print-jobs`; the store fails as the test \
         planned it"
    );
}

#[test]
fn a_crash_or_a_failure_of_the_store_that_is_never_met_fails_the_test() {
    let line = line!() + 1;
    let why = told_of(|app| app.host.crash_at_step(9_999));
    assert!(why.starts_with(&format!("the crash at step 9999 (host-test/tests/mistakes.rs:{line}:")), "{why}");
    assert!(why.ends_with("was never met: there were 0 steps since, from 0 on"), "{why}");
    let why = told_of(|app| app.host.store_fails(StoreFault::Down, 3));
    assert!(why.ends_with("was to be met 3 times more, and the test has ended"), "{why}");
    let app = clinic();
    app.host.crash_at_step(9_999);
    app.host.store_fails(StoreFault::Down, 3);
    app.host.lift_faults();
    assert!(app.host.lift_crash() && !app.host.lift_crash(), "it was planned, and is no more");
}

#[test]
fn what_no_subscriber_and_no_queue_does_is_refused() {
    assert_eq!(told_of(|app| app.cut_batches_at(0)), "a batch holds 1 to 100 messages, not 0");
    assert_eq!(told_of(|app| app.cut_batches_at(101)), "a batch holds 1 to 100 messages, not 101");
    let send = |app: &TestApp, attempt| drop(app.send_at_attempt("clinic-bookings", text("x"), attempt));
    assert_eq!(told_of(|app| send(app, 0)), "attempts begin at 1: that is the first delivery");
    let answers = |subscriber: &Subscriber<'_>, status| _ = subscriber.answers([500, status]);
    let always = |subscriber: &Subscriber<'_>, status| _ = subscriber.always(Reply::Status(status));
    for status in [0, 99, 100, 600, 1_000] {
        let why = format!("{status} is no status of an answer: those are 200 to 599");
        assert_eq!(told_of(|app| answers(&app.host.subscriber("calendar"), status)), why);
        assert_eq!(told_of(|app| always(&app.host.subscriber("calendar"), status)), why);
    }
    let why = told_of(|app| {
        app.host.subscriber("calendar").answers_429("soon-ish");
    });
    assert!(why.starts_with("\"soon-ish\" is no Retry-After"), "{why}");
    clinic().host.subscriber("calendar").answers_429("90").answers_429("Wed, 21 Oct 2026 07:28:00 GMT");
    let why = told_of(|app| drop(app.send("clinic-bookings", text(&"x".repeat(3_000_000)))));
    assert_eq!(why, "the body has 3000000 bytes, and Cloudflare takes 128000");
}

#[test]
fn a_function_that_is_not_linked_and_a_secret_that_is_not_set_are_told_when_they_are_needed() {
    let booked = || json(r#"{"room":"a"}"#);
    let why = told(|| {
        let app = TestApp::of(CLINIC);
        app.host.link("audit", |_| Ok(()));
        app.send("clinic-bookings", booked());
        app.run_until_idle();
    });
    assert!(why.starts_with("the app needs CALENDAR_SECRET, and the test has not set it"), "{why}");
    let why = told(|| {
        let app = TestApp::of(CLINIC);
        app.host.unset_env("CALENDAR_SECRET");
        app.send("clinic-bookings", booked());
        app.run_until_idle();
    });
    let not_linked = "audit is called, and nothing is linked under its name: host.link(\"audit\", |call| Ok(()))";
    assert_eq!(why, not_linked);
    let app = clinic();
    app.host.unset_env("CALENDAR_SECRET");
    app.send("clinic-bookings", booked());
    app.run_until_idle();
    assert_eq!(app.deliveries()[0].error.as_deref(), Some("the secret CALENDAR_SECRET is not set"));
}

#[test]
fn a_mistake_is_told_where_the_test_made_it() {
    let at = Arc::new(Mutex::new(Vec::new()));
    let seen = at.clone();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().unwrap();
        seen.lock().unwrap().push((place.file().to_owned(), place.line()));
    }));
    let app = clinic();
    let server = TestServer::of(PRINTS);
    let first = line!() + 1;
    told(|| app.send("nope", text("x")));
    told(|| drop(app.host.subscriber("nope")));
    told(|| drop(app.host.calls_to("nope")));
    told(|| server.send("nope", text("x")));
    told(|| server.dead_letters("nope"));
    told(|| TestApp::load("nope"));
    told(|| TestServer::load("nope"));
    told(|| TestApp::of("app: 1"));
    let last = line!() - 1;
    std::panic::set_hook(before);
    let here = at.lock().unwrap().clone();
    let here: Vec<u32> =
        here.into_iter().filter(|(file, _)| file.ends_with("mistakes.rs")).map(|(_, line)| line).collect();
    for line in first..=last {
        assert!(here.contains(&line), "line {line} is not told among {here:?}");
    }
}

#[test]
fn an_app_is_loaded_from_its_file_or_its_folder_and_its_problems_come_with_the_files_name() {
    assert!(TestApp::load("apps/warehouse").events().is_empty());
    assert_eq!(TestServer::load("apps/jobs/project.toml").queues(), TestServer::load("apps/jobs").queues());
    let why = told(|| TestServer::load("nope"));
    assert!(why.starts_with("nope: there is no such file or folder in /"), "{why}");
    assert_eq!(told(|| TestApp::load("src")), "src: there is no app.jadpo and no project.toml in this folder");
    let file = std::env::temp_dir().join(format!("jadpo-mistakes-{}.jadpo", std::process::id()));
    std::fs::write(&file, "app: \"a\"\nconnections: { q: { driver: Driver.cloudflare_queues } }\n").unwrap();
    let why = told(|| TestApp::load(&file));
    std::fs::remove_file(&file).unwrap();
    assert!(why.contains(&format!("\n  {}:2:", file.display())), "{why}");
}

#[test]
fn what_is_looked_at_prints_its_body_as_text() {
    let app = clinic();
    app.send("clinic-bookings", json(r#"{"room":"a"}"#));
    app.send("clinic-bookings", text("garbage"));
    app.run_until_idle();
    let printed = format!("{:?} {:?} {:?}", app.events(), app.parked(), app.host.calls_to("audit"));
    for body in [r#"body: "{\"room\":\"a\"}""#, r#"body: "garbage""#] {
        assert!(printed.contains(body), "{printed}");
    }
    assert!(!printed.contains("[123, 34"), "{printed}");
}
