//! Receiving while the store, the queue or the isolate fails: nothing acknowledged without a row, no event twice.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::collections::BTreeSet;

use common::{LINES, NOTES, STOCK, answers, app, movement, retried, unmigrated};
use jadpo_core::queue::{Answer, Batch, Body, Message};
use jadpo_core::store::schema::SCHEMA_VERSION;
use jadpo_host_test::{StoreFault, TestApp, json, text};

/// Sends ten stock movements and lets them be received once.
fn ten(app: &TestApp) {
    for place in 0..10 {
        app.send(STOCK, movement(&format!("m{place}")));
    }
    let now_ms = app.host.time_ms();
    assert!(app.next(now_ms));
}

/// No key is an event twice, and every acknowledged message is in the store.
fn check(app: &TestApp) {
    let events = app.events();
    let keys: BTreeSet<_> = events.iter().map(|event| (&event.connection, &event.key)).collect();
    assert_eq!(keys.len(), events.len(), "an event twice");
    assert_eq!(app.host.count("SELECT count(*) FROM jadpo_received"), i64::try_from(events.len()).unwrap());
}

#[test]
fn a_store_that_is_down_keeps_nothing_and_everything_is_retried_on_the_schedule() {
    for fault in [StoreFault::Down, StoreFault::BeforeCommit] {
        let app = app();
        app.host.store_fails(fault, 1);
        ten(&app);
        assert_eq!(answers(&app), [Some(10); 10]);
        assert!(app.events().is_empty());
        assert_eq!(retried(&app), [("store_unavailable".to_owned(), 10)]);
        app.run_until_idle();
        assert_eq!(app.events().len(), 10);
        check(&app);
    }
}

#[test]
fn a_store_that_fails_after_it_committed_gives_each_event_once_and_its_deliveries_too() {
    let app = app();
    app.host.store_fails(StoreFault::AfterCommit, 1);
    ten(&app);
    assert_eq!(answers(&app), [Some(10); 10], "nobody knows that it committed");
    assert_eq!(app.events().len(), 10);
    app.run_until_idle();
    assert_eq!(answers(&app)[10..], [None; 10], "repeats");
    assert_eq!(app.events().len(), 10);
    check(&app);
}

#[test]
fn a_slow_store_only_takes_longer() {
    let app = app();
    app.host.store_fails(StoreFault::Slow(25_000), 1);
    ten(&app);
    assert_eq!(answers(&app), [None; 10]);
    check(&app);
}

#[test]
fn a_constraint_error_that_is_one_message_s_fault_retries_that_one_and_keeps_nine() {
    let app = app();
    app.host.store_refuses("m4");
    ten(&app);
    let mut expected = [None; 10];
    expected[4] = Some(10);
    assert_eq!(answers(&app), expected);
    assert_eq!(app.events().len(), 9);
    assert_eq!(retried(&app), [("store_unavailable".to_owned(), 1)]);
    app.host.lift_faults();
    app.run_until_idle();
    assert_eq!(app.events().len(), 10);
    check(&app);
}

#[test]
fn a_store_that_goes_down_amid_the_fallback_loses_nothing() {
    for at in 2..12 {
        let app = app();
        app.host.store_refuses("m4");
        app.host.store_fails_by(move |batch| (batch == at).then_some(StoreFault::Down));
        ten(&app);
        let acknowledged = answers(&app).iter().filter(|answer| answer.is_none()).count();
        assert_eq!(acknowledged, app.events().len());
        app.host.lift_faults();
        app.run_until_idle();
        assert_eq!(app.events().len(), 10);
        check(&app);
    }
}

#[test]
fn a_store_without_tables_takes_nothing_until_it_is_migrated() {
    let app = unmigrated();
    ten(&app);
    assert_eq!(answers(&app), [Some(10); 10]);
    assert_eq!(retried(&app), [("not_started".to_owned(), 10)]);
    app.host.migrate_to(SCHEMA_VERSION);
    app.run_until_idle();
    assert_eq!(app.events().len(), 10);
    check(&app);
}

#[test]
fn a_store_that_is_behind_by_a_migration_takes_nothing() {
    let app = app();
    app.host.meddle("UPDATE jadpo_schema SET version = version - 1");
    app.send(STOCK, text("poison is not parked either"));
    ten(&app);
    assert_eq!(answers(&app).len(), 10);
    assert!(answers(&app).iter().all(Option::is_some));
    assert!(app.events().is_empty() && app.parked().is_empty());
    assert_eq!(app.host.count("SELECT next_seq FROM jadpo_schema"), 1, "not even a number is taken");
    assert_eq!(retried(&app), [("not_started".to_owned(), 10)]);
    app.host.meddle("UPDATE jadpo_schema SET version = version + 1");
    app.run_until_idle();
    assert_eq!((app.events().len(), app.parked().len()), (10, 1));
}

#[test]
fn a_table_that_is_missing_means_retry_and_no_loss() {
    for table in ["jadpo_received", "jadpo_events", "jadpo_deliveries", "jadpo_schema"] {
        let app = app();
        app.host.meddle(&format!("ALTER TABLE {table} RENAME TO away"));
        ten(&app);
        assert_eq!(answers(&app), [Some(10); 10], "{table}");
        assert_eq!(retried(&app), [("not_started".to_owned(), 10)], "{table}");
        app.host.meddle(&format!("ALTER TABLE away RENAME TO {table}"));
        app.run_until_idle();
        assert_eq!(app.events().len(), 10, "{table}");
        check(&app);
    }
}

/// A message of every fate: kept, a repeat, rejected, unreadable, refused by the store.
fn mixed() -> Batch {
    let bodies = [
        movement("a"),
        movement("a"),
        movement("b"),
        text(r#"{"movement_id":"c","sku":1,"quantity":1}"#),
        text("not json"),
        movement("d"),
    ];
    let message = |(place, body): (usize, Body)| Message { id: format!("id{place}"), sent_at_ms: 0, attempts: 0, body };
    Batch { queue: STOCK.into(), messages: bodies.into_iter().enumerate().map(message).collect() }
}

#[test]
fn an_isolate_may_die_at_every_step_and_nothing_is_lost_and_nothing_doubled() {
    let mut deaths = 0;
    for refused in [None, Some("\"d\"")] {
        for step in 0..200 {
            let app = app();
            if let Some(text) = refused {
                app.host.store_refuses(text);
            }
            for message in mixed().messages {
                app.send_message(STOCK, message);
            }
            app.host.crash_at_step(step);
            let ready_ms = app.host.time_ms() + 5_000;
            assert!(app.next(ready_ms));
            assert_acknowledged_is_stored(&app);
            if app.host.lift_crash() {
                break;
            }
            deaths += 1;
            app.host.lift_faults();
            app.run_until_idle();
            assert_eq!((app.events().len(), app.parked().len()), (3, 2), "died at step {step}");
            assert!(app.waiting().is_empty());
            check(&app);
        }
    }
    assert!(deaths > 16, "the isolate died {deaths} times only");
}

/// Every acknowledged message is an event, a repeat of one, or parked.
fn assert_acknowledged_is_stored(app: &TestApp) {
    let keys: BTreeSet<String> = app.events().into_iter().map(|event| event.key).collect();
    let parked: BTreeSet<String> = app.parked().into_iter().map(|parked| parked.message_id).collect();
    for answered in app.answers().iter().filter(|answered| answered.answer == Answer::Ack) {
        let key = match answered.message_id.as_str() {
            "id0" | "id1" => "a",
            "id2" => "b",
            "id5" => "d",
            _ => "",
        };
        let kept = keys.contains(key) || parked.contains(&answered.message_id);
        assert!(kept, "{} was acknowledged and is not in the store", answered.message_id);
    }
}

#[test]
fn an_outage_of_ten_minutes_costs_a_few_attempts_and_no_message() {
    let app = app();
    app.host.store_fails_until_lifted(StoreFault::Down);
    let start_ms = app.host.time_ms();
    ten(&app);
    app.run_for_ms(600_000);
    app.host.lift_faults();
    app.run_until_idle();
    let first: Vec<_> =
        app.answers().into_iter().filter(|answered| answered.message_id == app.answers()[0].message_id).collect();
    let delays: Vec<Answer> = first.iter().map(|answered| answered.answer).collect();
    let retry = |delay_s| Answer::Retry { delay_s };
    assert_eq!(delays, [retry(10), retry(20), retry(40), retry(80), retry(160), retry(320), Answer::Ack]);
    assert!(first[6].at_ms - start_ms < 1_300_000);
    assert_eq!(app.events().len(), 10);
    assert!(app.waiting().is_empty());
}

#[test]
fn thirty_retries_take_about_22_hours_and_then_the_dead_letter_queue_has_the_message_parked() {
    let app = app();
    app.host.store_refuses("unwanted");
    app.send(STOCK, movement("unwanted"));
    let start_ms = app.host.time_ms();
    while app.parked().is_empty() {
        let end_ms = app.host.time_ms() + 7_200_000;
        assert!(app.next(end_ms));
        if app.answers().last().unwrap().queue == "stock-dead" {
            app.host.lift_faults();
        }
    }
    let hours = (app.host.time_ms() - start_ms) / 3_600_000;
    assert!((22..24).contains(&hours), "{hours} hours");
    let tries = app.answers().iter().filter(|answered| answered.queue == STOCK).count();
    assert_eq!(tries, 31);
    let parked = &app.parked()[0];
    assert_eq!((parked.reason.as_str(), parked.queue.as_str()), ("dead_lettered", "stock-dead"));
    assert_eq!((parked.event.as_deref(), parked.key.as_deref()), (Some("StockMoved"), Some("unwanted")));
    assert!(app.events().is_empty(), "a dead letter is no event");
    assert!(app.waiting().is_empty() && app.lost().is_empty());
}

#[test]
fn a_dead_letter_that_cannot_be_read_is_parked_whole_all_the_same() {
    let app = app();
    for body in ["not json", "", "{\"sku\":1}"] {
        app.send("stock-dead", text(body));
    }
    app.run_until_idle();
    let mut bodies: Vec<String> = app.parked().iter().map(|parked| parked.body_text()).collect();
    bodies.sort();
    assert_eq!(bodies, ["", "not json", "{\"sku\":1}"]);
    assert!(app.parked().iter().all(|parked| parked.reason == "dead_lettered" && parked.key.is_none()));
    assert_eq!(answers(&app), [None; 3]);
}

#[test]
fn a_dead_letter_that_was_kept_before_is_parked_and_never_a_second_event() {
    let app = app();
    app.send_as(NOTES, "one", json("1"));
    app.run_until_idle();
    app.send_as("notes-dead", "one", json("1"));
    app.run_until_idle();
    assert_eq!((app.events().len(), app.parked().len()), (1, 1));
}

#[test]
fn a_dead_letter_that_cannot_be_parked_is_retried_a_hundred_times_on_the_same_schedule() {
    let app = app();
    app.host.store_fails_until_lifted(StoreFault::Down);
    app.send("stock-dead", movement("m"));
    app.may_lose();
    app.run_until_idle();
    let delays: Vec<u32> = answers(&app).into_iter().flatten().collect();
    assert_eq!(delays.len(), 101);
    assert_eq!(delays[..10], [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600]);
    assert_eq!(app.lost().len(), 1, "what is spent there is gone");
}

#[test]
fn a_message_that_is_parked_twice_is_parked_once() {
    let app = app();
    app.lose_acks(3);
    app.send(STOCK, text("not json"));
    app.run_until_idle();
    assert_eq!(app.parked().len(), 1);
    assert_eq!(answers(&app), [None; 4]);
}

#[test]
fn attempts_past_any_bound_still_get_a_delay_of_at_most_an_hour() {
    let app = app();
    app.host.store_fails_until_lifted(StoreFault::Down);
    let message = |attempts: u32| Message { id: attempts.to_string(), sent_at_ms: i64::MAX, attempts, body: text("x") };
    app.hand_over(Batch {
        queue: LINES.into(),
        messages: vec![message(0), message(1), message(65_535), message(u32::MAX)],
    });
    assert_eq!(answers(&app), [Some(10), Some(10), Some(3_600), Some(3_600)]);
}

#[test]
fn times_that_no_clock_shows_do_not_break_a_batch() {
    let app = app();
    let message = |sent_at_ms: i64| Message { id: sent_at_ms.to_string(), sent_at_ms, attempts: 1, body: text("x") };
    app.hand_over(Batch {
        queue: LINES.into(),
        messages: [0, -1, i64::MAX, i64::MIN, 1 << 53, 1_796_040_000_000].map(message).to_vec(),
    });
    assert_eq!(answers(&app), [None; 6]);
    assert_eq!(app.events().len(), 6);
}

#[test]
fn a_clock_that_jumps_back_or_far_ahead_harms_nothing() {
    let app = app();
    for (place, jump_ms) in [-3_600_000_i64, 10 * 365 * 86_400_000, -20 * 365 * 86_400_000].into_iter().enumerate() {
        app.send(STOCK, movement(&format!("m{place}")));
        app.host.skew_ms(jump_ms);
        app.send(STOCK, movement(&format!("n{place}")));
        app.run_until_idle();
    }
    assert_eq!(app.events().len(), 6);
    check(&app);
}
