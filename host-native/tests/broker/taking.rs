//! Sending and taking: order, delays, bodies.

use jadpo_core::broker::{BrokerError, Content, NewBatch, NewMessage, Peek, State, Take};

use super::support::{Fixture, batch, delayed, message, settings};

#[test]
fn one_producer_and_one_consumer_without_retries_see_send_order() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.create("other", settings(|_| {}));
    let bodies: Vec<String> = (0..250).map(|n| format!("m{n:03}")).collect();
    for (n, body) in bodies.iter().enumerate() {
        queue.send("jobs", body);
        queue.send("other", "between");
        if n % 7 == 0 {
            queue.pass_ms(1);
        }
        if n % 50 == 20 {
            queue.at.wall_ms -= 3_600_000; // a clock that is set back must not turn the order round
        }
    }
    let mut seen = Vec::new();
    loop {
        let taken = queue.try_take("jobs", 7).unwrap().messages;
        if taken.is_empty() {
            break;
        }
        seen.extend(taken.iter().map(|taken| String::from_utf8(taken.message.body.clone()).unwrap()));
        assert_eq!(queue.ack("jobs", &taken).acked, taken.len());
    }
    assert_eq!(seen, bodies);
    assert_eq!(queue.metrics("other").messages, 250);
}

#[test]
fn a_message_s_delay_stands_before_its_batch_s_and_that_before_the_queue_s_and_zero_is_a_delay() {
    let mut queue = Fixture::with(settings(|settings| settings.delivery_delay_s = 2));
    queue.send("jobs", "A");
    queue.send_batch("jobs", &NewBatch { messages: vec![delayed("B", 0)], delay_s: None }).unwrap();
    queue.send_batch("jobs", &NewBatch { messages: vec![delayed("C", 5)], delay_s: None }).unwrap();
    let both = NewBatch { messages: vec![message("D"), delayed("E", 1)], delay_s: Some(3) };
    queue.send_batch("jobs", &both).unwrap();
    let mut seen = Vec::new();
    for _ in 0..=6 {
        seen.push(queue.bodies("jobs").join(""));
        queue.pass_s(1);
    }
    assert_eq!(seen, ["B", "E", "A", "D", "", "C", ""]);
}

#[test]
fn a_send_delay_wins_over_a_longer_default_and_a_batch_of_no_delay_comes_at_once() {
    let mut queue = Fixture::with(settings(|settings| settings.delivery_delay_s = 3_600));
    queue.send_batch("jobs", &NewBatch { messages: vec![delayed("ten", 10)], delay_s: None }).unwrap();
    queue.send_batch("jobs", &NewBatch { messages: vec![message("now")], delay_s: Some(0) }).unwrap();
    assert_eq!(queue.bodies("jobs"), ["now"]);
    queue.pass_ms(9_999);
    assert!(queue.bodies("jobs").is_empty());
    queue.pass_ms(1);
    assert_eq!(queue.bodies("jobs"), ["ten"]);
}

#[test]
fn a_lease_and_a_delay_end_at_their_millisecond_and_not_before() {
    let mut queue = Fixture::with(settings(|settings| settings.consumer.visibility_ms = 10_000));
    queue.send("jobs", "leased");
    assert_eq!(queue.bodies("jobs"), ["leased"]);
    queue.pass_ms(9_999);
    assert!(queue.bodies("jobs").is_empty());
    queue.pass_ms(1);
    let again = queue.take("jobs");
    assert_eq!(again[0].message.attempts, 2);
    queue.ack("jobs", &again);
    queue.send_batch("jobs", &NewBatch { messages: vec![message("later")], delay_s: Some(3) }).unwrap();
    queue.pass_ms(2_999);
    assert!(queue.bodies("jobs").is_empty());
    queue.pass_ms(1);
    assert_eq!(queue.bodies("jobs"), ["later"]);
}

#[test]
fn bodies_come_back_byte_for_byte_whatever_they_are() {
    let mut queue = Fixture::with(settings(|_| {}));
    let all: Vec<u8> = (0..=255).collect();
    let bodies = [
        (Content::Text, Vec::new()),
        (Content::Text, "\u{feff}a\0b\r\n".into()),
        (Content::Text, all.clone()),
        (Content::Json, b"{\"a\" : 12345678901234567890.10}".to_vec()),
        (Content::Json, b"not json at all".to_vec()),
        (Content::Json, [vec![b'['; 60_000], vec![b']'; 60_000]].concat()),
        (Content::Bytes, Vec::new()),
        (Content::V8, vec![0xff, 0x0f, 0x00]),
    ];
    let sent = |(content, body): &(Content, Vec<u8>)| NewMessage {
        content: *content,
        body: body.clone(),
        delay_s: None,
        meta: Some(format!("{{\"type\":\"{}\"}}", content.name())),
    };
    queue.send_batch("jobs", &NewBatch { messages: bodies.iter().map(sent).collect(), delay_s: None }).unwrap();
    let taken = queue.take("jobs");
    let came: Vec<_> = taken.iter().map(|taken| (taken.message.content, taken.message.body.clone())).collect();
    assert_eq!(came, bodies);
    assert_eq!(taken[7].message.meta.as_deref(), Some("{\"type\":\"v8\"}"));
    assert_eq!(Content::named("v8"), Some(Content::V8));
    assert_eq!(Content::named("xml"), None);
}

#[test]
fn ids_are_32_hex_digits_that_no_other_message_has() {
    let mut queue = Fixture::with(settings(|_| {}));
    let mut ids: Vec<String> = Vec::new();
    for _ in 0..50 {
        // The same random bits each time, as for the requests of one commit.
        ids.extend(queue.send_batch("jobs", &batch(&["a"; 40])).unwrap().ids.iter().map(ToString::to_string));
    }
    assert!(ids.iter().all(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())));
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 2_000);
}

#[test]
fn a_take_gives_what_is_there_and_nothing_at_once_from_an_empty_queue() {
    let mut queue = Fixture::with(settings(|_| {}));
    assert!(queue.take("jobs").is_empty());
    queue.send_batch("jobs", &batch(&["a", "b", "c"])).unwrap();
    assert_eq!(queue.try_take("jobs", 50).unwrap().messages.len(), 3);
    assert!(queue.take("jobs").is_empty(), "one holder at a time");
}

#[test]
fn a_message_that_is_due_again_does_not_wait_behind_a_long_backlog() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send("jobs", "again");
    let taken = queue.take("jobs");
    queue.retry("jobs", &taken, Some(5));
    for _ in 0..20 {
        queue.send_batch("jobs", &batch(&["new"; 100])).unwrap();
    }
    queue.pass_s(5);
    let first = queue.take("jobs");
    assert_eq!((first[0].message.body.as_slice(), first[0].message.attempts), (b"again".as_slice(), 2));
    assert_eq!(first.len(), 10, "and it holds back nobody");
}

#[test]
fn a_lease_of_no_time_can_be_taken_again_at_once_but_not_twice_in_one_take() {
    let mut queue = Fixture::with(settings(|settings| settings.consumer.visibility_ms = 0));
    queue.send_batch("jobs", &batch(&["a", "b"])).unwrap();
    for attempt in 1..=3 {
        let taken = queue.take("jobs");
        assert_eq!(taken.iter().map(|taken| taken.message.attempts).collect::<Vec<_>>(), [attempt, attempt]);
    }
    let own = Take { max: 10, visibility_ms: Some(60_000) };
    let last = queue.run(|broker, sql, at| broker.take(sql, at, "jobs", own)).unwrap().messages;
    assert_eq!(last.len(), 2, "a take may name a time of its own");
    queue.pass_ms(59_999);
    assert!(queue.take("jobs").is_empty());
}

#[test]
fn a_queue_without_a_consumer_keeps_its_messages_over_a_restart() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send_batch("jobs", &batch(&["a", "b", "c"])).unwrap();
    queue.pass_s(30);
    queue.restart();
    let taken = queue.take("jobs");
    assert!(taken.iter().all(|taken| taken.message.attempts == 1));
    assert_eq!(taken.len(), 3);
}

#[test]
fn looking_takes_nothing_and_says_where_each_message_stands() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send("jobs", "leased");
    queue.take("jobs");
    queue.send("jobs", "ready");
    queue.send_batch("jobs", &NewBatch { messages: vec![delayed("delayed", 60)], delay_s: None }).unwrap();
    queue.pass_s(1);
    let seen = queue.run(|broker, sql, at| broker.peek(sql, at, "jobs", Peek { max: 10, after: None })).unwrap();
    let states: Vec<_> = seen.iter().map(|seen| (seen.message.body.as_slice(), seen.state)).collect();
    assert_eq!(
        states,
        [
            (b"ready".as_slice(), State::Ready),
            (b"leased", State::Leased { for_ms: 29_000 }),
            (b"delayed", State::Delayed { for_ms: 59_000 })
        ]
    );
    assert_eq!(queue.bodies("jobs"), ["ready"]);
    let wake = queue.run(|broker, sql, at| broker.wake(sql, at, "jobs")).unwrap();
    assert_eq!((wake.ready, wake.next_in_ms), (0, Some(29_000)));
}

#[test]
fn a_queue_that_is_not_there_is_named() {
    let mut queue = Fixture::new();
    let refused = queue.try_take("nowhere", 1).unwrap_err();
    assert_eq!(refused, BrokerError::QueueNotFound("nowhere".to_owned()));
    assert_eq!(refused.code(), Some(10_104));
    assert!(refused.to_string().contains("`nowhere`"));
}

#[test]
fn an_id_and_a_time_stay_over_retries_and_death_and_every_take_gives_another_lease() {
    let mut queue = Fixture::with(settings(|settings| {
        settings.consumer.max_retries = 2;
        settings.consumer.dead_letter_queue = Some("jobs-dead".to_owned());
    }));
    queue.create("jobs-dead", settings(|_| {}));
    let (id, sent_at_ms) = (queue.send("jobs", "a").ids[0], queue.at.wall_ms);
    let mut leases = std::collections::BTreeSet::new();
    for name in ["jobs", "jobs", "jobs", "jobs-dead", "jobs-dead"] {
        // In one moment as well as later.
        let taken = queue.take(name);
        assert_eq!((taken[0].message.id, taken[0].message.sent_at_ms), (id, sent_at_ms));
        assert!(leases.insert(queue.broker.lease_key().seal(&taken[0].lease)), "a lease was given twice");
        queue.retry(name, &taken, Some(0));
        queue.pass_ms(if name == "jobs" { 0 } else { 1_000 });
    }
}

#[test]
fn a_lease_of_no_time_takes_what_became_due_at_this_moment_beside_what_is_overdue() {
    let mut queue = Fixture::with(settings(|settings| settings.consumer.visibility_ms = 0));
    for (body, delay_s) in [("A", 1), ("B", 2), ("C", 1), ("D", 2)] {
        queue.send_batch("jobs", &NewBatch { messages: vec![delayed(body, delay_s)], delay_s: None }).unwrap();
    }
    queue.pass_s(2);
    let taken = queue.try_take("jobs", 10).unwrap().messages;
    let bodies: Vec<_> = taken.iter().map(|taken| String::from_utf8(taken.message.body.clone()).unwrap()).collect();
    assert_eq!(bodies, ["A", "C", "B", "D"]);
    assert!(taken.iter().all(|taken| taken.message.attempts == 1));
}
