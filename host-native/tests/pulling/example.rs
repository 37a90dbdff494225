//! The example, as its files are.

use std::path::Path;

use serde_json::json;

use crate::support::{Function, Server, folder, request};
use crate::{events, wait_until};

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host-test/apps/supplier").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_example_s_queue_is_pulled_by_the_example_s_app_and_its_ledger_gets_each_movement_once() {
    let queues = folder(&file("queues.jadpo"));
    let ours = Server::plain(queues.path(), &["--http-pull"]);
    let ledger = Function::answering(200);
    let text = file("app.jadpo")
        .replace("http://127.0.0.1:7878", &ours.url)
        .replace("http://127.0.0.1:8788/ledger", &ledger.url);
    let app = folder(&text);
    let set = |name: &str| ours.api[name].as_str().unwrap();
    let envs = [("CF_ACCOUNT_ID", set("account")), ("CF_QUEUES_TOKEN", set("token"))];
    let client = Server::serve(app.path(), &["--tick", "1"], &envs);
    let movement = json!({ "movement_id": "m-1", "sku": "A", "quantity": 3, "moved_at": "2026-11-30T12:00:00Z" });
    for _ in 0..2 {
        let headers = [("content-type", "application/json")];
        let sent = request(&ours.url, "POST", "/_queues/stock-moved", &headers, movement.to_string().as_bytes());
        assert_eq!(sent.status, 202, "{sent:?}");
    }
    let call = ledger.call();
    assert_eq!(call.header("jadpo-event"), Some("StockMoved"));
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&call.body).unwrap(), movement);
    wait_until("both are acknowledged", || ours.queue("stock-moved")["messages"] == 0);
    assert_eq!(events(app.path()).values().sum::<u32>(), 1);
    assert_eq!(ledger.calls().len(), 0, "the second is a repeat");
    wait_until("it is ready", || request(&client.url, "GET", "/readyz", &[], b"").status == 200);
}
