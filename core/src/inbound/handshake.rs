//! What a provider asks a webhook's address before it posts to it, and what it wants to hear.
//!
//! Three are answered, for each of which it is enough to send back what was asked: the permission that CloudEvents'
//! web hooks ask for by OPTIONS (Azure Event Grid among others), the subscription that WebSub's hubs and Meta confirm by
//! GET with `hub.challenge`, and Dropbox's GET with `challenge`. An address that is known to its sender alone is the
//! proof here, as it is for a POST; nothing is stored, and nothing is called back. The end of a subscription is never
//! confirmed: no caller proves that it is wanted. Nor is a handshake answered whose answer is computed with a secret, or
//! that is posted as an event is (Slack, Microsoft Graph): what is posted is kept as a message.

use form_urlencoded::parse;

/// The longest challenge and name that are sent back, in bytes.
const ECHOED_BYTES_MAX: usize = 1_024;
const ORIGIN_BYTES_MAX: usize = 253;

/// What a provider is answered, with status 200. The body is plain text, and must be taken for nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// Headers, by their names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
}

/// The answer to a handshake; `None` if this is none, and the request is to be handled as any other. `origin` is the
/// value of the header `WebHook-Request-Origin`.
#[must_use]
pub fn handshake(method: &str, query: Option<&str>, origin: Option<&str>) -> Option<Handshake> {
    match method {
        "OPTIONS" => permission(origin?.trim()),
        "GET" => challenge(query?),
        _ => None,
    }
}

/// [CloudEvents' web hooks](https://github.com/cloudevents/spec/blob/main/cloudevents/http-webhook.md), section 4.2. Who
/// asks for a rate gets any: what is too much is answered 429.
fn permission(origin: &str) -> Option<Handshake> {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '/' | '[' | ']');
    let is_name = (1..=ORIGIN_BYTES_MAX).contains(&origin.len()) && origin.chars().all(of_a_name);
    let headers = vec![("webhook-allowed-origin", origin.to_owned()), ("webhook-allowed-rate", "*".to_owned())];
    is_name.then_some(Handshake { headers, body: String::new() })
}

/// [WebSub](https://www.w3.org/TR/websub/#hub-verifies-intent), section 5.3, as Meta has it too; and Dropbox, which asks
/// with nothing but the challenge.
fn challenge(query: &str) -> Option<Handshake> {
    let value = |wanted: &str| {
        let mut values = parse(query.as_bytes()).filter(|(key, _)| key == wanted).map(|(_, value)| value.into_owned());
        values.next().filter(|_| values.next().is_none())
    };
    let challenge = match value("hub.mode").as_deref() {
        Some("subscribe") => value("hub.challenge")?,
        Some(_) => return None,
        None => value("challenge")?,
    };
    let is_short = (1..=ECHOED_BYTES_MAX).contains(&challenge.len());
    let is_plain = challenge.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    (is_short && is_plain).then_some(Handshake { headers: Vec::new(), body: challenge })
}
