//! What comes in over HTTP: what is kept of it, what is refused, and whose signatures are right. The payloads are bytes
//! as real senders send them; their signatures are known.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::string_slice, clippy::panic)]

mod batches;
mod enqueued;
mod fuzz;
mod methods;
mod signatures;
mod webhooks;

use jadpo_core::inbound::{Inbound, Meta};
use jadpo_core::program::{Setting, Verify, Webhook};

pub(crate) const STRIPE: &[u8] = include_bytes!("../payloads/stripe-event.json");
pub(crate) const GITHUB: &[u8] = include_bytes!("../payloads/github-push.json");
pub(crate) const SHOPIFY: &[u8] = include_bytes!("../payloads/shopify-order.json");
pub(crate) const SCALARS: &[u8] = include_bytes!("../payloads/nasty-scalars.ndjson");
pub(crate) const EMOJI: &[u8] = include_bytes!("../payloads/nasty-emoji-unicode.json");
pub(crate) const DEEP: &[u8] = include_bytes!("../payloads/nasty-deep-200.json");

/// The key that the payloads are signed with.
pub(crate) const KEY: &str = "not-a-real-secret";
pub(crate) const STRIPE_SIGNATURE: &str =
    "t=1790000000,v1=4d4a2fe77199c2bd96a3fcf7814475dc50e892cc12568a51f27d6d25e0856970";
pub(crate) const GITHUB_SIGNATURE: &str = "sha256=ef422683075804630ed31254cd4190cd099c83eb247a383d84cd6f04b1382468";
pub(crate) const SHOPIFY_SIGNATURE: &str = "Dtb/YpdNvJlSA9GdufnbTztyIEuoxkZyHLig2vCVeS0=";
/// When the Stripe event was signed.
pub(crate) const SIGNED_AT_MS: i64 = 1_790_000_000_000;

/// A POST with these headers, received three seconds after the Stripe event was signed.
pub(crate) fn post(path: &str, headers: &[(&str, &str)], body: &[u8]) -> Inbound {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (path, None),
    };
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
    Inbound {
        method: "POST".to_owned(),
        path: path.to_owned(),
        query,
        headers: headers.collect(),
        body: body.to_vec(),
        received_at_ms: SIGNED_AT_MS + 3_000,
    }
}

/// Makes a verification of its secret.
pub(crate) type Scheme = fn(Setting) -> Verify;

pub(crate) fn webhook_with(verify: Option<Scheme>) -> Webhook {
    let verify = verify.map(|scheme| scheme(Setting::Env("SECRET".to_owned())));
    Webhook { queue: "jobs".to_owned(), verify }
}

/// An environment in which the webhook's secret is this.
pub(crate) fn secret(value: &str) -> impl Fn(&str) -> Option<String> {
    let value = value.to_owned();
    move |name| (name == "SECRET").then(|| value.clone())
}

pub(crate) fn meta_of(message: &jadpo_core::broker::NewMessage) -> Meta {
    Meta::decode(message.meta.as_deref().unwrap()).unwrap()
}
