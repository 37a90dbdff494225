//! An app with queues of its own, as `jadpo dev` and `jadpo serve` run it: functions, dead letters, redrives, webhooks,
//! schedules. Run it with `cargo test -p jadpo-host-test --example queues`.

fn main() {}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use jadpo_host_test::{Reply, Request, TestServer, json, text};

    #[test]
    fn a_payment_that_fails_three_times_is_a_dead_letter_and_can_be_put_back() {
        let server = TestServer::load("apps/jobs");
        server.host.subscriber("handle-payment").always(Reply::Status(500));
        let id = server.send("jobs", json(r#"{"kind":"charge"}"#));
        server.run_until_idle();
        let dead = server.dead_letters("jobs");
        assert_eq!((dead[0].id.as_str(), dead[0].attempts), (id.as_str(), 3));

        server.host.subscriber("handle-payment").recovers();
        assert_eq!(server.redrive("jobs"), 1);
        server.run_until_idle();
        assert!(server.dead_letters("jobs").is_empty() && server.messages("jobs").is_empty());
        assert_eq!(server.host.calls_to("handle-payment").len(), 4);
    }

    #[test]
    fn a_webhook_that_its_provider_repeats_is_handled_once() {
        let server = TestServer::load("apps/jobs");
        let hook = || Request::of(json(r#"{"type":"invoice.paid"}"#)).header("X-GitHub-Delivery", "d1");
        let first = server.webhook("stripe-events", hook());
        let again = server.webhook("stripe-events", hook());
        assert_eq!((first.status, first.is_repeat), (202, false));
        assert_eq!((again.id, again.is_repeat), (first.id, true));
        server.run_until_idle();
        assert_eq!(server.host.calls_to("handle-payment").len(), 1);
    }

    #[test]
    fn the_server_may_die_at_any_step_and_the_message_is_handled_all_the_same() {
        for step in 0.. {
            let server = TestServer::load("apps/jobs");
            server.send("jobs", text("x"));
            server.host.crash_at_step(step);
            server.run_until_idle();
            assert!(server.messages("jobs").is_empty() && server.dead_letters("jobs").is_empty(), "step {step}");
            assert!(!server.host.calls_to("handle-payment").is_empty(), "step {step}");
            if server.host.lift_crash() {
                break; // every step has been tried
            }
        }
    }

    #[test]
    fn a_schedule_runs_once_an_hour_whatever_the_clock_does() {
        let server = TestServer::of(
            r#"
            app: "shop"
            functions: { sweep: { run: sweep, schedule: "0 * * * *" } }
            "#,
        );
        server.host.link("sweep", |_| Ok(()));
        server.run_for_ms(3 * 3_600_000);
        assert_eq!(server.host.calls_to("sweep").len(), 3);
        server.host.skew_ms(-7_200_000);
        server.run_for_ms(3_600_000);
        assert_eq!(server.host.calls_to("sweep").len(), 3, "no occurrence is repeated");
    }
}
