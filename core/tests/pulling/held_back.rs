//! What cannot be settled holds back what is pulled, for as long as it must and no longer.

use jadpo_core::pull::wire::Acked;
use jadpo_core::pulling::{Act, Course, Group, HELD_MAX, Kind, Pulled, Trouble, settled};
use jadpo_core::queue::Answer;

use crate::{NOW_MS, QUEUE_ID, lent, source, source_with};

const HOUR_MS: i64 = 3_600_000;

fn busy(after_s: u32) -> Trouble {
    Trouble { after_s: Some(after_s), ..Trouble::new(Kind::Busy, "answered 429") }
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

fn acks(count: u32) -> Vec<(String, Answer)> {
    (0..count).map(|number| (format!("lease {number}"), Answer::Ack)).collect()
}

/// A course without a pull under way, of which messages were taken at 0 and their settling ended so.
fn settled_with(trouble: Trouble) -> Course {
    let mut course = Course::new(source(), None);
    assert_eq!(begin(&mut course, 0).0, 1);
    course.pulled(10, Ok(Pulled { lent: (0..3).map(lent).collect(), odd: 0 }), 0, 0, 0);
    course.received(acks(3), 0, 0, 0);
    let Some(Act::Settle { group, .. }) = course.next(0) else { panic!("there is something to settle") };
    course.settled(group, Err(trouble), 0, 0);
    course
}

#[test]
fn nothing_is_pulled_while_acknowledgements_must_wait_and_the_connection_says_so() {
    let mut course = settled_with(busy(120));
    assert_eq!(begin(&mut course, 0), (0, Vec::new()));
    let words = course.not_ready(0).unwrap();
    assert!(
        words.contains("answered 429") && words.contains("120 s") && words.contains("nothing is pulled"),
        "{words}"
    );
    assert_eq!(course.wakes_at(0), Some(120_000));
    assert_eq!(begin(&mut course, 119_999), (0, Vec::new()), "though the leases are over since 30 s");
    let (pulls, mut groups) = begin(&mut course, 120_000);
    assert_eq!((pulls, groups.len()), (0, 1), "the settle is tried first, late as it is");
    assert_eq!(course.wakes_at(120_000), None);
    assert!(course.not_ready(120_000).is_some());
    course.settled(groups.remove(0), Ok(Acked::default()), 120_100, 0);
    assert_eq!(course.not_ready(120_100), None);
    assert_eq!(begin(&mut course, 120_100).0, 1);
}

#[test]
fn a_server_that_fails_at_acknowledgements_is_not_pulled_from_until_the_wait_is_over() {
    let mut course = settled_with(Trouble::failed("answered 500"));
    assert_eq!(begin(&mut course, 249), (0, Vec::new()));
    assert_eq!(course.not_ready(249), None, "a short wait is nothing to complain of");
    let mut now_ms = 250;
    for _ in 0..3 {
        let (pulls, mut groups) = begin(&mut course, now_ms);
        assert_eq!((pulls, groups.len()), (0, 1));
        course.settled(groups.remove(0), Err(Trouble::failed("answered 500")), now_ms, 0);
        now_ms = course.wakes_at(now_ms).unwrap();
    }
    assert!(course.not_ready(now_ms - 1).unwrap().contains("answered 500"));
}

#[test]
fn what_is_given_up_keeps_nobody_from_pulling_once_the_wait_is_over() {
    let mut course = settled_with(busy(60));
    let mut groups = begin(&mut course, 60_000).1;
    course.settled(groups.remove(0), Err(busy(60)), 60_000, 0);
    assert_eq!(course.held(), 0, "the leases are over, and it was tried once more");
    assert_eq!(begin(&mut course, 119_999).0, 0, "nothing that comes could be settled");
    assert!(course.not_ready(119_999).is_some());
    assert_eq!(begin(&mut course, 120_000).0, 1);
    assert_eq!(course.not_ready(120_000), None);
}

#[test]
fn leases_that_are_over_leave_room_for_others_and_are_still_settled() {
    let mut course = Course::new(source_with(&format!(", queue_id: \"{QUEUE_ID}\", batch_size: 100")), None);
    let mut under_way = Vec::new();
    loop {
        let (pulls, groups) = begin(&mut course, 0);
        under_way.extend(groups);
        if pulls == 0 {
            break;
        }
        for _ in 0..pulls {
            course.pulled(100, Ok(Pulled { lent: (0..100).map(lent).collect(), odd: 0 }), 0, 0, 0);
            course.received(acks(100), 0, 0, 0);
        }
    }
    assert_eq!(course.held(), HELD_MAX);
    // Settles hang, and no answer comes.
    assert_eq!(begin(&mut course, 29_999).0, 0);
    assert_eq!(course.wakes_at(29_999), Some(30_000), "that is when leases end");
    assert!(begin(&mut course, 30_000).0 > 0);
    assert_eq!(course.held(), HELD_MAX, "each is waiting to be settled still");
    let mut settled = 0;
    while let Some(group) = under_way.pop() {
        settled += group.len();
        course.settled(group, Ok(Acked::default()), 30_000, 0);
        under_way.extend(begin(&mut course, 30_000).1);
    }
    assert_eq!((settled, course.held()), (HELD_MAX, 0));
}

#[test]
fn no_server_sends_a_connection_away_for_longer_than_an_hour() {
    let answer = jadpo_core::pulling::Answer { status: 429, retry_after: Some("86400"), body: b"" };
    let day = settled(&answer, NOW_MS).unwrap_err();
    let course = settled_with(day.clone());
    assert_eq!(course.wakes_at(0), Some(HOUR_MS));
    let mut course = Course::new(source(), None);
    begin(&mut course, 0);
    course.pulled(10, Err(day), 0, 0, 99);
    assert_eq!(course.wakes_at(0), Some(HOUR_MS));
    assert_eq!(begin(&mut course, HOUR_MS).0, 1);
}

#[test]
fn a_redirect_is_no_missing_consumer() {
    let answer = jadpo_core::pulling::Answer { status: 302, retry_after: None, body: b"" };
    let trouble = jadpo_core::pulling::pulled(&answer, NOW_MS).unwrap_err();
    let words = source().in_words(&trouble);
    assert!(words.contains("302") && words.contains("base_url") && !words.contains("consumer"), "{words}");
    assert!(trouble.kind.lasts());
}
