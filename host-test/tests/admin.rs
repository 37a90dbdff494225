//! The operator's endpoint: who is let in, what is seen, what a retry does.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod shop;

use jadpo_core::admin::{
    BODY_BYTES_MAX, Filter, Item, Kind, Listing, Problem, Request, Response, Retried, RetryRequest, Status, answer,
};
use jadpo_core::deliver::Delivered;
use jadpo_core::queue::{Body, Message};
use jadpo_core::start::App;
use jadpo_core::tick::tick;
use jadpo_host_test::{Reply, StoreFault, TestHost, run};
use shop::*;

const TOKEN: &str = "a-token-of-24-characters";

fn host() -> TestHost {
    let host = TestHost::migrated();
    host.set_env("JADPO_ADMIN_TOKEN", TOKEN);
    host
}

fn ask(host: &TestHost, app: &App, method: &str, path: &str, body: &str) -> Response {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let request = Request {
        method: method.into(),
        path: path.into(),
        query: query.into(),
        authorization: Some(format!("Bearer {TOKEN}")),
        body: body.into(),
    };
    run(host, answer(host, app, request))
}

fn get<T: serde::de::DeserializeOwned>(host: &TestHost, app: &App, path: &str) -> T {
    let response = ask(host, app, "GET", path, "");
    assert_eq!((response.status, response.content_type), (200, "application/json"), "{path}: {}", response.body);
    serde_json::from_str(&response.body).unwrap()
}

fn list(host: &TestHost, app: &App, query: &str) -> Vec<String> {
    let listing: Listing = get(host, app, &format!("/.jadpo/deliveries{query}"));
    listing.items.into_iter().map(|item| item.id).collect()
}

fn retry(host: &TestHost, app: &App, request: &RetryRequest) -> Retried {
    let response = ask(host, app, "POST", "/.jadpo/deliveries/retry", &serde_json::to_string(request).unwrap());
    assert_eq!(response.status, 200, "{}", response.body);
    serde_json::from_str(&response.body).unwrap()
}

fn problem(response: &Response) -> (u16, String) {
    let problem: Problem = serde_json::from_str(&response.body).unwrap_or_else(|_| panic!("{}", response.body));
    assert!(problem.error.message.len() > 10, "{}", problem.error.message);
    (response.status, problem.error.code)
}

/// Three failed deliveries (events 1 to 3, to `ledger`) and four parked messages: `p1` and `p2` rejected, `p3`
/// unreadable, `p4` dead-lettered.
fn troubles(host: &TestHost, app: &App) {
    host.subscriber("ledger").always(Reply::Status(500));
    let claimed = receive_good(host, app, 3);
    deliver_in(host, app, claimed, 30_000);
    host.meddle(&format!("UPDATE jadpo_deliveries SET due_at = {NEVER_MS}, attempt = 30"));
    let bad = vec![
        text(host, "r1", r#"{"n":"one"}"#),
        text(host, "r2", r#"{"n":"two"}"#),
        text(host, "u1", "\u{1f4e6}".repeat(300).as_str()),
    ];
    receive_from(host, app, "moves-q", bad);
    receive_from(host, app, "moves-dead", vec![text(host, "dead1", r#"{"n":7}"#)]);
}

#[test]
fn without_a_token_of_sixteen_characters_there_is_nothing() {
    let app = app(&[]);
    for token in [None, Some(""), Some("fifteen-letters")] {
        let host = TestHost::migrated();
        if let Some(token) = token {
            host.set_env("JADPO_ADMIN_TOKEN", token);
        }
        for given in [None, token.map(|token| format!("Bearer {token}")), Some("Bearer ".into())] {
            let request = Request {
                method: "GET".into(),
                path: "/.jadpo/status".into(),
                authorization: given,
                ..Request::default()
            };
            assert_eq!(problem(&run(&host, answer(&host, &app, request))), (404, "not_found".into()));
        }
        assert_eq!(host.batches(), 0);
    }
}

#[test]
fn only_the_token_lets_in_and_a_wrong_one_costs_the_store_nothing() {
    let host = host();
    let app = app(&[]);
    let long = format!("Bearer {}", "x".repeat(100_000));
    let wrong = [
        None,
        Some("Bearer a-token-of-24-characterS"),
        Some("Bearer a-token-of-24-character"),
        Some("Bearer"),
        Some("Bearer "),
        Some("Basic a-token-of-24-characters"),
        Some(TOKEN),
        Some(long.as_str()),
    ];
    for given in wrong {
        let request = Request {
            method: "GET".into(),
            path: "/.jadpo/status".into(),
            authorization: given.map(str::to_owned),
            ..Request::default()
        };
        assert_eq!(problem(&run(&host, answer(&host, &app, request))), (401, "unauthorized".into()), "{given:?}");
    }
    assert_eq!(host.batches(), 0);
    let request = Request {
        method: "GET".into(),
        path: "/.jadpo/status".into(),
        authorization: Some(format!("bearer  {TOKEN} ")),
        ..Request::default()
    };
    assert_eq!(run(&host, answer(&host, &app, request)).status, 200);
}

#[test]
fn the_list_has_parked_messages_then_failed_deliveries_newest_first() {
    let host = host();
    let app = app(&["ledger"]);
    troubles(&host, &app);
    assert_eq!(list(&host, &app, ""), ["p4", "p3", "p2", "p1", "d3.ledger", "d2.ledger", "d1.ledger"]);
    let listing: Listing = get(&host, &app, "/.jadpo/deliveries?limit=3");
    assert_eq!((listing.items.len(), listing.next.as_deref()), (3, Some("p2")));
    let parked = &listing.items[2];
    assert_eq!((parked.kind, parked.reason.as_str()), (Kind::Parked, "rejected"));
    assert_eq!((parked.queue.as_deref(), parked.message_id.as_str()), (Some("moves-q"), "r2"));
    assert!(parked.detail.contains("n: expected Int"), "{}", parked.detail);
    assert_eq!((parked.body.as_deref(), parked.preview.as_deref()), (None, Some(r#"{"n":"two"}"#)));
    let emoji = &listing.items[1];
    assert_eq!((emoji.body_bytes, emoji.preview.as_deref().unwrap().chars().count()), (1200, 200));
    let listing: Listing = get(&host, &app, "/.jadpo/deliveries?kind=failed");
    let failed = &listing.items[0];
    assert_eq!((failed.id.as_str(), failed.reason.as_str(), failed.attempts), ("d3.ledger", "failed", 30));
    assert_eq!((failed.subscriber.as_deref(), failed.queue.as_deref()), (Some("ledger"), Some("moves-q")));
    assert_eq!((failed.event.as_deref(), failed.detail.as_str()), (Some("Moved"), "answered 500"));
}

#[test]
fn paging_gives_every_item_once_whatever_the_page_s_size() {
    let host = host();
    let app = app(&["audit", "ledger"]);
    troubles(&host, &app);
    receive_good(&host, &app, 3);
    host.meddle(&format!("UPDATE jadpo_deliveries SET due_at = {NEVER_MS}"));
    let all = list(&host, &app, "");
    for limit in 1..=all.len() {
        let mut seen = Vec::new();
        let mut after = String::new();
        loop {
            let page: Listing = get(&host, &app, &format!("/.jadpo/deliveries?limit={limit}{after}"));
            seen.extend(page.items.iter().map(|item| item.id.clone()));
            let Some(next) = page.next else { break };
            after = format!("&after={next}");
        }
        assert_eq!(seen, all, "limit {limit}");
    }
}

#[test]
fn filters_narrow_the_list_down_and_a_queue_stands_for_its_dead_letters_too() {
    let host = host();
    let app = app(&["ledger"]);
    troubles(&host, &app);
    let cases: [(&str, &[&str]); 12] = [
        ("?kind=parked", &["p4", "p3", "p2", "p1"]),
        ("?kind=failed", &["d3.ledger", "d2.ledger", "d1.ledger"]),
        ("?reason=rejected", &["p2", "p1"]),
        ("?reason=dead_lettered", &["p4"]),
        ("?reason=failed", &["d3.ledger", "d2.ledger", "d1.ledger"]),
        ("?reason=rejected&kind=failed", &[]),
        ("?queue=moves-dead", &["p4"]),
        ("?queue=moves-q", &["p4", "p3", "p2", "p1", "d3.ledger", "d2.ledger", "d1.ledger"]),
        ("?queue=no-such", &[]),
        ("?subscriber=ledger&limit=1", &["d3.ledger"]),
        ("?event=Moved&kind=failed&after=d2.ledger", &["d1.ledger"]),
        ("?connection=moves&reason=unreadable", &["p3"]),
    ];
    for (query, expected) in cases {
        assert_eq!(list(&host, &app, query), expected, "{query}");
    }
}

#[test]
fn a_slip_of_the_pen_is_told_and_never_answered_with_everything() {
    let host = host();
    let app = app(&[]);
    let long = format!("?queue={}", "q".repeat(5_000));
    for query in
        ["?limit=0", "?limit=1001", "?limit=ten", "?kind=all", "?reason=odd", "?after=12", "?quueue=a", long.as_str()]
    {
        let response = ask(&host, &app, "GET", &format!("/.jadpo/deliveries{query}"), "");
        assert_eq!(problem(&response), (400, "request_invalid".into()), "{query}");
    }
    for body in [
        "",
        "[]",
        "{}",
        "nonsense",
        r#"{"ids":[]}"#,
        r#"{"ids":["p1"],"all":true}"#,
        r#"{"ids":["p1"],"queue":"q"}"#,
        r#"{"queue":"q"}"#,
        r#"{"all":true,"queeue":"q"}"#,
        r#"{"all":true,"reason":"odd"}"#,
        r#"{"ids":[1]}"#,
    ] {
        let response = ask(&host, &app, "POST", "/.jadpo/deliveries/retry", body);
        assert_eq!(problem(&response), (400, "request_invalid".into()), "{body}");
    }
    let many = serde_json::to_string(&RetryRequest::ids(vec!["p1".into(); 1_001])).unwrap();
    assert_eq!(ask(&host, &app, "POST", "/.jadpo/deliveries/retry", &many).status, 400);
    let huge = " ".repeat(BODY_BYTES_MAX + 1);
    let response = ask(&host, &app, "POST", "/.jadpo/deliveries/retry", &huge);
    assert_eq!(problem(&response), (413, "request_too_large".into()));
    for (method, path, status) in [
        ("POST", "/.jadpo/deliveries", 405),
        ("GET", "/.jadpo/deliveries/retry", 405),
        ("DELETE", "/.jadpo/deliveries/p1", 405),
        ("GET", "/.jadpo/", 404),
        ("GET", "/.jadpo/deliveriesx", 404),
        ("GET", "/.jadpo/deliveries/", 404),
        ("GET", "/.jadpo/deliveries/p", 404),
        ("GET", "/.jadpo/deliveries/p99999999999999999999", 404),
        ("GET", "/.jadpo/deliveries/p-1", 404),
        ("GET", "/.jadpo/deliveries/d1", 404),
        ("GET", "/.jadpo/deliveries/p1/x", 404),
        ("GET", "/", 404),
    ] {
        let response = ask(&host, &app, method, path, "");
        assert_eq!(problem(&response).0, status, "{method} {path}");
    }
}

#[test]
fn one_item_is_shown_whole_as_text_or_in_base64() {
    let host = host();
    let app = app(&["ledger"]);
    troubles(&host, &app);
    let bytes = Message { id: "b".into(), sent_at_ms: 1, attempts: 2, body: Body::Bytes(vec![0, 0x80, 0xff]) };
    receive_from(&host, &app, "moves-q", vec![bytes]);
    let parked: Item = get(&host, &app, "/.jadpo/deliveries/p3");
    assert_eq!(parked.body, Some("\u{1f4e6}".repeat(300)));
    assert_eq!((parked.preview, parked.body_base64), (None, None));
    let failed: Item = get(&host, &app, "/.jadpo/deliveries/d2.ledger");
    assert_eq!(failed.body.as_deref(), Some(r#"{"n":1}"#));
    let bytes: Item = get(&host, &app, "/.jadpo/deliveries/p5");
    assert_eq!((bytes.body.as_deref(), bytes.body_base64.as_deref(), bytes.body_bytes), (None, Some("AID/"), 3));
    assert_eq!((bytes.attempts, bytes.sent_at_ms), (2, 1));
    for id in ["p6", "d2.audit", "d9.ledger"] {
        let response = ask(&host, &app, "GET", &format!("/.jadpo/deliveries/{id}"), "");
        assert_eq!(problem(&response), (404, "not_found".into()), "{id}");
    }
}

#[test]
fn a_retried_delivery_is_due_at_once_and_gets_thirty_attempts_more() {
    let host = host();
    let app = app(&["ledger"]);
    troubles(&host, &app);
    let ids = ["d1.ledger", "d1.ledger", "d7.ledger", "d1.audit", "p77", "x"].map(str::to_owned).to_vec();
    let retried = retry(&host, &app, &RetryRequest::ids(ids));
    assert_eq!(retried.retried, 1);
    assert_eq!(retried.unknown, ["d7.ledger", "d1.audit", "p77", "x"]);
    let calls = host.calls().len();
    let delivered = deliver_what_is_due(&host, &app);
    assert_eq!(delivered, Delivered { waiting: 1, ..Delivered::default() });
    assert_eq!(host.calls().len(), calls + 1);
    assert_eq!(host.calls()[calls].header("jadpo-attempt"), Some("31"));
    for _ in 0..29 {
        host.set_ms(host.count("SELECT min(due_at) FROM jadpo_deliveries"));
        deliver_what_is_due(&host, &app);
    }
    assert_eq!(host.calls().len(), calls + 30);
    assert_eq!(list(&host, &app, "?kind=failed").len(), 3);
    // Retried once more, and now the subscriber is well.
    host.subscriber("ledger").recovers();
    assert_eq!(retry(&host, &app, &RetryRequest::all(Filter::default())).retried, 3 + 4);
    assert_eq!(deliver_what_is_due(&host, &app).done, 3);
}

#[test]
fn a_delivery_that_waits_or_runs_cannot_be_retried() {
    let host = host();
    let app = app(&["ledger"]);
    receive_good(&host, &app, 1);
    let retried = retry(&host, &app, &RetryRequest::ids(vec!["d1.ledger".into()]));
    assert_eq!((retried.retried, retried.unknown.len()), (0, 1));
    assert_eq!(retry(&host, &app, &RetryRequest::all(Filter::default())).retried, 0);
    assert_eq!(rows(&host, "jadpo_deliveries WHERE claim IS NOT NULL AND attempt_max = 30"), 1);
}

#[test]
fn a_retried_message_is_read_again_at_the_next_tick_by_the_build_that_runs_then() {
    let host = host();
    let old = app(&["ledger"]);
    troubles(&host, &old);
    host.subscriber("ledger").recovers();
    let filter = Filter { queue: Some("moves-q".into()), kind: Some(Kind::Parked), ..Filter::default() };
    assert_eq!(retry(&host, &old, &RetryRequest::all(filter)).retried, 4);
    let status: Status = get(&host, &old, "/.jadpo/status");
    assert_eq!(status.retrying, 4);
    let ledger = r#""ledger":{"on":"Moved","target":{"call":"https://ledger.example.com/"}}"#;
    let new = app_with(r#"{"record":[{"name":"n","type":"json"}]}"#, ledger);
    let ticked = run(&host, tick(&host, &new, host.time_ms() + 30_000));
    assert_eq!((ticked.kept, ticked.still_parked, ticked.delivered.done), (3, 1, 3));
    assert_eq!(list(&host, &new, "?kind=parked"), ["p3"]);
}

#[test]
fn everything_that_fits_is_retried_in_slices_and_a_filter_spares_the_rest() {
    let host = host();
    let app = app(&["audit", "ledger"]);
    host.meddle(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1234) \
         INSERT INTO jadpo_events SELECT i, 'moves', 'k' || i, 'Moved', 'k' || i, 0, {}, '{{}}' FROM n",
        host.time_ms()
    ));
    host.meddle(&format!(
        "INSERT INTO jadpo_deliveries SELECT {NEVER_MS}, seq, s, 30, 30, NULL, 0, 'x' FROM jadpo_events, \
         (SELECT 'audit' AS s UNION ALL SELECT 'ledger')"
    ));
    let filter = Filter { subscriber: Some("ledger".into()), ..Filter::default() };
    let retried = retry(&host, &app, &RetryRequest::all(filter));
    assert_eq!((retried.retried, retried.more), (1234, false));
    assert_eq!(rows(&host, &format!("jadpo_deliveries WHERE subscriber = 'audit' AND due_at = {NEVER_MS}")), 1234);
    assert_eq!(rows(&host, "jadpo_deliveries WHERE subscriber = 'ledger' AND attempt_max = 60"), 1234);
}

#[test]
fn the_status_counts_what_the_store_holds() {
    let host = host();
    let app = app(&["ledger"]);
    troubles(&host, &app);
    let now_ms = host.time_ms();
    receive_from(&host, &app, "moves-q", (10..14).map(|n| message(&host, n)).collect());
    host.meddle(&format!("UPDATE jadpo_deliveries SET claim = NULL, due_at = {} WHERE seq = 4", now_ms + 500));
    let status: Status = get(&host, &app, "/.jadpo/status");
    assert_eq!((status.app.as_str(), status.store_version, status.store_version_needed), ("shop", 1, 1));
    assert_eq!((status.events, status.waiting, status.running, status.failed), (7, 1, 3, 3));
    let parked: Vec<(&str, u64)> = status.parked.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(parked, [("dead_lettered", 1), ("rejected", 2), ("unreadable", 1)]);
    assert_eq!(status.oldest_due_ms, Some(now_ms + 500));
    let empty: Status = get(&self::host(), &app, "/.jadpo/status");
    assert_eq!((empty.events, empty.oldest_due_ms, empty.parked.len()), (0, None, 0));
}

#[test]
fn a_store_that_cannot_answer_is_a_503_that_says_why() {
    let app = app(&[]);
    let host = host();
    for (method, path, body) in [
        ("GET", "/.jadpo/status", ""),
        ("GET", "/.jadpo/deliveries", ""),
        ("GET", "/.jadpo/deliveries/p1", ""),
        ("POST", "/.jadpo/deliveries/retry", r#"{"ids":["p1"]}"#),
        ("POST", "/.jadpo/deliveries/retry", r#"{"all":true}"#),
    ] {
        host.store_fails(StoreFault::Down, 1);
        assert_eq!(problem(&ask(&host, &app, method, path, body)), (503, "store_unavailable".into()));
        host.meddle("UPDATE jadpo_schema SET version = 0");
        assert_eq!(problem(&ask(&host, &app, method, path, body)), (503, "store_not_current".into()));
        host.meddle("UPDATE jadpo_schema SET version = 1");
    }
    let bare = TestHost::unmigrated();
    bare.set_env("JADPO_ADMIN_TOKEN", TOKEN);
    assert_eq!(problem(&ask(&bare, &app, "GET", "/.jadpo/status", "")), (503, "store_not_current".into()));
}
