//! The app that the behaviour tests run: one connection for each kind of event.
#![allow(dead_code, unreachable_pub, reason = "each test file uses what it needs")]

use jadpo_core::queue::{Answer, Body};
use jadpo_host_test::{TestApp, TestHost, text};

/// Kept under the body's `movement_id`, for two subscribers.
pub const STOCK: &str = "stock";
/// Kept under the message's id: any JSON.
pub const NOTES: &str = "notes";
/// Kept under the message's id: any text.
pub const LINES: &str = "lines";
/// Kept under the message's id: any bytes.
pub const BLOBS: &str = "blobs";

pub const PROGRAM: &str = r#"{
    "format": 1, "app": "warehouse",
    "connections": {
        "stock_queue": {"driver": "cloudflare_queues", "queue": "stock", "dead_letter_queue": "stock-dead"},
        "note_queue": {"driver": "cloudflare_queues", "queue": "notes", "dead_letter_queue": "notes-dead"},
        "line_queue": {"driver": "cloudflare_queues", "queue": "lines", "dead_letter_queue": "lines-dead"},
        "blob_queue": {"driver": "cloudflare_queues", "queue": "blobs", "dead_letter_queue": "blobs-dead"}
    },
    "events": {
        "StockMoved": {"record": [
            {"name": "sku", "type": "text"}, {"name": "quantity", "type": "int"},
            {"name": "note", "type": {"optional": "text"}}
        ]},
        "Noted": "json", "Written": "text", "Dropped": "bytes"
    },
    "receiving": {
        "stock_queue": {"event": "StockMoved", "id": "movement_id"},
        "note_queue": {"event": "Noted"}, "line_queue": {"event": "Written"}, "blob_queue": {"event": "Dropped"}
    },
    "subscribers": {
        "ledger": {"on": "StockMoved", "target": {"call": "https://ledger.example.com/events"}},
        "audit": {"on": "Noted", "target": {"run": "audit"}}
    }
}"#;

pub fn app() -> TestApp {
    let app = TestApp::of(PROGRAM);
    app.host.link("audit", |_| Ok(()));
    app
}

pub fn unmigrated() -> TestApp {
    TestApp::on(TestHost::unmigrated(), PROGRAM)
}

/// A good stock movement.
pub fn movement(id: &str) -> Body {
    text(&format!(r#"{{"movement_id":"{id}","sku":"A-1","quantity":3}}"#))
}

/// The answers, in order: `None` for an acknowledgement, the delay for a retry.
pub fn answers(app: &TestApp) -> Vec<Option<u32>> {
    let retry = |answer| match answer {
        Answer::Ack => None,
        Answer::Retry { delay_s } => Some(delay_s),
    };
    app.answers().into_iter().map(|answered| retry(answered.answer)).collect()
}

/// The codes of `queue.retried`, in order, with the counts.
pub fn retried(app: &TestApp) -> Vec<(String, u64)> {
    let field = |entry: &jadpo_core::host::LogEntry, name: &str| {
        entry.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let logged = app.host.logged("queue.retried");
    logged
        .iter()
        .map(|entry| {
            let code = field(entry, "code").as_str().unwrap_or_default().to_owned();
            (code, field(entry, "count").as_u64().unwrap_or_default())
        })
        .collect()
}
