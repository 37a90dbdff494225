//! Functions that send to another queue.

use jadpo_core::broker::{Content, Settings, Take};
use jadpo_core::program::Target;
use jadpo_core::trigger::FunctionOutcome;

use crate::{Fixture, LONG, call, error};

#[tokio::test]
async fn a_message_is_sent_on_with_its_kind_its_bytes_and_what_was_kept_with_it() {
    let fixture = Fixture::new().await;
    fixture.broker.create("next", Settings::default()).await.unwrap();
    let mut call = call(Target::Send("next".to_owned()), b"\x00\xFF", LONG);
    call.content = Content::Bytes;
    call.meta = Some("kept".to_owned());
    assert_eq!(fixture.functions.call(call).await, FunctionOutcome::Returned(Ok(())));
    let batch = fixture.broker.take("next", Take { max: 10, visibility_ms: None }).await.unwrap();
    let [taken] = batch.messages.as_slice() else { panic!("{batch:?}") };
    let message = &taken.message;
    assert_eq!((message.content, message.body.as_slice()), (Content::Bytes, b"\x00\xFF".as_slice()));
    assert_eq!((message.meta.as_deref(), message.attempts), (Some("kept"), 1));
}

#[tokio::test]
async fn a_queue_that_is_not_there_or_refuses_is_a_failure_that_says_why() {
    let fixture = Fixture::new().await;
    let gone = fixture.call(Target::Send("gone".to_owned()), b"{}", LONG).await;
    assert_eq!(error(&gone), "it was not sent to gone: there is no queue `gone`");
    fixture.broker.create("next", Settings::default()).await.unwrap();
    let big = fixture.call(Target::Send("next".to_owned()), &vec![b'x'; 128_001], LONG).await;
    assert_eq!(error(&big), "it was not sent to next: message 1 has 128001 bytes; a message has at most 128000");
}
