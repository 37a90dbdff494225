use http_body_util::BodyExt as _;
use hyper::Request;
use serde_json::json;

use super::*;

async fn page(template: &str, looked: &Value) -> String {
    let body = of(template, looked).unwrap().into_body().collect().await.unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn what_a_sender_wrote_is_text_on_the_page_whatever_it_holds() {
    let script = "<script>alert(1)</script>\"'&";
    let letter =
        json!({ "id": "0a", "died_at": null, "attempts": 3, "reason": "failed", "error": script, "preview": script });
    let call = json!({ "at": "now", "message": "0a", "attempt": 1, "function": script, "outcome": "failed", "error": script, "ms": 1 });
    let run = json!({ "at": "now", "outcome": "failed", "error": script });
    let queue = json!({
        "name": "jobs", "messages": 1, "in_flight": 0, "delayed": 0, "bytes": 5, "paused": true,
        "functions": [script], "webhooks": [script], "recent": [call],
        "trigger": { "name": "queue:jobs", "enabled": false, "last_run": run },
        "dead_letters": { "queue": "jobs-dead", "messages": 1, "items": [letter] },
    });
    let page = page(QUEUE, &queue).await;
    assert!(!page.contains("<script>"), "{page}");
    assert_eq!(page.matches("&lt;script&gt;").count(), 7, "{page}");
    assert!(page.contains("paused") && page.contains("disabled"), "{page}");
}

#[tokio::test]
async fn the_page_of_queues_shows_each_or_how_to_make_one() {
    let queue =
        json!({ "name": "jobs", "messages": 7, "in_flight": 1, "delayed": 2, "functions": ["a", "b"], "webhooks": [] });
    let full = page(QUEUES, &json!({ "app": "shop", "queues": [queue], "more": false })).await;
    assert!(full.contains("/_queues/jobs") && full.contains("a, b"), "{full}");
    let empty = page(QUEUES, &json!({ "app": "shop", "queues": [], "more": false })).await;
    assert!(empty.contains("jadpo queues create"), "{empty}");
}

#[test]
fn a_browser_gets_the_page_and_a_program_json() {
    let asks = |accept: &str| {
        let (head, ()) = Request::get("/_queues").header("accept", accept).body(()).unwrap().into_parts();
        is_wanted(&head)
    };
    assert!(asks("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"));
    assert!(!asks("*/*") && !asks("application/json"));
}
