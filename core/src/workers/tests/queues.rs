//! Producers and consumers.

use expect_test::expect;

use super::super::{Consumer, Producer};
use super::{problems, warnings, with, worker};

#[test]
fn a_setting_of_zero_is_a_setting() {
    let text = with(
        r#""queues": { "consumers": [
            { "queue": "q", "max_batch_timeout": 0, "max_retries": 0, "retry_delay": 0 }, { "queue": "r" }] }"#,
    );
    let absent = Consumer {
        queue: "r".to_owned(),
        max_batch_size: None,
        max_batch_timeout_ms: None,
        max_retries: None,
        retry_delay_s: None,
        dead_letter_queue: None,
        max_concurrency: None,
    };
    let zeros = Consumer {
        queue: "q".to_owned(),
        max_batch_timeout_ms: Some(0),
        max_retries: Some(0),
        retry_delay_s: Some(0),
        ..absent.clone()
    };
    assert_eq!(worker(&text).consumers, [zeros, absent]);
}

#[test]
fn every_setting_at_its_most_is_taken_and_a_wait_may_have_a_fraction() {
    let text = with(
        r#""queues": { "consumers": [{ "queue": "q", "type": "worker", "max_batch_size": 1e2, "max_batch_timeout": 0.25,
            "max_retries": 100, "retry_delay": 86400, "dead_letter_queue": "d", "max_concurrency": 250 }] }"#,
    );
    let expected = Consumer {
        queue: "q".to_owned(),
        max_batch_size: Some(100),
        max_batch_timeout_ms: Some(250),
        max_retries: Some(100),
        retry_delay_s: Some(86_400),
        dead_letter_queue: Some("d".to_owned()),
        max_concurrency: Some(250),
    };
    assert_eq!(worker(&text).consumers, [expected]);
}

#[test]
fn every_setting_out_of_its_range_is_a_problem_of_its_own() {
    let text = with(
        r#""queues": { "producers": [{ "binding": "Q", "queue": "q", "delivery_delay": 86401 }], "consumers": [
            { "queue": "q", "max_batch_size": 0, "max_batch_timeout": 61, "max_retries": 101, "retry_delay": -1,
              "max_concurrency": 251 },
            { "queue": "r", "max_batch_size": 1.5, "max_concurrency": 0 }] }"#,
    );
    expect![[r#"
        queues.producers[0].delivery_delay @ 86401
          `queues.producers[0].delivery_delay` is 86401, and it takes a whole number from 0 to 86400
          help: write a whole number of seconds from 0 to 86400
        queues.consumers[0].max_batch_size @ 0
          `queues.consumers[0].max_batch_size` is 0, and it takes a whole number from 1 to 100
          help: write a whole number of messages from 1 to 100
        queues.consumers[0].max_batch_timeout @ 61
          `queues.consumers[0].max_batch_timeout` is 61, and it takes a number from 0 to 60
          help: write a number of seconds from 0 to 60
        queues.consumers[0].max_retries @ 101
          `queues.consumers[0].max_retries` is 101, and it takes a whole number from 0 to 100
          help: write a whole number of retries from 0 to 100
        queues.consumers[0].retry_delay @ -1
          `queues.consumers[0].retry_delay` is -1, and it takes a whole number from 0 to 86400
          help: write a whole number of seconds from 0 to 86400
        queues.consumers[0].max_concurrency @ 251
          `queues.consumers[0].max_concurrency` is 251, and it takes a whole number from 1 to 250
          help: write a whole number of batches side by side from 1 to 250
        queues.consumers[1].max_batch_size @ 1.5
          `queues.consumers[1].max_batch_size` is 1.5, and it takes a whole number from 1 to 100
          help: write a whole number of messages from 1 to 100
        queues.consumers[1].max_concurrency @ 0
          `queues.consumers[1].max_concurrency` is 0, and it takes a whole number from 1 to 250
          help: write a whole number of batches side by side from 1 to 250
    "#]]
    .assert_eq(&problems(&text, None));
}

#[test]
fn a_value_of_the_wrong_kind_is_one_problem_each() {
    let text = with(
        r#""queues": { "producers": ["jobs", { "queue": "q" }, { "binding": 1, "queue": "" }], "consumers": [
            {}, { "queue": 1 }, { "queue": "q", "max_batch_size": "10", "max_batch_timeout": null, "max_retries": "3",
            "dead_letter_queue": 5, "max_concurrency": "2", "visibility_timeout_ms": "1" }, null] }"#,
    );
    expect![[r#"
        queues.producers[0] @ "jobs"
          `queues.producers[0]` is a text, and it takes a table
          help: write `{ … }`, in TOML `[…]` and its keys under it
        queues.producers[1] @ { "queue": "q" }
          `queues.producers[1]` has no `binding`
          help: write what the Worker calls it: `"binding": "JOBS"` is `env.JOBS`
        queues.producers[2].binding @ 1
          `queues.producers[2].binding` is a number, and it takes a text
          help: write it in quotes
        queues.producers[2].queue @ ""
          `queues.producers[2].queue` is empty
          help: write the queue's name
        queues.consumers[0] @ {}
          `queues.consumers[0]` has no `queue`
          help: write the queue's name: `"queue": "jobs"`
        queues.consumers[1].queue @ 1
          `queues.consumers[1].queue` is a number, and it takes a text
          help: write it in quotes
        queues.consumers[2].max_batch_size @ "10"
          `queues.consumers[2].max_batch_size` is a text, and it takes a number
          help: write a number, without quotes; leave it out for the default
        queues.consumers[2].max_batch_timeout @ null
          `queues.consumers[2].max_batch_timeout` is null, and it takes a number
          help: write a number, without quotes; leave it out for the default
        queues.consumers[2].max_retries @ "3"
          `queues.consumers[2].max_retries` is a text, and it takes a number
          help: write a number, without quotes; leave it out for the default
        queues.consumers[2].dead_letter_queue @ 5
          `queues.consumers[2].dead_letter_queue` is a number, and it takes a text
          help: write it in quotes
        queues.consumers[2].max_concurrency @ "2"
          `queues.consumers[2].max_concurrency` is a text, and it takes a number
          help: write a number, without quotes; leave it out for the default
        queues.consumers[2].visibility_timeout_ms @ "1"
          `queues.consumers[2].visibility_timeout_ms` is a text, and it takes a number
          help: write a number, without quotes; leave it out for the default
        queues.consumers[3] @ null
          `queues.consumers[3]` is null, and it takes a table
          help: write `{ … }`, in TOML `[…]` and its keys under it
    "#]]
    .assert_eq(&problems(&text, None));
    for (queues, expected) in [
        (
            r#""queues": []"#,
            expect![[r#"
            queues @ []
              `queues` is a list, and it takes a table
              help: write `{ … }`, in TOML `[…]` and its keys under it
        "#]],
        ),
        (
            r#""queues": { "consumers": null, "producers": "jobs" }"#,
            expect![[r#"
            queues.consumers @ null
              `queues.consumers` is null, and it takes a list
              help: write `[…]`, in TOML `[[…]]` for tables
            queues.producers @ "jobs"
              `queues.producers` is a text, and it takes a list
              help: write `[…]`, in TOML `[[…]]` for tables
        "#]],
        ),
    ] {
        expected.assert_eq(&problems(&with(queues), None));
    }
}

#[test]
fn a_key_that_is_not_known_is_refused_with_what_was_probably_meant() {
    let text = with(
        r#""queues": { "consumer": [], "producers": [{ "binding": "Q", "queue": "q", "delay": 5 }],
            "consumers": [{ "queue": "q", "max_batchsize": 5, "script_name": "other" }] }"#,
    );
    expect![[r#"
        queues.consumer @ "consumer"
          `queues` takes no `consumer`
          help: did you mean `consumers`?
        queues.producers[0].delay @ "delay"
          `queues.producers[0]` takes no `delay`
          help: it takes binding, queue, delivery_delay, remote
        queues.consumers[0].max_batchsize @ "max_batchsize"
          `queues.consumers[0]` takes no `max_batchsize`
          help: did you mean `max_batch_size`?
        queues.consumers[0].script_name @ "script_name"
          `queues.consumers[0]` takes no `script_name`
          help: it takes queue, type, max_batch_size, max_batch_timeout, max_retries, dead_letter_queue, max_concurrency, visibility_timeout_ms, retry_delay
    "#]].assert_eq(&problems(&text, None));
}

#[test]
fn pulling_is_configured_elsewhere() {
    let text =
        with(r#""queues": { "consumers": [{ "queue": "q", "type": "http_pull" }, { "queue": "r", "type": "x" }] }"#);
    expect![[r#"
        queues.consumers[0].type @ "http_pull"
          `queues.consumers[0].type` is "http_pull": a Wrangler file cannot configure pulling
          help: leave the entry out, and make the queue a pulled one by Wrangler's `queues consumer http add`, at Cloudflare or at jadpo
        queues.consumers[1].type @ "x"
          `queues.consumers[1].type` is `x`, and only a Worker consumes here
          help: leave it out, or write "worker"
    "#]].assert_eq(&problems(&text, None));
}

#[test]
fn a_queue_is_consumed_once_and_is_not_its_own_dead_letter_queue() {
    let text = with(
        r#""queues": { "consumers": [{ "queue": "q", "dead_letter_queue": "q" }, { "queue": "r" }, { "queue": "r" }] }"#,
    );
    expect![[r#"
        queues.consumers[0].dead_letter_queue @ "q"
          the queue `q` is its own dead-letter queue
          help: name another queue: `"dead_letter_queue": "q-dead"`
        queues.consumers[2] @ { "queue": "r" }
          `queues.consumers[1]` and `queues.consumers[2]` both consume the queue `r`
          help: leave one of them out: a queue has one consumer
    "#]]
    .assert_eq(&problems(&text, None));
    let circle = with(
        r#""queues": { "consumers": [{ "queue": "a", "dead_letter_queue": "b" }, { "queue": "b", "dead_letter_queue": "a" }] }"#,
    );
    assert_eq!(worker(&circle).consumers.len(), 2);
}

#[test]
fn a_name_that_the_broker_does_not_take_is_refused_with_one_that_it_does() {
    let text = with(
        r#""queues": { "producers": [{ "binding": "A", "queue": "my/ Queue" }, { "binding": "B", "queue": "-" },
            { "binding": "C", "queue": "snow☃" }], "consumers": [{ "queue": "a_b", "dead_letter_queue": "Jobs" }] }"#,
    );
    expect![[r#"
        queues.producers[0].queue @ "my/ Queue"
          `my/ Queue` is no queue's name: it has capitals
          help: write "my-queue": a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
        queues.producers[1].queue @ "-"
          `-` is no queue's name: it has a dash at an end
          help: a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
        queues.producers[2].queue @ "snow☃"
          `snow☃` is no queue's name: it has characters other than letters, digits and dashes
          help: write "snow": a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
        queues.consumers[0].queue @ "a_b"
          `a_b` is no queue's name: it has characters other than letters, digits and dashes
          help: write "a-b": a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
        queues.consumers[0].dead_letter_queue @ "Jobs"
          `Jobs` is no queue's name: it has capitals
          help: write "jobs": a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
    "#]].assert_eq(&problems(&text, None));
    let long = "q".repeat(64);
    assert!(
        problems(&with(&format!(r#""queues": {{ "consumers": [{{ "queue": "{long}" }}] }}"#)), None).contains("63")
    );
}

#[test]
fn a_producer_that_names_no_queue_has_the_one_that_wrangler_would_make() {
    let text = with(r#""queues": { "producers": [{ "binding": "MY_JOBS" }] }"#);
    let expected = Producer { binding: "MY_JOBS".to_owned(), queue: "w-my-jobs".to_owned(), delivery_delay_s: None };
    assert_eq!(worker(&text).producers, [expected]);
    let text = with(r#""queues": { "producers": [{ "binding": "Ünder" }] }"#);
    expect![[r#"
        queues.producers[0] @ { "binding": "Ünder" }
          `queues.producers[0]` names no queue, and `w-ünder`, which is made of its binding, has characters other than letters, digits and dashes
          help: write the queue's name: `"queue": "jobs"`
    "#]].assert_eq(&problems(&text, None));
}

#[test]
fn what_has_no_effect_at_cloudflare_or_here_is_said() {
    let text = with(
        r#""queues": { "producers": [{ "binding": "Q", "queue": "q", "delivery_delay": 5, "remote": true }],
            "consumers": [{ "queue": "q", "visibility_timeout_ms": 1000 }] }"#,
    );
    expect![[r#"
        queues.producers[0].delivery_delay @ 5
          `queues.producers[0].delivery_delay` delays here, and has no effect at Cloudflare
          help: set it for the queue, where it holds for whoever sends: Wrangler's `queues update`
        queues.producers[0].remote @ true
          `queues.producers[0].remote` does nothing: the queue is jadpo's own
          help: leave it out
        queues.consumers[0].visibility_timeout_ms @ 1000
          `queues.consumers[0].visibility_timeout_ms` does nothing: only pulled queues have it
          help: leave it out
    "#]]
    .assert_eq(&warnings(&text, None));
    assert_eq!(worker(&text).producers[0].delivery_delay_s, Some(5));
}
