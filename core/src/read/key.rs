//! Keys: under what an event is known, so that a repeat is known too.

use sha2::{Digest, Sha256};

use super::json;

/// The longest id that is a key as it is, in bytes. A longer one is known by its SHA-256.
pub const KEY_BYTES_MAX: usize = 256;

const HASHED: &str = "sha256:";

/// The key for an id: the id itself, unless it is too long, has control characters (which `SQLite`'s JSON functions
/// may cut at), or looks like a hashed one. Those are known by their SHA-256, so that two ids never share a key.
#[must_use]
pub fn key_of(id: &str) -> String {
    let plain = id.len() <= KEY_BYTES_MAX && !id.chars().any(char::is_control) && !id.starts_with(HASHED);
    if plain { id.to_owned() } else { format!("{HASHED}{}", hex(&Sha256::digest(id.as_bytes()))) }
}

/// The event's public id: the same for the same app, connection and key, in whatever store and however often.
#[must_use]
pub fn event_id(app: &str, connection: &str, key: &str) -> String {
    let mut hash = Sha256::new();
    for part in [app, connection, key] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    format!("evt_{}", hex(digest.get(..16).unwrap_or_default()))
}

/// The id under `field` of a JSON object: text, or a whole number as its digits.
///
/// # Errors
/// In words.
pub(super) fn in_body(value: &str, field: &str) -> Result<String, String> {
    if json::kind(value) != "an object" {
        return Err(format!("{field}: missing, since the body is {} and has no fields", json::kind(value)));
    }
    let mut found = None;
    json::fields(value, |name, value| {
        if name == field {
            found = Some(value);
        }
    });
    let Some(value) = found else {
        return Err(format!("{field}: missing, and it is the message's id"));
    };
    match json::kind(value) {
        "text" => match json::string(value) {
            Some(id) if id.is_empty() => Err(format!("{field}: empty, and it is the message's id")),
            Some(id) => Ok(id),
            None => Err(format!("{field}: expected an id, found text with half of a surrogate pair")),
        },
        "a number" if value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => Ok(value.to_owned()),
        "a number" => Err(format!("{field}: expected an id, found a number that is not whole")),
        kind => Err(format!("{field}: expected an id (text or a whole number), found {kind}")),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
