//! What becomes of a webhook's request.

use jadpo_core::broker::Content;
use jadpo_core::inbound::{Hook, webhook};
use jadpo_core::program::Verify;

use crate::{
    GITHUB, GITHUB_SIGNATURE, KEY, SCALARS, SHOPIFY, SHOPIFY_SIGNATURE, STRIPE, STRIPE_SIGNATURE, Scheme, meta_of,
    post, secret, webhook_with,
};

fn hook(verify: Option<Scheme>, headers: &[(&str, &str)], body: &[u8]) -> Hook {
    webhook("hook", &webhook_with(verify), secret(KEY), post("/_webhooks/hook", headers, body)).unwrap()
}

fn key(hook: &Hook) -> Option<&str> {
    hook.once.as_ref().map(|(_, key)| key.as_str())
}

#[test]
fn the_bytes_that_are_kept_are_those_that_were_signed() {
    let cases: [(Scheme, _, _, _); 3] = [
        (Verify::Stripe, "Stripe-Signature", STRIPE_SIGNATURE, STRIPE),
        (Verify::Github, "X-Hub-Signature-256", GITHUB_SIGNATURE, GITHUB),
        (Verify::Shopify, "X-Shopify-Hmac-Sha256", SHOPIFY_SIGNATURE, SHOPIFY),
    ];
    for (scheme, header, signature, body) in cases {
        let headers = [("Content-Type", "application/json"), (header, signature)];
        let unchecked = hook(None, &headers, body);
        assert_eq!(unchecked.message.body, body);
        // What was kept is enough to check the signature later, by the time at which it was received.
        let meta = meta_of(&unchecked.message);
        let mut again = post(&meta.path, &[], &unchecked.message.body);
        (again.headers, again.received_at_ms) = (meta.headers, meta.received_at_ms);
        let checked = webhook("hook", &webhook_with(Some(scheme)), secret(KEY), again).unwrap();
        assert_eq!(checked.message, unchecked.message);
        assert_eq!(checked.message.content, Content::Json);
    }
}

#[test]
fn every_valid_body_is_taken_byte_for_byte_also_those_that_seem_to_be_none() {
    let lines: Vec<&[u8]> = SCALARS.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 13);
    for line in lines {
        let message = hook(None, &[("Content-Type", "application/json")], line).message;
        assert_eq!((message.body.as_slice(), message.content), (line, Content::Json));
    }
    let empty = hook(None, &[("Content-Type", "application/json")], b"").message;
    assert_eq!((empty.body.len(), empty.content), (0, Content::Bytes));
}

#[test]
fn a_repeat_is_known_by_the_delivery_s_id_and_not_by_its_body() {
    let order = |id: &str| {
        let headers = [("X-Shopify-Webhook-Id", id), ("X-Shopify-Hmac-Sha256", SHOPIFY_SIGNATURE)];
        hook(Some(Verify::Shopify), &headers, SHOPIFY)
    };
    assert_eq!(order("0000-aa").once, order("0000-aa").once);
    assert_eq!(order("0000-aa").once, Some(("webhook:hook".to_owned(), "0000-aa".to_owned())));
    assert_ne!(order("0000-aa").once, order("0000-bb").once);
    assert_eq!(hook(None, &[], SHOPIFY).once, None, "without an id, every request is another");
}

#[test]
fn each_provider_s_own_id_counts() {
    let github = [("X-GitHub-Delivery", "g-1"), ("webhook-id", "w-1"), ("X-Hub-Signature-256", GITHUB_SIGNATURE)];
    assert_eq!(key(&hook(Some(Verify::Github), &github, GITHUB)), Some("g-1"));
    assert_eq!(key(&hook(None, &github, GITHUB)), Some("g-1"));
    assert_eq!(key(&hook(None, &[("svix-id", "s-1")], b"")), Some("s-1"));
    assert_eq!(key(&hook(None, &[("Webhook-Id", "w-1"), ("svix-id", "s-1")], b"")), Some("w-1"));
    assert_eq!(key(&hook(None, &[("webhook-id", " ")], b"")), None);
    let stripe = hook(Some(Verify::Stripe), &[("Stripe-Signature", STRIPE_SIGNATURE), ("webhook-id", "w")], STRIPE);
    let id: serde_json::Value = serde_json::from_slice(STRIPE).unwrap();
    assert_eq!(key(&stripe), id["id"].as_str());
}

#[test]
fn an_id_of_any_length_makes_a_key_that_can_be_kept() {
    let long = "i".repeat(10_000);
    let hook = hook(None, &[("webhook-id", &long)], b"");
    assert!(key(&hook).is_some_and(|key| key.starts_with("sha256:") && key.len() < 100));
}

#[test]
fn the_token_in_the_address_is_kept_nowhere() {
    for path in [
        "/_webhooks/hook/S3cret-token?token=theirs",
        "/api/webhooks/hook/S3cret-token?token=theirs",
        "/_webhooks/%68ook/S3cret-token?token=theirs",
        "/hook/_webhooks/hook/S3cret-token?token=theirs",
    ] {
        let hook = webhook("hook", &webhook_with(None), |_| None, post(path, &[], b"")).unwrap();
        assert!(!hook.message.meta.as_deref().unwrap().contains("S3cret"), "{path}");
        let meta = meta_of(&hook.message);
        assert!(meta.path.ends_with("/hook") || meta.path == "/_webhooks", "{}", meta.path);
        assert_eq!(meta.query.as_deref(), Some("token=theirs"), "the sender's query is its own");
    }
}
