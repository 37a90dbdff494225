//! Probes and methods that store nothing.

use jadpo_core::inbound::{Surface, answer_to};

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
