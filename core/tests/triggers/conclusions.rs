//! What follows from how the functions of a message ended.

use jadpo_core::broker::limits::ERROR_BYTES_MAX;
use jadpo_core::broker::{Content, Message};
use jadpo_core::trigger::{Conclusion, FunctionOutcome, conclude};

use crate::message;

fn answered(status: u16) -> FunctionOutcome {
    FunctionOutcome::Answered { status }
}

fn exited(code: Option<i32>, stderr: &str) -> FunctionOutcome {
    FunctionOutcome::Exited { code, stderr: stderr.to_owned() }
}

fn concluded(message: &Message, outcomes: &[(&str, FunctionOutcome)]) -> Conclusion {
    let outcomes: Vec<_> = outcomes.iter().map(|(name, outcome)| ((*name).to_owned(), outcome.clone())).collect();
    conclude(message, &outcomes)
}

#[test]
fn only_2xx_is_done() {
    for status in [200, 201, 202, 204, 299] {
        assert!(answered(status).is_done(), "{status}");
    }
    for status in [101, 199, 300, 302, 304, 400, 404, 410, 429, 500, 503] {
        assert!(!answered(status).is_done(), "{status}");
        assert_eq!(answered(status).status(), Some(status));
    }
    assert_eq!(answered(302).error().unwrap(), "answered 302; redirects are not followed");
}

#[test]
fn only_exit_0_is_done() {
    assert!(exited(Some(0), "a warning").is_done());
    assert_eq!(exited(Some(3), " no such card \n").error().unwrap(), "ended with exit code 3: no such card");
    assert_eq!(exited(None, "").error().unwrap(), "was ended by a signal");
    assert_eq!(exited(Some(0), "a warning").error(), None);
}

#[test]
fn a_message_is_done_when_every_function_is() {
    let message = message(Content::Json, b"1");
    let returned = FunctionOutcome::Returned(Ok(()));
    assert_eq!(
        concluded(&message, &[("a", answered(200)), ("b", exited(Some(0), "")), ("c", returned)]),
        Conclusion::Done
    );
    assert_eq!(concluded(&message, &[]), Conclusion::Done, "all of them were done before");
}

#[test]
fn what_is_done_is_remembered_over_all_attempts() {
    let first = message(Content::Json, b"1");
    let outcomes = [("a", answered(500)), ("b", answered(200)), ("c", FunctionOutcome::Unanswered("no answer".into()))];
    let Conclusion::Again { progress, error } = concluded(&first, &outcomes) else { panic!() };
    assert_eq!(progress.as_deref(), Some("b"));
    assert_eq!(error, "a: answered 500; c: no answer");
    let second = Message { progress, attempts: 2, ..first };
    let Conclusion::Again { progress, .. } =
        concluded(&second, &[("a", answered(200)), ("c", FunctionOutcome::Returned(Err("no".into())))])
    else {
        panic!()
    };
    assert_eq!(progress.as_deref(), Some("b\na"));
    let third = Message { progress, attempts: 3, ..second };
    assert_eq!(concluded(&third, &[("c", answered(204))]), Conclusion::Done);
}

#[test]
fn nothing_is_remembered_where_nothing_is_done() {
    let message = message(Content::Json, b"1");
    let Conclusion::Again { progress, .. } = concluded(&message, &[("a", answered(500))]) else { panic!() };
    assert_eq!(progress, None);
}

#[test]
fn every_function_s_error_has_its_part_of_what_is_kept_and_its_end_is_what_stays() {
    let message = message(Content::Json, b"1");
    let long = format!("{}the last line", "é".repeat(5_000));
    for count in [1, 2, 7, 50] {
        let names: Vec<String> = (0..count).map(|n| format!("function_{n}")).collect();
        let outcomes: Vec<_> = names.iter().map(|name| (name.as_str(), exited(Some(1), &long))).collect();
        let Conclusion::Again { error, .. } = concluded(&message, &outcomes) else { panic!() };
        assert!(error.len() <= ERROR_BYTES_MAX, "{count} functions: {} bytes", error.len());
        for name in &names {
            assert!(error.contains(&format!("{name}: ")), "{count} functions: {error}");
        }
        assert!(error.ends_with("the last line"), "{error}");
    }
}

#[test]
fn what_could_not_be_begun_here_is_no_attempt_unless_something_else_failed() {
    let message = message(Content::Json, b"1");
    let lacking = || FunctionOutcome::NotStarted("Too many open files".to_owned());
    assert_eq!(
        concluded(&message, &[("a", lacking()), ("b", lacking())]),
        Conclusion::NotStarted { progress: None, error: "a: Too many open files; b: Too many open files".to_owned() }
    );
    let Conclusion::NotStarted { progress, .. } = concluded(&message, &[("a", answered(200)), ("b", lacking())]) else {
        panic!()
    };
    assert_eq!(progress.as_deref(), Some("a"), "who is done is not called again");
    let failed = concluded(&message, &[("a", answered(500)), ("b", lacking())]);
    assert!(matches!(failed, Conclusion::Again { .. }), "who was called failed: that is an attempt");
}
