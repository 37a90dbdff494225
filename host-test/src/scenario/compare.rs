//! What must be there against what is there.

use serde_json::Value;

/// Seconds that a number may be off where real time passed.
const ABOUT: f64 = 3.0;

/// What is wrong, in words, with the path to it; `None` when everything that is expected is there.
///
/// A number against a list is its length. A table asks for what it names and nothing else, `{ contains = "…" }` for a
/// part of a text, `{ about = 10 }` for a number that is 3 off at most.
pub(super) fn mismatch(path: &str, expected: &Value, actual: &Value) -> Option<String> {
    match (expected, actual) {
        (Value::Number(_), Value::Array(list)) => {
            let right = expected.as_u64() == u64::try_from(list.len()).ok();
            (!right).then(|| format!("{path}: expected {expected}, found {}: {actual}", list.len()))
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => expected
            .iter()
            .zip(actual)
            .enumerate()
            .find_map(|(place, (expected, actual))| mismatch(&format!("{path}[{place}]"), expected, actual)),
        (Value::Object(fields), _)
            if fields.len() == 1 && (fields.contains_key("contains") || fields.contains_key("about")) =>
        {
            let contains = fields.get("contains").and_then(Value::as_str);
            let about = fields.get("about").and_then(Value::as_f64);
            let right = contains.is_some_and(|part| actual.as_str().is_some_and(|text| text.contains(part)))
                || about.is_some_and(|number| actual.as_f64().is_some_and(|actual| (actual - number).abs() <= ABOUT));
            (!right).then(|| format!("{path}: expected {expected}, found {actual}"))
        }
        (Value::Object(fields), Value::Object(found)) => fields.iter().find_map(|(name, expected)| {
            mismatch(&format!("{path}.{name}"), expected, found.get(name).unwrap_or(&Value::Null))
        }),
        _ if expected == actual => None,
        _ => Some(format!("{path}: expected {expected}, found {actual}")),
    }
}

/// As [`mismatch`], for a log: each line that is expected is there, in this order; others may be between them.
pub(super) fn missing_line(expected: &Value, log: &[Value]) -> Option<String> {
    let mut lines = log.iter();
    let expected = expected.as_array().map(Vec::as_slice).unwrap_or_default();
    expected.iter().find_map(|line| {
        let found = lines.by_ref().any(|actual| mismatch("log", line, actual).is_none());
        (!found).then(|| format!("log: no line {line}, in that order, among {}", Value::from(log.to_vec())))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_named_is_not_asked_for_and_what_is_named_is() {
        let seen = json!({ "events": [{ "key": "a", "body": "x" }], "n": 1 });
        assert_eq!(mismatch("", &json!({ "events": [{ "key": "a" }] }), &seen), None);
        assert_eq!(mismatch("", &json!({ "events": 1 }), &seen), None);
        for wrong in [
            json!({ "events": 2 }),
            json!({ "events": [] }),
            json!({ "events": [{ "key": "b" }] }),
            json!({ "events": [{ "key": "a", "more": 1 }] }),
            json!({ "events": [{ "body": { "contains": "y" } }] }),
            json!({ "n": { "about": 5 } }),
            json!({ "n": "1" }),
            json!({ "parked": 0 }),
        ] {
            assert!(mismatch("", &wrong, &seen).is_some(), "{wrong}");
        }
        assert_eq!(
            mismatch("", &json!({ "n": { "about": 3 }, "events": [{ "body": { "contains": "x" } }] }), &seen),
            None
        );
    }

    #[test]
    fn a_line_of_the_log_is_looked_for_after_the_one_before_it() {
        let log = [json!({ "event": "a" }), json!({ "event": "b", "n": 1 }), json!({ "event": "c" })];
        assert_eq!(missing_line(&json!([{ "event": "a" }, { "event": "c" }]), &log), None);
        assert!(missing_line(&json!([{ "event": "c" }, { "event": "a" }]), &log).is_some());
        assert!(missing_line(&json!([{ "event": "b", "n": 2 }]), &log).is_some());
    }
}
