//! JSON where it lies: is it JSON, how deep, what kind of value, which fields.

use std::fmt;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Levels of nesting that a body may have. Far above what anybody sends, far below what tires a subscriber's
/// parser; `SQLite`'s own JSON functions stop here too.
pub const NESTING_MAX: usize = 1_000;

/// Checks that `text` is one JSON value, not nested too deeply.
///
/// # Errors
/// In words, with line and column.
pub(super) fn parse(text: &str) -> Result<&str, String> {
    if text.trim_ascii().is_empty() {
        return Err("the body is empty, which is not JSON".to_owned());
    }
    // serde_json walks a raw value without recursion, however deep it is.
    let value: &RawValue = serde_json::from_str(text).map_err(|error| format!("the body is not JSON: {error}"))?;
    let depth = nesting(value.get());
    if depth > NESTING_MAX {
        return Err(format!("the body is nested {depth} levels deep; {NESTING_MAX} are allowed"));
    }
    Ok(value.get())
}

/// How deeply a valid JSON text is nested.
fn nesting(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// What kind of value a valid JSON text is, in an operator's words.
pub(super) fn kind(json: &str) -> &'static str {
    match json.bytes().next() {
        Some(b'"') => "text",
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// The text that a JSON string stands for; `None` if it has none (half of a surrogate pair).
pub(super) fn string(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

/// Hands each field of an object to `each`: its name, if it has one that is text, and its value. As in JavaScript,
/// a name may come twice; the last one counts.
pub(super) fn fields<'a>(json: &'a str, each: impl FnMut(&str, &'a str)) {
    struct Fields<F>(F);
    impl<'de, F: FnMut(&str, &'de str)> Visitor<'de> for Fields<F> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
            while let Some(name) = map.next_key::<&'de RawValue>()? {
                let value = map.next_value::<&'de RawValue>()?.get();
                match plain(name.get()) {
                    Some(name) => (self.0)(name, value),
                    None => {
                        if let Some(name) = string(name.get()) {
                            (self.0)(&name, value);
                        }
                    }
                }
            }
            Ok(())
        }
    }
    // The text was parsed before, so that this cannot fail; if it did, the fields would be missing.
    let _ = serde_json::Deserializer::from_str(json).deserialize_map(Fields(each));
}

/// Hands each item of a list to `each`, with its place.
pub(super) fn items<'a>(json: &'a str, each: impl FnMut(usize, &'a str)) {
    struct Items<F>(F);
    impl<'de, F: FnMut(usize, &'de str)> Visitor<'de> for Items<F> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }
        fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
            let mut place = 0;
            while let Some(item) = seq.next_element::<&'de RawValue>()? {
                (self.0)(place, item.get());
                place += 1;
            }
            Ok(())
        }
    }
    let _ = serde_json::Deserializer::from_str(json).deserialize_seq(Items(each));
}

/// What is between the quotes of a JSON string without escapes.
fn plain(json: &str) -> Option<&str> {
    if json.contains('\\') {
        return None;
    }
    json.strip_prefix('"')?.strip_suffix('"')
}
