//! Probes and methods that store nothing.

use jadpo_core::inbound::{Surface, answer_to, handshake};

fn status(surface: Surface, method: &str) -> Option<u16> {
    answer_to(surface, method).map(|answer| answer.status)
}

#[test]
fn a_webhook_is_probed_and_takes_nothing_but_post() {
    assert_eq!(status(Surface::Webhook, "POST"), None);
    assert_eq!(status(Surface::Webhook, "HEAD"), Some(200));
    assert_eq!(status(Surface::Webhook, "OPTIONS"), Some(204));
    for method in ["GET", "PUT", "DELETE", "PATCH", "post", "TRACE", "BREW"] {
        let answer = answer_to(Surface::Webhook, method).unwrap();
        assert_eq!((answer.status, answer.allow), (405, "POST, HEAD, OPTIONS"), "{method}");
    }
}

#[test]
fn a_queue_is_sent_to_and_looked_at() {
    for method in ["POST", "GET", "HEAD"] {
        assert_eq!(status(Surface::Queue, method), None, "{method}");
    }
    assert_eq!(status(Surface::Queue, "OPTIONS"), Some(204));
    for method in ["PUT", "DELETE", "PATCH"] {
        let answer = answer_to(Surface::Queue, method).unwrap();
        assert_eq!((answer.status, answer.allow), (405, "POST, GET, HEAD, OPTIONS"), "{method}");
    }
    assert_eq!((status(Surface::Batch, "POST"), status(Surface::Batch, "GET")), (None, Some(405)));
}

#[test]
fn a_provider_s_handshake_is_answered_with_what_it_asked() {
    let body = |method, query: &str| handshake(method, Some(query), None).map(|answer| answer.body);
    assert_eq!(
        body("GET", "hub.mode=subscribe&hub.topic=t&hub.challenge=a%2Bb&hub.verify_token=v"),
        Some("a+b".into())
    );
    assert_eq!(body("GET", "challenge=xyz"), Some("xyz".into()));
    let asked = handshake("OPTIONS", None, Some("eventgrid.azure.net")).unwrap();
    let allowed = [("webhook-allowed-origin", "eventgrid.azure.net"), ("webhook-allowed-rate", "*")];
    assert_eq!(asked.headers, allowed.map(|(name, value)| (name, value.to_owned())));
    assert_eq!(asked.body, "");
}

#[test]
fn what_no_provider_asks_or_nobody_proved_is_no_handshake() {
    for query in [
        "",
        "hub.mode=unsubscribe&hub.challenge=a",
        "hub.mode=subscribe",
        "hub.mode=denied&challenge=a",
        "hub.mode=subscribe&hub.challenge=",
        "hub.mode=subscribe&hub.challenge=a&hub.challenge=b",
        "challenge=a%0d%0aset-cookie:b",
        "challenge=%ff",
        &format!("challenge={}", "a".repeat(1_025)),
    ] {
        assert_eq!(handshake("GET", Some(query), None), None, "{query}");
    }
    for method in ["POST", "PUT", "HEAD", "get", "OPTIONS"] {
        assert_eq!(handshake(method, Some("challenge=a"), None), None, "{method}");
    }
    for origin in ["", "a b", "a\u{7f}", "ä", &"a".repeat(254)] {
        assert_eq!(handshake("OPTIONS", None, Some(origin)), None, "{origin}");
    }
    assert_eq!(handshake("POST", None, Some("a.example")), None, "only OPTIONS asks");
}
