//! Acks, retries, and leases that are late, stale or made up.

use jadpo_core::broker::{BrokerError, Settle, Warning};

use super::support::{Fixture, batch, retry, settings};

#[test]
fn a_late_ack_counts_even_when_another_consumer_has_the_message() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send_batch("jobs", &batch(&["a", "b"])).unwrap();
    let first = queue.take("jobs");
    queue.pass_s(31);
    assert_eq!(queue.ack("jobs", &first[..1]).acked, 1, "nobody has it yet");
    let second = queue.take("jobs");
    assert_eq!(second.len(), 1);
    let late = queue.ack("jobs", &first[1..]);
    assert_eq!((late.acked, late.warnings.len()), (1, 0));
    let own = queue.ack("jobs", &second);
    assert_eq!((own.acked, own.warnings.len()), (1, 0), "who has it may acknowledge it too");
    queue.pass_s(60);
    assert!(queue.take("jobs").is_empty());
    assert_eq!(queue.metrics("jobs").messages, 0);
}

#[test]
fn a_message_that_was_acknowledged_late_does_not_come_again_when_its_new_lease_ends_or_is_retried() {
    for retried in [false, true] {
        let mut queue = Fixture::with(settings(|_| {}));
        queue.send("jobs", "a");
        let first = queue.take("jobs");
        queue.pass_s(30);
        let second = queue.take("jobs");
        assert_eq!(queue.ack("jobs", &first).acked, 1);
        if retried {
            queue.retry("jobs", &second, None);
        }
        queue.pass_s(30);
        assert!(queue.take("jobs").is_empty());
        assert_eq!(queue.metrics("jobs").messages, 0);
        assert_eq!(queue.count("SELECT count(*) FROM jadpo_queue_due"), 0);
    }
}

#[test]
fn a_late_retry_is_a_warning_and_does_not_cut_the_new_lease() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send_batch("jobs", &batch(&["a", "b"])).unwrap();
    let first = queue.take("jobs");
    queue.pass_s(30);
    let ended = queue.retry("jobs", &first[..1], Some(600));
    assert_eq!((ended.retried, ended.warnings.as_slice()), (0, [(first[0].lease, Warning::Late)].as_slice()));
    let second = queue.take("jobs");
    assert_eq!(second.len(), 2, "a late delay holds nothing back");
    let stale = queue.retry("jobs", &first, None);
    assert_eq!((stale.retried, stale.warnings.len()), (0, 2));
    assert!(queue.take("jobs").is_empty(), "the new lease lasts");
    assert_eq!(queue.ack("jobs", &second).acked, 2);
}

#[test]
fn an_unknown_lease_is_a_warning_and_the_others_in_the_call_count() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.create("other", settings(|_| {}));
    queue.send_batch("jobs", &batch(&["a", "b", "c"])).unwrap();
    queue.send("other", "d");
    let (taken, other) = (queue.take("jobs"), queue.take("other"));
    queue.ack("jobs", &taken[..1]);
    let settle = Settle {
        acks: vec![taken[0].lease, taken[1].lease, other[0].lease, taken[1].lease],
        retries: vec![retry(taken[1].lease, None), retry(taken[2].lease, None), retry(taken[0].lease, None)],
        ..Settle::default()
    };
    let settled = queue.settle("jobs", &settle);
    assert_eq!((settled.acked, settled.retried), (1, 1));
    let mut warnings: Vec<Warning> = settled.warnings.iter().map(|(_, warning)| *warning).collect();
    warnings.sort_by_key(|warning| *warning as u8);
    use Warning::{Repeated, Unknown};
    assert_eq!(warnings, [Unknown, Unknown, Repeated, Repeated, Repeated]);
    assert_eq!(queue.bodies("jobs"), ["c"]);
    assert_eq!(queue.metrics("other").in_flight, 1, "a lease of another queue is none of this one");
}

#[test]
fn seven_acks_hold_and_only_the_rest_comes_back() {
    let mut queue = Fixture::with(settings(|_| {}));
    let ten: Vec<String> = (1..=10).map(|n| n.to_string()).collect();
    queue.send_batch("jobs", &batch(&ten.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
    let taken = queue.take("jobs");
    queue.ack("jobs", &taken[..7]);
    queue.retry("jobs", &taken[7..], None);
    let again = queue.take("jobs");
    assert_eq!(again.iter().map(|one| one.message.attempts).collect::<Vec<_>>(), [2, 2, 2]);
    assert_eq!(again[0].message.body, b"8");
}

#[test]
fn two_retries_with_a_delay_come_at_its_end_and_eight_acks_never() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send_batch("jobs", &batch(&["m"; 10])).unwrap();
    let taken = queue.take("jobs");
    let retries = [2, 5].map(|index: usize| retry(taken[index].lease, Some(600))).to_vec();
    let acks = taken.iter().map(|one| one.lease).filter(|lease| retries.iter().all(|one| one.lease != *lease));
    let settled = queue.settle("jobs", &Settle { acks: acks.collect(), retries, ..Settle::default() });
    assert_eq!((settled.acked, settled.retried), (8, 2));
    queue.pass_ms(599_999);
    assert!(queue.take("jobs").is_empty());
    queue.pass_ms(1);
    assert_eq!(queue.take("jobs").len(), 2);
    assert_eq!(queue.metrics("jobs").messages, 2);
}

#[test]
fn a_retry_waits_for_its_own_delay_else_the_consumer_s_and_zero_is_a_delay() {
    let mut queue = Fixture::with(settings(|settings| settings.consumer.retry_delay_s = 60));
    queue.send("jobs", "a");
    let taken = queue.take("jobs");
    queue.retry("jobs", &taken, None);
    queue.pass_ms(59_999);
    assert!(queue.take("jobs").is_empty());
    queue.pass_ms(1);
    let taken = queue.take("jobs");
    queue.retry("jobs", &taken, Some(0));
    let taken = queue.take("jobs");
    assert_eq!(taken[0].message.attempts, 3, "at once, not when the lease would have ended");
    let refused = queue.run(|broker, sql, at| {
        broker.settle(
            sql,
            at,
            "jobs",
            &Settle { retries: vec![retry(taken[0].lease, Some(86_401))], ..Settle::default() },
        )
    });
    assert_eq!(refused.unwrap_err(), BrokerError::DelayTooLong { index: 0, limit: 86_400, actual: 86_401 });
}

#[test]
fn lease_ids_come_back_as_the_lease_they_stand_for_and_none_can_be_made_up() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send_batch("jobs", &batch(&["a", "b"])).unwrap();
    let taken = queue.take("jobs");
    let key = queue.broker.lease_key();
    let id = key.seal(&taken[0].lease);
    assert_eq!((id.len(), key.open(&id)), (64, Some(taken[0].lease)));
    queue.restart();
    assert_eq!(queue.broker.lease_key().open(&id), Some(taken[0].lease), "the key lives as long as the store");
    for at in 0..id.len() {
        let mut other = id.clone().into_bytes();
        other[at] = if other[at] == b'A' { b'B' } else { b'A' };
        assert_eq!(key.open(&String::from_utf8(other).unwrap()), None, "changed at {at}");
    }
    let (half, _) = id.split_at(32);
    for made_up in ["", "a", half, &format!("{id}AAAA"), "ü", &"A".repeat(64)] {
        assert_eq!(key.open(made_up), None, "{made_up}");
    }
    assert_eq!(Fixture::new().broker.lease_key().open(&id), None, "of another store");
}

#[test]
fn a_lease_from_before_a_restart_settles() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send("jobs", "a");
    let taken = queue.take("jobs");
    queue.pass_s(5);
    queue.at.steady_ms = 3; // a new process counts from anew
    queue.restart();
    assert_eq!(queue.ack("jobs", &taken).acked, 1);
    assert_eq!(queue.metrics("jobs").messages, 0);
}

#[test]
fn an_ack_that_comes_when_its_message_has_died_is_a_warning_and_the_letter_stays() {
    let mut queue = Fixture::with(settings(|settings| {
        settings.consumer.max_retries = 0;
        settings.consumer.dead_letter_queue = Some("jobs-dead".to_owned());
    }));
    queue.send("jobs", "a");
    let taken = queue.take("jobs");
    queue.pass_s(30);
    assert_eq!(queue.sweep_all(), 1);
    assert_eq!(queue.ack("jobs", &taken).warnings, [(taken[0].lease, Warning::Unknown)]);
    assert_eq!(queue.bodies("jobs-dead"), ["a"]);
}

#[test]
fn ten_that_nobody_settles_all_come_again() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send_batch("jobs", &batch(&["m"; 10])).unwrap();
    assert_eq!(queue.take("jobs").len(), 10);
    queue.pass_s(30);
    let again = queue.take("jobs");
    assert!(again.len() == 10 && again.iter().all(|one| one.message.attempts == 2));
}
