//! What is refused, with which code and which figures, and that nothing of it is kept.

use jadpo_core::broker::{BrokerError, Content, NewBatch, NewMessage, Settings};

use super::support::{Fixture, batch, delayed, message, settings};

fn sized(bytes: usize) -> NewMessage {
    NewMessage { content: Content::Bytes, body: vec![7; bytes], delay_s: None, meta: None }
}

fn refused(queue: &mut Fixture, messages: Vec<NewMessage>, delay_s: Option<u32>) -> (BrokerError, Option<u32>) {
    let error = queue.send_batch("jobs", &NewBatch { messages, delay_s }).unwrap_err();
    assert_eq!(queue.metrics("jobs").messages, 0, "no part of it is kept");
    let code = error.code();
    (error, code)
}

#[test]
fn a_batch_has_one_to_a_hundred_messages() {
    let mut queue = Fixture::with(settings(|_| {}));
    let count = |actual| (BrokerError::BatchCount { limit: 100, actual }, Some(10_206));
    assert_eq!(refused(&mut queue, vec![], None), count(0));
    assert_eq!(refused(&mut queue, vec![message("m"); 101], None), count(101));
    assert_eq!(queue.send_batch("jobs", &batch(&["m"; 100])).unwrap().ids.len(), 100);
    assert_eq!(queue.try_take("jobs", 101).unwrap_err().code(), Some(10_206));
    assert_eq!(queue.try_take("jobs", 0).unwrap_err().code(), Some(10_206));
}

#[test]
fn a_message_has_128_000_bytes_at_most_and_a_batch_256_000() {
    let mut queue = Fixture::with(settings(|_| {}));
    let (error, code) = refused(&mut queue, vec![sized(1), sized(128_001)], None);
    assert_eq!(
        (&error, code),
        (&BrokerError::MessageTooBig { index: 1, limit: 128_000, actual: 128_001 }, Some(10_204))
    );
    let said = error.to_string();
    assert!(said.contains("128001") && said.contains("128000"), "{said}");
    let (error, code) = refused(&mut queue, vec![sized(128_000), sized(128_000), sized(1)], None);
    assert_eq!((error, code), (BrokerError::BatchTooBig { limit: 256_000, actual: 256_001 }, Some(10_205)));
    queue.send_batch("jobs", &NewBatch { messages: vec![sized(128_000); 2], delay_s: None }).unwrap();
    assert_eq!(queue.metrics("jobs").bytes, 256_000);
}

#[test]
fn delays_metadata_and_empty_json_have_their_codes() {
    let mut queue = Fixture::with(settings(|_| {}));
    assert_eq!(refused(&mut queue, vec![delayed("m", 86_401)], None).1, Some(10_203));
    assert_eq!(refused(&mut queue, vec![message("m")], Some(86_401)).1, Some(10_202));
    let meta = NewMessage { meta: Some("x".repeat(65_537)), ..message("m") };
    assert_eq!(refused(&mut queue, vec![meta], None).1, Some(10_203));
    let json = NewMessage { content: Content::Json, ..sized(0) };
    assert_eq!(
        refused(&mut queue, vec![message("m"), json], None),
        (BrokerError::JsonEmpty { index: 1 }, Some(10_208))
    );
    queue.send_batch("jobs", &NewBatch { messages: vec![delayed("m", 86_400)], delay_s: Some(86_400) }).unwrap();
}

#[test]
fn settings_out_of_range_are_refused_with_their_range() {
    let mut queue = Fixture::new();
    let mut code = |change: fn(&mut Settings)| {
        let error = queue.run(|broker, sql, at| broker.create(sql, at, "jobs", settings(change))).unwrap_err();
        assert!(matches!(error, BrokerError::SettingInvalid { .. }), "{error:?}");
        error.code()
    };
    assert_eq!(code(|s| s.delivery_delay_s = 86_401), Some(100_128));
    assert_eq!(code(|s| s.retention_s = 59), Some(100_128));
    assert_eq!(code(|s| s.retention_s = 1_209_601), Some(100_128));
    assert_eq!(code(|s| s.consumer.batch_size = 0), Some(100_127));
    assert_eq!(code(|s| s.consumer.batch_size = 101), Some(100_127));
    assert_eq!(code(|s| s.consumer.batch_wait_ms = 60_001), Some(100_127));
    assert_eq!(code(|s| s.consumer.max_retries = 101), Some(100_127));
    assert_eq!(code(|s| s.consumer.retry_delay_s = 86_401), Some(100_127));
    assert_eq!(code(|s| s.consumer.visibility_ms = 43_200_001), Some(100_127));
    assert_eq!(code(|s| s.consumer.max_concurrency = Some(0)), Some(100_127));
    assert_eq!(code(|s| s.consumer.max_concurrency = Some(251)), Some(100_127));
    queue.create("jobs", settings(|s| s.consumer.batch_wait_ms = 250));
    assert_eq!(queue.broker.info("jobs").unwrap().settings.consumer.batch_wait_ms, 250, "a quarter of a second");
}

#[test]
fn names_are_what_cloudflare_s_are() {
    let mut queue = Fixture::new();
    let long = "a".repeat(64);
    for name in ["", "-a", "a-", "My Queue", "a/b", "../a", "a_b", "A", "ä", "a\0", "a'b", &long] {
        let refused = queue.run(|broker, sql, at| broker.create(sql, at, name, settings(|_| {})));
        assert!(matches!(refused, Err(BrokerError::NameInvalid { .. })), "{name}");
    }
    for name in ["a", "0", "orders-eu-1", &"a".repeat(63)] {
        queue.create(name, settings(|_| {}));
    }
    let twice = queue.run(|broker, sql, at| broker.create(sql, at, "a", settings(|_| {})));
    assert_eq!(twice.unwrap_err(), BrokerError::QueueExists("a".to_owned()));
}

/// Gives the queue so many rows of this number, as the store packs bodies and metadata.
fn fill(queue: &Fixture, packed: u32, rows: u32) {
    let rows = format!(
        "INSERT INTO jadpo_queue_due (queue, due_at, seq, attempts, leased, bytes) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) \
         SELECT (SELECT queue FROM jadpo_queues), 0, i + 1000000, 0, 0, {packed} FROM n"
    );
    queue.connection.execute("DELETE FROM jadpo_queue_due", []).unwrap();
    queue.connection.execute(&rows, []).unwrap();
}

#[test]
fn metadata_count_towards_what_a_queue_holds_and_no_figure_shows_them() {
    let mut queue = Fixture::with(settings(|settings| {
        settings.consumer.max_retries = 0;
        settings.consumer.dead_letter_queue = Some("jobs-dead".to_owned());
    }));
    let with_meta = |bytes: usize| NewBatch {
        messages: vec![NewMessage { meta: Some("m".repeat(bytes)), ..message("") }],
        delay_s: None,
    };
    // 390,000 times 64,000 bytes are 24,960,000,000.
    fill(&queue, 16_000 << 17, 390_000);
    queue.restart();
    assert_eq!(queue.metrics("jobs").bytes, 0);
    for _ in 0..625 {
        queue.send_batch("jobs", &with_meta(64_000)).unwrap();
    }
    let full = queue.send_batch("jobs", &with_meta(1)).unwrap_err();
    assert_eq!(full, BrokerError::QueueFull { limit: 25_000_000_000, actual: 25_000_000_001 });
    // Rows without a message are removed as they are come upon; what is done makes room again.
    queue.run(|broker, sql, at| broker.purge(sql, at, "jobs")).unwrap();
    queue.sweep_all();
    for bytes in [0, 1, 65_536] {
        queue.send_batch("jobs", &with_meta(bytes)).unwrap();
    }
    queue.restart();
    let taken = queue.take("jobs");
    assert_eq!(taken.len(), 3);
    assert_eq!(queue.ack("jobs", &taken[..1]).acked, 1);
    queue.retry("jobs", &taken[1..], None);
    assert_eq!((queue.metrics("jobs").messages, queue.metrics("jobs-dead").messages), (0, 2));
    let dead = "SELECT sum(bytes & 131071) * 1000000 + sum(bytes >> 17) FROM jadpo_queue_due";
    assert_eq!(queue.count(dead), 1 + 16_384, "a dead letter takes as much room as it did alive");
}

#[test]
fn a_queue_holds_25_gigabytes_and_no_more() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send("jobs", "m");
    fill(&queue, 125_000, 200_000);
    queue.restart();
    assert_eq!(queue.metrics("jobs").bytes, 25_000_000_000);
    let error = queue.send_batch("jobs", &batch(&["m"])).unwrap_err();
    assert_eq!(
        (&error, error.code()),
        (&BrokerError::QueueFull { limit: 25_000_000_000, actual: 25_000_000_001 }, Some(10_251))
    );
}
