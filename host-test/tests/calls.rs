//! What a subscriber is sent: body, headers, signature.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod shop;

use jadpo_core::deliver::Delivered;
use jadpo_core::program::Target;
use jadpo_core::queue::{Body, Message};
use jadpo_host_test::TestHost;
use shop::*;

/// The id of the event with the key `m0`, computed outside of jadpo.
const EVENT_ID: &str = "evt_a5cf012aa9d8d5d0a3d7b6df7efba413";

fn signed(secret: &str) -> jadpo_core::start::App {
    let ledger = format!(
        r#""ledger":{{"on":"Moved","target":{{"call":"https://ledger.example.com/"}},"secret":{{"env":"{secret}"}}}}"#
    );
    app_with(r#"{"record":[{"name":"n","type":"int"}]}"#, &ledger)
}

#[test]
fn a_call_carries_the_event_s_name_its_id_the_attempt_and_a_key_of_its_own() {
    let host = TestHost::migrated();
    let app = app(&["audit", "ledger"]);
    let claimed = receive_good(&host, &app, 1);
    deliver_in(&host, &app, claimed, 30_000);
    for name in ["audit", "ledger"] {
        let call = &host.calls_to(name)[0];
        assert_eq!(call.header("jadpo-event"), Some("Moved"));
        assert_eq!(call.header("jadpo-event-id"), Some(EVENT_ID));
        assert_eq!(call.header("jadpo-attempt"), Some("1"));
        assert_eq!(call.header("idempotency-key"), Some(format!("{EVENT_ID}.{name}").as_str()));
        assert_eq!(call.header("content-type"), Some("application/json"));
        assert_eq!(call.header("webhook-signature"), None, "there is no secret");
        assert_eq!((call.call.timeout_ms, call.call.headers.len()), (15_000, 5));
        assert_eq!(call.call.target, Target::Call(format!("https://{name}.example.com/")));
    }
}

#[test]
fn the_event_s_id_is_the_same_in_every_store_and_another_for_another_message() {
    let app = app(&["ledger"]);
    let ids: Vec<String> = (0..2)
        .flat_map(|_| {
            let host = TestHost::migrated();
            let claimed = receive_good(&host, &app, 2);
            deliver_in(&host, &app, claimed, 30_000);
            host.calls().iter().map(|call| call.header("jadpo-event-id").unwrap().to_owned()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(ids[..2], ids[2..]);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn a_secret_signs_the_call_as_text_or_as_whsec_in_base64() {
    for (secret, signature) in [
        ("a plain secret", "v1,Yt+GuFgmh6uM42X3mPziGgY/gJnc/PaDtHpVE3jFC8w="),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "v1,97pIZ2vmsat9lw43waM3trm1tNfQ5kWEhNHY05S8KDI="),
    ] {
        let host = TestHost::migrated();
        host.set_env("LEDGER_SECRET", secret);
        let app = signed("LEDGER_SECRET");
        let claimed = receive_good(&host, &app, 1);
        deliver_in(&host, &app, claimed, 30_000);
        let call = &host.calls()[0];
        assert_eq!(call.header("webhook-id"), Some(EVENT_ID));
        assert_eq!(call.header("webhook-timestamp"), Some((host.time_ms() / 1000).to_string().as_str()));
        assert_eq!(call.header("webhook-signature"), Some(signature));
    }
}

#[test]
fn without_its_secret_a_delivery_waits_and_nothing_unsigned_is_sent() {
    for (secret, error) in [
        (None, "the secret LEDGER_SECRET is not set"),
        (Some(""), "the secret LEDGER_SECRET is not set"),
        (Some("whsec_!"), "the secret LEDGER_SECRET starts with whsec_ but is no base64"),
        (Some("whsec_"), "the secret LEDGER_SECRET is not set"),
    ] {
        let host = TestHost::migrated();
        if let Some(secret) = secret {
            host.set_env("LEDGER_SECRET", secret);
        }
        let app = signed("LEDGER_SECRET");
        let claimed = receive_good(&host, &app, 1);
        assert_eq!(deliver_in(&host, &app, claimed, 30_000), Delivered { waiting: 1, ..Delivered::default() });
        assert_eq!(text_of(&host, "SELECT error FROM jadpo_deliveries"), error);
        assert!(host.calls().is_empty());
    }
}

#[test]
fn the_body_arrives_byte_for_byte_under_the_type_of_its_event() {
    let text = "\u{feff} \u{1f4e6}\r\n";
    let json = "\u{feff}{\"n\": 12345678901234567890.10, \"n\":1e400 }";
    let bytes = [0, 0x80, 0xff, b'\n'];
    let cases: [(&str, &str, Body, &[u8]); 6] = [
        (r#""text""#, "text/plain; charset=utf-8", Body::Text(text.into()), text.as_bytes()),
        (r#""json""#, "application/json", Body::Text(json.into()), json.as_bytes()),
        (r#"{"list":"int"}"#, "application/json", Body::Json("[1, 2]".into()), b"[1, 2]"),
        (r#""bytes""#, "application/octet-stream", Body::Bytes(bytes.to_vec()), &bytes),
        (r#""bytes""#, "application/octet-stream", Body::Bytes(Vec::new()), b""),
        (r#""text""#, "text/plain; charset=utf-8", Body::Text(String::new()), b""),
    ];
    for (kind, content_type, body, expected) in cases {
        for claimed_again in [false, true] {
            let host = TestHost::migrated();
            let app = app_with(kind, r#""audit":{"on":"Moved","target":{"run":"audit"}}"#);
            host.link("audit", |_| Ok(()));
            let message = Message { id: "m".into(), sent_at_ms: 5, attempts: 1, body: body.clone() };
            let claimed = receive_from(&host, &app, "moves-q", vec![message]);
            if claimed_again {
                host.advance_ms(60_000);
                deliver_what_is_due(&host, &app);
            } else {
                deliver_in(&host, &app, claimed, 30_000);
            }
            assert_eq!(host.calls()[0].call.body, expected, "{kind}, from the store: {claimed_again}");
            assert_eq!(host.calls()[0].header("content-type"), Some(content_type));
        }
    }
}

#[test]
fn no_log_line_of_a_delivery_carries_the_body() {
    let host = TestHost::migrated();
    let app = app_with(r#""text""#, r#""ledger":{"on":"Moved","target":{"call":"https://a.example.com/"}}"#);
    host.subscriber("ledger").answers([500]).closes();
    let claimed = receive_from(&host, &app, "moves-q", vec![text(&host, "m", "SECRET-WORD")]);
    deliver_in(&host, &app, claimed, 30_000);
    for _ in 0..30 {
        host.advance_ms(3_600_000);
        host.store_fails(jadpo_host_test::StoreFault::Down, 1);
        deliver_what_is_due(&host, &app);
    }
    assert!(!host.log_entries().is_empty());
    assert!(host.log_entries().iter().all(|entry| !entry.to_json().contains("SECRET-WORD")));
}
