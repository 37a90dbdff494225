//! Several Workers in one server.

use expect_test::expect;

use super::super::{Worker, conflicts, strangers};
use super::{said, with, worker};

fn named(name: &str, more: &str) -> Worker {
    Worker { name: name.to_owned(), ..worker(&with(more)) }
}

#[test]
fn workers_that_share_nothing_but_sends_and_dead_letters_live_beside_each_other() {
    let one = named(
        "one",
        r#""queues": { "producers": [{ "binding": "Q", "queue": "q" }], "consumers": [{ "queue": "a", "dead_letter_queue": "d" }] },
        "services": [{ "binding": "TWO", "service": "two" }, { "binding": "SELF", "service": "one" }],
        "durable_objects": { "bindings": [{ "name": "R", "class_name": "Room", "script_name": "two" }] }"#,
    );
    let two = named(
        "two",
        r#""queues": { "producers": [{ "binding": "Q", "queue": "q" }], "consumers": [{ "queue": "q", "dead_letter_queue": "d" }] },
        "exports": { "Room": { "type": "durable-object", "storage": "sqlite" } }"#,
    );
    let both = [one, two];
    assert_eq!(said("", &conflicts(&both)), "");
    assert_eq!(said("", &strangers(&both)), "");
}

#[test]
fn two_workers_on_one_queue_are_refused_by_the_queue_and_both_names() {
    let queues = r#""queues": { "consumers": [{ "queue": "other" }, { "queue": "mail" }] }"#;
    let workers =
        [named("one", &queues.replace("other", "a")), named("two", &queues.replace("other", "b")), named("two", "")];
    expect![[r#"
        queues.consumers[1].queue @ -
          the Workers `one` and `two` both consume the queue `mail`
          help: leave it out of one of them: a queue has one consumer
        name @ -
          two Workers are called `two`
          help: give one of them another name, or run it by another server
    "#]]
    .assert_eq(&said("", &conflicts(&workers)));
}

#[test]
fn a_class_or_a_worker_that_is_not_there_is_said() {
    let one = named(
        "one",
        r#""services": [{ "binding": "AUTH", "service": "auth" }], "durable_objects": { "bindings": [
            { "name": "A", "class_name": "A", "script_name": "gone" }, { "name": "B", "class_name": "B", "script_name": "two" }] }"#,
    );
    let workers = [one, named("two", "")];
    expect![[r#"
        durable_objects.bindings[0] @ -
          `env.A` of `one` is a class of the Worker `gone`, which is not among those that run
          help: run it too: `--worker PATH`
        durable_objects.bindings[1] @ -
          the Worker `two` has no class `B`, which `env.B` of `one` is
          help: write the class into its `migrations`
    "#]]
    .assert_eq(&said("", &conflicts(&workers)));
    expect![[r#"
        services[0].service @ -
          `env.AUTH` of `one` is the Worker `auth`, which is not among those that run
          help: run it too: `--worker PATH`
    "#]]
    .assert_eq(&said("", &strangers(&workers)));
}

#[test]
fn the_queue_of_cron_triggers_is_nobody_elses() {
    let crons = r#""triggers": { "crons": ["* * * * *"] }"#;
    let workers = [
        named("my_app", crons),
        named("my-app", crons),
        named("b", r#""queues": { "consumers": [{ "queue": "x", "dead_letter_queue": "my-app-cron" }] }"#),
    ];
    expect![[r#"
        name @ -
          the cron triggers of the Workers `my_app` and `my-app` would share the queue `my-app-cron`
          help: give one of them another name
        name @ -
          the cron triggers of the Workers `my_app` and `my-app` would share the queue `my-app-cron-dead`
          help: give one of them another name
        queues @ -
          the Worker `b` uses the queue `my-app-cron`, which is the one of the cron triggers of `my-app`
          help: give the queue another name
    "#]]
    .assert_eq(&said("", &conflicts(&workers)));
    let own = with(&format!(r#"{crons}, "queues": {{ "producers": [{{ "binding": "Q", "queue": "w-cron" }}] }}"#));
    expect![[r#"
        queues @ -
          the queue `w-cron` is the one that occurrences of this Worker's cron triggers go through
          help: give the queue another name
    "#]]
    .assert_eq(&super::problems(&own, None));
    let long = with(crons).replace("\"w\"", &format!("{:?}", "w".repeat(54)));
    expect![[r#"
        name @ -
          occurrences of the Worker's cron triggers would go to the queue `wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww-cron-…`, and that is longer than 63 characters
          help: give the Worker a shorter name
    "#]].assert_eq(&super::problems(&long, None));
}

#[test]
fn two_databases_are_never_one_file_and_an_ordinary_name_is_its_files() {
    let key = |name: &str| {
        let named = format!(r#""d1_databases": [{{ "binding": "D", "database_name": {name:?} }}]"#);
        super::given(&with(&named), None).worker.databases.remove(0).key()
    };
    let uuid = "0c5a4f1e-7d1b-4c6e-9a55-2f6b3c1d0e9f";
    for name in ["shop_data", "shop-2", uuid] {
        assert_eq!(key(name), name);
    }
    let changed = key("shop data");
    let (long, less) = ("x".repeat(3_000), "x".repeat(2_999));
    let names = ["shop data", "shop.data", "shop_data", "Shop_data", "äö", "öä", "..", &long, &less, &changed];
    let keys: std::collections::BTreeSet<String> = names.iter().map(|name| key(name).to_ascii_lowercase()).collect();
    assert_eq!(keys.len(), names.len());
    for key in &keys {
        assert!(key.len() <= 100 && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{key}");
    }
    assert!(changed.starts_with("shop_data-"), "{changed}");
}
