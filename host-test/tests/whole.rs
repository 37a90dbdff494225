//! An app from end to end: sent, kept, delivered, parked, retried by an operator.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{NOTES, STOCK, app, movement};
use jadpo_host_test::{DeliveryState, Reply, StoreFault, TestApp, TestHost, bytes, json, text};

#[test]
fn a_good_batch_of_ten_takes_one_round_trip_to_be_kept_and_four_rows_a_message_in_all() {
    let app = app();
    for place in 0..10 {
        app.send(STOCK, movement(&format!("m{place}")));
    }
    app.run_until_idle();
    assert_eq!(app.host.calls().len(), 10);
    let rows = app.host.rows_written();
    println!("10 kept, one subscriber: {rows} rows written in {} round trips", app.host.batches());
    assert_eq!(app.host.batches(), 2, "one to keep them, one to write that they were delivered");
    assert_eq!(rows, 4 * 10 + 1, "the one is the row that hands out numbers");
}

#[test]
fn a_message_alone_with_one_subscriber_costs_five_rows() {
    let app = app();
    app.send(STOCK, movement("m"));
    app.run_until_idle();
    assert_eq!((app.host.rows_written(), app.host.batches()), (5, 2));
}

#[test]
fn a_subscriber_that_fails_gets_the_same_event_again_under_the_same_key_until_it_takes_it() {
    let app = app();
    app.host.subscriber("ledger").answers([500]).hangs().closes().answers_429("90");
    app.send(STOCK, movement("m"));
    app.run_until_idle();
    let calls = app.host.calls_to("ledger");
    let attempts: Vec<_> = calls.iter().map(|call| call.header("jadpo-attempt").unwrap()).collect();
    assert_eq!(attempts, ["1", "2", "3", "4", "5"]);
    for name in ["idempotency-key", "jadpo-event-id", "jadpo-event"] {
        assert!(calls.iter().all(|call| call.header(name) == calls[0].header(name) && call.header(name).is_some()));
    }
    assert!(calls.iter().all(|call| call.call.body == calls[0].call.body));
    assert!(calls[4].at_ms - calls[3].at_ms >= 90_000, "Retry-After is honoured");
    assert!(app.deliveries().is_empty());
    assert_eq!(app.events().len(), 1);
}

#[test]
fn a_subscriber_that_never_answers_leaves_a_failed_delivery_that_an_operator_can_retry() {
    let app = app();
    app.host.subscriber("ledger").always(Reply::Status(500));
    app.send(STOCK, movement("m"));
    app.run_until_idle();
    let deliveries = app.deliveries();
    assert_eq!((deliveries[0].attempt, deliveries[0].state), (30, DeliveryState::Failed));
    assert_eq!(app.host.calls().len(), 30);
    app.host.subscriber("ledger").recovers();
    assert_eq!(app.retry_all(), Some(1));
    app.run_until_idle();
    assert!(app.deliveries().is_empty());
    assert_eq!(app.host.calls().len(), 31);
}

#[test]
fn a_message_parked_by_one_build_becomes_an_event_with_the_next_once_an_operator_retries_it() {
    let app = app();
    let id = app.send(STOCK, text(r#"{"movement_id":"m","sku":7,"quantity":1}"#));
    app.run_until_idle();
    assert_eq!(app.parked()[0].detail, "sku: expected Text, found a number");
    assert_eq!(app.retry_all(), Some(1));
    app.run_until_idle();
    assert_eq!((app.events().len(), app.parked().len()), (0, 1), "the same build cannot read it either");
    assert!(!app.parked()[0].marked, "and it waits for an operator again");
    app.redeploy(&common::PROGRAM.replace(r#""name": "sku", "type": "text""#, r#""name": "sku", "type": "int""#));
    app.run_for_ms(3_600_000);
    assert_eq!(app.events().len(), 0, "nothing happens unasked");
    assert_eq!(app.retry_all(), Some(1));
    app.run_until_idle();
    assert_eq!((app.events()[0].message_id.as_str(), app.events()[0].key.as_str()), (id.as_str(), "m"));
    assert!(app.parked().is_empty());
    assert_eq!(app.host.calls_to("ledger").len(), 1, "and it is delivered");
}

#[test]
fn a_retry_that_is_taken_up_while_isolates_die_gives_the_event_once() {
    for step in 0.. {
        let app = app();
        app.send(STOCK, text(r#"{"movement_id":"m","sku":7,"quantity":1}"#));
        app.run_until_idle();
        app.redeploy(&common::PROGRAM.replace(r#""name": "sku", "type": "text""#, r#""name": "sku", "type": "int""#));
        app.retry_all();
        app.host.crash_at_step(step);
        app.run_until_idle();
        if app.host.lift_crash() {
            assert!(step > 8, "there are {step} steps only");
            break;
        }
        assert_eq!((app.events().len(), app.parked().len(), app.deliveries().len()), (1, 0, 0), "died at step {step}");
        assert!(!app.host.calls_to("ledger").is_empty());
    }
}

#[test]
fn a_linked_function_is_called_and_its_error_is_a_reason_to_try_again() {
    let app = app();
    let mut failures = 2;
    app.host.link("audit", move |call| {
        assert_eq!(call.body, b"{\"n\":1}");
        failures -= 1;
        if failures >= 0 { Err("the disk is full".into()) } else { Ok(()) }
    });
    app.send(NOTES, json("{\"n\":1}"));
    app.run_until_idle();
    assert_eq!(app.host.calls_to("audit").len(), 3);
    assert!(app.deliveries().is_empty());
}

#[test]
fn the_store_may_fail_anywhere_between_keeping_and_delivering() {
    for fault in [StoreFault::Down, StoreFault::BeforeCommit, StoreFault::AfterCommit, StoreFault::Slow(20_000)] {
        for at in 1..8 {
            let app = app();
            app.host.subscriber("ledger").answers([500]);
            app.host.store_fails_by(move |batch| (batch == at).then_some(fault));
            for place in 0..3 {
                app.send(STOCK, movement(&format!("m{place}")));
            }
            app.run_until_idle();
            assert_eq!((app.events().len(), app.deliveries().len()), (3, 0), "{fault:?} at round trip {at}");
        }
    }
}

#[test]
fn more_than_an_invocation_has_time_for_is_handed_on_and_nothing_waits_for_the_tick() {
    let app = app();
    app.host.subscriber("ledger").takes_ms(10_000);
    let start_ms = app.host.time_ms();
    for place in 0..40 {
        app.send(STOCK, movement(&format!("m{place}")));
    }
    app.run_until_idle();
    assert!(app.deliveries().is_empty());
    assert_eq!(app.host.calls().len(), 40, "nobody was called twice");
    assert_eq!(app.host.calls_at_once(), 5);
    let took_ms = app.host.time_ms() - start_ms;
    assert!(took_ms <= 120_000, "40 calls of 10 s, five at once, took {took_ms} ms");
}

#[test]
fn the_example_app_of_this_crate_runs() {
    let app = TestApp::load("apps/warehouse/app.jadpo");
    app.host.set_env("LEDGER_SECRET", "whsec_bm90LWEtcmVhbC1zZWNyZXQ=");
    app.send(
        "warehouse-events",
        text(r#"{"movement_id":"m1","sku":"A-1","quantity":3,"moved_at":"2026-11-30T12:00:00Z"}"#),
    );
    app.run_until_idle();
    assert_eq!(app.events().len(), 1);
    assert_eq!((app.host.calls_to("ledger").len(), app.host.calls_to("reorder").len()), (1, 1));
    assert!(app.host.calls_to("ledger")[0].header("webhook-signature").is_some());
}

#[test]
#[should_panic(expected = "connection.key_missing")]
fn an_app_file_with_problems_stops_the_test_and_says_which() {
    let _ = TestApp::of("app: \"a\"\nconnections: { q: { driver: Driver.cloudflare_queues } }\n");
}

#[test]
fn an_app_runs_on_a_file_and_goes_on_from_it() {
    let path = std::env::temp_dir().join(format!("jadpo-host-test-{}.sqlite", std::process::id()));
    let _ = std::fs::remove_file(&path);
    for (round, events) in [(0, 1), (1, 2), (1, 2)] {
        let app = TestApp::on(TestHost::on_file(&path), common::PROGRAM);
        app.send(STOCK, movement(&format!("m{round}")));
        app.run_until_idle();
        assert_eq!(app.events().len(), events);
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_subscriber_gets_exactly_the_bytes_that_were_sent() {
    let source = common::PROGRAM
        .replace(r#"{"on": "Noted", "target": {"run": "audit"}}"#, r#"{"on": "Dropped", "target": {"run": "audit"}}"#);
    let sent: [&[u8]; 5] = [
        &[0x00, 0x80, 0xff],
        b"",
        b"\xef\xbb\xbf{}",
        "a\0\u{1f469}\u{200d}\u{1f680} e\u{301} \u{2028}".as_bytes(),
        &[0; 1_000],
    ];
    for (place, body) in sent.into_iter().enumerate() {
        let app = TestApp::of(&source);
        app.host.link("audit", |_| Ok(()));
        app.send("blobs", bytes(body));
        app.run_until_idle();
        let calls = app.host.calls_to("audit");
        assert_eq!((calls.len(), calls[0].call.body.as_slice()), (1, body), "body {place}");
    }
}

#[test]
fn a_text_reaches_the_subscriber_as_it_was_written() {
    let app = app();
    app.host.link("audit", |_| Ok(()));
    let body = "\u{feff} {\"\u{1f1e9}\u{1f1ea}\" : \"e\u{301}\u{e9}\u{2028}\u{fdd0}\\u2029\\/\",\r\n\"n\":1.10e+2, \"n\":12345678901234567890 }\t";
    app.send(NOTES, text(body));
    app.run_until_idle();
    assert_eq!(app.host.calls_to("audit")[0].body_text(), body);
}
