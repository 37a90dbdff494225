//! Environments.

use expect_test::expect;

use super::{given, problems, warnings, with};

const FILE: &str = r#""no_bundle": true, "triggers": { "crons": ["* * * * *"] }, "vars": { "A": "1", "B": { "c": [1] } },
    "queues": { "consumers": [{ "queue": "q" }] },
    "env": {
        "staging": { "vars": { "A": "2" }, "main": "s.js" },
        "named": { "name": "other", "triggers": { "crons": [] }, "queues": {}, "vars": {} }
    }"#;

#[test]
fn without_a_name_the_top_level_is_the_worker() {
    for environment in [None, Some("")] {
        let worker = given(&with(FILE), environment).worker;
        assert_eq!((worker.name.as_str(), worker.code.main.as_str(), worker.environment), ("w", "w.js", None));
        assert_eq!(worker.consumers.len(), 1);
    }
}

#[test]
fn an_environment_has_some_keys_of_the_top_level_and_not_its_bindings() {
    let worker = given(&with(FILE), Some("staging")).worker;
    assert_eq!((worker.name.as_str(), worker.code.main.as_str()), ("w-staging", "s.js"));
    assert_eq!(worker.environment.as_deref(), Some("staging"));
    assert!(worker.code.no_bundle);
    assert_eq!(worker.crons, ["* * * * *"]);
    assert_eq!(worker.vars.keys().collect::<Vec<_>>(), ["A"]);
    assert!(worker.consumers.is_empty());
    expect![[r#"
        queues @ { "consumers": [{ "queue": "q" }] }
          the environment `staging` does not have `queues` of the top level
          help: write `queues` into `env.staging` too: it is not inherited
    "#]]
    .assert_eq(&warnings(&with(FILE), Some("staging")));
}

#[test]
fn an_environment_may_have_a_name_of_its_own_and_no_crons() {
    let worker = given(&with(FILE), Some("named")).worker;
    assert_eq!((worker.name.as_str(), worker.crons.len()), ("other", 0));
}

#[test]
fn an_environment_that_the_file_has_not_is_refused() {
    expect![[r#"
        env @ {
                "staging": { "vars": { "A": "2" }, "main": "s.js" },
                "named": { "name": "other", "triggers": { "crons": [] }, "queues": {}, "vars": {} }
            }
          the file has no environment `stagng`
          help: did you mean `staging`?
    "#]]
    .assert_eq(&problems(&with(FILE), Some("stagng")));
    expect![[r#"
        env @ {
                "staging": { "vars": { "A": "2" }, "main": "s.js" },
                "named": { "name": "other", "triggers": { "crons": [] }, "queues": {}, "vars": {} }
            }
          the file has no environment `production`
          help: it has `staging`, `named`
    "#]]
    .assert_eq(&problems(&with(FILE), Some("production")));
}

#[test]
fn a_file_without_environments_is_taken_under_another_name() {
    let text = with(r#""queues": { "consumers": [{ "queue": "q" }] }"#);
    let worker = given(&text, Some("test")).worker;
    assert_eq!((worker.name.as_str(), worker.consumers.len()), ("w-test", 1));
    expect![[r#"
        env @ -
          the file has no environments, so `test` is all of it under another name
          help: write `env.test`, with what is different there
    "#]]
    .assert_eq(&warnings(&text, Some("test")));
}

#[test]
fn what_wrangler_refuses_at_the_top_is_refused_for_an_environment_too_and_what_only_we_refuse_is_not() {
    let text = with(
        r#""queues": { "consumers": [{ "queue": 5, "typo": 1, "max_retries": 500 }] }, "kv_namespaces": [{ "binding": "K" }],
        "env": { "e": { "queues": {}, "kv_namespaces": [] } }"#,
    );
    expect![[r#"
        queues.consumers[0].queue @ 5
          `queues.consumers[0].queue` is a number, and it takes a text
          help: write it in quotes
    "#]]
    .assert_eq(&problems(&text, Some("e")));
}

#[test]
fn an_environments_problems_are_found_under_its_path_and_those_of_others_are_not() {
    let text = with(
        r#""env": { "e": { "queues": { "consumers": [{ "queue": "q", "max_retries": 500 }] }, "kv_namespaces": [{}] },
        "f": { "queues": 5 } }"#,
    );
    expect![[r#"
        env.e.queues.consumers[0].max_retries @ 500
          `env.e.queues.consumers[0].max_retries` is 500, and it takes a whole number from 0 to 100
          help: write a whole number of retries from 0 to 100
        env.e.kv_namespaces @ [{}]
          jadpo has no KV namespaces: `env.e.kv_namespaces`
          help: keep the data in a D1 database or a Durable Object, which jadpo has, or leave the binding out of the environment that runs here (`--env`)
    "#]].assert_eq(&problems(&text, Some("e")));
}
