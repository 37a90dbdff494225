//! Deliveries: claimed, called, settled, and never lost in between.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod shop;

use jadpo_core::deliver::{CALL_TIMEOUT_MS, CALLS_MAX, CLAIM_MS, Delivered, deliver};
use jadpo_core::host::Level;
use jadpo_host_test::{Reply, StoreFault, TestHost, run, run_until_crash};
use shop::*;

#[test]
fn a_delivery_that_is_answered_2xx_is_gone_from_the_store() {
    for status in [200, 204, 299] {
        let host = TestHost::migrated();
        let app = app(&["ledger"]);
        host.subscriber("ledger").always(Reply::Status(status));
        let claimed = receive_good(&host, &app, 3);
        let delivered = deliver_in(&host, &app, claimed, 30_000);
        assert_eq!(delivered, Delivered { done: 3, ..Delivered::default() });
        assert_eq!(rows(&host, "jadpo_deliveries"), 0);
        assert_eq!(rows(&host, "jadpo_events"), 3);
    }
}

#[test]
fn every_other_answer_waits_by_the_schedule() {
    for status in [101, 300, 302, 404, 410, 429, 500, 503] {
        let host = TestHost::migrated();
        let app = app(&["ledger"]);
        host.subscriber("ledger").answers([status]);
        let claimed = receive_good(&host, &app, 1);
        let delivered = deliver_in(&host, &app, claimed, 30_000);
        assert_eq!(delivered, Delivered { waiting: 1, ..Delivered::default() }, "{status}");
        assert_eq!(host.count("SELECT due_at FROM jadpo_deliveries"), host.time_ms() + 10_000, "{status}");
        assert!(text_of(&host, "SELECT error FROM jadpo_deliveries").contains(&status.to_string()));
        assert_eq!(rows(&host, "jadpo_deliveries WHERE claim IS NOT NULL"), 0);
        assert_eq!(host.logged("delivery.waiting").len(), 1);
    }
}

#[test]
fn deliveries_that_end_together_are_written_in_one_round_trip() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    let claimed = receive_good(&host, &app, 10);
    assert_eq!(host.batches(), 1);
    deliver_in(&host, &app, claimed, 30_000);
    assert_eq!(host.batches(), 2);
}

#[test]
fn a_kept_message_with_one_subscriber_costs_four_rows() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    let claimed = receive_good(&host, &app, 10);
    deliver_in(&host, &app, claimed, 30_000);
    // One more row a batch: the number of the next event.
    assert_eq!(host.rows_written(), 41);
}

#[test]
fn a_subscriber_that_hangs_does_not_hold_back_another_s_results() {
    let host = TestHost::migrated();
    let app = app(&["hangs", "ledger"]);
    host.subscriber("hangs").always(Reply::Hangs);
    host.subscriber("ledger").takes_ms(20);
    let claimed = receive_good(&host, &app, 10);
    let seen = std::sync::Arc::new(std::sync::Mutex::new(None));
    let (side, start_ms) = (host.clone(), host.time_ms());
    let watch = async {
        side.sleep_ms(1_000).await;
        let left = rows(&side, "jadpo_deliveries WHERE subscriber = 'ledger'");
        *seen.lock().unwrap() = Some(left);
    };
    let stop_at_ms = start_ms + 600_000;
    run(&host, async { futures_util::join!(watch, deliver(&host, &app, claimed, stop_at_ms)).1 });
    assert_eq!(*seen.lock().unwrap(), Some(0), "all ten of ledger are written within a second");
}

#[test]
fn no_more_calls_run_at_once_than_a_worker_has_connections() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    host.subscriber("ledger").takes_ms(50);
    let claimed = receive_good(&host, &app, 40);
    let delivered = deliver_in(&host, &app, claimed, 30_000);
    assert_eq!((delivered.done, host.calls_at_once()), (40, CALLS_MAX));
}

#[test]
fn a_retry_after_longer_than_the_schedule_is_honoured() {
    for (header, wait_ms) in [
        ("120", 120_000),
        ("5", 10_000),
        ("0", 10_000),
        ("-7", 10_000),
        ("soon", 10_000),
        ("99999999999999999999999", 86_400_000),
        ("Mon, 30 Nov 2026 12:05:00 GMT", 300_000),
        ("Mon, 30 Nov 2025 12:05:00 GMT", 10_000),
        ("Mon, 30 Nov 2099 12:05:00 GMT", 86_400_000),
    ] {
        let host = TestHost::migrated();
        let app = app(&["ledger"]);
        host.subscriber("ledger").then(Reply::RetryAfter(429, header.to_owned()));
        let claimed = receive_good(&host, &app, 1);
        deliver_in(&host, &app, claimed, 30_000);
        assert_eq!(host.count("SELECT due_at FROM jadpo_deliveries") - host.time_ms(), wait_ms, "{header}");
    }
}

#[test]
fn after_thirty_attempts_it_has_failed_and_is_not_called_again() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    host.subscriber("ledger").always(Reply::Status(500));
    let start_ms = host.time_ms();
    let claimed = receive_good(&host, &app, 1);
    deliver_in(&host, &app, claimed, 30_000);
    let mut last = Delivered::default();
    for _ in 0..29 {
        host.set_ms(host.count("SELECT due_at FROM jadpo_deliveries"));
        last = deliver_what_is_due(&host, &app);
    }
    assert_eq!(last, Delivered { failed: 1, ..Delivered::default() });
    let calls = host.calls();
    assert_eq!(calls.len(), 30);
    assert_eq!(calls[29].header("jadpo-attempt"), Some("30"));
    let hours = (calls[29].at_ms - start_ms) / 3_600_000;
    assert!((20..24).contains(&hours), "{hours} h");
    assert_eq!(host.count("SELECT due_at FROM jadpo_deliveries"), NEVER_MS);
    assert_eq!(text_of(&host, "SELECT error FROM jadpo_deliveries"), "answered 500");
    assert_eq!(host.logged("delivery.failed")[0].level, Level::Error);
    host.advance_ms(1_000_000_000);
    assert_eq!(deliver_what_is_due(&host, &app), Delivered::default());
    assert_eq!(host.calls().len(), 30);
}

#[test]
fn a_subscriber_that_is_done_is_never_called_again_because_another_failed() {
    let host = TestHost::migrated();
    let app = app(&["audit", "ledger"]);
    host.subscriber("ledger").answers([500, 500, 200]);
    let claimed = receive_good(&host, &app, 1);
    deliver_in(&host, &app, claimed, 30_000);
    for _ in 0..2 {
        host.advance_ms(60_000);
        deliver_what_is_due(&host, &app);
    }
    assert_eq!((host.calls_to("audit").len(), host.calls_to("ledger").len()), (1, 3));
    assert_eq!(rows(&host, "jadpo_deliveries"), 0);
}

#[test]
fn a_host_that_dies_anywhere_loses_nothing_and_repeats_under_the_same_keys() {
    let mut step = 0;
    loop {
        let host = TestHost::migrated();
        let app = app(&["audit", "ledger"]);
        let claimed = receive_good(&host, &app, 3);
        let end = run_until_crash(&host, step, deliver(&host, &app, claimed, host.time_ms() + 30_000));
        host.advance_ms(CLAIM_MS);
        deliver_what_is_due(&host, &app);
        assert_eq!(rows(&host, "jadpo_deliveries"), 0, "died at step {step}");
        let mut keys: Vec<String> =
            host.calls().iter().map(|call| call.header("idempotency-key").unwrap().to_owned()).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 6, "died at step {step}: each delivery called, under its own key");
        if end.is_some() {
            break;
        }
        step += 1;
    }
    assert!(step >= 14, "six calls and one write have two crash points each, and there were {step}");
}

#[test]
fn a_claim_holds_until_it_ends_and_then_another_host_takes_over() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    receive_good(&host, &app, 1);
    host.advance_ms(CLAIM_MS - 1);
    assert_eq!(deliver_what_is_due(&host, &app), Delivered::default());
    host.advance_ms(1);
    assert_eq!(deliver_what_is_due(&host, &app).done, 1);
    assert_eq!(host.calls()[0].header("jadpo-attempt"), Some("2"));
}

#[test]
fn two_hosts_that_claim_at_once_never_hold_the_same_delivery() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    receive_good(&host, &app, 90);
    host.subscriber("ledger").takes_ms(700);
    host.store_fails_until_lifted(StoreFault::Slow(30));
    host.advance_ms(CLAIM_MS);
    let stop_at_ms = host.time_ms() + 600_000;
    let both = async {
        use jadpo_core::deliver::deliver_due;
        futures_util::join!(deliver_due(&host, &app, stop_at_ms), deliver_due(&host, &app, stop_at_ms))
    };
    let (one, other) = run(&host, both);
    assert_eq!(one.done + other.done, 90);
    assert!(one.done > 0 && other.done > 0);
    assert_eq!(host.calls().len(), 90);
}

#[test]
fn a_late_result_does_not_touch_what_another_host_has_claimed() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    let first = receive_good(&host, &app, 1);
    host.advance_ms(CLAIM_MS);
    host.subscriber("ledger").answers([500]);
    deliver_what_is_due(&host, &app);
    let due_at_ms = host.count("SELECT due_at FROM jadpo_deliveries");
    // The first host wakes up with a clock that stood still.
    host.advance_ms(-CLAIM_MS);
    deliver_in(&host, &app, first, 30_000);
    assert_eq!(host.calls().len(), 2);
    assert_eq!(host.count("SELECT due_at FROM jadpo_deliveries"), due_at_ms);
}

#[test]
fn a_result_is_written_only_under_the_claim_it_was_got_under() {
    for status in [200, 500] {
        let host = TestHost::migrated();
        let app = app(&["ledger"]);
        host.subscriber("ledger").answers([status]);
        let claimed = receive_good(&host, &app, 1);
        // Another host's claim that ends in the same millisecond.
        host.meddle("UPDATE jadpo_deliveries SET claim = 'another'");
        deliver_in(&host, &app, claimed, 30_000);
        assert_eq!(rows(&host, "jadpo_deliveries WHERE claim = 'another' AND error IS NULL"), 1, "{status}");
    }
}

#[test]
fn no_call_starts_that_could_outlast_its_claim() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    host.subscriber("ledger").takes_ms(10_000);
    let start_ms = host.time_ms();
    let claimed = receive_good(&host, &app, 40);
    let delivered = deliver_in(&host, &app, claimed, 3_600_000);
    // Calls start at 0, 10, 20, 30 and 40 s; at 50 s the claims have ten seconds left.
    assert_eq!((delivered.done, delivered.released), (25, 15));
    let last_start_ms = host.calls().iter().map(|call| call.at_ms).max().unwrap();
    assert!(last_start_ms + i64::from(CALL_TIMEOUT_MS) <= start_ms + CLAIM_MS);
    assert_eq!(deliver_what_is_due(&host, &app).done, 15);
    assert_eq!(host.calls().len(), 40);
}

#[test]
fn what_cannot_end_in_time_is_released_with_its_attempt() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    host.subscriber("ledger").takes_ms(4_000);
    let claimed = receive_good(&host, &app, 20);
    let batches = host.batches();
    let delivered = deliver_in(&host, &app, claimed, 30_000);
    // Calls begin at 0, 4, 8 and 12 s; one that began at 16 s could last past the end.
    assert_eq!((delivered.done, delivered.released, delivered.more_due), (20, 0, false));
    let claimed = receive_from(&host, &app, "moves-q", (100..150).map(|n| message(&host, n)).collect());
    let delivered = deliver_in(&host, &app, claimed, 30_000);
    assert_eq!((delivered.done, delivered.released, delivered.more_due), (20, 30, true));
    assert!(host.batches() - batches <= 12);
    assert_eq!(rows(&host, "jadpo_deliveries WHERE claim IS NULL AND attempt = 0"), 30);
    let last_start_ms = host.calls().iter().map(|call| call.at_ms).max().unwrap();
    assert!(last_start_ms + i64::from(CALL_TIMEOUT_MS) <= host.time_ms() + 30_000);
    let rest = deliver_what_is_due(&host, &app);
    assert_eq!((rest.done, rest.more_due), (30, false));
    assert!(host.calls().iter().all(|call| call.header("jadpo-attempt") == Some("1")));
}

#[test]
fn a_host_that_may_make_no_more_calls_gives_the_rest_back_without_using_an_attempt() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    let mut calls_left = 12;
    host.subscriber("ledger").takes_ms(100).answers_by(move |_| {
        calls_left -= 1;
        if calls_left < 0 { Reply::NotSent } else { Reply::Status(200) }
    });
    receive_good(&host, &app, 60);
    host.advance_ms(CLAIM_MS);
    let delivered = deliver_what_is_due(&host, &app);
    assert_eq!((delivered.done, delivered.waiting, delivered.more_due), (12, 0, true));
    assert_eq!(rows(&host, "jadpo_deliveries WHERE claim IS NULL"), i64::from(delivered.released));
    assert_eq!(rows(&host, "jadpo_deliveries WHERE attempt > 1"), 0, "as before the claim");
    host.subscriber("ledger").recovers();
    host.advance_ms(CLAIM_MS);
    assert_eq!(deliver_what_is_due(&host, &app).done, 48);
}

#[test]
fn a_store_that_fails_once_is_asked_again() {
    for fault in [StoreFault::Down, StoreFault::BeforeCommit, StoreFault::AfterCommit] {
        let host = TestHost::migrated();
        let app = app(&["ledger"]);
        let claimed = receive_good(&host, &app, 4);
        host.store_fails(fault, 1);
        let delivered = deliver_in(&host, &app, claimed, 30_000);
        assert_eq!(delivered, Delivered { done: 4, ..Delivered::default() });
        assert_eq!(rows(&host, "jadpo_deliveries"), 0);
    }
}

#[test]
fn results_the_store_does_not_take_are_logged_and_delivered_again() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    let claimed = receive_good(&host, &app, 4);
    host.store_fails_until_lifted(StoreFault::Down);
    let delivered = deliver_in(&host, &app, claimed, 30_000);
    assert_eq!(delivered, Delivered { unsettled: 4, ..Delivered::default() });
    assert_eq!(host.logged("delivery.unsettled")[0].fields[0].1, 4);
    host.lift_faults();
    host.advance_ms(CLAIM_MS);
    assert_eq!(deliver_what_is_due(&host, &app).done, 4);
    let keys: Vec<_> = host.calls().iter().map(|call| call.header("idempotency-key").map(str::to_owned)).collect();
    assert_eq!((keys.len(), &keys[..4]), (8, &keys[4..]));
}

#[test]
fn a_store_that_is_down_or_behind_gives_nothing_and_is_not_asked_for_ever() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    receive_good(&host, &app, 1);
    host.advance_ms(CLAIM_MS);
    host.store_fails_until_lifted(StoreFault::Down);
    assert_eq!(deliver_what_is_due(&host, &app), Delivered::default());
    assert_eq!(host.logged("delivery.not_claimed").len(), 1);
    host.lift_faults();
    host.meddle("UPDATE jadpo_schema SET version = 0");
    assert_eq!(deliver_what_is_due(&host, &app), Delivered::default());
    assert_eq!(deliver_what_is_due(&TestHost::unmigrated(), &app), Delivered::default());
    host.meddle("UPDATE jadpo_schema SET version = 1");
    assert_eq!(deliver_what_is_due(&host, &app).done, 1);
}

#[test]
fn a_delivery_that_kills_its_host_each_time_fails_in_the_end() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    receive_good(&host, &app, 1);
    for attempt in 2..=30 {
        host.advance_ms(CLAIM_MS);
        // The second crash point after the claim's two: the call has been made, its answer never arrives.
        let stop_at_ms = host.time_ms() + 30_000;
        let end = run_until_crash(&host, 3, jadpo_core::deliver::deliver_due(&host, &app, stop_at_ms));
        assert!(end.is_none(), "attempt {attempt}");
    }
    assert_eq!(host.calls().len(), 29);
    host.advance_ms(CLAIM_MS);
    assert_eq!(deliver_what_is_due(&host, &app), Delivered { failed: 1, ..Delivered::default() });
    assert_eq!(host.calls().len(), 29);
    assert_eq!(host.count("SELECT due_at FROM jadpo_deliveries"), NEVER_MS);
    assert_eq!(host.count("SELECT attempt FROM jadpo_deliveries"), 30);
    assert_eq!(host.logged("delivery.failed").len(), 1);
}

#[test]
fn a_subscriber_that_the_build_does_not_know_gets_a_deploy_s_time_and_then_fails() {
    let host = TestHost::migrated();
    let claimed = receive_good(&host, &app(&["ledger"]), 1);
    let other = app(&["audit"]);
    deliver_in(&host, &other, claimed, 30_000);
    for _ in 0..3 {
        host.set_ms(host.count("SELECT due_at FROM jadpo_deliveries"));
        assert_eq!(deliver_what_is_due(&host, &other).waiting, 1);
    }
    host.set_ms(host.count("SELECT due_at FROM jadpo_deliveries"));
    assert_eq!(deliver_what_is_due(&host, &other).failed, 1);
    assert_eq!(text_of(&host, "SELECT error FROM jadpo_deliveries"), "the app has no subscriber ledger any more");
    assert!(host.calls().is_empty());
}

#[test]
fn what_does_not_fit_in_one_claim_is_delivered_in_several() {
    let host = TestHost::migrated();
    let app = app(&["audit", "ledger"]);
    receive_good(&host, &app, 60);
    host.advance_ms(CLAIM_MS);
    assert_eq!(deliver_what_is_due(&host, &app), Delivered { done: 120, ..Delivered::default() });
    assert_eq!(host.calls().len(), 120);
}

#[test]
fn an_error_text_is_cut_between_characters_and_kept_on_one_line() {
    let host = TestHost::migrated();
    let app = app_with(r#""json""#, r#""audit":{"on":"Moved","target":{"run":"audit"}}"#);
    host.link("audit", |_| Err(format!("one\ntwo\0{}", "\u{1f4e6}".repeat(1000))));
    let claimed = receive_good(&host, &app, 1);
    deliver_in(&host, &app, claimed, 30_000);
    let error = text_of(&host, "SELECT error FROM jadpo_deliveries");
    assert!(error.starts_with("one two \u{1f4e6}") && error.chars().count() == 500, "{error}");
}
