//! What a program declares.

use jadpo_core::broker::{ConsumerSettings, Settings};
use jadpo_core::local::{BODY_BYTES_MAX, CONCURRENCY_MAX, FUNCTIONS_MAX, VISIBILITY_MS_MAX, dead_letters_of};
use jadpo_core::trigger::{Consumer, Triggers};
use jadpo_core::{broker::limits, program::CONCURRENCY};

use crate::program;

const APP: &str = r#"
connections: {
    jobs: { driver: Driver.local_queue, queue: "jobs", functions: [pay], max_receives: 5, visibility: 1m, concurrency: 1 }
    kept: { driver: Driver.local_queue, queue: "kept" }
    stock: { driver: Driver.local_queue, queue: "stock" }
    long: { driver: Driver.local_queue, queue: "long", functions: [pay], visibility: 12h }
    pushed: { driver: Driver.cloudflare_queues, queue: "pushed", dead_letter_queue: "gone" }
}
functions: {
    pay: { run: pay }
    Sweep_Up: { run: sweep, schedule: "0 * * * *" }
    feed: { send: "jobs", schedule: "0 0 * * *" }
}
events: { E: Json }
receiving: { stock: { event: E } }
"#;

#[test]
fn local_queues_and_the_queues_of_schedules_are_declared_and_nothing_else() {
    let triggers = Triggers::of(&program(APP));
    let found: Vec<(&str, &Consumer)> =
        triggers.declared().map(|declared| (declared.queue.as_str(), &declared.consumer)).collect();
    let functions = |name: &str| Consumer::Functions(vec![name.to_owned()]);
    assert_eq!(
        found,
        [
            ("jobs", &functions("pay")),
            ("kept", &Consumer::Nobody),
            ("long", &functions("pay")),
            ("schedule-sweep-up", &functions("Sweep_Up")),
            ("stock", &Consumer::Receiving),
        ]
    );
}

#[test]
fn a_queue_is_set_to_what_the_app_says() {
    let triggers = Triggers::of(&program(APP));
    let jobs = triggers.get("jobs").unwrap();
    assert_eq!(
        jobs.settings.consumer,
        ConsumerSettings {
            batch_wait_ms: 0,
            max_retries: 4,
            visibility_ms: 60_000,
            dead_letter_queue: Some("jobs-dead".to_owned()),
            max_concurrency: Some(1),
            ..ConsumerSettings::default()
        }
    );
    assert_eq!(triggers.get("kept").unwrap().concurrency, CONCURRENCY);
    let (dead, settings) = jobs.dead_letters();
    assert_eq!((dead.as_str(), settings.retention_s), ("jobs-dead", 14 * 86_400));
    assert_eq!(settings.consumer.dead_letter_queue, None);
}

#[test]
fn a_received_queue_has_every_retry_there_is_whatever_the_app_says() {
    let triggers = Triggers::of(&program(APP));
    assert_eq!(triggers.get("stock").unwrap().settings.consumer.max_retries, 100);
}

#[test]
fn what_an_operator_set_and_the_app_does_not_speak_of_stays() {
    let triggers = Triggers::of(&program(APP));
    let jobs = triggers.get("jobs").unwrap();
    let present = Settings { paused: true, delivery_delay_s: 7, retention_s: 60, ..Settings::default() };
    let over = jobs.settings_over(&present);
    assert_eq!(over, Settings { consumer: jobs.settings.consumer.clone(), ..present });
}

#[test]
fn a_call_always_ends_before_its_lease() {
    let triggers = Triggers::of(&program(APP));
    let jobs = triggers.get("jobs").unwrap();
    assert_eq!((jobs.visibility_ms, jobs.lease_ms()), (60_000, 70_000));
    // The longest lease there is leaves no room behind the longest visibility.
    assert_eq!(triggers.get("long").unwrap().lease_ms(), limits::VISIBILITY_MAX_MS);
}

#[test]
fn a_failed_message_is_visible_when_its_window_ends_and_not_a_window_after_it_failed() {
    let triggers = Triggers::of(&program(APP));
    let jobs = triggers.get("jobs").unwrap();
    assert_eq!([0, 1, 59_999, 60_000, 60_001, u64::MAX].map(|ago| jobs.again_in_ms(ago)), [60_000, 59_999, 1, 0, 0, 0]);
}

#[test]
fn a_developer_s_visibility_holds_for_every_queue() {
    let triggers = Triggers::of(&program(APP)).with_visibility_ms(500);
    for declared in triggers.declared() {
        assert_eq!((declared.visibility_ms, declared.settings.consumer.visibility_ms), (500, 500));
        assert_eq!(declared.lease_ms(), 10_500);
    }
}

#[test]
fn the_limits_of_an_app_are_those_of_the_broker() {
    assert_eq!(BODY_BYTES_MAX, limits::MESSAGE_BYTES_MAX);
    assert_eq!(CONCURRENCY_MAX, limits::CONCURRENCY_MAX);
    assert_eq!(VISIBILITY_MS_MAX, u64::from(limits::VISIBILITY_MAX_MS));
    let names = FUNCTIONS_MAX * (64 + 1);
    assert!(names <= limits::PROGRESS_BYTES_MAX, "every function's name fits into the progress: {names} bytes");
    assert!(dead_letters_of(&"q".repeat(58)).len() <= limits::NAME_LEN_MAX);
}
