//! Receiving: what becomes of a message, whatever it holds.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{BLOBS, LINES, NOTES, STOCK, answers, app, movement, retried};
use jadpo_core::queue::{Batch, Body, Message};
use jadpo_host_test::{TestApp, bytes, json, text};

fn bodies(app: &TestApp) -> Vec<String> {
    app.events().iter().map(|event| event.body_text()).collect()
}

#[test]
fn a_good_message_becomes_an_event_and_is_acknowledged() {
    let app = app();
    let id = app.send(STOCK, movement("m1"));
    app.run_until_idle();
    let events = app.events();
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!((event.name.as_str(), event.key.as_str(), event.message_id.as_str()), ("StockMoved", "m1", id.as_str()));
    assert_eq!(event.connection, "stock_queue");
    assert_eq!(answers(&app), [None]);
    assert!(app.waiting().is_empty() && app.parked().is_empty());
}

#[test]
fn ten_good_messages_cost_one_round_trip_and_at_most_five_rows_each() {
    let app = app();
    for movement_number in 0..10 {
        app.send(STOCK, movement(&format!("m{movement_number}")));
    }
    let end_ms = app.host.time_ms();
    assert!(app.next(end_ms), "ten messages make a batch at once");
    assert_eq!(app.events().len(), 10);
    assert_eq!(answers(&app), [None; 10]);
    let received = app.host.logged("queue.received");
    assert_eq!(received[0].fields.iter().find(|(name, _)| *name == "store_batches").unwrap().1, 1);
}

#[test]
fn a_poison_message_does_not_hold_back_nine_good_ones() {
    for poison in
        ["{\"movement_id\":\"x\",\"sku\":1,\"quantity\":1}", "not json", "", "\u{0}", "[1,", "\"lone \\ud800\""]
    {
        let app = app();
        for place in 0..10 {
            app.send(STOCK, if place == 4 { text(poison) } else { movement(&format!("m{place}")) });
        }
        app.run_until_idle();
        assert_eq!(answers(&app), [None; 10], "{poison:?}");
        assert_eq!((app.events().len(), app.parked().len()), (9, 1), "{poison:?}");
        assert_eq!(app.parked()[0].body_text(), poison);
    }
}

#[test]
fn the_reason_names_the_field_and_what_was_found() {
    let app = app();
    app.send(STOCK, text(r#"{"movement_id":"m","sku":"A","quantity":"three"}"#));
    app.run_until_idle();
    let parked = &app.parked()[0];
    assert_eq!(parked.reason, "rejected");
    assert_eq!(parked.detail, "quantity: expected Int, found text");
    assert_eq!((parked.event.as_deref(), parked.key.as_deref()), (Some("StockMoved"), Some("m")));
}

#[test]
fn a_batch_in_which_every_message_is_the_same_is_kept_once() {
    let app = app();
    for _ in 0..10 {
        app.send(STOCK, movement("same"));
    }
    app.run_until_idle();
    assert_eq!(app.events().len(), 1);
    assert_eq!(answers(&app), [None; 10]);
    assert_eq!(app.host.count("SELECT count(*) FROM jadpo_received"), 1);
}

#[test]
fn the_very_same_message_twice_in_one_batch_is_kept_once() {
    let app = app();
    let message = Message { id: "x".into(), sent_at_ms: 1, attempts: 1, body: json("1") };
    app.hand_over(Batch { queue: NOTES.into(), messages: vec![message; 10] });
    assert_eq!(app.events().len(), 1);
    assert_eq!(answers(&app).len(), 10);
}

#[test]
fn an_id_seen_before_is_acknowledged_and_nothing_is_stored() {
    let app = app();
    app.send(STOCK, movement("m"));
    app.run_until_idle();
    let rows = app.host.rows_written();
    let first = app.events();
    app.send(STOCK, text(r#"{"movement_id":"m","sku":"other","quantity":9}"#));
    app.run_until_idle();
    assert_eq!(app.events(), first);
    assert_eq!(answers(&app), [None, None]);
    assert!(app.host.rows_written() - rows <= 1, "a repeat costs no row but the number handed out for it");
}

#[test]
fn the_same_id_over_another_connection_is_another_event() {
    let app = app();
    app.send_as(NOTES, "one", json("1"));
    app.send_as(LINES, "one", text("1"));
    app.run_until_idle();
    assert_eq!(app.events().len(), 2);
}

#[test]
fn a_message_whose_acknowledgement_is_lost_is_kept_once() {
    let app = app();
    app.lose_acks(10);
    for note in 0..10 {
        app.send(NOTES, json(&note.to_string()));
    }
    app.run_until_idle();
    assert_eq!(app.events().len(), 10);
    assert_eq!(answers(&app), [None; 20]);
    assert!(app.waiting().is_empty());
}

#[test]
fn two_hundred_levels_of_nesting_are_fine_and_sixty_thousand_are_parked() {
    let app = app();
    let deep = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    app.send(NOTES, text(&deep(200)));
    app.send(NOTES, text(&deep(60_000)));
    app.send(NOTES, json(&deep(60_000)));
    app.send(NOTES, text(&"[".repeat(120_000)));
    app.send(NOTES, text(&r#"{"a":"#.repeat(20_000)));
    app.run_until_idle();
    assert_eq!(bodies(&app), [deep(200)]);
    assert_eq!(answers(&app), [None; 5]);
    let parked = app.parked();
    assert_eq!(parked.len(), 4);
    assert!(parked.iter().all(|parked| parked.reason == "unreadable"), "{:?}", parked[0].detail);
    assert_eq!(parked[0].body_text(), deep(60_000));
}

#[test]
fn numbers_past_2_to_the_53_are_kept_digit_for_digit() {
    let app = app();
    let body = r#"{"n":9007199254740993,"f":0.1000000000000000055511151231257827,"big":1e400,"m":-123456789012345678901234567890}"#;
    app.send(NOTES, text(body));
    app.send(STOCK, text(r#"{"movement_id":9007199254740993,"sku":"A","quantity":9223372036854775807}"#));
    app.send(STOCK, text(r#"{"movement_id":9007199254740992,"sku":"A","quantity":-9223372036854775808}"#));
    app.send(STOCK, text(r#"{"movement_id":"q","sku":"A","quantity":9223372036854775808}"#));
    app.run_until_idle();
    let events = app.events();
    assert!(events.iter().any(|event| event.body_text() == body));
    let mut keys: Vec<&str> = events.iter().map(|event| event.key.as_str()).filter(|key| key.len() == 16).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["9007199254740992", "9007199254740993"], "neighbours that are one number in JavaScript");
    assert_eq!(app.parked().len(), 1, "a number that does not fit 64 bits is no Int");
}

#[test]
fn lone_surrogates_are_kept_as_they_were_written_or_parked_and_never_break_the_batch() {
    let app = app();
    app.send(NOTES, text(r#""\ud800""#));
    app.send(NOTES, text(r#"{"\udfff":"\ud83d\ude00"}"#));
    app.send(NOTES, text(r#""good""#));
    app.run_until_idle();
    assert_eq!(answers(&app), [None; 3]);
    assert_eq!(app.events().len() + app.parked().len(), 3);
    assert!(bodies(&app).contains(&r#""good""#.to_owned()));
    let kept_or_parked: Vec<String> =
        bodies(&app).into_iter().chain(app.parked().iter().map(|parked| parked.body_text())).collect();
    assert!(kept_or_parked.contains(&r#""\ud800""#.to_owned()));
}

#[test]
fn nuls_in_bodies_are_kept_byte_for_byte() {
    let app = app();
    app.send(LINES, text("a\0b"));
    app.send(LINES, text("\0"));
    app.send(NOTES, text("{\"a\":\"x\\u0000y\"}"));
    app.send(BLOBS, bytes(&[0, 0, 0]));
    app.send(STOCK, text("{\"movement_id\":\"n\",\"sku\":\"x\\u0000y\",\"quantity\":1}"));
    app.run_until_idle();
    let mut bodies = bodies(&app);
    bodies.sort();
    assert_eq!(
        bodies,
        [
            "\0",
            "\0\0\0",
            "a\0b",
            "{\"a\":\"x\\u0000y\"}",
            "{\"movement_id\":\"n\",\"sku\":\"x\\u0000y\",\"quantity\":1}"
        ]
    );
    assert!(app.parked().is_empty());
}

#[test]
fn ids_that_differ_behind_a_nul_are_different_events() {
    let app = app();
    for id in ["a", "a\0", "a\0b", "a\0c", "\0", ""] {
        app.send_as(NOTES, id, json("1"));
        app.send_as(LINES, id, text("1"));
    }
    for id in [r"a\u0000b", r"a\u0000c", "a"] {
        app.send(STOCK, text(&format!(r#"{{"movement_id":"{id}","sku":"A","quantity":1}}"#)));
    }
    app.run_until_idle();
    assert_eq!(app.events().len(), 15);
    assert_eq!(answers(&app), [None; 15]);
}

#[test]
fn ids_of_every_shape_are_told_apart_and_known_again() {
    let app = app();
    let long = "x".repeat(100_000);
    let longer = format!("{long}y");
    let ids = ["'", "\"", "\\", "%", "é", "e\u{301}", "\u{1f600}", "\u{2028}", "null", "1", "1.0", " ", &long, &longer];
    for _ in 0..2 {
        for id in ids {
            app.send_as(NOTES, id, json("1"));
        }
        app.run_until_idle();
    }
    assert_eq!(app.events().len(), ids.len());
}

#[test]
fn one_bom_is_skipped_for_reading_and_kept_in_the_store() {
    let app = app();
    let body = "\u{feff}{\"movement_id\":\"b\",\"sku\":\"A\",\"quantity\":1}";
    app.send(STOCK, text(body));
    app.send(STOCK, bytes(body.replace("\"b\"", "\"c\"").as_bytes()));
    app.send(STOCK, text(&format!("\u{feff}{body}")));
    app.run_until_idle();
    assert_eq!(app.events().len(), 2);
    assert!(bodies(&app).contains(&body.to_owned()));
    assert_eq!(app.parked()[0].reason, "unreadable", "two are one too many");
}

#[test]
fn empty_bodies_are_valid_text_and_bytes_and_no_json() {
    let app = app();
    app.send(LINES, text(""));
    app.send(BLOBS, bytes(b""));
    app.send(NOTES, text(""));
    app.send(NOTES, bytes(b""));
    app.run_until_idle();
    assert_eq!(bodies(&app), ["", ""]);
    assert_eq!(app.parked().len(), 2);
    assert_eq!(answers(&app), [None; 4]);
}

#[test]
fn bytes_that_are_not_utf8_are_parked_whole_where_text_is_needed_and_kept_where_it_is_not() {
    let app = app();
    let raw = [0x00, 0x80, 0xff];
    app.send(BLOBS, bytes(&raw));
    app.send(LINES, bytes(&raw));
    app.send(NOTES, bytes(&raw));
    app.run_until_idle();
    assert_eq!(app.events()[0].body, raw);
    assert!(!app.events()[0].is_text);
    let parked = app.parked();
    assert_eq!(parked.len(), 2);
    assert!(parked.iter().all(|parked| parked.reason == "unreadable" && parked.body == raw));
}

#[test]
fn a_value_that_json_cannot_carry_is_parked_with_what_could_be_shown() {
    let app = app();
    app.send(NOTES, Body::Unreadable { shown: "Map { 1 => 2 }".into(), why: "a Map is not JSON".into() });
    app.send(BLOBS, Body::Unreadable { shown: "10n".into(), why: "a BigInt is not JSON".into() });
    app.run_until_idle();
    let parked = app.parked();
    let mut told: Vec<_> = parked.iter().map(|it| (it.body_text(), it.detail.as_str(), it.reason.as_str())).collect();
    told.sort();
    assert_eq!(told[0], ("10n".to_owned(), "a BigInt is not JSON", "unreadable"));
    assert_eq!(told[1], ("Map { 1 => 2 }".to_owned(), "a Map is not JSON", "unreadable"));
}

#[test]
fn every_scalar_is_a_whole_json_body() {
    let app = app();
    for (place, line) in include_str!("payloads/scalars.ndjson").lines().enumerate() {
        app.send_as(NOTES, &place.to_string(), text(line));
    }
    app.run_until_idle();
    assert_eq!(bodies(&app), include_str!("payloads/scalars.ndjson").lines().collect::<Vec<_>>());
}

#[test]
fn a_json_message_that_is_a_string_is_the_text_message_of_that_string_as_on_workers() {
    let app = app();
    for (id, body) in [("a", json(r#""{\"a\":1}""#)), ("b", text(r#"{"a":1}"#)), ("c", json(r#"{"a":1}"#))] {
        app.send_as(NOTES, id, body);
    }
    app.run_until_idle();
    assert_eq!(bodies(&app), [r#"{"a":1}"#; 3]);
    app.send(NOTES, json(r#""a""#));
    app.send(NOTES, text(r#""a""#));
    app.run_until_idle();
    assert_eq!((app.events().len(), app.parked().len()), (4, 1), "a text that is no JSON, and one that is");
}

#[test]
fn optional_fields_may_be_missing_null_or_set() {
    let app = app();
    for (id, note) in [("a", ""), ("b", r#","note":null"#), ("c", r#","note":"n","more":{"un":"known"}"#)] {
        app.send(STOCK, text(&format!(r#"{{"movement_id":"{id}","sku":"A","quantity":1{note}}}"#)));
    }
    app.run_until_idle();
    assert_eq!(app.events().len(), 3);
    assert!(bodies(&app)[2].ends_with(r#""more":{"un":"known"}}"#), "what is unknown is kept");
}

#[test]
fn bodies_of_127_000_bytes_are_kept_whole_ten_and_a_hundred_at_once() {
    for (count, size) in [(10, 10), (100, 100)] {
        let app = app();
        app.cut_batches_at(size);
        let body = |place: usize| {
            let frame = format!(r#"{{"id":"{place:03}","pad":""}}"#);
            frame.replace("\"\"", &format!("\"{}\"", "x".repeat(127_000 - frame.len())))
        };
        for place in 0..count {
            app.send_as(NOTES, &place.to_string(), text(&body(place)));
        }
        app.run_until_idle();
        assert_eq!(answers(&app), vec![None; count]);
        for (place, event) in app.events().iter().enumerate() {
            assert_eq!(event.body.len(), 127_000);
            assert_eq!(event.body_text(), body(place));
        }
        assert_eq!(app.events().len(), count);
    }
}

#[test]
fn a_hundred_small_messages_in_one_batch_are_kept_in_one_round_trip_in_their_order() {
    let app = app();
    app.cut_batches_at(100);
    for place in 0..100 {
        app.send_as(LINES, &format!("id{place}"), text(&format!("line {place}")));
    }
    app.run_until_idle();
    assert_eq!(app.host.batches(), 1);
    assert_eq!(bodies(&app), (0..100).map(|place| format!("line {place}")).collect::<Vec<_>>());
}

#[test]
fn a_batch_of_an_unknown_queue_is_retried_whole_and_nothing_is_stored() {
    let app = app();
    app.hand_over(Batch {
        queue: "surprise".into(),
        messages: (1..=3)
            .map(|attempts| Message { id: attempts.to_string(), sent_at_ms: 0, attempts, body: json("1") })
            .collect(),
    });
    assert_eq!(answers(&app), [Some(10), Some(20), Some(40)]);
    assert_eq!(retried(&app), [("not_received".to_owned(), 3)]);
    assert_eq!(app.host.batches(), 0);
    assert!(app.events().is_empty() && app.parked().is_empty());
}

#[test]
fn an_empty_batch_is_no_trouble() {
    let app = app();
    app.hand_over(Batch { queue: STOCK.into(), messages: vec![] });
    assert!(app.answers().is_empty());
    assert!(app.host.logged("store.failed").is_empty());
}

#[test]
fn a_log_line_never_holds_a_body() {
    let app = app();
    let secret = "4111-1111";
    app.host.store_refuses("quantity\":7");
    app.send(STOCK, text(&format!(r#"{{"movement_id":"m","sku":"{secret}","quantity":"x"}}"#)));
    app.send(STOCK, text(&format!(r#"{{"movement_id":"n","sku":"{secret}","quantity":7}}"#)));
    app.send(STOCK, text(secret));
    app.send_unreceived("surprise", text(secret));
    app.may_lose();
    app.run_until_idle();
    for entry in app.host.log_entries() {
        assert!(!entry.to_json().contains(secret), "{}", entry.to_json());
    }
}
