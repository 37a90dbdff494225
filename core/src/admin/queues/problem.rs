//! A broker's error as an answer: its status, its stable code, and its figures for programs.

use crate::admin::ProblemDetail;
use crate::broker::BrokerError;
use crate::store::StoreError;

/// The HTTP status of the error.
#[must_use]
pub fn status(error: &BrokerError) -> u16 {
    match error {
        BrokerError::QueueNotFound(_)
        | BrokerError::RedriveNotFound(_)
        | BrokerError::ConsumerNotFound { .. }
        | BrokerError::TokenNotFound(_) => 404,
        BrokerError::QueueExists(_)
        | BrokerError::Paused(_)
        | BrokerError::RedriveRunning { .. }
        | BrokerError::ConsumerExists { .. }
        | BrokerError::TokenExists(_) => 409,
        BrokerError::MessageTooBig { .. } | BrokerError::BatchTooBig { .. } | BrokerError::MetaTooBig { .. } => 413,
        BrokerError::Overloaded(_) => 429,
        BrokerError::Store(_) => 503,
        BrokerError::QueueFull { .. } | BrokerError::TooManyQueues { .. } => 507,
        _ => 400,
    }
}

/// The error as it is answered. Its code never changes; its words may.
#[must_use]
pub fn problem(error: &BrokerError) -> ProblemDetail {
    let (code, limit, actual) = match error {
        BrokerError::QueueNotFound(_) => ("queue_not_found", None, None),
        BrokerError::QueueExists(_) => ("queue_exists", None, None),
        BrokerError::NameInvalid { .. } => ("name_invalid", None, None),
        BrokerError::TooManyQueues { limit } => ("too_many_queues", Some(*limit as u64), None),
        BrokerError::SettingInvalid { greatest, actual, .. } => ("setting_invalid", Some(*greatest), Some(*actual)),
        BrokerError::OwnDeadLetterQueue(_) => ("own_dead_letter_queue", None, None),
        BrokerError::MessageTooBig { limit, actual, .. } => sized("message_too_big", *limit, *actual),
        BrokerError::BatchTooBig { limit, actual } => sized("batch_too_big", *limit, *actual),
        BrokerError::BatchCount { limit, actual } => sized("batch_count", *limit, *actual),
        BrokerError::DelayTooLong { limit, actual, .. } | BrokerError::BatchDelayTooLong { limit, actual } => {
            ("delay_too_long", Some(u64::from(*limit)), Some(u64::from(*actual)))
        }
        BrokerError::MetaTooBig { limit, actual, .. } => sized("metadata_too_big", *limit, *actual),
        BrokerError::JsonEmpty { .. } => ("json_empty", None, None),
        BrokerError::Paused(_) => ("queue_paused", None, None),
        BrokerError::Overloaded(_) => ("overloaded", None, None),
        BrokerError::TooLong { limit, actual, .. } => sized("too_long", *limit, *actual),
        BrokerError::ConsumerExists { .. } => ("consumer_exists", None, None),
        BrokerError::ConsumerNotFound { .. } => ("consumer_not_found", None, None),
        BrokerError::TokenExists(_) => ("token_exists", None, None),
        BrokerError::TokenNotFound(_) => ("token_not_found", None, None),
        BrokerError::NotAName(_) => ("name_invalid", None, None),
        BrokerError::RedriveNotFound(_) => ("redrive_not_found", None, None),
        BrokerError::RedriveRunning { .. } => ("redrive_running", None, None),
        BrokerError::RedriveOntoItself(_) => ("redrive_onto_itself", None, None),
        BrokerError::QueueFull { limit, actual } => ("queue_full", Some(*limit), Some(*actual)),
        BrokerError::Store(StoreError::NotCurrent(_)) => ("store_not_current", None, None),
        BrokerError::Store(_) => ("store_unavailable", None, None),
    };
    let cloudflare_code = error.code();
    ProblemDetail { limit, actual, cloudflare_code, ..ProblemDetail::new(code, error.to_string()) }
}

fn sized(code: &'static str, limit: usize, actual: usize) -> (&'static str, Option<u64>, Option<u64>) {
    (code, Some(limit as u64), Some(actual as u64))
}
