//! Messages looked at page by page and removed; when there is something to take.

use jadpo_core::broker::{ConsumerSettings, MessageRef, NewBatch, Peek, Peeked, Removed, Settings, State, Take, Wake};

use super::support::{Fixture, batch, delayed, settings};

impl Fixture {
    fn page(&mut self, name: &str, max: usize, after: Option<MessageRef>) -> Vec<Peeked> {
        self.run(|broker, sql, at| broker.peek(sql, at, name, Peek { max, after })).unwrap()
    }

    fn remove(&mut self, name: &str, references: &[MessageRef]) -> Removed {
        self.run(|broker, sql, _| broker.remove(sql, name, references)).unwrap()
    }

    fn wake(&mut self, name: &str) -> Wake {
        self.run(|broker, sql, at| broker.wake(sql, at, name)).unwrap()
    }
}

fn bodies(page: &[Peeked]) -> Vec<&str> {
    page.iter().map(|peeked| std::str::from_utf8(&peeked.message.body).unwrap()).collect()
}

/// `ready`, `ready too`, `leased`, `delayed`, in the order that they are looked at.
fn mixed() -> Fixture {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send("jobs", "leased");
    queue.take("jobs");
    queue.send_batch("jobs", &NewBatch { messages: vec![delayed("delayed", 60)], delay_s: None }).unwrap();
    queue.send_batch("jobs", &batch(&["ready", "ready too"])).unwrap();
    queue
}

#[test]
fn a_queue_is_looked_through_page_by_page_and_each_message_is_seen_once() {
    let mut queue = mixed();
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = queue.page("jobs", 1, after);
        let Some(last) = page.last() else { break };
        // As a caller outside of the process hands it back.
        let key = queue.broker.lease_key();
        after = key.open_ref(&key.seal_ref(&last.reference));
        assert_eq!(after, Some(last.reference));
        seen.push(String::from_utf8(last.message.body.clone()).unwrap());
    }
    assert_eq!(seen, ["ready", "ready too", "leased", "delayed"]);
    let all = queue.page("jobs", 100, None);
    assert_eq!(bodies(&all), seen);
    assert!(matches!(all[2].state, State::Leased { for_ms: 30_000 }));
    assert!(matches!(all[3].state, State::Delayed { for_ms: 60_000 }));
}

#[test]
fn a_page_is_full_while_there_is_more_even_where_messages_went_under_their_consumers() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send_batch("jobs", &batch(&["a", "b", "c"])).unwrap();
    let first = queue.take("jobs");
    queue.pass_s(30);
    queue.take("jobs");
    assert_eq!(queue.ack("jobs", &first[..2]).acked, 2, "late: their rows stay until the new leases end");
    assert_eq!(bodies(&queue.page("jobs", 1, None)), ["c"]);
}

#[test]
fn a_place_that_is_gone_is_still_a_place_to_go_on_from() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send_batch("jobs", &batch(&["a", "b", "c"])).unwrap();
    let page = queue.page("jobs", 2, None);
    queue.remove("jobs", &[page[1].reference]);
    assert_eq!(bodies(&queue.page("jobs", 2, Some(page[1].reference))), ["c"]);
}

#[test]
fn a_message_is_removed_wherever_it_stands() {
    let mut queue = mixed();
    let all = queue.page("jobs", 10, None);
    let references: Vec<_> = all.iter().map(|peeked| peeked.reference).collect();
    let removed = queue.remove("jobs", &[references[0], references[2], references[3]]);
    assert_eq!(removed, Removed { removed: 3, unknown: vec![] });
    assert_eq!(bodies(&queue.page("jobs", 10, None)), ["ready too"]);
    assert_eq!(queue.metrics("jobs").messages, 1);
    let again = queue.remove("jobs", &references);
    assert_eq!((again.removed, again.unknown.len()), (1, 3));
    queue.pass_s(60);
    assert!(queue.take("jobs").is_empty());
    assert_eq!(queue.count("SELECT count(*) FROM jadpo_queue_due"), 0);
}

#[test]
fn a_message_that_moved_since_it_was_looked_at_is_removed_all_the_same() {
    let mut queue = mixed();
    let all = queue.page("jobs", 10, None);
    let references: Vec<_> = all.iter().map(|peeked| peeked.reference).collect();
    queue.pass_s(60);
    let taken = queue.take("jobs");
    assert_eq!(taken.len(), 4);
    assert_eq!(queue.remove("jobs", &references).removed, 4);
    assert_eq!(queue.retry("jobs", &taken[..2], None).gone, [], "who has it changes nothing any more");
    assert_eq!(queue.ack("jobs", &taken[2..]).acked, 2);
    queue.pass_s(60);
    assert!(queue.take("jobs").is_empty());
    assert_eq!(queue.metrics("jobs").messages, 0);
    assert_eq!(queue.count("SELECT count(*) FROM jadpo_queue_due"), 0);
}

#[test]
fn a_place_of_another_queue_or_of_contents_that_are_gone_removes_nothing() {
    let mut queue = mixed();
    queue.create("other", settings(|_| {}));
    queue.send("other", "o");
    let other = queue.page("other", 1, None)[0].reference;
    let old = queue.page("jobs", 1, None)[0].reference;
    assert_eq!(queue.remove("jobs", &[other]).unknown, [other]);
    queue.run(|broker, sql, moment| broker.purge(sql, moment, "jobs")).unwrap();
    queue.send("jobs", "new");
    assert_eq!(queue.remove("jobs", &[old]).unknown, [old]);
    assert_eq!((queue.bodies("jobs"), queue.bodies("other")), (vec!["new".to_owned()], vec!["o".to_owned()]));
    let too_many = queue.run(|broker, sql, _| broker.remove(sql, "jobs", &[old; 101])).unwrap_err();
    assert_eq!(too_many.code(), Some(10_206));
}

#[test]
fn places_cannot_be_made_up_nor_taken_for_leases() {
    let mut queue = mixed();
    let key = queue.broker.lease_key();
    let text = key.seal_ref(&queue.page("jobs", 1, None)[0].reference);
    assert_eq!(text.len(), 54);
    for at in 0..text.len() {
        let mut other = text.clone().into_bytes();
        other[at] = if other[at] == b'A' { b'B' } else { b'A' };
        assert_eq!(key.open_ref(&String::from_utf8(other).unwrap()), None, "changed at {at}");
    }
    let lease = key.seal(&queue.take("jobs")[0].lease);
    assert_eq!((key.open(&text), key.open_ref(&lease), key.open_ref("")), (None, None, None));
    assert_eq!(key.open_ref(&"A".repeat(10_000_000)), None);
}

#[test]
fn what_can_be_taken_counts_what_has_just_become_due() {
    let mut queue = mixed();
    assert_eq!(queue.wake("jobs"), Wake { ready: 2, waiting_ms: 0, next_in_ms: Some(30_000) });
    queue.pass_s(30);
    assert_eq!(queue.wake("jobs"), Wake { ready: 3, waiting_ms: 30_000, next_in_ms: Some(30_000) });
    queue.pass_s(30);
    assert_eq!(queue.wake("jobs").ready, 4);
    assert_eq!(queue.take("jobs").len(), 4);
    assert_eq!(queue.wake("jobs"), Wake { ready: 0, waiting_ms: 0, next_in_ms: Some(30_000) });
}

#[test]
fn of_a_queue_that_is_paused_or_whose_trigger_is_disabled_nothing_is_to_be_handed_on() {
    let mut queue = mixed();
    queue.create("other", settings(|_| {}));
    queue.send("other", "o");
    let names = ["jobs", "gone", "other"];
    let ready = |queue: &mut Fixture| {
        let wakes = queue.run(|broker, sql, at| broker.wakes(sql, at, &names)).unwrap();
        wakes.into_iter().map(|(name, wake)| (name, wake.ready, wake.next_in_ms.is_some())).collect::<Vec<_>>()
    };
    let (jobs, other) = ("jobs".to_owned(), "other".to_owned());
    assert_eq!(ready(&mut queue), [(jobs.clone(), 2, true), (other.clone(), 1, false)]);
    queue.run(|broker, sql, _| broker.enable_trigger(sql, "queue:jobs", false)).unwrap();
    queue.run(|broker, sql, at| broker.pause(sql, at, "other", true)).unwrap();
    queue.restart();
    assert_eq!(ready(&mut queue), [(jobs.clone(), 0, false), (other.clone(), 0, false)]);
    assert_eq!(queue.wake("jobs").ready, 2, "who takes by himself may");
    queue.run(|broker, sql, _| broker.enable_trigger(sql, "queue:jobs", true)).unwrap();
    queue.run(|broker, sql, at| broker.pause(sql, at, "other", false)).unwrap();
    assert_eq!(ready(&mut queue), [(jobs, 2, true), (other, 1, false)], "and all of it waited");
}

fn thirty_in_ten_seconds(settings: &mut Settings) {
    settings.consumer.batch_size = 30;
    settings.consumer.batch_wait_ms = 10_000;
}

/// Takes when the broker says so, asking at every tenth of a second, and tells when it took how many.
fn batches(queue: &mut Fixture, for_ms: i64) -> Vec<(i64, usize)> {
    let consumer = queue.broker.info("jobs").unwrap().settings.consumer.clone();
    let max = consumer.batch_size as usize;
    let mut taken = Vec::new();
    for at_ms in (0..for_ms).step_by(100) {
        while queue.wake("jobs").batch_in_ms(&consumer) == Some(0) {
            let batch = queue.run(|broker, sql, at| broker.take(sql, at, "jobs", Take { max, visibility_ms: None }));
            let batch = batch.unwrap().messages;
            queue.ack("jobs", &batch);
            taken.push((at_ms, batch.len()));
        }
        queue.pass_ms(100);
    }
    taken
}

#[test]
fn thirty_of_thirty_are_a_batch_at_once_and_twenty_nine_after_ten_seconds() {
    let mut queue = Fixture::with(settings(thirty_in_ten_seconds));
    queue.send_batch("jobs", &batch(&["m"; 30])).unwrap();
    assert_eq!(batches(&mut queue, 20_000), [(0, 30)]);
    queue.send_batch("jobs", &batch(&["m"; 29])).unwrap();
    assert_eq!(batches(&mut queue, 20_000), [(10_000, 29)]);
}

#[test]
fn what_a_full_batch_leaves_waits_for_a_batch_of_its_own() {
    let mut queue = Fixture::with(settings(thirty_in_ten_seconds));
    queue.send_batch("jobs", &batch(&["m"; 70])).unwrap();
    assert_eq!(batches(&mut queue, 20_000), [(0, 30), (0, 30), (10_000, 10)]);
}

#[test]
fn a_store_that_others_write_to_keeps_no_batch_waiting() {
    let mut queue = Fixture::with(settings(thirty_in_ten_seconds));
    queue.send("jobs", "m");
    let consumer = queue.broker.info("jobs").unwrap().settings.consumer.clone();
    for second in 0..=10 {
        assert_eq!(queue.wake("jobs").batch_in_ms(&consumer), Some(10_000 - second * 1_000));
        queue.pass_s(1);
        queue.run(|broker, sql, at| Ok(broker.reload(sql, at)?)).unwrap();
    }
}

#[test]
fn a_batch_of_no_wait_is_due_with_its_first_message_and_an_empty_queue_has_none() {
    let consumer = ConsumerSettings { batch_wait_ms: 0, ..ConsumerSettings::default() };
    let wake = |ready| Wake { ready, waiting_ms: 0, next_in_ms: Some(5) };
    assert_eq!([0, 1, 10, 11].map(|ready| wake(ready).batch_in_ms(&consumer)), [None, Some(0), Some(0), Some(0)]);
    let consumer = ConsumerSettings::default();
    assert_eq!([0, 1, 10, 11].map(|ready| wake(ready).batch_in_ms(&consumer)), [None, Some(5_000), Some(0), Some(0)]);
    let waited = Wake { ready: 1, waiting_ms: 9_999_999, next_in_ms: None };
    assert_eq!(waited.batch_in_ms(&consumer), Some(0));
}

#[test]
fn delays_of_a_message_a_batch_and_a_queue_come_in_their_order() {
    let mut queue = Fixture::with(settings(|settings| {
        settings.delivery_delay_s = 2;
        settings.consumer.batch_wait_ms = 0;
    }));
    queue.send("jobs", "a");
    queue.send_batch("jobs", &NewBatch { messages: vec![delayed("b", 0), delayed("c", 5)], delay_s: None }).unwrap();
    let mut both = batch(&["d", "e"]);
    both.delay_s = Some(3);
    both.messages[1].delay_s = Some(1);
    queue.send_batch("jobs", &both).unwrap();
    let mut came = Vec::new();
    for second in 0..8 {
        came.extend(queue.bodies("jobs").into_iter().map(|body| (body, second)));
        queue.pass_s(1);
    }
    let wanted = [("b", 0), ("e", 1), ("a", 2), ("d", 3), ("c", 5)];
    assert_eq!(came, wanted.map(|(body, second)| (body.to_owned(), second)));
}

#[test]
fn messages_sent_while_nobody_consumes_are_delivered_as_the_first_attempt_when_somebody_does() {
    let mut queue = Fixture::with(settings(|_| {}));
    for body in ["a", "b", "c"] {
        queue.send("jobs", body);
    }
    for _ in 0..30 {
        queue.pass_s(1);
        queue.sweep_all();
    }
    queue.restart();
    let taken = queue.take("jobs");
    assert_eq!(taken.iter().map(|one| one.message.attempts).collect::<Vec<_>>(), [1, 1, 1]);
}
