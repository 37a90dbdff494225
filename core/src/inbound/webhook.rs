//! A request to a webhook: who sent it, whether it came before, and the message that it becomes.

use super::enqueue::content_of;
use super::meta::Meta;
use super::verify::verify;
use super::{Inbound, Refusal};
use crate::broker::NewMessage;
use crate::program::{Verify, Webhook};
use crate::read;

/// What a webhook's request comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The message, for the webhook's queue.
    pub message: NewMessage,
    /// The scope and the key under which the same delivery is known again, if its sender gave it an id.
    pub once: Option<(String, String)>,
}

/// Headers in which providers name a delivery, the same at each of their retries.
const GITHUB_ID: &str = "x-github-delivery";
const SHOPIFY_ID: &str = "x-shopify-webhook-id";
const STANDARD_IDS: [&str; 2] = ["webhook-id", "svix-id"];

/// Checks a POST to a webhook's address and makes the message of it. The body is taken as it is.
///
/// # Errors
/// 401 if the request does not prove who sent it, 503 if the secret to check it by is not set, 431 if its headers are
/// too long to be kept.
pub fn webhook(
    name: &str,
    webhook: &Webhook,
    env: impl Fn(&str) -> Option<String>,
    inbound: Inbound,
) -> Result<Hook, Refusal> {
    if let Some(scheme) = &webhook.verify {
        verify(name, scheme, env, &inbound)?;
    }
    let id = delivery_id(webhook.verify.as_ref(), &inbound);
    let once = id.map(|id| (format!("webhook:{name}"), read::key_of(&id)));
    let meta = Meta::of(&inbound, without_token(&inbound.path, name), inbound.query.clone(), &[]).encode()?;
    let message = NewMessage { content: content_of(&inbound), body: inbound.body, delay_s: None, meta: Some(meta) };
    Ok(Hook { message, once })
}

/// The id that the sender gave this delivery. With a scheme, only what that provider uses.
///
/// GitHub and Shopify sign the body and not the id, so whoever has got hold of a whole request can send it again under
/// another. The signature is no better key: two requests that are rightly sent have the same one if their bodies are
/// the same, as those of Shopify's `orders/create` and `orders/updated` are, or of a workflow of GitHub's that is
/// dispatched twice. To take one of them for a repeat would lose a message, which is worse than one too many.
fn delivery_id(scheme: Option<&Verify>, inbound: &Inbound) -> Option<String> {
    let header = |names: &[&str]| names.iter().find_map(|name| inbound.text(name)).map(str::to_owned);
    match scheme {
        Some(Verify::Stripe(_)) => {
            let body = std::str::from_utf8(&inbound.body).ok()?;
            read::id_in_body(body, "id")
        }
        Some(Verify::Github(_)) => header(&[GITHUB_ID]),
        Some(Verify::Shopify(_)) => header(&[SHOPIFY_ID]),
        Some(Verify::Standard(_)) => header(&STANDARD_IDS),
        None => header(&[GITHUB_ID, SHOPIFY_ID]).or_else(|| header(&STANDARD_IDS)),
    }
}

/// The token in a webhook's address is the right to post to it, so the path is kept up to the webhook's name.
fn without_token<'a>(path: &'a str, name: &str) -> &'a str {
    let (mut at, mut end) = (0, None);
    for segment in path.split('/') {
        at += segment.len();
        if segment == name {
            end = Some(at);
        }
        at += 1; // the slash
    }
    end.and_then(|end| path.get(..end)).unwrap_or("/_webhooks")
}
