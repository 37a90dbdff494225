//! Dead letters that are put back.

use jadpo_core::broker::{
    BrokerError, MessageId, NewBatch, NewMessage, Peek, Reason, Redrive, RedriveFilter, RedriveState, RedriveTask,
    Retry, Settle, Taken,
};

use super::support::{Fixture, batch, message, retry, settings};

/// `jobs` with one delivery and the dead-letter queue `jobs-dead`.
fn with_dead(bodies: &[&str]) -> Fixture {
    let mut queue = Fixture::new();
    for name in ["jobs", "other"] {
        let change = |settings: &mut jadpo_core::broker::Settings| {
            settings.consumer.max_retries = 0;
            settings.consumer.dead_letter_queue = Some("jobs-dead".to_owned());
        };
        queue.create(name, settings(change));
    }
    queue.create("jobs-dead", settings(|_| {}));
    die(&mut queue, "jobs", bodies, "no card");
    queue
}

fn die(queue: &mut Fixture, name: &str, bodies: &[&str], error: &str) {
    for body in bodies {
        queue.send(name, body);
        let lease = queue.take(name)[0].lease;
        let (reason, progress) = (Reason::Failed, Some(format!("of {body}")));
        let retries = vec![Retry { reason, error: Some(error.to_owned()), progress, ..retry(lease, None) }];
        assert_eq!(queue.settle(name, &Settle { retries, ..Settle::default() }).gone.len(), 1);
    }
}

fn of(source: &str) -> Redrive {
    Redrive { source: source.to_owned(), ..Redrive::default() }
}

fn filtered(filter: RedriveFilter) -> Redrive {
    Redrive { filter, ..of("jobs") }
}

impl Fixture {
    fn begin(&mut self, redrive: &Redrive) -> RedriveTask {
        self.run(|broker, sql, at| broker.redrive(sql, at, redrive)).unwrap()
    }

    fn step(&mut self, id: u64, max: usize) -> RedriveTask {
        self.run(|broker, sql, at| broker.redrive_step(sql, at, id, max)).unwrap()
    }

    /// Slices of up to 100 until it has ended.
    fn redrive_all(&mut self, redrive: &Redrive) -> RedriveTask {
        let mut task = self.begin(redrive);
        while let Some(0) = task.next_in_ms {
            task = self.step(task.id, 100);
        }
        assert_eq!(task.state, RedriveState::Done);
        task
    }

    fn ids(&mut self, name: &str) -> Vec<MessageId> {
        let peek = Peek { max: 100, after: None };
        let peeked = self.run(|broker, sql, at| broker.peek(sql, at, name, peek)).unwrap();
        peeked.into_iter().map(|peeked| peeked.message.id).collect()
    }
}

#[test]
fn a_letter_that_is_put_back_is_the_message_it_was_but_for_its_attempts_which_begin_anew() {
    let mut queue = with_dead(&[]);
    let sent = NewMessage { meta: Some("{\"X-Tag\":[\"a\",\"b\"]}".to_owned()), ..message("\u{0}body") };
    let sent_at = queue.at.wall_ms;
    let id = queue.send_batch("jobs", &NewBatch { messages: vec![sent.clone()], delay_s: None }).unwrap().ids[0];
    queue.pass_s(100);
    let taken = queue.take("jobs");
    queue.retry("jobs", &taken, None);
    assert!(queue.ids("jobs").is_empty() && queue.ids("jobs-dead") == [id]);
    let task = queue.redrive_all(&of("jobs"));
    assert_eq!((task.moved, task.letters, task.redrive.source.as_str()), (1, 1, "jobs-dead"));
    assert!(queue.ids("jobs-dead").is_empty());
    let Taken { message, .. } = queue.take("jobs").remove(0);
    assert_eq!((message.id, message.sent_at_ms, message.attempts), (id, sent_at, 1));
    assert_eq!((message.body, message.meta, message.dead), (sent.body, sent.meta, None));
}

#[test]
fn what_a_function_had_done_is_not_done_again_where_it_was_done_and_means_nothing_elsewhere() {
    let mut queue = with_dead(&["a", "b"]);
    queue.redrive_all(&filtered(RedriveFilter { limit: Some(1), ..RedriveFilter::default() }));
    assert_eq!(queue.take("jobs")[0].message.progress.as_deref(), Some("of a"));
    queue.redrive_all(&Redrive { to: Some("other".to_owned()), ..of("jobs") });
    assert_eq!(queue.take("other")[0].message.progress, None);
}

#[test]
fn a_letter_in_its_dead_letter_queue_has_no_progress_there() {
    let mut queue = with_dead(&["a"]);
    assert_eq!(queue.take("jobs-dead")[0].message.progress, None);
}

#[test]
fn what_dies_after_the_start_is_not_moved_or_it_would_never_end() {
    let mut queue = with_dead(&["a", "b"]);
    let task = queue.begin(&of("jobs"));
    die(&mut queue, "jobs", &["later"], "no card");
    let mut last = queue.step(task.id, 1);
    while last.state == RedriveState::Running {
        last = queue.step(task.id, 1);
    }
    assert_eq!((last.moved, last.letters), (2, 2));
    assert_eq!(queue.bodies("jobs-dead"), ["later"]);
    assert_eq!(queue.bodies("jobs"), ["a", "b"], "in the order they died");
}

#[test]
fn a_redrive_goes_on_where_it_was_after_a_crash_and_stops_where_it_is_when_it_is_cancelled() {
    let mut queue = with_dead(&["a", "b", "c", "d"]);
    let task = queue.begin(&of("jobs-dead"));
    queue.step(task.id, 1);
    queue.fails_in = Some(4);
    queue.run(|broker, sql, at| broker.redrive_step(sql, at, task.id, 2)).unwrap_err();
    assert_eq!((queue.ids("jobs").len(), queue.ids("jobs-dead").len()), (1, 3), "nothing of the slice");
    queue.restart();
    let known = queue.run(|broker, sql, at| broker.redrives(sql, at)).unwrap();
    assert_eq!((known.len(), known[0].moved, known[0].state), (1, 1, RedriveState::Running));
    assert_eq!(queue.step(task.id, 1).moved, 2);
    let cancelled = queue.run(|broker, sql, at| broker.cancel_redrive(sql, at, task.id)).unwrap();
    assert_eq!((cancelled.state, cancelled.moved, cancelled.next_in_ms), (RedriveState::Cancelled, 2, None));
    assert_eq!(cancelled.ended_at_ms, Some(queue.at.wall_ms));
    assert_eq!(queue.step(task.id, 100), cancelled, "it does nothing any more");
    assert_eq!(queue.bodies("jobs-dead"), ["c", "d"]);
    assert_eq!(queue.bodies("jobs"), ["a", "b"]);
}

#[test]
fn letters_whose_queue_is_gone_and_messages_that_never_died_are_counted_and_stay() {
    let mut queue = with_dead(&["a"]);
    die(&mut queue, "other", &["lost"], "no card");
    queue.send("jobs-dead", "never died");
    queue.run(|broker, sql, _| broker.delete(sql, "other")).unwrap();
    let task = queue.redrive_all(&of("jobs"));
    assert_eq!((task.moved, task.without_origin, task.skipped), (1, 2, 0));
    assert_eq!(queue.bodies("jobs-dead"), ["lost", "never died"]);
    queue.pass_s(30);
    let task = queue.redrive_all(&Redrive { to: Some("jobs".to_owned()), ..of("jobs") });
    assert_eq!((task.moved, task.without_origin), (2, 0), "to a queue that is named they may go");
}

#[test]
fn a_letter_that_a_consumer_holds_is_skipped_and_counted_and_one_that_waits_is_moved() {
    let mut queue = with_dead(&["held", "put off", "given up", "ready"]);
    let ended = queue.run(|broker, sql, at| {
        let take = |max, visibility_ms| jadpo_core::broker::Take { max, visibility_ms: Some(visibility_ms) };
        let held = broker.take(sql, at, "jobs-dead", take(1, 60_000))?;
        let put_off = broker.take(sql, at, "jobs-dead", take(1, 60_000))?;
        let retries = vec![retry(put_off.messages[0].lease, Some(600))];
        broker.settle(sql, at, "jobs-dead", &Settle { retries, ..Settle::default() })?;
        broker.take(sql, at, "jobs-dead", take(1, 1_000))?;
        Ok(held.messages)
    });
    let held = ended.unwrap();
    queue.pass_s(2);
    let task = queue.redrive_all(&of("jobs"));
    assert_eq!((task.moved, task.skipped), (3, 1));
    assert_eq!(queue.bodies("jobs"), ["ready", "given up", "put off"]);
    assert_eq!(queue.ack("jobs-dead", &held).acked, 1, "who holds it is not disturbed");
    assert_eq!(queue.metrics("jobs-dead").messages, 0);
}

#[test]
fn an_old_lease_does_not_reach_a_letter_that_was_put_back() {
    let mut queue = with_dead(&["a"]);
    let old = queue.take("jobs-dead");
    queue.pass_s(30);
    queue.redrive_all(&of("jobs"));
    assert_eq!(queue.ack("jobs-dead", &old).acked, 0);
    assert_eq!(queue.retry("jobs-dead", &old, None).retried, 0);
    assert_eq!(queue.bodies("jobs"), ["a"]);
}

#[test]
fn one_redrive_of_a_source_runs_at_a_time() {
    let mut queue = with_dead(&["a"]);
    let task = queue.begin(&of("jobs"));
    let refused = queue.run(|broker, sql, at| broker.redrive(sql, at, &of("jobs-dead"))).unwrap_err();
    assert_eq!(refused, BrokerError::RedriveRunning { source: "jobs-dead".to_owned(), id: task.id });
    queue.step(task.id, 100);
    assert_eq!(queue.begin(&of("jobs")).id, task.id + 1);
}

#[test]
fn what_a_redrive_cannot_do_is_refused_before_it_begins() {
    let mut queue = with_dead(&["a"]);
    let mut refused = |redrive: &Redrive| queue.run(|broker, sql, at| broker.redrive(sql, at, redrive)).unwrap_err();
    let to = |to: &str| Redrive { to: Some(to.to_owned()), ..of("jobs") };
    assert_eq!(refused(&to("jobs-dead")), BrokerError::RedriveOntoItself("jobs-dead".to_owned()));
    assert_eq!(refused(&to("nowhere")), BrokerError::QueueNotFound("nowhere".to_owned()));
    assert_eq!(refused(&of("nowhere")), BrokerError::QueueNotFound("nowhere".to_owned()));
    let ids = RedriveFilter { ids: vec![MessageId(1); 1_001], ..RedriveFilter::default() };
    assert!(matches!(refused(&filtered(ids)), BrokerError::TooLong { limit: 1_000, actual: 1_001, .. }));
    for rate in [0, 10_001] {
        let redrive = Redrive { rate_per_s: Some(rate), ..of("jobs") };
        assert!(matches!(refused(&redrive), BrokerError::SettingInvalid { least: 1, greatest: 10_000, .. }));
    }
    let nothing = queue.run(|broker, sql, at| broker.redrive_step(sql, at, 7, 100)).unwrap_err();
    assert_eq!(nothing, BrokerError::RedriveNotFound(7));
}

#[test]
fn a_queue_s_name_means_its_dead_letters_and_a_dead_letter_queue_s_itself() {
    let mut queue = with_dead(&[]);
    let dead_of = |name: &str, dead: &str| {
        let dead = dead.to_owned();
        (name.to_owned(), settings(|settings| settings.consumer.dead_letter_queue = Some(dead)))
    };
    for (name, settings) in [dead_of("first", "second"), dead_of("second", "third"), dead_of("unused", "never-made")] {
        queue.create(&name, settings);
    }
    queue.create("third", settings(|_| {}));
    let of = |name: &str| queue.broker.dead_letter_queue_of(name);
    assert_eq!(of("jobs").as_deref(), Ok("jobs-dead"));
    assert_eq!(of("jobs-dead").as_deref(), Ok("jobs-dead"));
    assert_eq!(of("first").as_deref(), Ok("second"));
    assert_eq!(of("second").as_deref(), Ok("second"), "it has dead letters of its own, but it is asked for as one");
    assert_eq!(of("unused"), Err(BrokerError::QueueNotFound("never-made".to_owned())), "nothing died there yet");
}

#[test]
fn a_filter_puts_back_what_all_of_it_holds_for_and_a_preview_says_the_same_before() {
    let letters = |queue: &mut Fixture| {
        die(queue, "other", &["o1"], "timed out");
        queue.pass_s(60);
        die(queue, "jobs", &["j2", "j3"], "timed out after 30 s");
        let taken = {
            queue.send("jobs", "j4");
            queue.take("jobs")
        };
        queue.retry("jobs", &taken, None);
    };
    let day = super::support::START_MS;
    let any = RedriveFilter::default;
    let cases: [(RedriveFilter, &[&str]); 9] = [
        (any(), &["j1", "o1", "j2", "j3", "j4"]),
        (RedriveFilter { origin: Some("other".to_owned()), ..any() }, &["o1"]),
        (RedriveFilter { reason: Some(Reason::Retried), ..any() }, &["j4"]),
        (RedriveFilter { error_contains: Some("timed out".to_owned()), ..any() }, &["o1", "j2", "j3"]),
        (RedriveFilter { error_contains: Some("TIMED".to_owned()), ..any() }, &[]),
        (RedriveFilter { died_from_ms: Some(day + 60_000), ..any() }, &["j2", "j3", "j4"]),
        (RedriveFilter { died_before_ms: Some(day + 60_000), ..any() }, &["j1", "o1"]),
        (RedriveFilter { limit: Some(2), ..any() }, &["j1", "o1"]),
        (
            RedriveFilter { origin: Some("jobs".to_owned()), reason: Some(Reason::Failed), limit: Some(2), ..any() },
            &["j1", "j2"],
        ),
    ];
    for (filter, wanted) in cases {
        let mut queue = with_dead(&["j1"]);
        letters(&mut queue);
        let redrive = filtered(filter.clone());
        let mut look = queue.broker.redrive_look(&redrive).unwrap();
        queue.run(|broker, sql, at| broker.redrive_look_on(sql, at, &mut look)).unwrap();
        let preview = look.done().unwrap().clone();
        let task = queue.redrive_all(&redrive);
        let moved = [queue.bodies("jobs"), queue.bodies("other")].concat();
        let mut wanted = wanted.to_vec();
        wanted.sort_by_key(|body| body.starts_with('o'));
        assert_eq!(moved, wanted, "{filter:?}");
        assert_eq!((task.moved, preview.matched), (wanted.len() as u64, wanted.len() as u64), "{filter:?}");
        assert_eq!(preview.by_target.values().sum::<u64>(), task.moved);
    }
}

#[test]
fn letters_are_named_by_their_ids() {
    let mut queue = with_dead(&["a", "b", "c"]);
    let ids = queue.ids("jobs-dead");
    let redrive = filtered(RedriveFilter { ids: vec![ids[2], ids[0], MessageId(5)], ..RedriveFilter::default() });
    let task = queue.begin(&redrive);
    assert_eq!(task.redrive.filter.ids, redrive.filter.ids);
    assert_eq!(queue.step(task.id, 100).moved, 2);
    assert_eq!((queue.ids("jobs"), queue.ids("jobs-dead")), (vec![ids[0], ids[2]], vec![ids[1]]));
}

#[test]
fn a_preview_counts_what_is_held_and_what_has_nowhere_to_go_and_changes_nothing() {
    let mut queue = with_dead(&["held", "a"]);
    die(&mut queue, "other", &["lost"], "no card");
    queue.run(|broker, sql, _| broker.delete(sql, "other")).unwrap();
    queue.try_take("jobs-dead", 1).unwrap();
    let before = queue.dump();
    let mut look = queue.broker.redrive_look(&of("jobs")).unwrap();
    queue.run(|broker, sql, at| broker.redrive_look_on(sql, at, &mut look)).unwrap();
    let preview = look.done().unwrap();
    assert_eq!((preview.matched, preview.held, preview.without_origin), (3, 1, 1));
    assert_eq!(
        preview.by_target.iter().map(|(name, count)| (name.as_str(), *count)).collect::<Vec<_>>(),
        [("jobs", 1)]
    );
    assert_eq!(queue.dump(), before);
}

#[test]
fn a_rate_is_kept_whoever_comes_how_often_and_time_that_was_missed_is_not_made_up_for() {
    let mut queue = with_dead(&["m"; 40]);
    let task = queue.begin(&Redrive { rate_per_s: Some(10), ..of("jobs") });
    let moved_in = |queue: &mut Fixture, ms: i64| {
        let before = queue.run(|broker, sql, at| broker.redrive_task(sql, at, task.id)).unwrap().moved;
        let mut moved = before;
        for _ in 0..ms / 10 {
            moved = queue.step(task.id, 100).moved;
            queue.pass_ms(10);
        }
        moved - before
    };
    assert_eq!(moved_in(&mut queue, 1_000), 10);
    queue.pass_s(3_600);
    let after_an_hour = moved_in(&mut queue, 10);
    assert!((10..=11).contains(&after_an_hour), "{after_an_hour}");
    let told = queue.step(task.id, 100);
    assert_eq!((told.moved, told.next_in_ms), (10 + after_an_hour, Some(100)), "in time for the next");
    queue.at.wall_ms -= 43_200_000;
    queue.restart();
    let after_a_jump = moved_in(&mut queue, 1_000);
    assert!((9..=11).contains(&after_a_jump), "a clock that is set stops nothing: {after_a_jump}");
}

#[test]
fn a_long_queue_is_looked_through_in_slices_of_500_and_moved_in_slices_of_what_is_asked() {
    let mut queue = with_dead(&[]);
    for _ in 0..12 {
        queue.send_batch("jobs", &batch(&["m"; 100])).unwrap();
        let taken = queue.try_take("jobs", 100).unwrap().messages;
        queue.retry("jobs", &taken, None);
    }
    die(&mut queue, "jobs", &["last"], "found me");
    let redrive = filtered(RedriveFilter { error_contains: Some("found".to_owned()), ..RedriveFilter::default() });
    let mut look = queue.broker.redrive_look(&redrive).unwrap();
    let mut slices = 0;
    while look.done().is_none() {
        queue.run(|broker, sql, at| broker.redrive_look_on(sql, at, &mut look)).unwrap();
        slices += 1;
    }
    assert_eq!((slices, look.done().unwrap().matched), (3, 1));
    let task = queue.begin(&redrive);
    let moved: Vec<u64> = (0..3).map(|_| queue.step(task.id, 100).moved).collect();
    assert_eq!(moved, [0, 0, 1]);
    let task = queue.begin(&of("jobs"));
    assert_eq!((queue.step(task.id, 7).moved, queue.step(task.id, 100).moved), (7, 107));
    assert_eq!(queue.metrics("jobs").messages, 108);
    assert_eq!(queue.metrics("jobs-dead").messages, 1_201 - 108);
}

#[test]
fn a_source_that_is_emptied_or_deleted_ends_its_redrive() {
    for deleted in [false, true] {
        let mut queue = with_dead(&["a", "b"]);
        let task = queue.begin(&of("jobs"));
        queue.step(task.id, 1);
        if deleted {
            queue.run(|broker, sql, _| broker.delete(sql, "jobs-dead")).unwrap();
        } else {
            queue.run(|broker, sql, moment| broker.purge(sql, moment, "jobs-dead")).unwrap();
            die(&mut queue, "jobs", &["later"], "no card");
        }
        let task = queue.step(task.id, 100);
        assert_eq!((task.moved, task.state), (1, RedriveState::Done));
    }
}

#[test]
fn a_message_that_was_put_back_has_all_its_deliveries_and_all_its_time_again_and_may_die_again() {
    let mut queue = Fixture::new();
    queue.create(
        "jobs",
        settings(|settings| {
            settings.retention_s = 3_600;
            settings.consumer.max_retries = 2;
            settings.consumer.dead_letter_queue = Some("jobs-dead".to_owned());
        }),
    );
    queue.create("jobs-dead", settings(|_| {}));
    let id = queue.send("jobs", "a").ids[0];
    for _ in 0..3 {
        for attempt in 1..=3 {
            let taken = queue.take("jobs");
            assert_eq!((taken[0].message.id, taken[0].message.attempts), (id, attempt));
            queue.retry("jobs", &taken, Some(0));
        }
        queue.pass_s(3_000);
        queue.sweep_all();
        assert_eq!(queue.redrive_all(&of("jobs")).moved, 1);
    }
    queue.pass_s(3_599);
    assert_eq!(queue.sweep_all(), 0);
    queue.pass_s(1);
    assert_eq!(queue.sweep_all(), 1);
}

#[test]
fn a_letter_goes_back_to_the_queue_that_has_its_name_now() {
    let mut queue = with_dead(&["a"]);
    queue.run(|broker, sql, _| broker.delete(sql, "jobs")).unwrap();
    queue.create("jobs", settings(|_| {}));
    assert_eq!(queue.redrive_all(&of("jobs-dead")).moved, 1);
    assert_eq!(queue.bodies("jobs"), ["a"]);
}

#[test]
fn of_redrives_that_have_ended_the_last_hundred_are_listed() {
    let mut queue = with_dead(&[]);
    for _ in 0..130 {
        queue.redrive_all(&of("jobs"));
    }
    let listed = queue.run(|broker, sql, at| broker.redrives(sql, at)).unwrap();
    assert_eq!((listed.len(), listed.last().unwrap().id), (101, 130), "and the one that was begun last");
}
