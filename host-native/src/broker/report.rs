//! What the log says of the queues.

use std::collections::BTreeMap;

use jadpo_core::broker::{Gone, How};
use jadpo_core::host::{Level, LogEntry};
use serde_json::json;

use crate::log;

/// Says what left its queue without an ack. Expired messages are counted, since they may be many.
pub(super) fn gone(all: &[Gone]) {
    let mut expired: BTreeMap<&str, u64> = BTreeMap::new();
    for one in all {
        let mut fields = vec![
            ("queue", one.queue.as_str().into()),
            ("message", one.id.to_string().into()),
            ("attempts", one.attempts.into()),
        ];
        match &one.how {
            How::DeadLettered(to) => {
                fields.push(("dead_letter_queue", to.as_str().into()));
                write(Level::Warn, "queue.dead_lettered", fields);
            }
            How::Dropped => write(Level::Error, "queue.dropped", fields),
            How::Expired => *expired.entry(&one.queue).or_default() += 1,
        }
    }
    for (queue, count) in expired {
        write(Level::Warn, "queue.expired", vec![("queue", queue.into()), ("messages", json!(count))]);
    }
}

pub(super) fn write(level: Level, event: &'static str, fields: Vec<(&'static str, serde_json::Value)>) {
    log::write(&LogEntry { level, event, fields });
}
