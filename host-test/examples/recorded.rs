//! A subscriber's real answers, recorded with `curl -i` and played back; Rust closures in the place of a subscriber and
//! of a linked function. Run it with `cargo test -p jadpo-host-test --example recorded`.

fn main() {}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use std::sync::{Arc, Mutex};

    use jadpo_host_test::{Recording, TestApp, json};

    const MOVEMENT: &str = r#"{"movement_id":"m1","sku":"A-1","quantity":3,"moved_at":"2026-11-30T12:00:00Z"}"#;

    #[test]
    fn the_ledger_as_it_was_on_a_bad_monday_gets_the_event_in_the_end() {
        let app = TestApp::load("apps/warehouse/app.jadpo");
        app.host.set_env("LEDGER_SECRET", "whsec_bm90LWEtcmVhbC1zZWNyZXQ=");
        app.host.subscriber("ledger").plays(&Recording::read("examples/ledger.http"));
        app.send("warehouse-events", json(MOVEMENT));
        app.run_until_idle();
        let calls = app.host.calls_to("ledger");
        assert_eq!(calls.len(), 3);
        assert!(calls[1].at_ms - calls[0].at_ms >= 300_000, "it asked for five minutes");
        assert!(app.deliveries().is_empty());
    }

    #[test]
    fn a_linked_function_is_a_closure_that_sees_what_it_is_called_with() {
        let app = TestApp::of(
            r#"
            app: "shop"
            connections: { notes: { driver: Driver.cloudflare_queues, queue: "notes", dead_letter_queue: "notes-dead" } }
            events: { Noted: Json }
            receiving: { notes: { event: Noted } }
            subscribers: { audit: { on: Noted, run: audit } }
            "#,
        );
        let seen = Arc::new(Mutex::new(Vec::new()));
        let own = seen.clone();
        app.host.link("audit", move |call| {
            own.lock().unwrap().push(String::from_utf8_lossy(&call.body).into_owned());
            if own.lock().unwrap().len() == 1 { Err("the disk is full".to_owned()) } else { Ok(()) }
        });
        app.send("notes", json("[1]"));
        app.run_until_idle();
        assert_eq!(*seen.lock().unwrap(), ["[1]", "[1]"]);
    }
}
