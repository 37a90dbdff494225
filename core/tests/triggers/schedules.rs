//! Schedules: what is due, and that each occurrence happens once.

use std::collections::{BTreeMap, BTreeSet};

use jadpo_core::broker::{Content, TriggerState, schedule_trigger};
use jadpo_core::inbound::rfc3339;
use jadpo_core::schedule::{Due, MISSED_COUNTED_MAX, Schedules};
use proptest::prelude::*;

use crate::program;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
/// 2026-11-30T12:00:00Z.
const NOON_MS: i64 = 1_796_040_000_000;

const APP: &str = r#"
connections: { jobs: { driver: Driver.local_queue, queue: "jobs" } }
functions: {
    sweep: { call: "http://127.0.0.1:3000/sweep", schedule: "*/5 * * * *" }
    report: { send: "jobs", schedule: "0 * * * *", body: { kind: "report" } }
    told: { run: told, schedule: "0 0 1 1 *", body: "go" }
}
"#;

/// The store's memory of triggers, as the broker keeps it.
#[derive(Default, Clone)]
struct Memory(BTreeMap<String, TriggerState>);

impl Memory {
    fn of(schedules: &[(&str, i64)]) -> Self {
        let mut memory = Self::default();
        schedules.iter().for_each(|(schedule, at_ms)| memory.pass(schedule, *at_ms));
        memory
    }

    fn state(&mut self, schedule: &str) -> &mut TriggerState {
        self.0.entry(schedule_trigger(schedule)).or_default()
    }

    fn pass(&mut self, schedule: &str, until_ms: i64) {
        let last = &mut self.state(schedule).last_occurrence_ms;
        *last = Some(last.unwrap_or(until_ms).max(until_ms));
    }

    /// Whether it happened now: not if it or a later one is recorded.
    fn occur(&mut self, schedule: &str, at_ms: i64) -> bool {
        let last = &mut self.state(schedule).last_occurrence_ms;
        let is_new = last.is_none_or(|last_ms| at_ms > last_ms);
        if is_new {
            *last = Some(at_ms);
        }
        is_new
    }
}

#[test]
fn a_schedule_that_a_clock_ahead_has_run_is_told_of_until_its_time_has_come() {
    let schedules = Schedules::of(&program(APP));
    let mut memory =
        Memory::of(&[("sweep", NOON_MS + 12 * HOUR_MS), ("report", NOON_MS + MINUTE_MS), ("told", NOON_MS)]);
    let due = schedules.due(&memory.0, NOON_MS);
    let goes_on_ms = NOON_MS + 12 * HOUR_MS + 5 * MINUTE_MS;
    assert_eq!((&due.ahead, due.occurrences.len()), (&vec![("sweep".to_owned(), goes_on_ms)], 0));
    assert!(schedules.due(&memory.0, NOON_MS + 12 * HOUR_MS).ahead.is_empty());
    memory.state("sweep").enabled = false;
    assert!(schedules.due(&memory.0, NOON_MS).ahead.is_empty(), "it would not run anyway");
}

#[test]
fn noon_is_noon() {
    assert_eq!(rfc3339(NOON_MS), "2026-11-30T12:00:00.000Z");
}

#[test]
fn an_occurrence_becomes_the_message_of_its_function_s_queue() {
    let schedules = Schedules::of(&program(APP));
    let memory = Memory::of(&[("sweep", NOON_MS - 1), ("report", NOON_MS - 1), ("told", NOON_MS - 1)]);
    let due = schedules.due(&memory.0, NOON_MS + 999);
    let shown: Vec<_> = due
        .occurrences
        .iter()
        .map(|one| {
            let body = String::from_utf8(one.message.body.clone()).unwrap();
            (one.schedule.as_str(), one.at_ms, one.queue.as_str(), one.message.content, body, one.missed)
        })
        .collect();
    let sweep = r#"{"schedule":"sweep","scheduled_at":"2026-11-30T12:00:00.000Z"}"#.to_owned();
    assert_eq!(
        shown,
        [
            ("report", NOON_MS, "jobs", Content::Json, r#"{"kind":"report"}"#.to_owned(), 0),
            ("sweep", NOON_MS, "schedule-sweep", Content::Json, sweep, 0),
        ]
    );
    let year = 1_798_761_600_000; // 2027-01-01
    let due = schedules.due(&Memory::of(&[("told", NOON_MS)]).0, year);
    let told = due.occurrences.iter().find(|one| one.schedule == "told").unwrap();
    assert_eq!((told.message.content, told.message.body.as_slice()), (Content::Text, b"go".as_slice()));
}

#[test]
fn a_schedule_that_nobody_knew_of_begins_now_and_has_missed_nothing() {
    let schedules = Schedules::of(&program(APP));
    let due = schedules.due(&BTreeMap::new(), NOON_MS + 7);
    let begun = ["report", "sweep", "told"].map(|name| (name.to_owned(), NOON_MS + 7));
    assert_eq!(due, Due { occurrences: Vec::new(), passed: begun.to_vec(), ahead: Vec::new() });
}

#[test]
fn of_what_was_missed_the_latest_runs_and_the_others_are_counted() {
    let schedules = Schedules::of(&program(APP));
    let mut memory = Memory::of(&[("sweep", NOON_MS), ("report", NOON_MS), ("told", NOON_MS)]);
    let due = schedules.due(&memory.0, NOON_MS + 3 * HOUR_MS + 1);
    let missed: Vec<_> = due.occurrences.iter().map(|one| (one.schedule.as_str(), one.at_ms, one.missed)).collect();
    assert_eq!(missed, [("report", NOON_MS + 3 * HOUR_MS, 2), ("sweep", NOON_MS + 3 * HOUR_MS, 35)]);
    for one in &due.occurrences {
        assert!(memory.occur(&one.schedule, one.at_ms));
    }
    assert_eq!(schedules.due(&memory.0, NOON_MS + 3 * HOUR_MS + 1), Due::default(), "and only once");
}

#[test]
fn a_year_s_absence_is_counted_in_no_time() {
    let schedules = Schedules::of(&program(APP));
    let due = schedules.due(&Memory::of(&[("sweep", NOON_MS - 365 * 24 * HOUR_MS)]).0, NOON_MS);
    let sweep = due.occurrences.iter().find(|one| one.schedule == "sweep").unwrap();
    assert_eq!((sweep.at_ms, sweep.missed), (NOON_MS, MISSED_COUNTED_MAX));
}

#[test]
fn a_disabled_schedule_is_followed_and_nothing_is_made_up_for_when_it_is_enabled() {
    let schedules = Schedules::of(&program(APP));
    let mut memory = Memory::of(&[("sweep", NOON_MS), ("report", NOON_MS), ("told", NOON_MS)]);
    memory.state("report").enabled = false;
    let due = schedules.due(&memory.0, NOON_MS + HOUR_MS);
    assert_eq!(due.passed, [("report".to_owned(), NOON_MS + HOUR_MS)]);
    assert!(due.occurrences.iter().all(|one| one.schedule == "sweep"));
    memory.pass("report", NOON_MS + HOUR_MS);
    memory.state("report").enabled = true;
    let due = schedules.due(&memory.0, NOON_MS + HOUR_MS + 1);
    assert!(due.occurrences.iter().all(|one| one.schedule == "sweep"));
    let due = schedules.due(&memory.0, NOON_MS + 2 * HOUR_MS);
    assert!(due.occurrences.iter().any(|one| one.schedule == "report" && one.missed == 0));
}

#[test]
fn the_next_occurrence_is_told() {
    let schedules = Schedules::of(&program(APP));
    assert_eq!(schedules.next_after("report", NOON_MS), Some(NOON_MS + HOUR_MS));
    assert_eq!(schedules.next_after("nobody", NOON_MS), None);
    assert_eq!(schedules.names().collect::<Vec<_>>(), ["report", "sweep", "told"]);
}

/// What may happen between two ticks.
#[derive(Debug, Clone)]
enum Step {
    /// Time goes on.
    Wait(i64),
    /// The clock is set, 12 h either way at most.
    Jump(i64),
    /// Another server starts on the store: it knows nothing but what the store holds.
    Restart,
    /// What was due is found twice before either is recorded, as by two servers at once.
    Twice,
    /// The process dies after this many of what was due were recorded.
    Crash(usize),
    /// The operator turns the schedule off or on.
    Enable(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..20 * MINUTE_MS).prop_map(Step::Wait),
        2 => (-12 * HOUR_MS..12 * HOUR_MS).prop_map(Step::Jump),
        1 => Just(Step::Restart),
        1 => Just(Step::Twice),
        1 => (0_usize..3).prop_map(Step::Crash),
        1 => any::<bool>().prop_map(Step::Enable),
    ]
}

proptest! {
    /// Each occurrence at most once, each later than the one before, never before its time by the clock of its tick,
    /// and the latest of those that came due is never left out.
    #[test]
    fn each_occurrence_happens_once_whatever_happens_between(steps in proptest::collection::vec(step(), 1..60)) {
        let schedules = Schedules::of(&program(APP));
        let mut memory = Memory::default();
        let mut now_ms = NOON_MS;
        let mut happened: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
        for step in steps {
            let mut take = usize::MAX;
            let mut rounds = 1;
            match step {
                Step::Wait(ms) | Step::Jump(ms) => now_ms += ms,
                Step::Restart => memory = memory.clone(),
                Step::Twice => rounds = 2,
                Step::Crash(count) => take = count,
                Step::Enable(enabled) => memory.state("sweep").enabled = enabled,
            }
            let due = schedules.due(&memory.0, now_ms);
            for _ in 0..rounds {
                due.passed.iter().for_each(|(schedule, at_ms)| memory.pass(schedule, *at_ms));
                for one in due.occurrences.iter().take(take) {
                    prop_assert!(one.at_ms <= now_ms && one.at_ms % MINUTE_MS == 0);
                    if !memory.occur(&one.schedule, one.at_ms) {
                        continue;
                    }
                    let of_schedule = happened.entry(one.schedule.clone()).or_default();
                    prop_assert!(of_schedule.last().is_none_or(|last_ms| *last_ms < one.at_ms), "{} again", one.schedule);
                    of_schedule.insert(one.at_ms);
                }
            }
            if take == usize::MAX {
                // Nothing is due any more: what was, happened or was passed over because it is disabled.
                let due = schedules.due(&memory.0, now_ms);
                prop_assert_eq!(Due { ahead: Vec::new(), ..due }, Due::default());
            }
        }
    }

    /// With a clock that only goes on, nothing is left out: each occurrence happened, was missed and counted, or came
    /// while the schedule was not known.
    #[test]
    fn what_did_not_happen_was_counted(waits in proptest::collection::vec(1..90 * MINUTE_MS, 1..40)) {
        let schedules = Schedules::of(&program(APP));
        let mut memory = Memory::of(&[("sweep", NOON_MS)]);
        let mut now_ms = NOON_MS;
        let mut counted = 0;
        for wait in waits {
            now_ms += wait;
            for one in schedules.due(&memory.0, now_ms).occurrences {
                if one.schedule == "sweep" {
                    prop_assert!(memory.occur("sweep", one.at_ms));
                    counted += 1 + i64::from(one.missed);
                }
            }
        }
        prop_assert_eq!(counted, (now_ms - NOON_MS) / (5 * MINUTE_MS));
    }
}
