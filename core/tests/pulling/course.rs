//! What a connection does next.

use jadpo_core::host::Level;
use jadpo_core::pull::wire::Acked;
use jadpo_core::pulling::{Act, Course, Found, Group, HELD_MAX, IDLE_MAX_MS, Kind, PULLS_MAX, Pulled, Trouble};
use jadpo_core::queue::Answer;

use crate::{QUEUE_ID, lent, source, source_by_name, source_with};

fn begun() -> Course {
    Course::new(source(), None)
}

/// Begins all that is to be done, and answers how many pulls and which groups that is.
fn begin(course: &mut Course, now_ms: i64) -> (usize, Vec<Group>) {
    let (mut pulls, mut groups) = (0, Vec::new());
    while let Some(act) = course.next(now_ms) {
        match act {
            Act::Pull { .. } => pulls += 1,
            Act::Settle { group, .. } => groups.push(group),
            Act::Find { .. } => panic!("it has an id"),
        }
    }
    (pulls, groups)
}

fn messages(count: u32) -> Result<Pulled, Trouble> {
    Ok(Pulled { lent: (0..count).map(lent).collect(), odd: 0 })
}

fn acks(count: u32) -> Vec<(String, Answer)> {
    (0..count).map(|number| (format!("lease {number}"), Answer::Ack)).collect()
}

fn trouble(kind: Kind) -> Trouble {
    Trouble::new(kind, "said")
}

fn events(course: &mut Course) -> Vec<(Level, &'static str)> {
    course.lines().into_iter().map(|line| (line.level, line.event)).collect()
}

#[test]
fn while_there_is_work_it_pulls_at_once_and_more_side_by_side() {
    let mut course = begun();
    assert_eq!(begin(&mut course, 0).0, 1);
    course.pulled(10, messages(10), 0, 0, 0);
    assert_eq!(begin(&mut course, 0).0, 2);
    for _ in 0..20 {
        course.pulled(10, messages(10), 0, 0, 0);
        course.received(acks(10), 0, 0, 0);
        for group in begin(&mut course, 0).1 {
            course.settled(group, Ok(Acked::default()), 0, 0);
        }
    }
    let mut under_way = 0;
    while !course.pulled(10, messages(10), 0, 0, 0).is_empty() && under_way < 100 {
        under_way += 1;
    }
    assert!(begin(&mut course, 0).0 <= PULLS_MAX);
}

#[test]
fn a_pull_that_gave_less_than_was_asked_for_brings_no_more_beside_it() {
    let mut course = begun();
    assert_eq!(begin(&mut course, 0).0, 1);
    course.pulled(10, messages(9), 0, 0, 0);
    assert_eq!(begin(&mut course, 0).0, 1);
}

#[test]
fn an_empty_queue_is_asked_ever_less_often_and_never_less_than_the_tick() {
    for (tick_ms, longest) in [(None, IDLE_MAX_MS), (Some(2_000), 2_000), (Some(60_000), IDLE_MAX_MS)] {
        let mut course = Course::new(source(), tick_ms);
        let (mut now_ms, mut last) = (0, 0);
        for _ in 0..12 {
            assert_eq!(begin(&mut course, now_ms).0, 1);
            assert!(course.wakes_at(now_ms).is_none(), "it waits for the answer");
            course.pulled(10, messages(0), now_ms, now_ms, 0);
            assert_eq!(begin(&mut course, now_ms).0, 0);
            let wait = course.wakes_at(now_ms).unwrap() - now_ms;
            assert!(wait >= last, "{wait} after {last}");
            (now_ms, last) = (now_ms + wait, wait);
        }
        let longest = i64::try_from(longest).unwrap();
        assert_eq!(last, longest / 2, "by chance the shortest of the longest waits");
        assert_eq!(begin(&mut course, now_ms).0, 1);
        course.pulled(10, messages(1), now_ms, now_ms, 0);
        assert_eq!(begin(&mut course, now_ms).0, 1, "one message, and it is quick again");
    }
}

#[test]
fn waits_differ_from_one_to_the_next_by_chance() {
    let wait = |random| {
        let mut course = begun();
        begin(&mut course, 0);
        course.pulled(10, messages(0), 0, 0, random);
        course.wakes_at(0).unwrap()
    };
    let waits: std::collections::BTreeSet<i64> = (0..1_000).map(wait).collect();
    assert!(waits.len() > 50 && *waits.first().unwrap() >= 100 && *waits.last().unwrap() <= 200, "{waits:?}");
}

#[test]
fn of_pulls_side_by_side_the_last_one_says_whether_the_queue_is_empty() {
    let mut course = begun();
    begin(&mut course, 0);
    course.pulled(10, messages(10), 0, 0, 0);
    assert_eq!(begin(&mut course, 0).0, 2);
    course.pulled(10, messages(0), 0, 0, 0);
    assert_eq!(begin(&mut course, 0).0, 0, "one is under way still");
    course.pulled(10, messages(3), 0, 0, 0);
    assert_eq!(begin(&mut course, 0).0, 1);
}

#[test]
fn it_stays_away_as_long_as_it_is_asked_to_whatever_else_comes_back() {
    let mut course = begun();
    begin(&mut course, 0);
    course.pulled(10, messages(10), 0, 0, 0);
    assert_eq!(begin(&mut course, 0).0, 2);
    let busy = Trouble { after_s: Some(7), ..trouble(Kind::Busy) };
    course.pulled(10, Err(busy), 0, 0, 0);
    course.pulled(10, messages(10), 0, 100, 0);
    course.received(acks(10), 0, 100, 0);
    course.received(acks(10), 0, 100, 0);
    assert_eq!(begin(&mut course, 6_999).0, 0);
    assert_eq!(course.wakes_at(6_999), Some(7_000));
    assert!(begin(&mut course, 7_000).0 > 0);
}

#[test]
fn failures_wait_longer_each_time_and_are_over_with_one_good_answer() {
    let mut course = begun();
    let (mut now_ms, mut waits) = (0, Vec::new());
    for _ in 0..10 {
        assert_eq!(begin(&mut course, now_ms).0, 1);
        course.pulled(10, Err(trouble(Kind::Failed)), now_ms, now_ms, 0);
        let wakes = course.wakes_at(now_ms).unwrap();
        waits.push(wakes - now_ms);
        now_ms = wakes;
    }
    assert!(waits.is_sorted() && waits[0] == 250 && waits[9] == 15_000, "{waits:?}");
    assert_eq!(events(&mut course), [(Level::Warn, "pull.failed")], "it is told once");
    begin(&mut course, now_ms);
    course.pulled(10, messages(1), now_ms, now_ms, 0);
    assert_eq!(events(&mut course), [(Level::Info, "pull.goes_on")]);
    assert_eq!(begin(&mut course, now_ms).0, 1);
}

#[test]
fn it_is_ready_once_the_queue_has_answered_and_as_long_as_nothing_lasts() {
    let mut course = begun();
    assert_eq!(course.not_ready(0).unwrap(), "api.cloudflare.com has not answered yet");
    begin(&mut course, 0);
    course.pulled(10, messages(0), 0, 0, 0);
    assert_eq!(course.not_ready(0), None);
    begin(&mut course, 10_000);
    course.pulled(10, Err(trouble(Kind::Failed)), 10_000, 10_000, 0);
    assert_eq!(course.not_ready(39_999), None, "it may pass");
    assert_eq!(course.not_ready(40_000).unwrap(), "api.cloudflare.com: said");
    for kind in [Kind::Token, Kind::NoQueue, Kind::Refused, Kind::Setting] {
        let mut course = begun();
        begin(&mut course, 0);
        course.pulled(10, messages(0), 0, 0, 0);
        begin(&mut course, 1_000);
        course.pulled(10, Err(trouble(kind)), 1_000, 1_000, 0);
        assert!(course.not_ready(1_000).unwrap().contains("said"), "{kind:?}");
        assert!(course.wakes_at(1_000).unwrap() >= 1_000 + 2_500, "{kind:?} is not asked again soon");
        let lines = course.lines();
        assert_eq!((lines.len(), lines[0].event, lines[0].level), (1, "pull.not_ready", Level::Error));
    }
}

#[test]
fn a_paused_queue_is_waited_for_quietly_and_is_ready() {
    let mut course = begun();
    let mut now_ms = 0;
    for _ in 0..8 {
        begin(&mut course, now_ms);
        course.pulled(10, Err(trouble(Kind::Paused)), now_ms, now_ms, u64::MAX);
        assert_eq!(course.not_ready(now_ms), None);
        now_ms = course.wakes_at(now_ms).unwrap();
    }
    assert_eq!(course.not_ready(now_ms + 1_000_000), None);
    assert_eq!(events(&mut course), [(Level::Info, "pull.paused")]);
    assert!(course.wakes_at(now_ms).unwrap() - now_ms <= 15_000);
}

#[test]
fn no_more_is_pulled_while_the_store_takes_nothing_since_each_delivery_is_one_fewer() {
    let mut course = begun();
    begin(&mut course, 0);
    course.pulled(10, messages(2), 0, 0, 0);
    assert_eq!(begin(&mut course, 0).0, 1);
    course.pulled(10, messages(0), 0, 0, 0);
    let retries =
        vec![("a".to_owned(), Answer::Retry { delay_s: 10 }), ("b".to_owned(), Answer::Retry { delay_s: 10 })];
    course.received(retries, 0, 0, 0);
    let (pulls, groups) = begin(&mut course, 499);
    assert_eq!((pulls, groups[0].len()), (0, 2));
    assert_eq!(begin(&mut course, 500).0, 1);
    assert!(course.not_ready(30_000).unwrap().contains("store"));
    course.pulled(10, messages(1), 500, 500, 0);
    course.received(acks(1), 500, 500, 0);
    assert_eq!(course.not_ready(30_000), None);
}

#[test]
fn no_more_is_pulled_while_the_store_hangs() {
    let mut course = begun();
    begin(&mut course, 0);
    course.pulled(10, messages(10), 0, 20, 0);
    assert_eq!(begin(&mut course, 20).0, 2);
    course.pulled(10, messages(10), 20, 900, 0);
    assert_eq!(begin(&mut course, 1_000).0, 0);
    assert_eq!(course.wakes_at(1_000), None, "it goes on when the store does");
    course.received(acks(10), 0, 1_010, 0);
    assert_eq!(begin(&mut course, 1_010).0, 2);
}

#[test]
fn one_message_that_the_store_does_not_take_slows_down_no_other() {
    let mut course = begun();
    begin(&mut course, 0);
    course.pulled(10, messages(2), 0, 0, 0);
    let answers = vec![("a".to_owned(), Answer::Ack), ("poison".to_owned(), Answer::Retry { delay_s: 10 })];
    course.received(answers, 0, 0, 0);
    assert_eq!(begin(&mut course, 0).0, 1);
    assert_eq!(events(&mut course), []);
}

#[test]
fn answers_go_together_while_others_are_under_way_and_by_the_hundred_at_most() {
    let mut course = Course::new(source_with(&format!(", queue_id: \"{QUEUE_ID}\", batch_size: 100")), None);
    begin(&mut course, 0);
    course.pulled(100, messages(100), 0, 0, 0);
    course.received(acks(30), 0, 0, 0);
    let (_, first) = begin(&mut course, 0);
    assert_eq!(first.iter().map(Group::len).collect::<Vec<_>>(), [30], "the first does not wait");
    course.received(acks(30), 0, 0, 0);
    course.received(acks(30), 0, 0, 0);
    assert_eq!(begin(&mut course, 0).1.len(), 0, "the next wait for it");
    course.received(acks(50), 0, 0, 0);
    let (_, full) = begin(&mut course, 0);
    assert_eq!(full.iter().map(Group::len).collect::<Vec<_>>(), [100], "a full group does not");
    for group in first {
        course.settled(group, Ok(Acked::default()), 0, 0);
    }
    assert_eq!(begin(&mut course, 0).1.len(), 0);
    for group in full {
        course.settled(group, Ok(Acked::default()), 0, 0);
    }
    assert_eq!(begin(&mut course, 0).1[0].len(), 10);
}

#[test]
fn a_settle_that_fails_is_tried_again_until_the_leases_are_over() {
    let mut course = begun();
    begin(&mut course, 0);
    course.pulled(10, messages(3), 0, 0, 0);
    course.received(acks(3), 0, 0, 0);
    let mut now_ms = 0;
    let mut tried = 0;
    while let Some(group) = begin(&mut course, now_ms).1.pop() {
        tried += 1;
        course.settled(group, Err(trouble(Kind::Failed)), now_ms, 0);
        now_ms += 15_000;
    }
    assert_eq!(tried, 3, "at 0 s, at 15 s, and once more when the leases of 30 s are over");
    assert_eq!(course.held(), 0);
    let events = events(&mut course);
    assert_eq!(events, [(Level::Warn, "pull.failed"), (Level::Warn, "pull.not_settled")]);
}

#[test]
fn one_lease_that_is_refused_is_found_and_takes_no_other_with_it() {
    let mut course = begun();
    begin(&mut course, 0);
    course.pulled(10, messages(5), 0, 0, 0);
    course.received(acks(5), 0, 0, 0);
    let mut settled = Vec::new();
    for _ in 0..50 {
        for group in begin(&mut course, 0).1 {
            let ids: Vec<String> = group.answers().map(|(id, _)| id.to_owned()).collect();
            if ids.contains(&"lease 3".to_owned()) {
                course.settled(group, Err(trouble(Kind::Refused)), 0, 0);
            } else {
                settled.extend(ids);
                course.settled(group, Ok(Acked::default()), 0, 0);
            }
        }
    }
    // What waits behind the refused one waits out its trouble.
    for now_ms in [10_000, 20_000] {
        for group in begin(&mut course, now_ms).1 {
            settled.extend(group.answers().map(|(id, _)| id.to_owned()));
            course.settled(group, Ok(Acked::default()), now_ms, 0);
        }
    }
    settled.sort();
    assert_eq!(settled, ["lease 0", "lease 1", "lease 2", "lease 4"]);
    assert_eq!(course.held(), 0);
}

#[test]
fn nothing_is_pulled_beyond_what_can_be_held() {
    let mut course = Course::new(source_with(&format!(", queue_id: \"{QUEUE_ID}\", batch_size: 100")), None);
    let mut pulled = 0;
    while pulled < 1_000 {
        let (pulls, _) = begin(&mut course, 0);
        if pulls == 0 {
            break;
        }
        for _ in 0..pulls {
            course.pulled(100, messages(100), 0, 0, 0);
            course.received(acks(100), 0, 0, 0);
            pulled += 1;
        }
    }
    assert_eq!(pulled * 100, HELD_MAX);
    let mut course = begun();
    for _ in 0..100 {
        for _ in 0..begin(&mut course, 0).0 {
            course.pulled(10, messages(10), 0, 0, 0);
        }
    }
    assert_eq!(begin(&mut course, 0).0, 0, "batches that are not received are in memory");
}

#[test]
fn an_answer_that_is_too_long_is_asked_for_in_smaller_parts_and_later_in_whole_ones_again() {
    let mut course = begun();
    let mut sizes = Vec::new();
    let mut now_ms = 0;
    for round in 0..150 {
        let batch_size = loop {
            match course.next(now_ms) {
                Some(Act::Pull { batch_size, .. }) => break batch_size,
                Some(Act::Settle { group, .. }) => course.settled(group, Ok(Acked::default()), now_ms, 0),
                _ => now_ms = course.wakes_at(now_ms).unwrap(),
            }
        };
        sizes.push(batch_size);
        if round < 4 {
            course.pulled(batch_size, Err(Trouble::too_long(100)), now_ms, now_ms, 0);
        } else {
            // One message, and never as many as were asked for, except where that is one.
            let asked = batch_size + 1;
            course.pulled(asked, messages(1), now_ms, now_ms, 0);
            course.received(acks(1), now_ms, now_ms, 0);
        }
    }
    assert_eq!(sizes[..5], [10, 5, 2, 1, 1]);
    assert!(now_ms > 0, "nothing is shorter than one message, so it waits");
    sizes.dedup();
    assert_eq!(sizes, [10, 5, 2, 1, 2, 4, 8, 10]);
}

#[test]
fn a_queue_is_looked_for_by_its_name_page_by_page_and_again_when_it_is_gone() {
    let mut course = Course::new(source_by_name(), None);
    assert_eq!(course.next(0), Some(Act::Find { page: 1 }));
    assert_eq!((course.next(0), course.wakes_at(0)), (None, None));
    course.found(Ok(Found::More), 0, 0);
    assert_eq!(course.next(0), Some(Act::Find { page: 2 }));
    course.found(Err(trouble(Kind::Failed)), 0, 0);
    assert_eq!(course.next(249), None);
    assert_eq!(course.next(250), Some(Act::Find { page: 1 }));
    course.found(Ok(Found::Id("abc".to_owned())), 250, 0);
    assert_eq!(course.next(250), Some(Act::Pull { queue_id: "abc".to_owned(), batch_size: 10 }));
    course.pulled(10, Err(trouble(Kind::NoQueue)), 250, 250, 0);
    assert!(course.not_ready(250).unwrap().contains("knows no queue `jobs`"));
    let later = course.wakes_at(250).unwrap();
    assert_eq!(course.next(later), Some(Act::Find { page: 1 }));
    course.found(Ok(Found::Nowhere), later, 0);
    assert!(course.wakes_at(later).unwrap() > later);
}

#[test]
fn a_stop_gives_back_what_is_being_pulled_and_settles_what_is_being_received() {
    let mut course = begun();
    begin(&mut course, 0);
    course.pulled(10, messages(10), 0, 0, 0);
    assert_eq!(begin(&mut course, 0).0, 2);
    course.stop();
    assert!(!course.is_over());
    assert_eq!(course.pulled(10, messages(4), 0, 10, 0), [], "nothing of it is received");
    let (pulls, groups) = begin(&mut course, 10);
    assert_eq!((pulls, groups.len()), (0, 1));
    assert!(groups[0].answers().all(|(_, answer)| answer == Answer::Retry { delay_s: 0 }));
    course.pulled(10, Err(trouble(Kind::Failed)), 0, 10, 0);
    course.received(acks(10), 0, 10, 0);
    for group in groups {
        course.settled(group, Ok(Acked::default()), 10, 0);
    }
    assert!(!course.is_over());
    for group in begin(&mut course, 10).1 {
        course.settled(group, Ok(Acked::default()), 10, 0);
    }
    assert!(course.is_over());
    assert_eq!(course.wakes_at(10), None);
}

#[test]
fn late_answers_and_odd_messages_are_told_and_are_no_trouble() {
    let mut course = begun();
    begin(&mut course, 0);
    course.pulled(10, Ok(Pulled { lent: vec![lent(1)], odd: 2 }), 0, 0, 0);
    course.received(acks(1), 0, 0, 0);
    let group = begin(&mut course, 0).1.remove(0);
    let acked: Acked = serde_json::from_str(r#"{"warnings":{"lease 0":"expired"}}"#).unwrap();
    course.settled(group, Ok(acked), 0, 0);
    assert_eq!(events(&mut course), [(Level::Warn, "pull.odd_messages"), (Level::Warn, "pull.settled_late")]);
    assert_eq!(course.not_ready(0), None);
}
