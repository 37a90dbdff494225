//! A Worker of one's own: jadpo with two Rust functions inside. Build it with worker-build, then the app with
//! `jadpo build app.jadpo --worker FOLDER`.

use jadpo_host_workers::{Event, Failure, link};
use worker::console_log;

link! { "audit" => audit, "fragile" => fragile }

#[derive(serde::Deserialize)]
struct Movement {
    sku: String,
    quantity: i64,
}

/// `audit: { on: StockMoved, run: audit }` notes each movement in the Worker's log.
async fn audit(event: Event) -> Result<(), Failure> {
    let Movement { sku, quantity } = serde_json::from_slice(event.body())?;
    if quantity == 0 {
        return Err(Failure::new(format!("{sku}: a movement of nothing"))); // tried again on the schedule
    }
    if event.attempt() == 1 && quantity > 1_000 {
        return Err(Failure::after_s(60)); // too much at once: tried again in a minute
    }
    let line = serde_json::json!({ "event": "audit", "id": event.id(), "sku": sku, "quantity": quantity });
    console_log!("{line}");
    Ok(())
}

/// A function that panics at first. The delivery is tried again once its claim ends, and the Worker lives on.
async fn fragile(event: Event) -> Result<(), Failure> {
    assert!(event.attempt() > 1, "not on the first attempt");
    Ok(())
}
