//! Linked functions, called as the core calls them.

use jadpo_core::host::{Call, CallOutcome};
use jadpo_core::program::Target;
use js_sys::Object;
use wasm_bindgen::JsCast;
use wasm_bindgen_test::wasm_bindgen_test;

use super::{Event, Failure, call, is_linked};
use crate::js;

fn made(name: &str, timeout_ms: u32) -> Call {
    Call {
        subscriber: "audit".to_owned(),
        target: Target::Run(name.to_owned()),
        headers: vec![
            ("jadpo-event", "StockMoved".to_owned()),
            ("jadpo-event-id", "e1".to_owned()),
            ("jadpo-attempt", "3".to_owned()),
        ],
        body: b"{}".to_vec(),
        timeout_ms,
    }
}

async fn outcome(name: &str) -> CallOutcome {
    call(Object::new().unchecked_into(), name, made(name, 50)).await
}

#[wasm_bindgen_test]
async fn a_function_sees_the_event_as_an_http_subscriber_would() {
    async fn seen(event: Event) -> Result<(), Failure> {
        let seen = (event.name(), event.id(), event.attempt(), event.body());
        assert_eq!(seen, ("StockMoved", "e1", 3, &b"{}"[..]));
        Ok(())
    }
    crate::__link_here!("seen" => seen);
    assert!(is_linked("seen") && !is_linked("unseen"));
    assert_eq!(outcome("seen").await, CallOutcome::Answered { status: 200, retry_after: None });
}

#[wasm_bindgen_test]
async fn a_failure_says_why_or_when_to_try_again() {
    async fn fails(_: Event) -> Result<(), Failure> {
        "seven".parse::<u32>()?;
        Ok(())
    }
    async fn later(_: Event) -> Result<(), Failure> {
        Err(Failure::after_s(60))
    }
    crate::__link_here!("fails" => fails, "later" => later);
    assert_eq!(outcome("fails").await, CallOutcome::Unanswered("invalid digit found in string".to_owned()));
    let later = outcome("later").await;
    assert_eq!(later, CallOutcome::Answered { status: 503, retry_after: Some("60".to_owned()) });
}

#[wasm_bindgen_test]
async fn a_function_that_takes_too_long_is_given_up() {
    async fn slow(_: Event) -> Result<(), Failure> {
        js::sleep(5_000.0).await;
        Ok(())
    }
    crate::__link_here!("slow" => slow);
    assert_eq!(outcome("slow").await, CallOutcome::Unanswered("no answer within 0.05 s".to_owned()));
}
