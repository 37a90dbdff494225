//! Whatever is sent, nothing panics, and what is kept is what was sent.

use jadpo_core::inbound::{Inbound, Meta, batch, enqueue, webhook};
use jadpo_core::program::Verify;
use proptest::prelude::*;

use crate::{KEY, Scheme, secret, webhook_with};

const NAMES: [&str; 12] = [
    "stripe-signature",
    "x-hub-signature-256",
    "x-shopify-hmac-sha256",
    "webhook-signature",
    "webhook-id",
    "webhook-timestamp",
    "svix-id",
    "content-type",
    "connection",
    "x-shopify-webhook-id",
    "host",
    "X-Any",
];

fn header() -> impl Strategy<Value = (String, Vec<u8>)> {
    let value = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..60),
        "(t=[0-9]{0,20}|v1=[0-9a-fA-F]{0,70}|v1,[A-Za-z0-9+/=]{0,60}|sha256=[0-9a-f]{0,65}|,| |=){0,6}"
            .prop_map(String::into_bytes),
        "(text|application)/[a-z+]{0,9}(; *charset=[a-z]{0,5})?".prop_map(String::into_bytes),
    ];
    let name = prop_oneof![proptest::sample::select(&NAMES[..]).prop_map(str::to_owned), "[!-~]{1,12}"];
    (name, value)
}

fn inbound() -> impl Strategy<Value = Inbound> {
    let body = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        r#"(\{|\}|\[|\]|"id"|:|,|"[a-z\\u{}]{0,4}"|[0-9.e-]{1,5}| ){0,20}"#.prop_map(String::into_bytes),
    ];
    let query = proptest::option::of("(delay|a|=|&|[0-9]{1,3}|%00){0,6}");
    (proptest::collection::vec(header(), 0..8), query, body, any::<i64>(), "[ -~]{0,30}").prop_map(
        |(headers, query, body, received_at_ms, path)| Inbound {
            method: "POST".to_owned(),
            path,
            query,
            headers,
            body,
            received_at_ms,
        },
    )
}

proptest! {
    #[test]
    fn any_request_is_taken_or_refused(inbound in inbound()) {
        let _ = batch(&inbound);
        if let Ok(message) = enqueue(inbound.clone()) {
            prop_assert_eq!(&message.body, &inbound.body);
            prop_assert!(Meta::decode(message.meta.as_deref().unwrap()).is_some());
        }
        let schemes: [Option<Scheme>; 5] =
            [None, Some(Verify::Stripe), Some(Verify::Github), Some(Verify::Shopify), Some(Verify::Standard)];
        for scheme in schemes {
            match webhook("any", &webhook_with(scheme), secret(KEY), inbound.clone()) {
                Ok(hook) => {
                    prop_assert!(scheme.is_none(), "nobody guesses a signature");
                    prop_assert_eq!(&hook.message.body, &inbound.body);
                }
                Err(refusal) => prop_assert!((400..=503).contains(&refusal.status) && !refusal.message.contains(KEY)),
            }
        }
    }

    #[test]
    fn what_is_kept_of_a_request_is_read_back_as_it_was(
        headers in proptest::collection::vec(("[!-~]{1,12}", proptest::collection::vec(any::<u8>(), 0..60)), 0..8),
        query in proptest::option::of(any::<String>()),
        received_at_ms in any::<i64>(),
        path in any::<String>(),
    ) {
        let meta = Meta { method: "POST".to_owned(), path, query, headers, received_at_ms };
        let text = meta.encode().unwrap();
        prop_assert_eq!(Meta::decode(&text), Some(meta));
    }
}
