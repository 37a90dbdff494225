//! Signatures of the four schemes: which are right, and what is said of those that are not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use expect_test::{Expect, expect};
use hmac::{Hmac, KeyInit, Mac};
use jadpo_core::inbound::{Inbound, Refusal, TOLERANCE_S, webhook};
use jadpo_core::program::Verify;
use sha2::Sha256;

use crate::{
    GITHUB, GITHUB_SIGNATURE, KEY, SHOPIFY, SHOPIFY_SIGNATURE, SIGNED_AT_MS, STRIPE, STRIPE_SIGNATURE, Scheme, post,
    secret, webhook_with,
};

fn checked(scheme: Scheme, key: &str, inbound: Inbound) -> Result<(), Refusal> {
    webhook("hook", &webhook_with(Some(scheme)), secret(key), inbound).map(|_| ())
}

fn signed(scheme: Scheme, header: &str, value: &str, body: &[u8]) -> Result<(), Refusal> {
    checked(scheme, KEY, post("/_webhooks/hook", &[(header, value)], body))
}

#[track_caller]
fn refused(result: Result<(), Refusal>, expected: Expect) {
    let refusal = result.unwrap_err();
    assert!(!refusal.message.contains(KEY));
    expected.assert_eq(&format!("{} {}: {}", refusal.status, refusal.code, refusal.message));
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

#[test]
fn the_known_signatures_of_the_payloads_are_right() {
    assert_eq!(signed(Verify::Stripe, "stripe-signature", STRIPE_SIGNATURE, STRIPE), Ok(()));
    assert_eq!(signed(Verify::Github, "X-HUB-SIGNATURE-256", GITHUB_SIGNATURE, GITHUB), Ok(()));
    assert_eq!(signed(Verify::Shopify, "X-Shopify-Hmac-SHA256", SHOPIFY_SIGNATURE, SHOPIFY), Ok(()));
}

#[test]
fn one_byte_that_is_changed_anywhere_makes_them_wrong() {
    for at in [0, 1, STRIPE.len() / 2, STRIPE.len() - 1] {
        let mut body = STRIPE.to_vec();
        body[at] ^= 1;
        assert_eq!(
            signed(Verify::Stripe, "stripe-signature", STRIPE_SIGNATURE, &body).unwrap_err().code,
            "signature_wrong"
        );
    }
    let mut longer = GITHUB.to_vec();
    longer.push(b'\n');
    assert!(signed(Verify::Github, "X-Hub-Signature-256", GITHUB_SIGNATURE, &longer).is_err());
    assert!(
        checked(Verify::Shopify, "another", post("/", &[("X-Shopify-Hmac-Sha256", SHOPIFY_SIGNATURE)], SHOPIFY))
            .is_err()
    );
}

#[test]
fn the_same_json_written_anew_is_not_what_was_signed() {
    let parsed: serde_json::Value = serde_json::from_slice(SHOPIFY).unwrap();
    let written = serde_json::to_vec(&parsed).unwrap();
    assert!(signed(Verify::Shopify, "X-Shopify-Hmac-Sha256", SHOPIFY_SIGNATURE, &written).is_err());
}

#[test]
fn a_sender_that_changes_its_secret_signs_twice_and_one_is_enough() {
    let (time, right) = STRIPE_SIGNATURE.split_once(',').unwrap();
    let wrong = format!("v1={}", "0".repeat(64));
    for value in [
        format!("{time},{wrong},{right}"),
        format!("{time},{right},{wrong}"),
        format!("{right}, {time}"),
        format!("{time},v0=aa,{right},scheme=x"),
    ] {
        assert_eq!(signed(Verify::Stripe, "Stripe-Signature", &value, STRIPE), Ok(()), "{value}");
    }
    let old = right.replace("v1=", "v0=");
    assert_eq!(
        signed(Verify::Stripe, "Stripe-Signature", &format!("{time},{old}"), STRIPE).unwrap_err().code,
        "signature_missing"
    );
}

#[test]
fn a_time_counts_by_when_the_request_was_received() {
    let at = |received_at_ms| {
        let mut inbound = post("/_webhooks/hook", &[("Stripe-Signature", STRIPE_SIGNATURE)], STRIPE);
        inbound.received_at_ms = received_at_ms;
        checked(Verify::Stripe, KEY, inbound)
    };
    for (off_s, is_right) in [(3, true), (0, true), (-300, true), (300, true), (301, false), (-301, false)] {
        assert_eq!(at(SIGNED_AT_MS + off_s * 1_000).is_ok(), is_right, "{off_s} s");
    }
    assert_eq!(TOLERANCE_S, 300);
    refused(
        at(SIGNED_AT_MS + 600_000),
        expect![
            "401 signature_untimely: the signature is 600 s old, and 300 s are allowed; send the event again, and compare the clocks if that does not help"
        ],
    );
    assert!(at(i64::MAX).is_err() && at(i64::MIN).is_err());
}

/// The example that the scheme's own libraries are tested with.
#[test]
fn the_published_example_of_standard_webhooks_is_right_under_both_names() {
    let example = |prefix: &str, signatures: &str| {
        let headers = [
            (format!("{prefix}-id"), "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            (format!("{prefix}-timestamp"), "1614265330"),
            (format!("{prefix}-signature"), signatures),
        ];
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let mut inbound = post("/_webhooks/hook", &headers, br#"{"test": 2432232314}"#);
        inbound.received_at_ms = 1_614_265_330_000;
        checked(Verify::Standard, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", inbound)
    };
    const RIGHT: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const WRONG: &str = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=";
    for prefix in ["webhook", "svix"] {
        assert_eq!(example(prefix, RIGHT), Ok(()));
        assert_eq!(example(prefix, &format!("{WRONG} v2,{RIGHT} v1a,x {RIGHT}")), Ok(()));
        assert_eq!(example(prefix, WRONG).unwrap_err().code, "signature_wrong");
        assert_eq!(example(prefix, &RIGHT.replace("v1,", "v2,")).unwrap_err().code, "signature_missing");
    }
}

#[test]
fn a_secret_without_the_prefix_is_a_key_as_it_is_and_stripe_s_prefix_is_part_of_the_key() {
    let body = b"{}";
    let signature = BASE64.encode(hmac(b"plain", &[b"id.1790000000.", body]));
    let value = format!("v1,{signature}");
    let headers = [("webhook-id", "id"), ("webhook-timestamp", "1790000000"), ("webhook-signature", value.as_str())];
    assert_eq!(checked(Verify::Standard, "plain", post("/", &headers, body)), Ok(()));
    let hex: String = hmac(b"whsec_abc", &[b"1790000000.", body]).iter().map(|byte| format!("{byte:02X}")).collect();
    let value = format!("t=1790000000,v1={hex}");
    assert_eq!(checked(Verify::Stripe, "whsec_abc", post("/", &[("Stripe-Signature", &value)], body)), Ok(()));
}

#[test]
fn more_signatures_than_any_sender_sends_are_not_all_tried() {
    let (time, right) = STRIPE_SIGNATURE.split_once(',').unwrap();
    let wrong = format!(",v1={}", "0".repeat(64)).repeat(16);
    let value = format!("{time}{wrong},{right}");
    assert_eq!(signed(Verify::Stripe, "Stripe-Signature", &value, STRIPE).unwrap_err().code, "signature_wrong");
}

#[test]
fn refusals_say_what_to_do() {
    refused(
        signed(Verify::Github, "X-Other", "1", GITHUB),
        expect![
            "401 signature_missing: the request has no `X-Hub-Signature-256` header with a signature; webhook hook takes only signed requests, so set its secret at the sender"
        ],
    );
    refused(
        signed(Verify::Github, "X-Hub-Signature-256", &GITHUB_SIGNATURE.replace("sha256=", "sha1="), GITHUB),
        expect![
            "401 signature_missing: the request has no `X-Hub-Signature-256` header with a signature; webhook hook takes only signed requests, so set its secret at the sender"
        ],
    );
    refused(
        signed(Verify::Shopify, "X-Shopify-Hmac-Sha256", SHOPIFY_SIGNATURE, b"{}"),
        expect![
            "401 signature_wrong: no signature in `X-Shopify-Hmac-Sha256` is right for this body; the secret of webhook hook must be the sender's, and nothing on the way may change the body"
        ],
    );
    refused(
        signed(Verify::Stripe, "Stripe-Signature", "v1=00", STRIPE),
        expect!["401 signature_missing: the signature says no time at which it was made, in seconds since 1970"],
    );
    refused(
        signed(Verify::Standard, "webhook-signature", "v1,AA==", b""),
        expect!["401 signature_missing: the request has no `webhook-id` header, which is signed with the body"],
    );
}

#[test]
fn a_secret_that_is_not_there_or_is_none_is_the_server_s_fault() {
    let unset = |value: Option<&'static str>, scheme: Scheme| {
        let inbound = post("/_webhooks/hook", &[("X-Hub-Signature-256", GITHUB_SIGNATURE)], GITHUB);
        webhook("hook", &webhook_with(Some(scheme)), |_| value.map(str::to_owned), inbound).map(|_| ())
    };
    refused(
        unset(None, Verify::Github),
        expect![
            "503 secret_missing: webhook hook cannot check a signature: SECRET is not set; set it where jadpo runs"
        ],
    );
    assert_eq!(unset(Some(""), Verify::Github), unset(None, Verify::Github));
    refused(
        unset(Some("whsec_???"), Verify::Standard),
        expect![
            "503 secret_missing: webhook hook cannot check a signature: SECRET starts with whsec_ and goes on with no base64; set it where jadpo runs"
        ],
    );
}
