//! What time does: retention, and clocks that are wrong.

use jadpo_core::broker::{How, NewBatch, Once, Redrive, SentOnce};

use super::support::{Fixture, batch, delayed, message, settings};

const HALF_A_DAY_MS: i64 = 43_200_000;

#[test]
fn what_was_kept_long_enough_is_removed_in_slices_and_never_delivered() {
    let mut queue = Fixture::with(settings(|settings| settings.retention_s = 60));
    for _ in 0..11 {
        queue.send_batch("jobs", &batch(&["old"; 100])).unwrap();
    }
    queue.pass_ms(30_000);
    queue.send("jobs", "new");
    queue.pass_ms(29_999);
    assert_eq!(queue.sweep_all(), 0);
    queue.pass_ms(1);
    let swept = queue.sweep();
    assert_eq!((swept.gone.len(), swept.more), (500, true));
    assert_eq!(swept.gone[0].how, How::Expired);
    queue.pass_ms(1);
    let taken = queue.try_take("jobs", 100).unwrap();
    assert!(taken.messages.is_empty(), "a take comes upon some more of them");
    assert_eq!(taken.gone.len(), 400);
    assert_eq!(queue.sweep_all(), 200);
    assert_eq!(queue.bodies("jobs"), ["new"]);
}

#[test]
fn a_leased_or_delayed_message_expires_when_that_ends() {
    let mut queue = Fixture::with(settings(|settings| {
        settings.retention_s = 60;
        settings.consumer.visibility_ms = 90_000;
    }));
    queue.send("jobs", "leased");
    let held = queue.take("jobs");
    queue.send("jobs", "leased too");
    queue.take("jobs");
    queue.send_batch("jobs", &NewBatch { messages: vec![delayed("delayed", 80)], delay_s: None }).unwrap();
    queue.pass_s(70);
    assert_eq!(queue.sweep_all(), 0);
    assert_eq!(queue.ack("jobs", &held).acked, 1, "who has it may still acknowledge it");
    queue.pass_s(20);
    assert_eq!(queue.sweep_all(), 2);
    assert_eq!(queue.metrics("jobs").messages, 0);
}

#[test]
fn a_shorter_retention_holds_for_what_waits_already() {
    let mut queue = Fixture::with(settings(|_| {}));
    queue.send("jobs", "a");
    queue.pass_s(120);
    assert_eq!(queue.sweep_all(), 0);
    queue.run(|broker, sql, at| broker.update(sql, at, "jobs", settings(|s| s.retention_s = 100))).unwrap();
    assert_eq!(queue.sweep_all(), 1);
}

#[test]
fn a_wall_clock_that_jumps_half_a_day_changes_no_lease_no_delay_and_no_backlog() {
    for jump_ms in [HALF_A_DAY_MS, -HALF_A_DAY_MS] {
        let mut queue = Fixture::with(settings(|settings| settings.retention_s = 3_600));
        queue.send_batch("jobs", &batch(&["leased", "ready"])).unwrap();
        queue.send_batch("jobs", &NewBatch { messages: vec![delayed("delayed", 60)], delay_s: None }).unwrap();
        queue.try_take("jobs", 1).unwrap();
        queue.at.wall_ms += jump_ms;
        queue.pass_ms(29_999);
        assert_eq!(queue.sweep_all(), 0);
        assert_eq!(queue.bodies("jobs"), ["ready"]);
        queue.pass_ms(1);
        assert_eq!(queue.bodies("jobs"), ["leased"]);
        queue.pass_s(29);
        assert!(queue.bodies("jobs").is_empty());
        queue.pass_s(1);
        assert!(queue.bodies("jobs").contains(&"delayed".to_owned()));
    }
}

#[test]
fn a_clock_that_was_set_while_nothing_ran_stops_nothing_and_wipes_nothing() {
    for jump_ms in [HALF_A_DAY_MS, -HALF_A_DAY_MS] {
        let mut queue = Fixture::with(settings(|settings| settings.retention_s = 3_600));
        queue.send_batch("jobs", &batch(&["leased", "ready"])).unwrap();
        queue.try_take("jobs", 1).unwrap();
        queue.pass_s(40);
        queue.sweep_all();
        queue.try_take("jobs", 1).unwrap();
        queue.at.wall_ms += jump_ms;
        queue.at.steady_ms = 0;
        queue.restart();
        assert_eq!(queue.sweep_all(), 0, "no message grew old while nothing ran");
        queue.pass_s(31);
        queue.sweep_all();
        let mut bodies = queue.bodies("jobs");
        bodies.sort();
        assert_eq!(bodies, ["leased", "ready"], "leases end within their time, whatever the wall clock says");
    }
}

#[test]
fn age_goes_on_after_a_restart_from_where_it_was_written_down() {
    let mut queue = Fixture::with(settings(|settings| settings.retention_s = 3_600));
    queue.send("jobs", "a");
    let mut passed_s = 0;
    while queue.metrics("jobs").messages > 0 {
        assert!(passed_s < 4_000, "it never expires");
        queue.pass_s(60);
        passed_s += 60;
        queue.sweep_all();
        queue.pass_s(20); // lost: it is less than half a minute since the clocks were written down
        queue.at.wall_ms += 600_000; // and nothing runs for a while
        queue.at.steady_ms = 1;
        queue.restart();
    }
    assert_eq!(passed_s, 3_600);
}

#[test]
fn times_are_utc_milliseconds_and_a_delay_across_a_change_of_summer_time_is_its_length() {
    let mut queue = Fixture::new();
    queue.at.wall_ms = 1_793_512_798_000; // 1 November 2026, 05:59:58 UTC: the hour comes twice in New York
    queue.restart();
    queue.create("jobs", settings(|_| {}));
    let sent_at = queue.at.wall_ms;
    queue.send_batch("jobs", &NewBatch { messages: vec![delayed("a", 3)], delay_s: None }).unwrap();
    queue.pass_ms(2_999);
    assert!(queue.take("jobs").is_empty());
    queue.pass_ms(1);
    let taken = queue.take("jobs");
    assert_eq!(taken[0].message.sent_at_ms, sent_at);
}

#[test]
fn half_a_day_either_way_lets_no_occurrence_happen_twice_no_key_be_forgotten_and_no_redrive_stand_still() {
    for jump_ms in [HALF_A_DAY_MS, -HALF_A_DAY_MS] {
        for restarted in [false, true] {
            let mut queue = Fixture::with(settings(|settings| {
                settings.consumer.max_retries = 0;
                settings.consumer.dead_letter_queue = Some("jobs-dead".to_owned());
            }));
            queue.send_batch("jobs", &batch(&["m"; 40])).unwrap();
            let taken = queue.try_take("jobs", 100).unwrap().messages;
            queue.retry("jobs", &taken, None);
            let redrive = Redrive { source: "jobs".to_owned(), rate_per_s: Some(10), ..Redrive::default() };
            let task = queue.run(|broker, sql, at| broker.redrive(sql, at, &redrive)).unwrap();
            let at_ms = queue.at.wall_ms;
            let occur = |queue: &mut Fixture, at_ms| {
                queue.run(|broker, sql, at| broker.occur(sql, at, "s", at_ms, "jobs", &message("tick"))).unwrap()
            };
            let send_once = |queue: &mut Fixture| {
                let once = Once { scope: "hook", key: "1" };
                queue.run(|broker, sql, at| broker.send_once(sql, at, "jobs", once, &message("hook"))).unwrap()
            };
            assert!(occur(&mut queue, at_ms).is_some());
            let SentOnce::Sent(id) = send_once(&mut queue) else { panic!() };
            queue.pass_s(31);
            queue.sweep_all(); // the clocks are written down
            queue.at.wall_ms += jump_ms;
            if restarted {
                queue.at.steady_ms = 5;
                queue.restart();
            }
            assert_eq!(occur(&mut queue, at_ms), None);
            assert_eq!(send_once(&mut queue), SentOnce::Repeat(id));
            let mut moved = Vec::new();
            for _ in 0..4 {
                moved.push(queue.run(|broker, sql, at| broker.redrive_step(sql, at, task.id, 100)).unwrap().moved);
                queue.pass_s(1);
            }
            // What was not used of the rate while nobody came is at most a second's.
            assert!((10..=11).contains(&moved[0]), "{moved:?}");
            assert!(moved.windows(2).all(|two| (9..=11).contains(&(two[1] - two[0]))), "{moved:?}");
        }
    }
}
