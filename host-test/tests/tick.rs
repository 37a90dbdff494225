//! The tick: parked messages read again, what is due delivered, what is old cleared away.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod shop;

use jadpo_core::deliver::CLAIM_MS;
use jadpo_core::queue::{Body, Message};
use jadpo_core::receive::{Parked, reread};
use jadpo_core::start::App;
use jadpo_core::tick::{KEEP_MS, Ticked, tick};
use jadpo_host_test::{Reply, StoreFault, TestHost, run, run_until_crash};
use shop::*;

const DAY_MS: i64 = 24 * 3_600_000;
/// A build that reads what the usual one does not: `n` may be text there.
const LENIENT: &str = r#"{"record":[{"name":"n","type":"json"}]}"#;
const LEDGER: &str = r#""ledger":{"on":"Moved","target":{"call":"https://ledger.example.com/"}}"#;

fn tick_now(host: &TestHost, app: &App) -> Ticked {
    let ticked = run(host, tick(host, app, host.time_ms() + 30_000));
    Ticked { delivered: outcome(ticked.delivered), ..ticked }
}

/// Marks everything parked, as an operator's retry does.
fn mark_all(host: &TestHost) {
    host.meddle(&format!("UPDATE jadpo_parked_messages SET retry_at = {}", host.time_ms()));
}

/// Puts events into the store that were received now and have no delivery.
fn insert_events(host: &TestHost, count: u32) {
    host.meddle(&format!(
        "WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < {count}) \
         INSERT INTO jadpo_events SELECT value, 'moves', 'k' || value, 'Moved', 'k', 0, {}, '{{}}' FROM n",
        host.time_ms()
    ));
}

fn park(host: &TestHost, app: &App, count: usize) {
    let messages = (0..count).map(|n| text(host, &format!("bad{n}"), &format!(r#"{{"n":"text {n}"}}"#))).collect();
    receive_from(host, app, "moves-q", messages);
    assert_eq!(rows(host, "jadpo_parked_messages"), i64::try_from(count).unwrap());
}

#[test]
fn a_message_that_a_newer_build_can_read_becomes_an_event_and_is_delivered() {
    let host = TestHost::migrated();
    let (old, new) = (app(&["ledger"]), app_with(LENIENT, LEDGER));
    park(&host, &old, 3);
    assert_eq!(tick_now(&host, &new), Ticked::default(), "nobody has asked for it");
    mark_all(&host);
    let ticked = tick_now(&host, &new);
    assert_eq!((ticked.kept, ticked.still_parked, ticked.delivered.done), (3, 0, 3));
    assert_eq!(rows(&host, "jadpo_parked_messages"), 0);
    assert_eq!((rows(&host, "jadpo_events"), rows(&host, "jadpo_received")), (3, 3));
    assert_eq!(host.calls()[0].body_text(), r#"{"n":"text 0"}"#);
}

#[test]
fn a_message_that_still_cannot_be_read_keeps_its_place_and_waits_for_the_operator_again() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    park(&host, &app, 2);
    mark_all(&host);
    let ticked = tick_now(&host, &app);
    assert_eq!((ticked.kept, ticked.still_parked), (0, 2));
    assert_eq!(rows(&host, "jadpo_parked_messages WHERE retry_at IS NULL AND reason = 'rejected'"), 2);
    assert_eq!(tick_now(&host, &app), Ticked::default());
}

#[test]
fn bodies_of_every_kind_are_read_again_as_they_were_received() {
    let host = TestHost::migrated();
    let strict = app(&["audit"]);
    let bodies = [
        Body::Bytes(vec![0, 0x80, 0xff]),
        Body::Bytes(br#"{"n":"bytes"}"#.to_vec()),
        Body::Json(r#"{"n":"json"}"#.into()),
        Body::Text("\u{feff}{\"n\":\"text\"}".into()),
        Body::Unreadable { shown: "[object Map]".into(), why: "a Map has no JSON".into() },
    ];
    let messages = bodies.into_iter().enumerate().map(|(n, body)| Message {
        id: format!("m{n}"),
        sent_at_ms: host.time_ms(),
        attempts: 3,
        body,
    });
    receive_from(&host, &strict, "moves-q", messages.collect());
    assert_eq!(rows(&host, "jadpo_parked_messages"), 5);
    let bytes = app_with(r#""bytes""#, r#""audit":{"on":"Moved","target":{"call":"https://a.example.com/"}}"#);
    mark_all(&host);
    let ticked = tick_now(&host, &bytes);
    assert_eq!((ticked.kept, ticked.still_parked), (4, 1));
    assert_eq!(text_of(&host, "SELECT detail FROM jadpo_parked_messages"), "a Map has no JSON");
    let mut bodies: Vec<Vec<u8>> = host.calls().into_iter().map(|call| call.call.body).collect();
    bodies.sort();
    let mut expected: Vec<Vec<u8>> =
        [&[0, 0x80, 0xff][..], br#"{"n":"bytes"}"#, br#"{"n":"json"}"#].map(<[u8]>::to_vec).into();
    expected.push("\u{feff}{\"n\":\"text\"}".into());
    expected.sort();
    assert_eq!(bodies, expected);
}

#[test]
fn a_repeat_of_a_kept_event_leaves_the_parked_list_and_is_not_delivered_again() {
    let host = TestHost::migrated();
    let old = app_with(LENIENT, LEDGER);
    let strict = app(&["ledger"]);
    park(&host, &strict, 1);
    // The same message comes again, and the newer build keeps it; a stray parked copy is put back by hand.
    let again = Message { attempts: 2, ..text(&host, "bad0", r#"{"n":"text 0"}"#) };
    let claimed = receive_from(&host, &old, "moves-q", vec![again]);
    deliver_in(&host, &old, claimed, 30_000);
    host.meddle(
        "INSERT INTO jadpo_parked_messages (connection, queue, message_id, reason, detail, attempts, sent_at, \
         parked_at, retry_at, kind, body) VALUES ('moves', 'moves-dead', 'bad0', 'dead_lettered', '', 1, 0, 0, 0, \
         'text', '{\"n\":\"text 0\"}')",
    );
    let ticked = tick_now(&host, &old);
    assert_eq!((ticked.kept, ticked.repeats), (0, 1));
    assert_eq!((rows(&host, "jadpo_parked_messages"), rows(&host, "jadpo_events"), host.calls().len()), (0, 1, 1));
}

#[test]
fn a_message_that_is_not_the_one_kept_under_its_key_is_parked_and_not_taken_for_a_repeat() {
    let host = TestHost::migrated();
    let (strict, lenient) = (app(&["ledger"]), app_with(LENIENT, LEDGER));
    receive_from(&host, &lenient, "moves-q", vec![text(&host, "m1", r#"{"n":"text"}"#)]);
    receive_from(&host, &strict, "moves-q", vec![Message { attempts: 2, ..text(&host, "m1", r#"{"n":"text"}"#) }]);
    assert_eq!(rows(&host, "jadpo_parked_messages"), 0, "the very message was kept by the build before");
    receive_from(&host, &strict, "moves-q", vec![text(&host, "m2", r#"{"n":"other"}"#)]);
    assert_eq!((rows(&host, "jadpo_parked_messages"), rows(&host, "jadpo_events")), (1, 1));
}

#[test]
fn a_retry_that_an_operator_asks_for_while_the_message_is_read_again_stands() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    park(&host, &app, 1);
    let read = Parked {
        id: 1,
        connection: "moves".into(),
        queue: "moves-q".into(),
        retry_at_ms: host.time_ms(),
        message: text(&host, "bad0", r#"{"n":"text 0"}"#),
    };
    mark_all(&host);
    host.meddle("UPDATE jadpo_parked_messages SET retry_at = retry_at + 1");
    assert_eq!(run(&host, reread(&host, &app, vec![read])).still_parked, 1);
    assert_eq!(rows(&host, "jadpo_parked_messages WHERE retry_at IS NOT NULL"), 1);
}

#[test]
fn an_event_whose_message_is_parked_too_is_not_forgotten_so_that_its_retry_is_a_repeat() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    let claimed = receive_from(&host, &app, "moves-q", vec![text(&host, "m1", r#"{"n":1}"#)]);
    deliver_in(&host, &app, claimed, 30_000);
    receive_from(&host, &app, "moves-dead", vec![text(&host, "m1", r#"{"n":1}"#)]);
    assert_eq!((rows(&host, "jadpo_parked_messages"), rows(&host, "jadpo_events")), (1, 1));
    host.advance_ms(KEEP_MS + DAY_MS);
    assert_eq!(tick_now(&host, &app).pruned, 0);
    mark_all(&host);
    let ticked = tick_now(&host, &app);
    assert_eq!((ticked.kept, ticked.repeats, rows(&host, "jadpo_parked_messages"), host.calls().len()), (0, 1, 0, 1));
}

#[test]
fn a_tick_that_dies_anywhere_leaves_each_message_in_exactly_one_place() {
    let mut step = 0;
    loop {
        let host = TestHost::migrated();
        let (old, new) = (app(&["ledger"]), app_with(LENIENT, LEDGER));
        park(&host, &old, 3);
        mark_all(&host);
        let end = run_until_crash(&host, step, tick(&host, &new, host.time_ms() + 30_000));
        let (parked, events) = (rows(&host, "jadpo_parked_messages"), rows(&host, "jadpo_events"));
        assert!([(3, 0), (0, 3)].contains(&(parked, events)), "step {step}: {parked} parked, {events} events");
        host.advance_ms(CLAIM_MS);
        tick_now(&host, &new);
        assert_eq!((rows(&host, "jadpo_parked_messages"), rows(&host, "jadpo_events")), (0, 3), "step {step}");
        assert_eq!(rows(&host, "jadpo_deliveries"), 0, "step {step}");
        if end.is_some() {
            break;
        }
        step += 1;
    }
    assert!(step >= 10, "{step}");
}

#[test]
fn a_store_that_fails_puts_everything_off_to_the_next_tick() {
    for fault in [StoreFault::Down, StoreFault::BeforeCommit, StoreFault::AfterCommit] {
        let host = TestHost::migrated();
        let (old, new) = (app(&["ledger"]), app_with(LENIENT, LEDGER));
        park(&host, &old, 12);
        mark_all(&host);
        host.store_fails_until_lifted(fault);
        tick_now(&host, &new);
        host.lift_faults();
        host.advance_ms(CLAIM_MS);
        tick_now(&host, &new);
        host.advance_ms(CLAIM_MS);
        tick_now(&host, &new);
        assert_eq!((rows(&host, "jadpo_parked_messages"), rows(&host, "jadpo_events")), (0, 12));
        assert_eq!((rows(&host, "jadpo_deliveries"), host.calls().len()), (0, 12));
    }
}

#[test]
fn a_message_that_the_store_refuses_keeps_no_other_from_its_turn() {
    let host = TestHost::migrated();
    let (old, new) = (app(&["ledger"]), app_with(LENIENT, LEDGER));
    park(&host, &old, 40);
    mark_all(&host);
    host.store_refuses("text 3\"");
    let ticked = tick_now(&host, &new);
    assert_eq!((ticked.kept, ticked.put_off, ticked.delivered.done), (39, 1, 39));
    assert_eq!(rows(&host, "jadpo_parked_messages WHERE retry_at IS NOT NULL AND message_id = 'bad3'"), 1);
}

#[test]
fn many_retried_messages_are_read_in_rounds_and_the_rest_at_the_next_tick() {
    let host = TestHost::migrated();
    let (old, new) = (app(&[]), app_with(LENIENT, ""));
    park(&host, &old, 130);
    mark_all(&host);
    assert_eq!(tick_now(&host, &new).kept, 100);
    assert_eq!(tick_now(&host, &new).kept, 30);
}

#[test]
fn two_ticks_at_once_deliver_nothing_twice() {
    let host = TestHost::migrated();
    let (old, new) = (app(&["ledger"]), app_with(LENIENT, LEDGER));
    receive_good(&host, &old, 30);
    park(&host, &old, 25);
    host.advance_ms(CLAIM_MS);
    mark_all(&host);
    host.store_fails_until_lifted(StoreFault::Slow(40));
    let stop_at_ms = host.time_ms() + 300_000;
    let both = async { futures_util::join!(tick(&host, &new, stop_at_ms), tick(&host, &new, stop_at_ms)) };
    let (one, other) = run(&host, both);
    assert_eq!(one.kept + other.kept, 25);
    assert_eq!(one.delivered.done + other.delivered.done, 55);
    assert_eq!(host.calls().len(), 55);
}

#[test]
fn events_past_their_keep_time_go_with_their_keys_and_younger_ones_stay() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    let claimed = receive_good(&host, &app, 20);
    deliver_in(&host, &app, claimed, 30_000);
    host.advance_ms(KEEP_MS / 2);
    let young = (20..25).map(|n| message(&host, n)).collect();
    let claimed = receive_from(&host, &app, "moves-q", young);
    deliver_in(&host, &app, claimed, 30_000);
    assert_eq!(tick_now(&host, &app).pruned, 0);
    host.advance_ms(KEEP_MS / 2 + 1);
    assert_eq!(tick_now(&host, &app).pruned, 20);
    assert_eq!((rows(&host, "jadpo_events"), rows(&host, "jadpo_received")), (5, 5));
    assert_eq!(receive_from(&host, &app, "moves-q", vec![message(&host, 22)]).len(), 0, "still known as a repeat");
}

#[test]
fn an_event_with_a_delivery_left_stays_and_holds_nothing_else_back() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    host.subscriber("ledger").answers([500, 500]);
    let claimed = receive_good(&host, &app, 6);
    deliver_in(&host, &app, claimed, 30_000);
    host.meddle(&format!("UPDATE jadpo_deliveries SET due_at = {NEVER_MS}"));
    host.advance_ms(KEEP_MS + 1);
    assert_eq!(tick_now(&host, &app).pruned, 4);
    assert_eq!(rows(&host, "jadpo_events"), 2);
    // Once an operator has had them delivered, they go too: at the next midnight, when clearing starts over.
    host.meddle(&format!("UPDATE jadpo_deliveries SET due_at = {}, attempt_max = 31", host.time_ms()));
    assert_eq!(tick_now(&host, &app).delivered.done, 2);
    assert_eq!(rows(&host, "jadpo_events"), 2);
    host.set_ms((host.time_ms() / DAY_MS + 1) * DAY_MS + 5_000);
    assert_eq!(tick_now(&host, &app).pruned, 2);
    assert_eq!(rows(&host, "jadpo_events"), 0);
}

#[test]
fn more_events_that_stay_than_a_slice_holds_do_not_stop_the_daily_start_over() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    insert_events(&host, 1_800);
    // The first 1,200 have a failed delivery; all were looked at before.
    host.meddle(&format!(
        "INSERT INTO jadpo_deliveries SELECT {NEVER_MS}, seq, 'ledger', 30, 30, NULL, 0, 'x' FROM jadpo_events \
         WHERE seq <= 1200; UPDATE jadpo_schema SET pruned_seq = 1800"
    ));
    host.advance_ms(KEEP_MS + 1);
    host.set_ms((host.time_ms() / DAY_MS + 1) * DAY_MS + 120_000);
    assert_eq!(tick_now(&host, &app).pruned, 0);
    host.set_ms((host.time_ms() / DAY_MS + 1) * DAY_MS + 59_000);
    assert_eq!(tick_now(&host, &app).pruned, 600);
    assert_eq!(rows(&host, "jadpo_events"), 1_200);
}

#[test]
fn clearing_away_costs_one_read_when_there_is_nothing_and_a_bounded_number_of_slices_otherwise() {
    let host = TestHost::migrated();
    let app = app(&[]);
    insert_events(&host, 7_000);
    let before = host.batches();
    tick_now(&host, &app);
    assert_eq!(host.batches() - before, 3, "one read for each of the tick's three parts");
    host.advance_ms(KEEP_MS + 1);
    assert_eq!(tick_now(&host, &app).pruned, 5_000);
    assert_eq!(tick_now(&host, &app).pruned, 2_000);
}

#[test]
fn parked_messages_and_failed_deliveries_are_never_cleared_away() {
    let host = TestHost::migrated();
    let app = app(&["ledger"]);
    park(&host, &app, 2);
    host.subscriber("ledger").always(Reply::Status(500));
    receive_good(&host, &app, 1);
    host.meddle(&format!("UPDATE jadpo_deliveries SET due_at = {NEVER_MS}, claim = NULL"));
    for _ in 0..5 {
        host.advance_ms(KEEP_MS);
        tick_now(&host, &app);
    }
    assert_eq!((rows(&host, "jadpo_parked_messages"), rows(&host, "jadpo_deliveries")), (2, 1));
    assert_eq!(rows(&host, "jadpo_events"), 1);
}

#[test]
fn a_store_that_is_behind_is_left_alone() {
    let host = TestHost::migrated();
    let app = app_with(LENIENT, LEDGER);
    park(&host, &shop::app(&["ledger"]), 1);
    receive_good(&host, &app, 1);
    mark_all(&host);
    host.advance_ms(KEEP_MS + CLAIM_MS);
    host.meddle("UPDATE jadpo_schema SET version = 0");
    let written = host.rows_written();
    assert_eq!(tick_now(&host, &app), Ticked::default());
    assert_eq!(host.rows_written(), written);
    assert_eq!(tick_now(&TestHost::unmigrated(), &app), Ticked::default());
}

#[test]
fn the_log_line_of_a_parked_message_tells_the_reason_and_nothing_of_the_body() {
    let host = TestHost::migrated();
    park(&host, &app(&["ledger"]), 1);
    let logged = host.logged("queue.parked");
    let names: Vec<&str> = logged[0].fields.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["queue", "message_id", "reason"]);
}
