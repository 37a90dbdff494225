//! The API's JSON, for who asks and who answers. What another server may leave out or write otherwise is read as well.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// What every answer is put into.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope<T> {
    /// Whether what was asked for is done.
    pub success: bool,
    /// Why it is not.
    #[serde(default, deserialize_with = "null_is_default")]
    pub errors: Vec<ApiError>,
    /// What else there is to say: texts, or objects with a `message`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub messages: Vec<Value>,
    /// What was asked for.
    pub result: Option<T>,
    /// Which part of a list it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_info: Option<ResultInfo>,
}

/// One reason why something is not done.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ApiError {
    /// Cloudflare's code, or 0 where it has none.
    #[serde(default)]
    pub code: i64,
    /// It in words.
    #[serde(default)]
    pub message: String,
    /// Which part of the request it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// How much there may be, where there is too much. Ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How much there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<u64>,
}

/// A part of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Source {
    /// Its place in the request's JSON: `/messages/3/body`.
    #[serde(default)]
    pub pointer: String,
}

/// Which part of a list an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultInfo {
    /// The page, from 1.
    pub page: u64,
    /// How many there are on a page.
    pub per_page: u64,
    /// How many there are on this one.
    pub count: u64,
    /// How many there are on all.
    pub total_count: u64,
    /// How many pages there are.
    pub total_pages: u64,
}

/// A request to pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PullRequest {
    /// Messages at most, 1 to 100; 5 if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u32>,
    /// How long they are leased, up to 12 hours; 30 s if neither this nor the consumer's settings say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility_timeout_ms: Option<u32>,
}

/// What a pull gave.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pulled {
    /// Messages in the queue, those that are leased included.
    pub message_backlog_count: u64,
    /// The messages.
    #[serde(deserialize_with = "null_is_default")]
    pub messages: Vec<PulledMessage>,
    /// The queue's figures.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
}

/// A message that was pulled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PulledMessage {
    /// Its body: a text as it is, anything else in base64.
    #[serde(default)]
    pub body: String,
    /// Its id, the same on every delivery.
    pub id: String,
    /// When it was sent, in milliseconds since 1970.
    #[serde(default)]
    pub timestamp_ms: i64,
    /// How often it was handed over, this time included.
    #[serde(default)]
    pub attempts: u32,
    /// What its body is.
    #[serde(default, deserialize_with = "null_is_default")]
    pub metadata: MessageMetadata,
    /// What it is settled by.
    pub lease_id: String,
}

/// What is said of a message beside its body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MessageMetadata {
    /// Who sent it.
    #[serde(rename = "CF-sourceMessageSource", default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Its content type: `text`, `json`, `bytes` or `v8`.
    #[serde(rename = "CF-Content-Type", default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// A queue's figures, as an answer carries them along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The figures.
    #[serde(deserialize_with = "null_is_default")]
    pub metrics: QueueMetrics,
}

/// A queue's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueMetrics {
    /// Bytes of what is not acknowledged.
    pub backlog_bytes: u64,
    /// Messages that are not acknowledged.
    pub backlog_count: u64,
    /// When the oldest of them was sent, in milliseconds since 1970; 0 if there is none.
    pub oldest_message_timestamp_ms: i64,
}

/// A request to settle messages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AckRequest {
    /// These are done.
    pub acks: Vec<AckOne>,
    /// These are to be handed over again.
    pub retries: Vec<RetryOne>,
}

/// A message that is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AckOne {
    /// What it is settled by.
    pub lease_id: String,
}

/// A message that is to be handed over again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RetryOne {
    /// What it is settled by.
    pub lease_id: String,
    /// Seconds until then, up to a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_seconds: Option<u32>,
}

/// What settling messages gave.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Acked {
    /// Messages that are done.
    pub ack_count: u64,
    /// Messages that come again.
    pub retry_count: u64,
    /// Why others are neither, by their lease ids.
    #[serde(deserialize_with = "warnings")]
    pub warnings: BTreeMap<String, String>,
}

fn null_is_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A map, as it is documented; or a list, as it was before.
fn warnings<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(match Value::deserialize(from)? {
        Value::Object(map) => map.into_iter().map(|(id, value)| (id, text(value))).collect(),
        Value::Array(list) => {
            list.into_iter().enumerate().map(|(index, value)| (index.to_string(), text(value))).collect()
        }
        _ => BTreeMap::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_or_a_sparing_server_answers_is_read_as_well() {
        let old =
            r#"{"success":true,"errors":[],"messages":[],"result":{"ackCount":1,"retryCount":0,"warnings":["w"]}}"#;
        let old: Envelope<Acked> = serde_json::from_str(old).unwrap();
        assert_eq!(old.result.unwrap().warnings.into_values().collect::<Vec<_>>(), ["w"]);
        let bare = r#"{"success":true,"errors":null,"messages":["x",{"message":"y"}],"result":{"messages":null}}"#;
        let bare: Envelope<Pulled> = serde_json::from_str(bare).unwrap();
        assert_eq!((bare.messages.len(), bare.result.unwrap()), (2, Pulled::default()));
        let failed: Envelope<Pulled> = serde_json::from_str(r#"{"success":false,"result":null}"#).unwrap();
        assert_eq!(failed.result, None);
    }
}
