//! What a host shows, in the one form that scenarios speak of.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The events, one JSON text a row.
pub const SEEN_EVENTS: &str = include_str!("../../scenarios/seen/events.sql");
/// The parked messages, one JSON text a row.
pub const SEEN_PARKED: &str = include_str!("../../scenarios/seen/parked.sql");
/// The deliveries that are not done, one JSON text a row.
pub const SEEN_DELIVERIES: &str = include_str!("../../scenarios/seen/deliveries.sql");

/// A call that a subscriber or a function got.
#[derive(Debug, Clone)]
pub struct SeenCall {
    /// Who got it.
    pub to: String,
    /// Its headers by lowercase name.
    pub headers: BTreeMap<String, String>,
    /// Its body, invalid UTF-8 replaced.
    pub body: String,
}

impl SeenCall {
    fn attempt(&self) -> u64 {
        self.headers.get("jadpo-attempt").and_then(|attempt| attempt.parse().ok()).unwrap_or_default()
    }

    /// The calls by who got them. Calls run side by side, so they are put in order: by body, then by attempt.
    #[must_use]
    pub fn by_subscriber(mut calls: Vec<Self>) -> Value {
        calls.sort_by(|one, other| (&one.body, one.attempt()).cmp(&(&other.body, other.attempt())));
        let mut by_name = BTreeMap::<String, Vec<Value>>::new();
        for call in calls {
            let seen = json!({ "attempt": call.attempt(), "body": call.body, "headers": call.headers });
            by_name.entry(call.to).or_default().push(seen);
        }
        json!(by_name)
    }
}
