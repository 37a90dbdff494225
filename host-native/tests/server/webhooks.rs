//! Webhooks: what providers post is kept byte for byte, verified as it comes, and once.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use jadpo_core::broker::{Peek, Peeked};
use jadpo_core::inbound::Meta;
use sha2::{Digest, Sha256};

use crate::support::{Reply, Server, folder, payload, request};

const SECRET: &str = "not-a-real-secret";

fn hooks() -> String {
    let connections = "connections: { jobs: { driver: Driver.local_queue, queue: \"jobs\" } }";
    let webhooks: String = ["stripe", "github", "shopify", "standard"]
        .iter()
        .map(|scheme| format!("    {scheme}: {{ queue: \"jobs\", verify: Verify.{scheme}(env(\"HOOK_SECRET\")) }}\n"))
        .collect();
    format!("app: \"shop\"\n{connections}\nwebhooks: {{\n{webhooks}    open: {{ queue: \"jobs\" }}\n}}\n")
}

fn dev(dir: &std::path::Path) -> Server {
    Server::dev_with(dir, &[], &[("HOOK_SECRET", SECRET)])
}

fn held(server: &Server) -> Vec<Peeked> {
    server.beside(async |broker| broker.peek("jobs", Peek { max: 100, after: None }).await).unwrap()
}

fn mac(signed: &[u8]) -> Vec<u8> {
    Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap().chain_update(signed).finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn now_s() -> i64 {
    jadpo::host::now_ms() / 1_000
}

fn stripe(at_s: i64, body: &[u8]) -> String {
    format!("t={at_s},v1={}", hex(&mac(&[format!("{at_s}.").as_bytes(), body].concat())))
}

fn post(server: &Server, name: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let json = [("content-type", "application/json")];
    request(&server.url, "POST", &format!("/_webhooks/{name}"), &[&json, headers].concat(), body)
}

#[test]
fn what_providers_post_is_kept_as_it_came_and_its_signatures_verify_from_what_was_kept() {
    let dir = folder(&hooks());
    let server = dev(dir.path());
    let github = "sha256=ef422683075804630ed31254cd4190cd099c83eb247a383d84cd6f04b1382468";
    let shopify = "Dtb/YpdNvJlSA9GdufnbTztyIEuoxkZyHLig2vCVeS0=";
    let old = "t=1790000000,v1=4d4a2fe77199c2bd96a3fcf7814475dc50e892cc12568a51f27d6d25e0856970";
    let sent = [
        ("github", "X-Hub-Signature-256", github, "github-push.json"),
        ("shopify", "X-Shopify-Hmac-Sha256", shopify, "shopify-order.json"),
        // Its time has passed, so who checks on receipt refuses it; here nobody checks.
        ("open", "Stripe-Signature", old, "stripe-event.json"),
    ];
    for (name, header, signature, file) in sent {
        let reply = post(&server, name, &[(header, signature)], &payload(file));
        assert_eq!(reply.status, 202, "{name}: {reply:?}");
    }
    for (peeked, (_, header, signature, file)) in held(&server).iter().zip(sent) {
        let message = &peeked.message;
        assert_eq!(Sha256::digest(&message.body), Sha256::digest(payload(file)));
        let meta = Meta::decode(message.meta.as_deref().unwrap()).unwrap();
        let kept = meta.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(header)).unwrap();
        assert_eq!(kept.1, signature.as_bytes());
        let right = match header {
            "X-Hub-Signature-256" => format!("sha256={}", hex(&mac(&message.body))),
            "X-Shopify-Hmac-Sha256" => BASE64.encode(mac(&message.body)),
            _ => stripe(1_790_000_000, &message.body),
        };
        assert_eq!(right, signature, "it verifies from what was kept");
        assert!((meta.received_at_ms - message.sent_at_ms).abs() < 60_000);
    }
}

#[test]
fn a_signature_is_checked_on_receipt_and_one_that_is_old_or_wrong_or_missing_keeps_nothing() {
    let dir = folder(&hooks());
    let server = dev(dir.path());
    let body = payload("stripe-event.json");
    let signed = |at_s: i64| post(&server, "stripe", &[("Stripe-Signature", &stripe(at_s, &body))], &body);
    assert_eq!(signed(now_s() - 3).status, 202);
    for refused in [
        signed(now_s() - 600),
        post(&server, "stripe", &[("Stripe-Signature", &stripe(now_s(), b"another body"))], &body),
        post(&server, "stripe", &[], &body),
        post(&server, "github", &[("X-Hub-Signature-256", "sha256=00")], &body),
        post(&server, "shopify", &[("X-Shopify-Hmac-Sha256", "AAAA")], &body),
    ] {
        assert_eq!(refused.status, 401, "{refused:?}");
    }
    assert_eq!(server.queue("jobs")["messages"], 1);
    let unset = Server::dev(folder(&hooks()).path(), &[]);
    let reply = post(&unset, "stripe", &[("Stripe-Signature", &stripe(now_s(), &body))], &body);
    assert_eq!((reply.status, reply.code().as_str()), (503, "secret_missing"));
}

#[test]
fn what_was_checked_on_receipt_is_delivered_however_late_with_the_time_it_was_received() {
    let dir = folder(&hooks());
    let server = dev(dir.path());
    let body = payload("stripe-event.json");
    let before = jadpo::host::now_ms();
    assert_eq!(post(&server, "stripe", &[("Stripe-Signature", &stripe(now_s(), &body))], &body).status, 202);
    let meta = Meta::decode(held(&server)[0].message.meta.as_deref().unwrap()).unwrap();
    assert!((before..=jadpo::host::now_ms()).contains(&meta.received_at_ms));
}

#[test]
fn a_delivery_that_is_repeated_is_kept_once_by_the_provider_s_id_and_not_by_its_body() {
    let dir = folder(&hooks());
    let server = dev(dir.path());
    let body = payload("shopify-order.json");
    let signature = BASE64.encode(mac(&body));
    let order = |id: &str| {
        post(&server, "shopify", &[("X-Shopify-Hmac-Sha256", &signature), ("X-Shopify-Webhook-Id", id)], &body)
    };
    let first = order("0000-aa");
    let again = order("0000-aa");
    let other = order("0000-bb");
    assert_eq!([first.status, again.status, other.status], [202; 3]);
    assert_eq!((&again.json()["repeat"], &again.json()["id"]), (&true.into(), &first.json()["id"]));
    assert_eq!(
        (&first.json()["repeat"], &other.json()["repeat"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    let held = held(&server);
    assert_eq!(held.len(), 2);
    let meta = held[0].message.meta.as_deref().unwrap();
    assert!(meta.contains("x-shopify-webhook-id") && meta.contains("0000-aa"), "{meta}");
    // Two at once are two at once for the store, too.
    let url = &server.url;
    std::thread::scope(|scope| {
        let headers = [("X-GitHub-Delivery", "7a1c")];
        let same: Vec<_> =
            (0..8).map(|_| scope.spawn(move || request(url, "POST", "/_webhooks/open", &headers, b"{}"))).collect();
        let replies: Vec<Reply> = same.into_iter().map(|one| one.join().unwrap()).collect();
        assert!(replies.iter().all(|reply| reply.status == 202));
        assert_eq!(replies.iter().filter(|reply| reply.json()["repeat"] == true).count(), 7);
    });
    assert_eq!(server.queue("jobs")["messages"], 3);
}
