//! Retries that are spent: dead letters, what they remember, and circles of them.

use jadpo_core::broker::{BrokerError, How, Reason, Retry, Settings, Settle, Swept};

use super::support::{Fixture, batch, retry, settings};

fn retries(max_retries: u32, dead: Option<&str>) -> Settings {
    settings(|settings| {
        settings.consumer.max_retries = max_retries;
        settings.consumer.dead_letter_queue = dead.map(str::to_owned);
    })
}

#[test]
fn n_retries_are_n_and_one_deliveries_and_then_the_dead_letter_queue_or_a_word_about_the_loss() {
    for (max_retries, dead) in [3, 1, 0].into_iter().flat_map(|n| [(n, Some("jobs-dead")), (n, None)]) {
        let mut queue = Fixture::with(retries(max_retries, dead));
        let id = queue.send("jobs", "poison").ids[0];
        let mut deliveries = 0;
        let gone = loop {
            let taken = queue.take("jobs");
            deliveries += 1;
            assert_eq!(taken[0].message.attempts, deliveries);
            let settled = queue.retry("jobs", &taken, None);
            assert_eq!(settled.retried, 1);
            if !settled.gone.is_empty() {
                break settled.gone;
            }
        };
        assert_eq!(deliveries, max_retries + 1);
        assert_eq!((gone[0].id, gone[0].attempts, gone[0].queue.as_str()), (id, deliveries, "jobs"));
        assert_eq!(queue.metrics("jobs").messages, 0);
        let Some(dead) = dead else {
            assert_eq!(gone[0].how, How::Dropped);
            continue;
        };
        assert_eq!(gone[0].how, How::DeadLettered(dead.to_owned()));
        let letter = &queue.take(dead)[0].message;
        assert_eq!((letter.id, letter.body.as_slice(), letter.attempts), (id, b"poison".as_slice(), 1));
    }
}

#[test]
fn leases_that_nobody_settles_are_attempts_too_and_end_in_the_dead_letter_queue() {
    for swept in [false, true] {
        let mut queue = Fixture::with(retries(3, Some("dead")));
        queue.send("jobs", "unseen");
        for attempt in 1..=4 {
            assert_eq!(queue.take("jobs")[0].message.attempts, attempt);
            queue.pass_s(30);
            if swept {
                let Swept { gone, .. } = queue.sweep();
                assert_eq!(gone.len(), usize::from(attempt == 4), "not before four leases have ended");
            }
        }
        assert!(queue.take("jobs").is_empty());
        let letter = queue.take("dead")[0].message.dead.clone().unwrap();
        assert_eq!((letter.reason, letter.error, letter.attempts), (Reason::LeaseEnded, None, 4));
    }
}

#[test]
fn a_dead_letter_remembers_where_it_came_from_how_often_it_was_tried_and_what_went_wrong() {
    let mut queue = Fixture::with(retries(1, Some("dead")));
    let sent_at = queue.at.wall_ms;
    queue.send("jobs", "a");
    queue.pass_s(10);
    for (error, reason) in [(Some("first"), Reason::Failed), (None, Reason::Failed)] {
        let lease = queue.take("jobs")[0].lease;
        let retries = vec![Retry { reason, error: error.map(str::to_owned), ..retry(lease, Some(60)) }];
        queue.settle("jobs", &Settle { retries, ..Settle::default() });
        queue.pass_s(60);
    }
    let letter = &queue.take("dead")[0].message;
    let dead = letter.dead.clone().unwrap();
    assert_eq!(letter.sent_at_ms, sent_at);
    assert_eq!((dead.queue.as_str(), dead.attempts, dead.reason), ("jobs", 2, Reason::Failed));
    assert_eq!(dead.error.as_deref(), Some("first"), "the last that said anything");
    assert_eq!((dead.first_at_ms - sent_at, dead.last_at_ms - sent_at), (10_000, 70_000));
}

#[test]
fn an_endless_error_is_cut_between_two_characters() {
    let mut queue = Fixture::with(retries(0, Some("dead")));
    queue.send("jobs", "a");
    let lease = queue.take("jobs")[0].lease;
    let error = Some(format!("x{}", "ü".repeat(100_000)));
    let retries = vec![Retry { reason: Reason::Failed, error, ..retry(lease, None) }];
    queue.settle("jobs", &Settle { retries, ..Settle::default() });
    let kept = queue.take("dead")[0].message.dead.clone().unwrap().error.unwrap();
    assert_eq!(kept, format!("x{}", "ü".repeat(999)));
}

#[test]
fn a_dead_letter_queue_that_nobody_declared_is_made_on_first_use_and_stays() {
    let mut queue = Fixture::with(retries(0, Some("q0-dead")));
    assert!(matches!(queue.try_take("q0-dead", 1), Err(BrokerError::QueueNotFound(_))));
    queue.send("jobs", "a");
    let taken = queue.take("jobs");
    queue.retry("jobs", &taken, None);
    let made = queue.broker.info("q0-dead").unwrap().clone();
    assert_eq!((made.settings, made.id.len()), (Settings::default(), 32));
    queue.restart();
    queue.pass_s(4 * 86_400 - 60);
    queue.sweep_all();
    assert_eq!(queue.bodies("q0-dead"), ["a"], "four days, as any queue");
}

#[test]
fn a_queue_that_is_its_own_dead_letter_queue_is_refused_by_name() {
    let mut queue = Fixture::new();
    let refused = queue.run(|broker, sql, at| broker.create(sql, at, "z", retries(0, Some("z")))).unwrap_err();
    assert_eq!(refused, BrokerError::OwnDeadLetterQueue("z".to_owned()));
    assert!(refused.to_string().contains("`z`"));
    queue.create("z", retries(0, None));
    let refused = queue.run(|broker, sql, at| broker.update(sql, at, "z", retries(0, Some("z"))));
    assert_eq!(refused.unwrap_err(), BrokerError::OwnDeadLetterQueue("z".to_owned()));
}

#[test]
fn a_circle_of_two_dead_letter_queues_goes_round_one_delivery_a_hop_until_retention_ends_it() {
    let mut queue = Fixture::new();
    let day = |dead| {
        settings(|settings| {
            settings.retention_s = 86_400;
            settings.consumer.max_retries = 0;
            settings.consumer.dead_letter_queue = Some(String::from(dead));
        })
    };
    queue.create("x", day("y"));
    queue.create("y", day("x"));
    let id = queue.send("x", "round").ids[0];
    let mut hops = 0;
    'round: loop {
        for name in ["x", "y"] {
            let taken = queue.take(name);
            let Some(one) = taken.first() else { break 'round };
            assert_eq!((one.message.id, one.message.attempts), (id, 1));
            queue.retry(name, &taken, None);
            hops += 1;
            queue.pass_s(3_600);
        }
    }
    assert!((24..=49).contains(&hops), "{hops} hops of an hour, two days at most");
    queue.sweep_all();
    assert_eq!(queue.count("SELECT count(*) FROM jadpo_queue_messages"), 0);
}

#[test]
fn an_older_lease_does_not_reach_a_message_that_came_back_round() {
    let mut queue = Fixture::new();
    queue.create("x", retries(0, Some("y")));
    queue.create("y", retries(0, Some("x")));
    queue.send("x", "round");
    let old = queue.take("x");
    for name in ["x", "y"] {
        let taken = if name == "x" { old.clone() } else { queue.take(name) };
        queue.retry(name, &taken, None);
    }
    let held = queue.take("x");
    assert_eq!(queue.retry("x", &old, None).warnings.len(), 1);
    assert_eq!(queue.ack("x", &old).warnings.len(), 1);
    assert_eq!(queue.ack("x", &held).acked, 1);
}

#[test]
fn retries_that_are_put_off_end_after_their_delays_and_not_sooner() {
    let mut queue = Fixture::with(retries(2, Some("dead")));
    queue.send("jobs", "a");
    let mut deliveries = Vec::new();
    for second in 0..=200 {
        let taken = queue.take("jobs");
        if !taken.is_empty() {
            deliveries.push((second, taken[0].message.attempts));
            let settled = queue.retry("jobs", &taken, Some(60));
            assert_eq!(settled.gone.len(), usize::from(second == 120));
        }
        queue.pass_s(1);
    }
    assert_eq!(deliveries, [(0, 1), (60, 2), (120, 3)]);
}

#[test]
fn zeros_are_values_one_delivery_at_once_and_the_end() {
    let mut queue = Fixture::with(settings(|settings| {
        settings.consumer.max_retries = 0;
        settings.consumer.retry_delay_s = 0;
        settings.consumer.batch_wait_ms = 0;
        settings.consumer.dead_letter_queue = Some("dead".to_owned());
    }));
    queue.restart();
    assert_eq!(queue.broker.info("jobs").unwrap().settings.consumer.batch_wait_ms, 0);
    queue.send("jobs", "a");
    let taken = queue.take("jobs");
    assert_eq!(queue.retry("jobs", &taken, None).gone.len(), 1);
    assert!(queue.take("jobs").is_empty());
}

#[test]
fn a_full_batch_moves_to_the_dead_letter_queue_unchecked_in_the_order_it_came() {
    let mut queue = Fixture::with(retries(0, Some("dead")));
    let bodies: Vec<String> = (0..100).map(|n| format!("{n:02560}")).collect();
    queue.send_batch("jobs", &batch(&bodies.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
    let taken = queue.try_take("jobs", 100).unwrap().messages;
    assert_eq!(queue.retry("jobs", &taken, None).gone.len(), 100);
    let dead = queue.try_take("dead", 100).unwrap().messages;
    assert_eq!(
        dead.iter().map(|one| one.message.body.clone()).collect::<Vec<_>>(),
        bodies.iter().map(|body| body.as_bytes().to_vec()).collect::<Vec<_>>()
    );
}
