//! Queues paused, emptied, deleted, and their figures.

use jadpo_core::broker::{Backlog, BrokerError, NewBatch, Warning};

use super::support::{Fixture, START_MS, batch, delayed, settings};

#[test]
fn a_paused_queue_takes_messages_and_gives_none_until_it_goes_on() {
    let mut queue = Fixture::with(settings(|settings| settings.retention_s = 60));
    queue.run(|broker, sql, at| broker.pause(sql, at, "jobs", true)).unwrap();
    queue.restart();
    queue.send("jobs", "old");
    queue.pass_s(40);
    queue.send("jobs", "a");
    queue.send("jobs", "b");
    assert_eq!(queue.try_take("jobs", 5).unwrap_err(), BrokerError::Paused("jobs".to_owned()));
    queue.pass_s(20);
    assert_eq!(queue.sweep_all(), 1, "retention goes on");
    let info = queue.run(|broker, sql, at| broker.pause(sql, at, "jobs", false)).unwrap();
    assert_eq!((info.settings.paused, info.settings.retention_s), (false, 60), "and the other settings stay");
    assert_eq!(queue.bodies("jobs"), ["a", "b"]);
}

#[test]
fn a_purge_empties_a_queue_at_once_and_gives_the_space_back_in_slices() {
    let mut queue = Fixture::with(settings(|_| {}));
    for _ in 0..12 {
        queue.send_batch("jobs", &batch(&["m"; 100])).unwrap();
    }
    let held = queue.take("jobs");
    let purged = queue.run(|broker, sql, moment| broker.purge(sql, moment, "jobs")).unwrap();
    assert_eq!(purged, Backlog { messages: 1_200, bytes: 1_200 });
    queue.send("jobs", "new");
    queue.restart();
    assert_eq!(queue.metrics("jobs").messages, 1);
    assert_eq!(queue.ack("jobs", &held[..1]).warnings, [(held[0].lease, Warning::Unknown)]);
    assert_eq!(queue.bodies("jobs"), ["new"]);
    assert!(queue.sweep().more);
    assert_eq!(queue.count("SELECT count(*) FROM jadpo_queue_messages"), 701);
    queue.sweep_all();
    assert_eq!(queue.count("SELECT count(*) FROM jadpo_queue_messages"), 1);
    assert_eq!(queue.count("SELECT count(*) FROM jadpo_queue_due"), 1);
    assert_eq!(queue.count("SELECT count(*) FROM jadpo_queue_garbage"), 0);
}

#[test]
fn a_deleted_queue_is_gone_and_one_of_its_name_starts_empty() {
    let mut queue = Fixture::with(settings(|_| {}));
    let id = queue.broker.info("jobs").unwrap().id.clone();
    queue.send("jobs", "a");
    let held = queue.take("jobs");
    assert_eq!(queue.run(|broker, sql, _| broker.delete(sql, "jobs")).unwrap().messages, 1);
    assert!(matches!(queue.send_batch("jobs", &batch(&["b"])), Err(BrokerError::QueueNotFound(_))));
    queue.create("jobs", settings(|_| {}));
    assert_ne!(queue.broker.info("jobs").unwrap().id, id);
    assert_eq!(queue.metrics("jobs").messages, 0);
    assert_eq!(queue.ack("jobs", &held).warnings.len(), 1);
    queue.sweep_all();
    assert_eq!(queue.count("SELECT count(*) FROM jadpo_queue_messages"), 0);
}

#[test]
fn the_figures_tell_what_is_ready_in_flight_and_delayed_and_the_oldest() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send("jobs", "12345");
    queue.take("jobs");
    queue.pass_s(1);
    let sent = queue.send_batch("jobs", &batch(&["ab", "cd"])).unwrap();
    assert_eq!(sent.before, Backlog { messages: 1, bytes: 5 });
    queue.send_batch("jobs", &NewBatch { messages: vec![delayed("later", 60)], delay_s: None }).unwrap();
    let metrics = queue.metrics("jobs");
    assert_eq!((metrics.messages, metrics.in_flight, metrics.delayed, metrics.bytes), (4, 1, 1, 14));
    assert_eq!(metrics.oldest_sent_at_ms, Some(START_MS));
    queue.restart();
    assert_eq!(queue.metrics("jobs"), metrics, "a new process counts the same");
    queue.pass_s(30);
    queue.sweep_all();
    let metrics = queue.metrics("jobs");
    assert_eq!((metrics.messages, metrics.in_flight, metrics.delayed), (4, 0, 1));
}

#[test]
fn every_setting_outlives_a_restart() {
    let mut queue = Fixture::with(settings(|settings| {
        settings.delivery_delay_s = 1;
        settings.retention_s = 61;
        settings.consumer.batch_size = 2;
        settings.consumer.batch_wait_ms = 3;
        settings.consumer.max_retries = 4;
        settings.consumer.retry_delay_s = 5;
        settings.consumer.visibility_ms = 6;
        settings.consumer.dead_letter_queue = Some("dead".to_owned());
        settings.consumer.max_concurrency = Some(7);
    }));
    let made = queue.broker.info("jobs").unwrap().clone();
    queue.restart();
    assert_eq!(queue.broker.info("jobs").unwrap(), &made);
    queue.pass_s(1);
    let mut other = made.settings.clone();
    other.consumer.visibility_ms = 60;
    other.consumer.dead_letter_queue = None;
    let changed = queue.run(|broker, sql, at| broker.update(sql, at, "jobs", other.clone())).unwrap();
    queue.restart();
    assert_eq!(queue.broker.info("jobs").unwrap(), &changed);
    assert_eq!((changed.settings, changed.modified_at_ms), (other, START_MS + 1_000));
}

#[test]
fn ten_thousand_queues_are_as_many_as_there_may_be() {
    let mut queue = Fixture::new();
    queue
        .run(|broker, sql, at| {
            (0..10_000).try_for_each(|n| broker.create(sql, at, &format!("q{n}"), settings(|_| {})).map(drop))
        })
        .unwrap();
    let refused = queue.run(|broker, sql, at| broker.create(sql, at, "one-more", settings(|_| {})));
    assert_eq!(refused.unwrap_err(), BrokerError::TooManyQueues { limit: 10_000 });
    queue.send("q9999", "a");
    queue.restart();
    assert_eq!(queue.bodies("q9999"), ["a"]);
}
