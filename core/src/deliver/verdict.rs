//! What follows from how a call ended.

use std::time::{SystemTime, UNIX_EPOCH};

use super::call::NoCall;
use crate::broken::{self, Variant};
use crate::host::CallOutcome;
use crate::queue::{ATTEMPTS_MAX, retry_delay_s};

/// The longest wait that a `Retry-After` header is granted, in seconds.
pub(super) const RETRY_AFTER_MAX_S: i64 = 86_400;
/// Attempts before a delivery has failed whose subscriber the build does not know. More than one, since while a new
/// version of the app is rolled out the old one meets deliveries that it knows nothing of.
pub(super) const UNKNOWN_ATTEMPTS_MAX: u32 = 5;
/// The most characters that are kept of an error's text.
const ERROR_CHARS_MAX: usize = 500;

/// What becomes of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The subscriber has it.
    Done,
    /// It was not tried, and neither will be any other by this run.
    NotTried,
    /// It is tried again.
    Waiting {
        /// When, in milliseconds since 1970.
        due_at_ms: i64,
        /// What went wrong.
        error: String,
    },
    /// It is listed for the operator.
    Failed {
        /// What went wrong at the last attempt.
        error: String,
    },
}

/// Judges the call that was attempt number `attempt`.
pub(super) fn judge(outcome: &CallOutcome, attempt: u32, attempt_max: u32, now_ms: i64) -> Verdict {
    match outcome {
        CallOutcome::Answered { status: 200..=299, .. } => Verdict::Done,
        CallOutcome::Answered { status, retry_after } => {
            let asked_s = match (status, retry_after) {
                (429 | 503, Some(text)) => retry_after_s(text, now_ms),
                _ => None,
            };
            let more = match (status, asked_s) {
                (300..=399, _) => "; redirects are not followed".to_owned(),
                (_, Some(seconds)) => format!(" and asked for {seconds} s"),
                _ => String::new(),
            };
            retry(format!("answered {status}{more}"), asked_s.unwrap_or(0), attempt, attempt_max, now_ms)
        }
        CallOutcome::NotSent(_) => Verdict::NotTried,
        CallOutcome::Unanswered(_) if broken::is(Variant::UnansweredCountsAsDone) => Verdict::Done,
        CallOutcome::Unanswered(why) => retry(bounded(why), 0, attempt, attempt_max, now_ms),
    }
}

/// Judges a delivery for which no call could be made.
pub(super) fn judge_no_call(why: &NoCall, attempt: u32, attempt_max: u32, now_ms: i64) -> Verdict {
    match why {
        NoCall::NoSecret(text) => retry(bounded(text), 0, attempt, attempt_max, now_ms),
        NoCall::NoSubscriber(text) => retry(bounded(text), 0, attempt, attempt_max.min(UNKNOWN_ATTEMPTS_MAX), now_ms),
    }
}

/// Waits by the schedule, or longer where the subscriber asked for it. Never shorter: a subscriber that answers
/// `Retry-After: 0` for an hour would spend all attempts in a moment.
fn retry(error: String, asked_s: i64, attempt: u32, attempt_max: u32, now_ms: i64) -> Verdict {
    if attempt + u32::from(broken::is(Variant::DeliveryGivenUpEarly)) >= attempt_max {
        return Verdict::Failed { error };
    }
    // An operator's retry grants attempts anew, and the schedule begins anew with them.
    let attempt_of_round = attempt.saturating_add(ATTEMPTS_MAX).saturating_sub(attempt_max.max(ATTEMPTS_MAX));
    let delay_s = i64::from(retry_delay_s(attempt_of_round)).max(asked_s);
    Verdict::Waiting { due_at_ms: now_ms.saturating_add(delay_s * 1000), error }
}

/// A `Retry-After` header in seconds from now: a number of them, or a date in any of HTTP's three forms.
pub(crate) fn retry_after_s(text: &str, now_ms: i64) -> Option<i64> {
    let text = text.trim();
    let seconds = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().unwrap_or(i64::MAX) // only digits: what does not parse is too long
    } else {
        let date: SystemTime = httpdate::parse_http_date(text).ok()?;
        let at_s = i64::try_from(date.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()?;
        at_s.saturating_sub(now_ms.div_euclid(1000)).max(0)
    };
    Some(seconds.min(RETRY_AFTER_MAX_S))
}

/// An error's text as it is kept: on one line, and not longer than a person reads.
pub(crate) fn bounded(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds until the attempt after this one, whose subscriber answered 500.
    fn waits_s(attempt: u32, attempt_max: u32) -> Option<i64> {
        let answer = CallOutcome::Answered { status: 500, retry_after: None };
        match judge(&answer, attempt, attempt_max, 0) {
            Verdict::Waiting { due_at_ms, .. } => Some(due_at_ms / 1000),
            _ => None,
        }
    }

    #[test]
    fn the_schedule_begins_anew_with_the_attempts_that_an_operator_grants() {
        assert_eq!([1, 2, 3].map(|attempt| waits_s(attempt, 30)), [Some(10), Some(20), Some(40)]);
        assert_eq!((waits_s(29, 30), waits_s(30, 30)), (Some(3600), None));
        assert_eq!([31, 32, 33].map(|attempt| waits_s(attempt, 60)), [Some(10), Some(20), Some(40)]);
        assert_eq!((waits_s(59, 60), waits_s(60, 60)), (Some(3600), None));
    }
}
