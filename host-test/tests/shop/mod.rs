//! What the tests of deliveries, the tick and the operator's endpoint share: an app, its messages, its store.
#![allow(dead_code, reason = "each test file uses a part")]

use jadpo_core::deliver::{Claimed, Delivered, deliver, deliver_due};
use jadpo_core::queue::{Batch, Body, Message};
use jadpo_core::receive::receive;
use jadpo_core::start::App;
use jadpo_host_test::{TestHost, run};

/// `due_at` of a delivery that has failed.
pub(crate) const NEVER_MS: i64 = jadpo_core::store::schema::NEVER_MS;

/// An app with one queue, one event and these subscribers, all reached by `call:`.
pub(crate) fn app(subscribers: &[&str]) -> App {
    let subscribers: Vec<String> = subscribers
        .iter()
        .map(|name| format!(r#""{name}":{{"on":"Moved","target":{{"call":"https://{name}.example.com/"}}}}"#))
        .collect();
    app_with(r#"{"record":[{"name":"n","type":"int"}]}"#, &subscribers.join(","))
}

/// An app whose event is of this type, with these subscribers as JSON.
pub(crate) fn app_with(event: &str, subscribers: &str) -> App {
    let program = format!(
        r#"{{"format":1,"app":"shop","connections":{{
            "moves":{{"driver":"cloudflare_queues","queue":"moves-q","dead_letter_queue":"moves-dead"}}}},
            "events":{{"Moved":{event}}},"receiving":{{"moves":{{"event":"Moved"}}}},
            "subscribers":{{{subscribers}}}}}"#
    );
    App::start(&program).unwrap()
}

/// A message that is the event.
pub(crate) fn message(host: &TestHost, n: usize) -> Message {
    text(host, &format!("m{n}"), &format!(r#"{{"n":{n}}}"#))
}

/// A message with this text.
pub(crate) fn text(host: &TestHost, id: &str, text: &str) -> Message {
    Message { id: id.to_owned(), sent_at_ms: host.time_ms(), attempts: 1, body: Body::Text(text.to_owned()) }
}

/// Receives messages from a queue.
pub(crate) fn receive_from(host: &TestHost, app: &App, queue: &str, messages: Vec<Message>) -> Vec<Claimed> {
    run(host, receive(host, app, Batch { queue: queue.to_owned(), messages })).claimed
}

/// Receives `count` good messages and gives the claimed deliveries.
pub(crate) fn receive_good(host: &TestHost, app: &App, count: usize) -> Vec<Claimed> {
    let messages = (0..count).map(|n| message(host, n)).collect();
    receive_from(host, app, "moves-q", messages)
}

/// Delivers what is claimed, with `time_ms` to do it in.
pub(crate) fn deliver_in(host: &TestHost, app: &App, claimed: Vec<Claimed>, time_ms: i64) -> Delivered {
    outcome(run(host, deliver(host, app, claimed, host.time_ms() + time_ms)))
}

/// Delivers what is due, with ten minutes to do it in.
pub(crate) fn deliver_what_is_due(host: &TestHost, app: &App) -> Delivered {
    outcome(run(host, deliver_due(host, app, host.time_ms() + 600_000)))
}

/// What became of deliveries, without what it cost.
pub(crate) fn outcome(delivered: Delivered) -> Delivered {
    Delivered { store_batches: 0, rows_written: 0, ..delivered }
}

/// Rows left in a table that meet a condition.
pub(crate) fn rows(host: &TestHost, table_and_condition: &str) -> i64 {
    host.count(&format!("SELECT count(*) FROM {table_and_condition}"))
}

/// One text of the store.
pub(crate) fn text_of(host: &TestHost, sql: &str) -> String {
    host.look(sql)[0].text(0).unwrap().to_owned()
}
