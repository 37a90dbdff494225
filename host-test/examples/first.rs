//! A first test of an app. Run it with `cargo test -p jadpo-host-test --example first`.

fn main() {}

#[test]
fn a_movement_reaches_the_ledger_even_if_it_fails_at_first() {
    use jadpo_host_test::{TestApp, json};

    let app = TestApp::load("apps/warehouse/app.jadpo");
    app.host.set_env("LEDGER_SECRET", "whsec_bm90LWEtcmVhbC1zZWNyZXQ=");
    app.host.subscriber("ledger").answers([500]);

    app.send(
        "warehouse-events",
        json(r#"{"movement_id":"m1","sku":"A-1","quantity":3,"moved_at":"2026-11-30T12:00:00Z"}"#),
    );
    app.run_until_idle();

    assert_eq!(app.host.calls_to("ledger").len(), 2);
    assert!(app.deliveries().is_empty());
}
