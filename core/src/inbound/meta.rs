//! What is kept of a request beside its body, as text that is kept with the message.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::macros::format_description;

use super::{Inbound, Refusal};
use crate::broker::limits::META_BYTES_MAX;

/// A request without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// Its method.
    pub method: String,
    /// Its path, without a webhook's token.
    pub path: String,
    /// Its query, without what was meant for the queue.
    pub query: Option<String>,
    /// Its headers in order. Not those that are about the connection, or that carry a token of ours.
    pub headers: Vec<(String, Vec<u8>)>,
    /// When it was received, in milliseconds since 1970: a late check of a signature's time needs it.
    pub received_at_ms: i64,
}

/// As JSON: a value's bytes are the characters of their numbers, so that those above 0x7F survive.
#[derive(Serialize, Deserialize)]
struct Written {
    method: String,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    received_at_ms: i64,
    headers: Vec<(String, String)>,
}

/// Headers about one connection, and those that say how long the body is or that the sender waits to send it.
const NOT_KEPT: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Meta {
    /// What is kept of a request. `without` names headers that are not, in lowercase.
    pub(super) fn of(inbound: &Inbound, path: &str, query: Option<String>, without: &[&str]) -> Self {
        let named: Vec<String> = inbound
            .values("connection")
            .flat_map(|value| {
                String::from_utf8_lossy(value).to_ascii_lowercase().split(',').map(trimmed).collect::<Vec<_>>()
            })
            .collect();
        let is_kept = |name: &str| {
            let name = name.to_ascii_lowercase();
            !NOT_KEPT.contains(&name.as_str()) && !without.contains(&name.as_str()) && !named.contains(&name)
        };
        Self {
            method: inbound.method.clone(),
            path: path.to_owned(),
            query,
            headers: inbound.headers.iter().filter(|(name, _)| is_kept(name)).cloned().collect(),
            received_at_ms: inbound.received_at_ms,
        }
    }

    /// The text that is kept.
    ///
    /// # Errors
    /// 431 if it is longer than what is kept with a message.
    pub fn encode(&self) -> Result<String, Refusal> {
        let latin = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect();
        let written = Written {
            method: self.method.clone(),
            path: self.path.clone(),
            query: self.query.clone(),
            received_at_ms: self.received_at_ms,
            headers: self.headers.iter().map(|(name, value)| (name.clone(), latin(value))).collect(),
        };
        let text = serde_json::to_string(&written)
            .map_err(|error| Refusal::new(400, "request_invalid", format!("the request cannot be kept: {error}")))?;
        if text.len() > META_BYTES_MAX {
            let message = format!(
                "the request's headers and query take {} bytes, and {META_BYTES_MAX} are kept; send fewer",
                text.len()
            );
            let refusal = Refusal::new(431, "headers_too_large", message);
            return Err(refusal.with("limit", META_BYTES_MAX).with("actual", text.len()));
        }
        Ok(text)
    }

    /// Reads what was kept; `None` for text of another kind.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let written: Written = serde_json::from_str(text).ok()?;
        let bytes = |text: String| text.chars().map(|char| u8::try_from(char).ok()).collect::<Option<Vec<u8>>>();
        let headers = written.headers.into_iter().map(|(name, value)| Some((name, bytes(value)?)));
        Some(Self {
            method: written.method,
            path: written.path,
            query: written.query,
            headers: headers.collect::<Option<_>>()?,
            received_at_ms: written.received_at_ms,
        })
    }
}

fn trimmed(text: &str) -> String {
    text.trim().to_owned()
}

/// A time in milliseconds since 1970 as `2026-11-30T12:00:00.000Z`.
#[must_use]
pub fn rfc3339(at_ms: i64) -> String {
    let form = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_ms) * 1_000_000)
        .ok()
        .and_then(|at| at.format(&form).ok())
        .unwrap_or_else(|| format!("{at_ms} ms"))
}
