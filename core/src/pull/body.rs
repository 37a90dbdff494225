//! A body as it travels: a text as it is, anything else in base64, as Cloudflare's documentation has it. Who pulls reads
//! it in [`crate::pulling`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::broker::{Content, Message};

/// A message's body and its content type. A text that is none is handed over as the bytes that it is, so that
/// nothing of it is lost.
pub(super) fn encode(message: Message) -> (String, Content) {
    match message.content {
        Content::Text => match String::from_utf8(message.body) {
            Ok(text) => (text, Content::Text),
            Err(error) => (BASE64.encode(error.as_bytes()), Content::Bytes),
        },
        content => (BASE64.encode(&message.body), content),
    }
}
