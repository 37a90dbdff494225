//! A local queue that is received, on a real store: what its messages become, and where they are afterwards.

use jadpo::host::NativeHost;
use jadpo_core::app;
use jadpo_core::broker::{Content, NewBatch, NewMessage, Reason, Take, Taken};
use jadpo_core::queue::Answer;
use jadpo_core::receive::receive;
use jadpo_core::start::App;
use jadpo_core::trigger::{self, Triggers};

use crate::Fixture;

const APP: &str = r#"
app: "shop"
connections: { stock: { driver: Driver.local_queue, queue: "stock" } }
events: { StockMoved: { sku: Text } }
receiving: { stock: { event: StockMoved, id: "sku" } }
subscribers: { s: { on: StockMoved, run: s } }
"#;

async fn declared() -> (Fixture, App) {
    let fixture = Fixture::new().await;
    let app = App::new(app::compile(APP).program.unwrap());
    for declared in Triggers::of(&app.program).declared() {
        let (dead, settings) = declared.dead_letters();
        fixture.broker.create(&dead, settings).await.unwrap();
        fixture.broker.create(&declared.queue, declared.settings.clone()).await.unwrap();
    }
    (fixture, app)
}

async fn send(fixture: &Fixture, messages: &[(Content, &str)]) {
    let message = |(content, body): &(Content, &str)| NewMessage {
        content: *content,
        body: body.as_bytes().to_vec(),
        delay_s: None,
        meta: None,
    };
    let messages = messages.iter().map(message).collect();
    fixture.broker.send("stock", NewBatch { messages, delay_s: None }).await.unwrap();
}

async fn take(fixture: &Fixture) -> Vec<Taken> {
    fixture.broker.take("stock", Take { max: 100, visibility_ms: None }).await.unwrap().messages
}

#[tokio::test]
async fn every_message_is_kept_parked_or_a_repeat_and_the_queue_is_empty_after_it() {
    let (fixture, app) = declared().await;
    let right = r#"{"sku":"a"}"#;
    let messages = [
        (Content::Json, right),
        (Content::Json, right),
        (Content::Text, r#"{"sku":"b"}"#),
        (Content::Json, r#""{\"sku\":\"c\"}""#),
        (Content::Text, ""),
        (Content::Bytes, "\u{0}"),
    ];
    send(&fixture, &messages).await;
    let host = NativeHost::new(fixture.store.handle());
    let taken = take(&fixture).await;
    let received = receive(&host, &app, trigger::batch("stock", &taken)).await;
    assert_eq!(received.answers, vec![Answer::Ack; 6]);
    let tally = &received.tally;
    assert_eq!((tally.kept, tally.repeats), (2, 1));
    // A string that looks like the event is a string.
    assert_eq!(
        tally.parked.iter().map(|(reason, count)| (*reason, *count)).collect::<Vec<_>>(),
        [("rejected", 1), ("unreadable", 2)]
    );
    let settled = fixture.broker.settle("stock", trigger::settle(&taken, &received.answers)).await.unwrap();
    assert_eq!((settled.acked, settled.retried, settled.warnings.len()), (6, 0, 0));
    assert_eq!(fixture.broker.metrics("stock").await.unwrap().messages, 0);
}

#[tokio::test]
async fn an_answer_goes_to_the_message_that_it_is_for_and_what_has_none_keeps_its_lease() {
    let (fixture, _app) = declared().await;
    send(&fixture, &[(Content::Text, "one"), (Content::Text, "two"), (Content::Text, "three")]).await;
    let taken = take(&fixture).await;
    let settle = trigger::settle(&taken, &[Answer::Ack, Answer::Retry { delay_s: 20 }]);
    assert_eq!(settle.acks, [taken[0].lease]);
    let [retry] = settle.retries.as_slice() else { panic!("{settle:?}") };
    assert_eq!((retry.lease, retry.delay_ms, retry.reason), (taken[1].lease, Some(20_000), Reason::Retried));
    fixture.broker.settle("stock", settle).await.unwrap();
    let metrics = fixture.broker.metrics("stock").await.unwrap();
    assert_eq!((metrics.messages, metrics.delayed, metrics.in_flight), (2, 1, 1));
}
