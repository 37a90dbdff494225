//! How many statements the operations cost, whatever waits: what they cost in time is mostly that.

use jadpo_core::broker::{Settle, Take};

use super::support::{Fixture, batch, message, retry, settings};

/// A queue with many messages, some of them leased and some delayed.
fn busy() -> Fixture {
    let mut queue = Fixture::with(settings(|_| {}));
    for _ in 0..10 {
        queue.send_batch("jobs", &batch(&["m"; 100])).unwrap();
    }
    queue.take("jobs");
    queue.send_batch("jobs", &batch(&["m"; 100])).unwrap();
    queue
}

#[test]
fn a_message_alone_costs_two_statements_to_send_two_to_take_and_two_to_acknowledge() {
    let mut queue = busy();
    queue.send("jobs", "one");
    assert_eq!(queue.statements, 2);
    let taken = queue.try_take("jobs", 1).unwrap().messages;
    assert_eq!(queue.statements, 2);
    queue.ack("jobs", &taken);
    assert_eq!(queue.statements, 2);
}

#[test]
fn a_hundred_at_once_cost_a_statement_each_to_send_and_two_and_three_for_all() {
    let mut queue = busy();
    queue.send_batch("jobs", &batch(&["m"; 100])).unwrap();
    assert_eq!(queue.statements, 101);
    let taken = queue.try_take("jobs", 100).unwrap().messages;
    assert_eq!((taken.len(), queue.statements), (100, 2));
    queue.ack("jobs", &taken);
    assert_eq!(queue.statements, 3);
}

#[test]
fn a_retry_and_a_release_cost_one_statement_each() {
    let mut queue = busy();
    let taken = queue.try_take("jobs", 4).unwrap().messages;
    let retries = taken[..2].iter().map(|one| retry(one.lease, Some(60))).collect();
    let releases = taken[2..].iter().map(|one| one.lease).collect();
    let settled = queue.settle("jobs", &Settle { retries, releases, ..Settle::default() });
    assert_eq!((settled.retried, settled.released, queue.statements), (2, 2, 4));
}

#[test]
fn sending_and_taking_at_once_costs_two_statements_and_asking_when_to_come_again_one() {
    let mut queue = busy();
    queue.run(|broker, sql, at| broker.send_taken(sql, at, "jobs", &message("m"), 1_000)).unwrap();
    assert_eq!(queue.statements, 2);
    queue.run(|broker, sql, at| broker.wakes(sql, at, &["jobs"])).unwrap();
    assert_eq!(queue.statements, 1);
}

#[test]
fn what_is_overdue_is_asked_for_only_when_something_can_be() {
    let mut queue = busy();
    queue.pass_s(29);
    let take = Take { max: 1, visibility_ms: Some(600_000) };
    queue.run(|broker, sql, at| broker.take(sql, at, "jobs", take)).unwrap();
    assert_eq!(queue.statements, 2);
    queue.pass_s(1);
    queue.sweep_all();
    queue.run(|broker, sql, at| broker.take(sql, at, "jobs", take)).unwrap();
    assert_eq!(queue.statements, 2, "a sweep has found what was overdue");
}
