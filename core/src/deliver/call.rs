//! How a delivery is put into a call: body, headers, signature.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{CALL_TIMEOUT_MS, Claimed, Event};
use crate::host::{Call, Host};
use crate::program::{Program, Setting, Subscriber, Type};
use crate::read::event_id;

/// Why no call can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoCall {
    /// This build has nobody of that name who gets the event.
    NoSubscriber(String),
    /// The subscriber's secret is not there or cannot be read.
    NoSecret(String),
}

/// The call that makes the delivery now.
pub(super) fn call_for<H: Host>(host: &H, program: &Program, claimed: &Claimed) -> Result<Call, NoCall> {
    let subscriber = subscriber_of(program, claimed)?;
    let event = &claimed.event;
    let id = event_id(&program.app, &event.connection, &event.key);
    let mut headers = vec![
        ("content-type", content_type(program.events.get(&event.name)).to_owned()),
        ("jadpo-event", event.name.clone()),
        ("jadpo-event-id", id.clone()),
        ("jadpo-attempt", claimed.attempt.to_string()),
        ("idempotency-key", format!("{id}.{}", claimed.subscriber)),
    ];
    if let Some(secret) = &subscriber.secret {
        let key = secret_of(host, secret).map_err(NoCall::NoSecret)?;
        headers.extend(signature_headers(&key, &id, host.now_ms().div_euclid(1000), event).map_err(NoCall::NoSecret)?);
    }
    Ok(Call {
        subscriber: claimed.subscriber.clone(),
        target: subscriber.target.clone(),
        headers,
        body: event.body.clone(),
        timeout_ms: CALL_TIMEOUT_MS,
    })
}

fn subscriber_of<'a>(program: &'a Program, claimed: &Claimed) -> Result<&'a Subscriber, NoCall> {
    let name = &claimed.subscriber;
    match program.subscribers.get(name) {
        None => Err(NoCall::NoSubscriber(format!("the app has no subscriber {name} any more"))),
        Some(subscriber) if subscriber.on != claimed.event.name => {
            let event = &claimed.event.name;
            Err(NoCall::NoSubscriber(format!("the app's subscriber {name} does not get {event} any more")))
        }
        Some(subscriber) => Ok(subscriber),
    }
}

fn content_type(kind: Option<&Type>) -> &'static str {
    match kind {
        Some(Type::Optional(inner)) => content_type(Some(inner)),
        Some(Type::Text) => "text/plain; charset=utf-8",
        Some(Type::Bytes) => "application/octet-stream",
        _ => "application/json",
    }
}

fn secret_of<H: Host>(host: &H, setting: &Setting) -> Result<Vec<u8>, String> {
    let (text, whose) = match setting {
        Setting::Text(text) => (Some(text.clone()), "the subscriber's secret".to_owned()),
        Setting::Env(name) => (host.env(name), format!("the secret {name}")),
    };
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Err(format!("{whose} is not set"));
    };
    match text.strip_prefix("whsec_") {
        None => Ok(text.into_bytes()),
        Some("") => Err(format!("{whose} is not set")),
        Some(encoded) => BASE64.decode(encoded).map_err(|_| format!("{whose} starts with whsec_ but is no base64")),
    }
}

/// The three headers of the Standard Webhooks scheme: HMAC-SHA-256 over `id.timestamp.body`.
fn signature_headers(key: &[u8], id: &str, now_s: i64, event: &Event) -> Result<[(&'static str, String); 3], String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_| "the secret cannot be a key".to_owned())?;
    mac.update(format!("{id}.{now_s}.").as_bytes());
    mac.update(&event.body);
    let signature = BASE64.encode(mac.finalize().into_bytes());
    Ok([
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", now_s.to_string()),
        ("webhook-signature", format!("v1,{signature}")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(body: &str) -> Event {
        let (connection, key, name) = ("c".into(), "k".into(), "E".into());
        Event { seq: 1, connection, key, name, sent_at_ms: 0, body: body.into() }
    }

    /// The example that the scheme's own libraries are tested with.
    #[test]
    fn the_published_example_of_standard_webhooks_comes_out_the_same() {
        let key = BASE64.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let event = event(r#"{"test": 2432232314}"#);
        let headers = signature_headers(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, &event).unwrap();
        assert_eq!(headers[0], ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned()));
        assert_eq!(headers[1], ("webhook-timestamp", "1614265330".to_owned()));
        assert_eq!(headers[2], ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".to_owned()));
    }
}
