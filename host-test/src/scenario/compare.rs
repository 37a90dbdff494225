//! What must be there against what is there.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Seconds that a number may be off where real time passed.
const ABOUT: f64 = 3.0;

/// What `{ as = "name" }` stood for where it was first met.
pub(super) type Named = BTreeMap<String, Value>;

/// What is wrong, in words, with the path to it; `None` when everything that is expected is there.
///
/// A number against a list is its length. A table asks for what it names and nothing else, `{ contains = "…" }` for a
/// part of a text, `{ about = 10 }` for a number that is 3 off at most, `{ as = "key" }` for a text or a number that is
/// the same wherever `key` stands.
pub(super) fn mismatch(path: &str, expected: &Value, actual: &Value, named: &mut Named) -> Option<String> {
    let wrong = || Some(format!("{path}: expected {expected}, found {actual}"));
    match (expected, actual) {
        (Value::Number(_), Value::Array(list)) => {
            if expected.as_u64() == u64::try_from(list.len()).ok() {
                None
            } else {
                wrong()
            }
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            let mut pairs = expected.iter().zip(actual).enumerate();
            pairs.find_map(|(place, (expected, actual))| mismatch(&format!("{path}[{place}]"), expected, actual, named))
        }
        (Value::Object(fields), _) => match one_word(fields) {
            Some(("contains", Value::String(part))) => {
                if actual.as_str().is_some_and(|text| text.contains(part.as_str())) { None } else { wrong() }
            }
            Some(("about", number)) => {
                let off = actual.as_f64().zip(number.as_f64()).map(|(actual, number)| (actual - number).abs());
                if off.is_some_and(|off| off <= ABOUT) { None } else { wrong() }
            }
            Some(("as", Value::String(name))) => {
                let first = named.entry(name.clone()).or_insert_with(|| actual.clone());
                let right = first == actual && (actual.is_string() || actual.is_number());
                if right { None } else { Some(format!("{path}: expected {first} again, found {actual}")) }
            }
            _ => {
                let found = |name: &str| actual.as_object().and_then(|found| found.get(name)).unwrap_or(&Value::Null);
                let mut fields = fields.iter();
                fields.find_map(|(name, expected)| mismatch(&format!("{path}.{name}"), expected, found(name), named))
            }
        },
        _ if expected == actual => None,
        _ => wrong(),
    }
}

/// A table with one entry, which may be a word about a value.
fn one_word(fields: &Map<String, Value>) -> Option<(&str, &Value)> {
    let (name, value) = fields.iter().next()?;
    (fields.len() == 1).then_some((name.as_str(), value))
}

/// As [`mismatch`], for a log: each line that is expected is there, in this order; others may be between them.
pub(super) fn missing_line(expected: &Value, log: &[Value]) -> Option<String> {
    let mut lines = log.iter();
    let expected = expected.as_array().map(Vec::as_slice).unwrap_or_default();
    expected.iter().find_map(|line| {
        let found = lines.by_ref().any(|actual| mismatch("log", line, actual, &mut Named::new()).is_none());
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
        assert_eq!(mismatch("", &json!({ "events": [{ "key": "a" }] }), &seen, &mut Named::new()), None);
        assert_eq!(mismatch("", &json!({ "events": 1 }), &seen, &mut Named::new()), None);
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
            assert!(mismatch("", &wrong, &seen, &mut Named::new()).is_some(), "{wrong}");
        }
        let words = json!({ "n": { "about": 3 }, "events": [{ "body": { "contains": "x" }, "key": { "as": "k" } }] });
        assert_eq!(mismatch("", &words, &seen, &mut Named::new()), None);
    }

    #[test]
    fn a_name_stands_for_the_same_thing_wherever_it_is_met() {
        let expected = json!([{ "key": { "as": "k" } }, { "key": { "as": "k" } }]);
        let same = json!([{ "key": "a" }, { "key": "a" }]);
        assert_eq!(mismatch("", &expected, &same, &mut Named::new()), None);
        for other in [json!([{ "key": "a" }, { "key": "b" }]), json!([{}, {}])] {
            assert!(mismatch("", &expected, &other, &mut Named::new()).is_some(), "{other}");
        }
    }

    #[test]
    fn a_line_of_the_log_is_looked_for_after_the_one_before_it() {
        let log = [json!({ "event": "a" }), json!({ "event": "b", "n": 1 }), json!({ "event": "c" })];
        assert_eq!(missing_line(&json!([{ "event": "a" }, { "event": "c" }]), &log), None);
        assert!(missing_line(&json!([{ "event": "c" }, { "event": "a" }]), &log).is_some());
        assert!(missing_line(&json!([{ "event": "b", "n": 2 }]), &log).is_some());
    }
}
