//! A body as it travels: a text as it is, anything else in base64, as Cloudflare's documentation has it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::wire::PulledMessage;
use crate::queue::Body;

/// Reads the body of a message that was pulled.
///
/// # Errors
/// In words, if it is not what its content type says. What it is then, a person must find out: nothing is guessed.
pub fn decode(message: &PulledMessage) -> Result<Body, String> {
    let bytes = || BASE64.decode(&message.body).map_err(|error| format!("its body is no base64: {error}"));
    match message.metadata.content_type.as_deref() {
        None | Some("text") => Ok(Body::Text(message.body.clone())),
        Some("json") => match String::from_utf8(bytes()?) {
            Ok(json) => Ok(Body::Json(json)),
            Err(error) => Ok(Body::Bytes(error.into_bytes())),
        },
        Some("bytes") => Ok(Body::Bytes(bytes()?)),
        Some("v8") => Ok(Body::Unreadable {
            shown: message.body.clone(),
            why: "it is serialized by V8, which only a Worker can read".to_owned(),
        }),
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            Err(format!("its content type is `{other}`"))
        }
    }
}

#[cfg(feature = "broker")]
pub(super) use encoding::encode;

#[cfg(feature = "broker")]
mod encoding {
    use base64::Engine as _;

    use super::BASE64;
    use crate::broker::{Content, Message};

    /// A message's body and its content type. A text that is none is handed over as the bytes that it is, so that
    /// nothing of it is lost.
    pub(in crate::pull) fn encode(message: Message) -> (String, Content) {
        let base64 = |bytes: &[u8]| BASE64.encode(bytes);
        match message.content {
            Content::Text => match String::from_utf8(message.body) {
                Ok(text) => (text, Content::Text),
                Err(error) => (base64(error.as_bytes()), Content::Bytes),
            },
            content => (base64(&message.body), content),
        }
    }
}
