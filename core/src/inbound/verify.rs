//! Signatures: HMAC-SHA-256 over the raw bytes, in the form of each provider. Checked when a request is received, by
//! the time at which it was.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{Inbound, Refusal};
use crate::program::{Setting, Verify};

/// How far a signature's time may be from the time at which it was received, in seconds.
pub const TOLERANCE_S: i64 = 300;
/// Signatures of one request that are looked at. A sender that changes its secret sends two.
const SIGNATURES_MAX: usize = 16;

/// Reads the claim of one scheme from a request.
type Reader = fn(&Inbound) -> Result<Claim, Refusal>;

/// What a signature's header holds.
#[derive(Default)]
struct Claim {
    /// What is signed before the body.
    prefix: Vec<u8>,
    signatures: Vec<Vec<u8>>,
}

/// Checks that the request is from who has the secret.
///
/// # Errors
/// 401 or 503, in words that hold no secret and nothing of what was sent.
pub(super) fn verify(
    name: &str,
    scheme: &Verify,
    env: impl Fn(&str) -> Option<String>,
    inbound: &Inbound,
) -> Result<(), Refusal> {
    let (setting, header, read): (_, _, Reader) = match scheme {
        Verify::Stripe(secret) => (secret, "Stripe-Signature", stripe),
        Verify::Github(secret) => (secret, "X-Hub-Signature-256", github),
        Verify::Shopify(secret) => (secret, "X-Shopify-Hmac-Sha256", shopify),
        Verify::Standard(secret) => (secret, "webhook-signature", standard),
    };
    let key = key(name, setting, matches!(scheme, Verify::Standard(_)), env)?;
    let claim = read(inbound)?;
    if claim.signatures.is_empty() {
        let message = format!(
            "the request has no `{header}` header with a signature; webhook {name} takes only signed requests, so set \
             its secret at the sender"
        );
        return Err(Refusal::new(401, "signature_missing", message));
    }
    if matches(&key, &claim, &inbound.body)? {
        return Ok(());
    }
    let message = format!(
        "no signature in `{header}` is right for this body; the secret of webhook {name} must be the sender's, and \
         nothing on the way may change the body"
    );
    Err(Refusal::new(401, "signature_wrong", message))
}

fn key(
    name: &str,
    setting: &Setting,
    is_standard: bool,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Vec<u8>, Refusal> {
    const PREFIX: &str = "whsec_";
    let (text, whose) = match setting {
        Setting::Text(text) => (Some(text.clone()), "its secret".to_owned()),
        Setting::Env(variable) => (env(variable), variable.clone()),
    };
    let refuse = |what: String| {
        let message = format!("webhook {name} cannot check a signature: {what} where jadpo runs");
        Err(Refusal::new(503, "secret_missing", message))
    };
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return refuse(format!("{whose} is not set; set it"));
    };
    // Stripe's secrets start like that too, and are keys as they are.
    match text.strip_prefix(PREFIX).filter(|_| is_standard) {
        None => Ok(text.into_bytes()),
        Some(encoded) => match BASE64.decode(encoded.trim_end()) {
            Ok(key) if !key.is_empty() => Ok(key),
            _ => refuse(format!("{whose} starts with {PREFIX} and goes on with no base64; set it")),
        },
    }
}

fn matches(key: &[u8], claim: &Claim, body: &[u8]) -> Result<bool, Refusal> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .map_err(|_| Refusal::new(503, "secret_missing", "the webhook's secret cannot be a key; set another"))?;
    mac.update(&claim.prefix);
    mac.update(body);
    let right = mac.finalize().into_bytes();
    // Each is compared whole, and all are, so that the time tells nothing of how near one was.
    let compared = claim.signatures.iter().take(SIGNATURES_MAX).map(|signature| right.ct_eq(signature.as_slice()));
    Ok(compared.fold(subtle::Choice::from(0), |any, this| any | this).into())
}

fn github(inbound: &Inbound) -> Result<Claim, Refusal> {
    let values = inbound.values("x-hub-signature-256").filter_map(text);
    let signatures = values.filter_map(|value| unhex(value.strip_prefix("sha256=")?)).collect();
    Ok(Claim { prefix: Vec::new(), signatures })
}

fn shopify(inbound: &Inbound) -> Result<Claim, Refusal> {
    let values = inbound.values("x-shopify-hmac-sha256").filter_map(text);
    let signatures = values.filter_map(|value| BASE64.decode(value).ok()).collect();
    Ok(Claim { prefix: Vec::new(), signatures })
}

/// `t=TIME,v1=HEX,v1=HEX`: signed is the time, a full stop and the body.
fn stripe(inbound: &Inbound) -> Result<Claim, Refusal> {
    let Some(value) = inbound.text("stripe-signature") else { return Ok(Claim::default()) };
    let parts = || value.split(',').filter_map(|part| part.trim().split_once('='));
    let time = parts().find(|(key, _)| *key == "t").map(|(_, value)| value);
    let signatures = parts().filter(|(key, _)| *key == "v1").filter_map(|(_, value)| unhex(value)).collect();
    let time = timely(time.unwrap_or_default(), inbound.received_at_ms)?;
    Ok(Claim { prefix: format!("{time}.").into_bytes(), signatures })
}

/// Signed are the id, the time and the body, with full stops between.
fn standard(inbound: &Inbound) -> Result<Claim, Refusal> {
    let header =
        |name: &str| inbound.text(&format!("webhook-{name}")).or_else(|| inbound.text(&format!("svix-{name}")));
    let Some(value) = header("signature") else { return Ok(Claim::default()) };
    let Some(id) = header("id") else {
        let message = "the request has no `webhook-id` header, which is signed with the body";
        return Err(Refusal::new(401, "signature_missing", message));
    };
    let time = timely(header("timestamp").unwrap_or_default(), inbound.received_at_ms)?;
    let signatures = value.split(' ').filter_map(|part| BASE64.decode(part.strip_prefix("v1,")?).ok()).collect();
    Ok(Claim { prefix: format!("{id}.{time}.").into_bytes(), signatures })
}

/// The time as it was written, which is what was signed, if it is near the time at which the request was received.
fn timely(time: &str, received_at_ms: i64) -> Result<&str, Refusal> {
    let is_number = !time.is_empty() && time.len() <= 18 && time.bytes().all(|byte| byte.is_ascii_digit());
    let Some(signed_at_s) = time.parse::<i64>().ok().filter(|_| is_number) else {
        let message = "the signature says no time at which it was made, in seconds since 1970";
        return Err(Refusal::new(401, "signature_missing", message));
    };
    let off_s = received_at_ms.div_euclid(1_000) - signed_at_s;
    if off_s.abs() > TOLERANCE_S {
        let when = if off_s > 0 { "old" } else { "ahead" };
        let message = format!(
            "the signature is {} s {when}, and {TOLERANCE_S} s are allowed; send the event again, and compare the \
             clocks if that does not help",
            off_s.unsigned_abs()
        );
        let refusal = Refusal::new(401, "signature_untimely", message);
        return Err(refusal.with("limit", TOLERANCE_S).with("actual", off_s.abs()));
    }
    Ok(time)
}

fn text(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value).ok().map(str::trim)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? * 16 + digit(*low)?),
        _ => None,
    });
    bytes.collect()
}
