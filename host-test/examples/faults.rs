//! Everything that can go wrong, by name. Run it with `cargo test -p jadpo-host-test --example faults`.

fn main() {}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use jadpo_host_test::{Reply, StoreFault, TestApp, bytes, json, text};

    const QUEUE: &str = "warehouse-events";

    fn app() -> TestApp {
        let app = TestApp::load("apps/warehouse/app.jadpo");
        app.host.set_env("LEDGER_SECRET", "whsec_bm90LWEtcmVhbC1zZWNyZXQ=");
        app
    }

    fn movement(id: &str) -> String {
        format!(r#"{{"movement_id":"{id}","sku":"A-1","quantity":3,"moved_at":"2026-11-30T12:00:00Z"}}"#)
    }

    /// Every fault ends, and every message is an event after it, once.
    fn assert_all_is_well(app: &TestApp, events: usize) {
        app.run_until_idle();
        assert_eq!((app.events().len(), app.parked().len(), app.deliveries().len()), (events, 0, 0));
        assert!(app.waiting().is_empty() && app.lost().is_empty());
    }

    #[test]
    fn a_store_that_is_down_for_an_hour_costs_time_and_no_message() {
        let app = app();
        app.host.store_fails_until_lifted(StoreFault::Down);
        app.send(QUEUE, text(&movement("m1")));
        app.run_for_ms(3_600_000);
        assert_eq!(app.host.logged("queue.retried").len(), app.answers().len());
        app.host.lift_faults();
        assert_all_is_well(&app, 1);
    }

    #[test]
    fn a_store_that_fails_before_or_after_its_commit_or_is_slow_makes_nothing_twice() {
        for fault in [StoreFault::BeforeCommit, StoreFault::AfterCommit, StoreFault::Slow(5_000)] {
            let app = app();
            app.host.store_fails(fault, 2);
            app.send(QUEUE, json(&movement("m1")));
            assert_all_is_well(&app, 1);
        }
    }

    #[test]
    fn a_store_that_is_behind_by_a_migration_takes_nothing_until_it_is_migrated() {
        let app = app();
        app.host.store_is_behind();
        app.send(QUEUE, json(&movement("m1")));
        app.run_for_ms(60_000);
        assert!(app.events().is_empty());
        app.host.store_is_migrated();
        assert_all_is_well(&app, 1);
    }

    #[test]
    fn an_isolate_may_die_at_any_step() {
        for step in 0.. {
            let app = app();
            app.host.crash_at_step(step);
            app.send(QUEUE, json(&movement("m1")));
            assert_all_is_well(&app, 1);
            if app.host.lift_crash() {
                break; // it came to its end before that step: every step has been tried
            }
        }
    }

    #[test]
    fn messages_come_again_in_any_order_in_batches_of_any_size_while_the_clock_jumps() {
        let app = app();
        app.lose_acks(5);
        app.shuffle();
        app.cut_batches_at(3);
        for n in 0..10 {
            app.send(QUEUE, json(&movement(&format!("m{n}"))));
        }
        app.run_for_ms(5_000);
        app.host.skew_ms(-3_600_000);
        assert_all_is_well(&app, 10);
    }

    #[test]
    fn a_subscriber_may_fail_hang_close_and_ask_for_time() {
        let app = app();
        app.host.subscriber("ledger").answers([500, 404]).hangs().closes().answers_429("120");
        app.host
            .subscriber("reorder")
            .answers_by(|call| if call.body.is_empty() { Reply::Status(400) } else { Reply::Status(204) });
        app.send(QUEUE, json(&movement("m1")));
        assert_all_is_well(&app, 1);
        assert_eq!((app.host.calls_to("ledger").len(), app.host.calls_to("reorder").len()), (6, 1));
    }

    #[test]
    fn what_cannot_be_read_is_parked_with_its_reason_whatever_its_content_type_and_attempts() {
        let app = app();
        app.send_at_attempt(QUEUE, bytes(&[0xff, 0x00]), 31);
        app.send(QUEUE, text(r#"{"movement_id":"m1"}"#));
        app.run_until_idle();
        let parked = app.parked();
        assert_eq!((parked[0].reason.as_str(), parked[0].attempts), ("unreadable", 31));
        assert_eq!(parked[1].reason, "rejected");
        assert_eq!(app.host.logged("queue.parked").len(), 2);
    }
}
