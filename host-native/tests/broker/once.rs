//! Sending once, messages whose sender waits for them, and leases that are given back.

use jadpo_core::broker::{
    BrokerError, How, NewBatch, NewMessage, Once, Reason, Retaken, Retry, SentOnce, Settle, Taken, TakenOnce, Warning,
};

use super::support::{Fixture, batch, delayed, message, retry, settings};

impl Fixture {
    fn send_once(&mut self, name: &str, scope: &str, key: &str) -> SentOnce {
        let message = message(key.get(..1).unwrap_or("m"));
        self.run(|broker, sql, at| broker.send_once(sql, at, name, Once { scope, key }, &message)).unwrap()
    }

    fn send_taken(&mut self, message: &NewMessage) -> Result<Taken, BrokerError> {
        self.run(|broker, sql, at| broker.send_taken(sql, at, "jobs", message, 5_000))
    }

    fn retry_taken(&mut self, retry: &Retry) -> Retaken {
        self.run(|broker, sql, at| broker.retry_taken(sql, at, "jobs", retry, 5_000)).unwrap()
    }

    fn release(&mut self, taken: &[Taken]) -> jadpo_core::broker::Settled {
        let releases = taken.iter().map(|taken| taken.lease).collect();
        self.settle("jobs", &Settle { releases, ..Settle::default() })
    }
}

fn failed(taken: &Taken, progress: Option<&str>) -> Retry {
    let progress = progress.map(str::to_owned);
    Retry { reason: Reason::Failed, error: Some("status 500".to_owned()), progress, ..retry(taken.lease, None) }
}

#[test]
fn who_sends_again_under_one_key_sends_nothing_and_gets_the_first_id() {
    let mut queue = Fixture::with(settings(|_| {}));
    let SentOnce::Sent(id) = queue.send_once("jobs", "hook", "delivery-1") else { panic!() };
    assert_eq!(queue.send_once("jobs", "hook", "delivery-1"), SentOnce::Repeat(id));
    let taken = queue.take("jobs");
    queue.ack("jobs", &taken);
    queue.restart();
    assert_eq!(queue.send_once("jobs", "hook", "delivery-1"), SentOnce::Repeat(id), "also when it is done");
    assert_eq!(queue.metrics("jobs").messages, 0);
    assert!(matches!(queue.send_once("jobs", "hook", "delivery-2"), SentOnce::Sent(_)));
    assert!(matches!(queue.send_once("jobs", "hoo", "kdelivery-1"), SentOnce::Sent(_)), "a scope ends where it ends");
}

#[test]
fn a_key_of_any_length_and_of_any_text_is_one_key() {
    let mut queue = Fixture::with(settings(|_| {}));
    let keys = [String::new(), "\0".to_owned(), "\0\0".to_owned(), "ä".repeat(1_000_000), "ä".repeat(1_000_001)];
    for key in &keys {
        assert!(matches!(queue.send_once("jobs", "hook", key), SentOnce::Sent(_)));
        assert!(matches!(queue.send_once("jobs", "hook", key), SentOnce::Repeat(_)));
    }
}

#[test]
fn a_key_is_remembered_for_a_week_of_running_and_whatever_the_wall_clock_says() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send_once("jobs", "hook", "a");
    queue.at.wall_ms += 1_000_000_000_000;
    queue.pass_s(7 * 86_400 - 1);
    queue.sweep_all();
    assert!(matches!(queue.send_once("jobs", "hook", "a"), SentOnce::Repeat(_)));
    queue.pass_s(1);
    queue.sweep_all();
    assert_eq!(queue.count("SELECT count(*) FROM jadpo_queue_once"), 0);
    assert!(matches!(queue.send_once("jobs", "hook", "a"), SentOnce::Sent(_)));
}

#[test]
fn a_send_that_is_refused_remembers_no_key() {
    let mut queue = Fixture::with(settings(|_| {}));
    let big = NewMessage { body: vec![0; 128_001], ..message("") };
    let once = Once { scope: "hook", key: "a" };
    let refused = queue.run(|broker, sql, at| broker.send_once(sql, at, "jobs", once, &big)).unwrap_err();
    assert_eq!(refused.code(), Some(10_204));
    let refused = queue.run(|broker, sql, at| broker.send_once(sql, at, "nowhere", once, &message("m"))).unwrap_err();
    assert_eq!(refused, BrokerError::QueueNotFound("nowhere".to_owned()));
    assert!(matches!(queue.send_once("jobs", "hook", "a"), SentOnce::Sent(_)));
}

#[test]
fn a_message_that_is_taken_as_it_is_sent_is_its_sender_s_and_nobody_else_s() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send("jobs", "waits");
    let sent = NewMessage { meta: Some("kept".to_owned()), ..delayed("mine", 600) };
    let taken = queue.send_taken(&sent).unwrap();
    assert_eq!((taken.message.attempts, &taken.message.body, &taken.message.meta), (1, &sent.body, &sent.meta));
    assert_eq!(queue.bodies("jobs"), ["waits"]);
    let metrics = queue.metrics("jobs");
    queue.restart();
    assert_eq!(queue.metrics("jobs"), metrics);
    assert_eq!(queue.ack("jobs", &[taken]).acked, 1);
    queue.pass_s(700);
    assert_eq!(queue.bodies("jobs"), ["waits"]);
}

#[test]
fn a_message_whose_sender_dies_comes_again_when_its_lease_ends() {
    let mut queue = Fixture::with(settings(|_| {}));
    let id = queue.send_taken(&message("m")).unwrap().message.id;
    queue.restart();
    queue.pass_ms(4_999);
    assert!(queue.take("jobs").is_empty());
    queue.pass_ms(1);
    let again = queue.take("jobs");
    assert_eq!((again[0].message.id, again[0].message.attempts), (id, 2));
}

#[test]
fn attempts_that_fail_at_once_are_counted_and_the_last_one_dead_letters() {
    let mut queue = Fixture::with(settings(|settings| {
        settings.consumer.max_retries = 2;
        settings.consumer.retry_delay_s = 60;
        settings.consumer.dead_letter_queue = Some("jobs-dead".to_owned());
    }));
    let first = queue.send_taken(&message("m")).unwrap();
    let Retaken::Taken(second) = queue.retry_taken(&failed(&first, Some("a"))) else { panic!() };
    assert_eq!((second.message.attempts, second.message.progress.as_deref()), (2, Some("a")));
    assert_eq!(second.message.body, b"m");
    queue.pass_ms(1);
    assert_eq!(queue.retry_taken(&failed(&first, None)), Retaken::Lost(Warning::Unknown), "a lease is used once");
    let Retaken::Taken(third) = queue.retry_taken(&failed(&second, None)) else { panic!() };
    assert_eq!((third.message.attempts, third.message.progress.as_deref()), (3, Some("a")));
    let Retaken::Gone(gone) = queue.retry_taken(&failed(&third, None)) else { panic!() };
    assert_eq!((gone.attempts, gone.how), (3, How::DeadLettered("jobs-dead".to_owned())));
    let letter = queue.take("jobs-dead").remove(0).message;
    assert_eq!((letter.id, letter.dead.unwrap().error.as_deref()), (first.message.id, Some("status 500")));
    assert_eq!(queue.metrics("jobs").messages, 0);
}

#[test]
fn an_immediate_attempt_whose_lease_ended_is_lost_and_the_message_is_not() {
    let mut queue = Fixture::with(settings(|_| {}));
    let taken = queue.send_taken(&message("m")).unwrap();
    queue.pass_s(5);
    assert_eq!(queue.retry_taken(&failed(&taken, None)), Retaken::Lost(Warning::Late));
    assert_eq!(queue.bodies("jobs"), ["m"]);
    let removed = queue.send_taken(&message("gone")).unwrap();
    let peek = jadpo_core::broker::Peek { max: 10, after: None };
    let seen = queue.run(|broker, sql, at| broker.peek(sql, at, "jobs", peek)).unwrap();
    let reference = seen.iter().find(|one| one.message.id == removed.message.id).unwrap().reference;
    queue.run(|broker, sql, _| broker.remove(sql, "jobs", &[reference])).unwrap();
    assert_eq!(queue.retry_taken(&failed(&removed, None)), Retaken::Lost(Warning::Unknown));
    queue.create("other", settings(|_| {}));
    let other = queue.run(|broker, sql, at| broker.send_taken(sql, at, "other", &message("o"), 5_000)).unwrap();
    assert_eq!(queue.retry_taken(&failed(&other, None)), Retaken::Lost(Warning::Unknown));
}

#[test]
fn a_message_that_is_sent_once_and_taken_is_its_first_sender_s_and_the_second_gets_its_id() {
    let mut queue = Fixture::with(settings(|_| {}));
    let send = |queue: &mut Fixture| {
        let once = Once { scope: "hook", key: "1" };
        queue.run(|broker, sql, at| broker.send_once_taken(sql, at, "jobs", once, &message("m"), 5_000))
    };
    let TakenOnce::Taken(taken) = send(&mut queue).unwrap() else { panic!() };
    assert_eq!(send(&mut queue).unwrap(), TakenOnce::Repeat(taken.message.id));
    assert_eq!(queue.send_once("jobs", "hook", "1"), SentOnce::Repeat(taken.message.id), "either way");
    assert_eq!(queue.ack("jobs", &[taken]).acked, 1);
    queue.run(|broker, sql, at| broker.pause(sql, at, "jobs", true)).unwrap();
    assert!(matches!(send(&mut queue), Ok(TakenOnce::Repeat(_))), "a repeat is no matter of the queue");
    assert_eq!(queue.metrics("jobs").messages, 0);
}

#[test]
fn a_paused_queue_keeps_nothing_that_would_have_to_be_taken_at_once() {
    let mut queue = Fixture::with(settings(|settings| settings.paused = true));
    assert_eq!(queue.send_taken(&message("m")).unwrap_err(), BrokerError::Paused("jobs".to_owned()));
    assert_eq!(queue.metrics("jobs").messages, 0);
}

#[test]
fn what_is_given_back_stands_where_it_stood_and_the_attempt_is_none() {
    let mut queue = Fixture::with(settings(|settings| settings.consumer.max_retries = 0));
    queue.send_batch("jobs", &batch(&["a", "b"])).unwrap();
    for _ in 0..5 {
        let taken = queue.take("jobs");
        assert_eq!(taken.iter().map(|one| one.message.attempts).collect::<Vec<_>>(), [1, 1]);
        let settled = queue.release(&taken);
        assert_eq!((settled.released, settled.warnings.len(), settled.gone.len()), (2, 0, 0));
        assert_eq!(queue.release(&taken).warnings.len(), 2, "once");
        queue.pass_ms(1);
    }
    queue.send("jobs", "c");
    assert_eq!(queue.bodies("jobs"), ["a", "b", "c"]);
    let metrics = queue.metrics("jobs");
    queue.restart();
    assert_eq!((metrics.in_flight, queue.metrics("jobs")), (3, metrics));
}

#[test]
fn a_dead_letter_s_first_attempt_is_none_that_was_given_back() {
    let mut queue = Fixture::with(settings(|settings| {
        settings.consumer.max_retries = 0;
        settings.consumer.dead_letter_queue = Some("jobs-dead".to_owned());
    }));
    queue.send("jobs", "a");
    let taken = queue.take("jobs");
    queue.release(&taken);
    queue.pass_s(10);
    let taken = queue.take("jobs");
    queue.retry("jobs", &taken, None);
    let dead = queue.take("jobs-dead").remove(0).message.dead.unwrap();
    assert_eq!((dead.first_at_ms, dead.attempts), (super::support::START_MS + 10_000, 1));
}

#[test]
fn a_lease_that_has_ended_cannot_be_given_back() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send("jobs", "a");
    let taken = queue.take("jobs");
    queue.pass_s(30);
    assert_eq!(queue.release(&taken).warnings, [(taken[0].lease, Warning::Late)]);
    assert_eq!(queue.take("jobs")[0].message.attempts, 2);
}

#[test]
fn of_a_lease_that_is_named_for_all_three_the_ack_counts_and_then_the_retry() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send_batch("jobs", &batch(&["a", "b", "c"])).unwrap();
    let leases: Vec<_> = queue.take("jobs").iter().map(|taken| taken.lease).collect();
    let settle = Settle {
        acks: vec![leases[0]],
        retries: vec![retry(leases[0], None), retry(leases[1], Some(60))],
        releases: leases.clone(),
        ..Settle::default()
    };
    let settled = queue.settle("jobs", &settle);
    assert_eq!((settled.acked, settled.retried, settled.released), (1, 1, 1));
    assert_eq!(settled.warnings.len(), 3);
    assert_eq!(queue.bodies("jobs"), ["c"]);
}

#[test]
fn progress_is_handed_over_with_the_next_attempts_until_something_else_is_said() {
    let mut queue = Fixture::with(settings(|settings| settings.consumer.max_retries = 10));
    queue.send("jobs", "a");
    let mut progress = Vec::new();
    for said in [Some("ledger"), None, Some("ledger,audit"), Some("")] {
        let taken = queue.take("jobs");
        progress.push(taken[0].message.progress.clone());
        let retries = vec![failed(&taken[0], said)];
        queue.settle("jobs", &Settle { retries, ..Settle::default() });
        queue.restart();
    }
    let told: Vec<_> = progress.iter().map(Option::as_deref).collect();
    assert_eq!(told, [None, Some("ledger"), Some("ledger"), Some("ledger,audit")]);
    assert_eq!(queue.take("jobs")[0].message.progress.as_deref(), Some(""));
}

#[test]
fn progress_without_end_is_refused_whole() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send_batch("jobs", &NewBatch { messages: vec![message("a"), message("b")], delay_s: None }).unwrap();
    let taken = queue.take("jobs");
    let most = "x".repeat(4_096);
    let retries = vec![failed(&taken[0], None), failed(&taken[1], Some(&format!("{most}x")))];
    let settle = Settle { retries, ..Settle::default() };
    let refused = queue.run(|broker, sql, at| broker.settle(sql, at, "jobs", &settle)).unwrap_err();
    assert!(matches!(refused, BrokerError::TooLong { limit: 4_096, actual: 4_097, .. }), "{refused}");
    assert_eq!(queue.metrics("jobs").in_flight, 2);
    let settle = Settle { retries: vec![failed(&taken[1], Some(&most))], ..Settle::default() };
    assert_eq!(queue.settle("jobs", &settle).retried, 1);
}

#[test]
fn a_retry_may_wait_for_less_than_a_second() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send("jobs", "a");
    let taken = queue.take("jobs");
    let retries = vec![Retry { delay_ms: Some(250), ..retry(taken[0].lease, None) }];
    queue.settle("jobs", &Settle { retries, ..Settle::default() });
    queue.pass_ms(249);
    assert!(queue.take("jobs").is_empty());
    queue.pass_ms(1);
    assert_eq!(queue.take("jobs").len(), 1);
}

#[test]
fn a_message_that_comes_back_old_is_not_kept_longer_for_it() {
    for released in [false, true] {
        let mut queue = Fixture::with(settings(|settings| settings.retention_s = 60));
        queue.send("jobs", "old");
        queue.pass_s(50);
        queue.send("jobs", "new");
        let taken = queue.try_take("jobs", 1).unwrap().messages;
        queue.sweep_all();
        if released {
            queue.release(&taken);
        } else {
            queue.retry("jobs", &taken, Some(0));
        }
        queue.pass_s(10);
        assert_eq!(queue.sweep_all(), 1);
        assert_eq!(queue.bodies("jobs"), ["new"]);
    }
}

#[test]
fn a_release_keeps_what_is_done_and_takes_the_attempt_back() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send("jobs", "a");
    for _ in 0..20 {
        let taken = queue.take("jobs");
        assert_eq!(taken[0].message.attempts, 1);
        let progress = [(taken[0].lease, "pay".to_owned())].into();
        let settle = Settle { releases: vec![taken[0].lease], progress, ..Settle::default() };
        assert_eq!(queue.settle("jobs", &settle).released, 1);
    }
    let taken = queue.take("jobs");
    assert_eq!((taken[0].message.attempts, taken[0].message.progress.as_deref()), (1, Some("pay")));
    let settle = Settle { releases: vec![taken[0].lease], ..Settle::default() };
    assert_eq!(queue.settle("jobs", &settle).released, 1);
    assert_eq!(queue.take("jobs")[0].message.progress.as_deref(), Some("pay"), "what was said before stands");
}
