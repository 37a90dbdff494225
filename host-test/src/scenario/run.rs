//! Runs scenarios on a stage and tells what failed, by its sentence and its step.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::compare::{Named, mismatch, missing_line};
use super::{Answered, Answers, HandOver, Scenario, Stage, Step};

/// How scenarios ended on a host.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many ran.
    pub ran: usize,
    /// How many do not apply.
    pub left_out: usize,
    /// What failed: the sentence, the step, what was wrong.
    pub failures: Vec<String>,
}

/// Scenarios that run side by side: what takes their time on a real host is waiting.
const SIDE_BY_SIDE: usize = 4;

/// Runs every scenario that applies to `host`, each on a stage of its own, and panics at the end with everything that
/// failed. `JADPO_SCENARIO` chooses those whose sentence holds its value.
///
/// # Panics
/// When a scenario failed, or none ran or was chosen.
pub fn run_all(host: &str, scenarios: &[Scenario], stage: impl Fn(&Scenario) -> Box<dyn Stage> + Sync) -> Outcome {
    let chosen = std::env::var("JADPO_SCENARIO").unwrap_or_default();
    let chosen_ones: Vec<&Scenario> = scenarios.iter().filter(|one| one.to_string().contains(&chosen)).collect();
    assert!(!chosen_ones.is_empty(), "no scenario has {chosen:?} in its sentence, which JADPO_SCENARIO asks for");
    let (apply, left_out): (Vec<&Scenario>, Vec<&Scenario>) =
        chosen_ones.into_iter().partition(|scenario| !scenario.not_on.contains_key(host));
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(scenario) = apply.get(next.fetch_add(1, Ordering::SeqCst)) {
                    if let Some(failure) = failure(scenario, &stage) {
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort();
    let outcome = Outcome { ran: apply.len(), left_out: left_out.len(), failures };
    let told = outcome.failures.join("\n\n");
    assert!(told.is_empty(), "{} of {} scenarios fail on {host}:\n\n{told}\n", outcome.failures.len(), outcome.ran);
    assert!(outcome.ran > 0 || !chosen.is_empty(), "no scenario applies to {host}");
    outcome
}

/// Runs a scenario and says what failed: its sentence, the step and why.
fn failure(scenario: &Scenario, stage: impl Fn(&Scenario) -> Box<dyn Stage>) -> Option<String> {
    let at = Cell::new(0);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut stage = stage(scenario);
        for (place, step) in scenario.steps.iter().enumerate() {
            at.set(place + 1);
            perform(stage.as_mut(), step)?;
        }
        Ok::<(), String>(())
    }));
    let why = match ran {
        Ok(Ok(())) => return None,
        Ok(Err(why)) => why,
        Err(panic) => words(panic.as_ref()),
    };
    let step = at.get().checked_sub(1).and_then(|place| scenario.written.get(place)).map_or("", String::as_str);
    Some(format!("{scenario}\n  step {}: {step}\n  {why}", at.get()))
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Does a step; the error says in words what is wrong.
fn perform(stage: &mut dyn Stage, step: &Step) -> Result<(), String> {
    match step {
        Step::Subscriber(does) => stage.subscriber(does),
        Step::Store(does) => stage.store(*does),
        Step::StoreRefuses(text) => stage.store_refuses(text),
        Step::HandOver(batch) => answered(batch, &stage.hand_over(batch))?,
        Step::SecondsPass(seconds) => stage.seconds_pass(*seconds),
        Step::Tick(times) => (0..*times).for_each(|_| stage.tick()),
        Step::Operator(asked) => {
            let (method, path) = match (&asked.get, &asked.post) {
                (Some(path), None) => ("GET", path),
                (None, Some(path)) => ("POST", path),
                _ => return Err("an operator either gets or posts".into()),
            };
            let body = asked.body.as_ref().map(Value::to_string).unwrap_or_default();
            let (status, answer) = stage.operator(method, path, &body);
            if status != asked.status.unwrap_or(200) {
                return Err(format!("answered {status}: {answer}"));
            }
            if let Some(expected) = &asked.answer {
                let actual = serde_json::from_str(&answer).map_err(|error| format!("{error}: {answer}"))?;
                return mismatch("answer", expected, &actual, &mut Named::new()).map_or(Ok(()), Err);
            }
        }
        Step::Deploy(app) => stage.deploy(app),
        Step::Send(send) => {
            let (status, name) = stage.send(send);
            if status != send.status.unwrap_or(202) {
                return Err(format!("answered {status}"));
            }
            if send.repeats.is_some() && name != send.repeats {
                return Err(format!("expected a repeat of {:?}, found {name:?}", send.repeats));
            }
        }
        Step::Settles(within_s) => stage.settles(*within_s),
        Step::Redrive(redrive) => {
            let moved = stage.redrive(&redrive.queue);
            if moved != redrive.moved {
                return Err(format!("moved {moved}"));
            }
        }
        Step::Purge(purge) => {
            let removed = stage.purge(&purge.queue);
            if removed != purge.removed {
                return Err(format!("removed {removed}"));
            }
        }
        Step::See(expected) => see(stage, expected)?,
    }
    Ok(())
}

/// Looks until everything is there, as long as the host has patience.
fn see(stage: &mut dyn Stage, expected: &BTreeMap<String, Value>) -> Result<(), String> {
    let end = Instant::now() + Duration::from_millis(stage.patience_ms());
    loop {
        let Some(why) = wrong(expected, &stage.seen()) else { return Ok(()) };
        if Instant::now() >= end {
            return Err(why);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn wrong(expected: &BTreeMap<String, Value>, seen: &Value) -> Option<String> {
    let mut named = Named::new();
    expected.iter().find_map(|(what, expected)| match what.as_str() {
        "log_without" => {
            let log = seen["log"].to_string();
            let held = expected.as_str().is_none_or(|text| log.contains(text));
            held.then(|| format!("the log holds {expected}: {log}"))
        }
        "log" => missing_line(expected, seen["log"].as_array().map(Vec::as_slice).unwrap_or_default()),
        // A subscriber that was not called has no list.
        "calls" => expected.as_object().into_iter().flatten().find_map(|(name, expected)| {
            let none = Value::Array(Vec::new());
            mismatch(&format!("calls.{name}"), expected, seen["calls"].get(name).unwrap_or(&none), &mut named)
        }),
        what => mismatch(what, expected, &seen[what], &mut named),
    })
}

/// Whether each message got its answer.
fn answered(batch: &HandOver, actual: &[Answered]) -> Result<(), String> {
    let expected = match &batch.answers {
        Answers::Each(answers) => answers.clone(),
        Answers::All(answer) => vec![*answer; batch.messages.iter().map(|given| given.each().len()).sum()],
    };
    if expected == actual { Ok(()) } else { Err(format!("answers: expected {expected:?}, found {actual:?}")) }
}
