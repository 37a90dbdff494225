//! Lease ids and the references of messages: only what was given out is taken.

use jadpo_core::broker::{Peek, Take};
use jadpo_host_test::{TestServer, text};

use crate::document::fuzz_with;

const APP: &str = r#"app: "shop"
connections: { jobs: { driver: Driver.local_queue, queue: "jobs" } }"#;

#[test]
fn lease() {
    let server = TestServer::of(APP);
    server.send("jobs", text("one"));
    let (key, lease, reference) = server.on_queues(|broker, sql, moment| {
        let peeked = broker.peek(sql, moment, "jobs", Peek { max: 1, after: None })?;
        let taken = broker.take(sql, moment, "jobs", Take { max: 1, visibility_ms: None })?;
        Ok((broker.lease_key(), taken.messages[0].lease, peeked[0].reference))
    });
    let (id, name) = (key.seal(&lease), key.seal_ref(&reference));
    assert_eq!((key.open(&id), key.open_ref(&name)), (Some(lease), Some(reference)));
    let given_out = [id, name];
    fuzz_with("lease", &given_out, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let opened = (key.open(&text), key.open_ref(&text));
        let right =
            ((text == given_out[0].as_str()).then_some(lease), (text == given_out[1].as_str()).then_some(reference));
        assert_eq!(opened, right, "nobody makes an id, and none has a second form");
    });
}
