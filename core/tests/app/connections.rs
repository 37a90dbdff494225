use expect_test::expect;

use crate::check_in_app;

/// A connection of the pushing driver with these lines beside its driver, received as JSON.
fn pushed(lines: &str) -> String {
    format!("connections: {{\n  stock: {{\n    driver: Driver.cloudflare_queues\n{lines}\n  }}\n}}\n{RECEIVED}")
}

const RECEIVED: &str =
    "events: { E: Json }\nreceiving: { stock: { event: E } }\nsubscribers: { s: { on: E, run: f } }\n";

#[test]
fn a_connection_with_both_queues_written_out_is_right() {
    check_in_app(&pushed("    queue: \"stock\"\n    dead_letter_queue: \"stock-dead\""), expect![""]);
}

#[test]
fn both_queues_are_required() {
    check_in_app(
        &pushed(""),
        expect![[r#"
        3:3-8 connection.key_missing: connection `stock` has no `queue:`
            add a line to it: `queue: "warehouse-events"`
        3:3-8 connection.key_missing: connection `stock` has no `dead_letter_queue:`
            add a line to it: `dead_letter_queue: "warehouse-events-dead"`
    "#]],
    );
    check_in_app(
        &pushed("    queue: \"stock\""),
        expect![[r#"
        3:3-8 connection.key_missing: connection `stock` has no `dead_letter_queue:`
            add a line to it: `dead_letter_queue: "warehouse-events-dead"`
    "#]],
    );
    check_in_app(
        &pushed("    dead_letter_queue: \"stock-dead\""),
        expect![[r#"
        3:3-8 connection.key_missing: connection `stock` has no `queue:`
            add a line to it: `queue: "warehouse-events"`
    "#]],
    );
}

#[test]
fn neither_queue_comes_from_the_environment() {
    check_in_app(
        &pushed("    queue: env(\"QUEUE\")\n    dead_letter_queue: env(\"DEAD\")"),
        expect![[r#"
        5:12-24 connection.value_invalid: `queue` is read from the environment, and it must be written out
            write the queue's name: `queue: "warehouse-events"`; the consumer is written into the Wrangler file when the app is built
        6:24-35 connection.value_invalid: `dead_letter_queue` is read from the environment, and it must be written out
            write the queue's name: `dead_letter_queue: "warehouse-events"`; the consumer is written into the Wrangler file when the app is built
    "#]],
    );
}

#[test]
fn the_character_that_a_queue_name_may_not_have_is_pointed_at() {
    check_in_app(
        &pushed("    queue: \"stock_moved\"\n    dead_letter_queue: \"stock Dead\""),
        expect![[r#"
            5:18-19 connection.value_invalid: `stock_moved` is no queue name: `_` at place 6 is not allowed
                write `"stock-moved"`; a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
            6:30-31 connection.value_invalid: `stock Dead` is no queue name: the space at place 6 is not allowed
                write `"stock-dead"`; a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
        "#]],
    );
    check_in_app(
        &pushed("    queue: \"stock-é\"\n    dead_letter_queue: \"Stock\""),
        expect![[r#"
            5:19-20 connection.value_invalid: `stock-é` is no queue name: `é` at place 7 is not allowed
                write `"stock"`; a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
            6:25-26 connection.value_invalid: `Stock` is no queue name: the capital letter `S` at place 1 is not allowed
                write `"stock"`; a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
        "#]],
    );
    check_in_app(
        &pushed("    queue: \"-stock\"\n    dead_letter_queue: \"stock-\""),
        expect![[r#"
            5:13-14 connection.value_invalid: `-stock` is no queue name: it starts with a dash
                write `"stock"`; a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
            6:30-31 connection.value_invalid: `stock-` is no queue name: it ends with a dash
                write `"stock"`; a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
        "#]],
    );
    check_in_app(
        &pushed("    queue: \"\"\n    dead_letter_queue: \"-\""),
        expect![[r#"
        5:12-14 connection.value_invalid: `` is no queue name: it is empty
            a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
        6:25-26 connection.value_invalid: `-` is no queue name: it starts with a dash
            a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
    "#]],
    );
    check_in_app(
        &pushed("    queue: \"a\\u{5f}b\"\n    dead_letter_queue: \"a\\nb\""),
        expect![[r#"
            5:12-22 connection.value_invalid: `a_b` is no queue name: `_` at place 2 is not allowed
                write `"a-b"`; a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
            6:24-30 connection.value_invalid: `a\nb` is no queue name: `\n` at place 2 is not allowed
                write `"a-b"`; a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
        "#]],
    );
}

#[test]
fn a_queue_name_has_63_characters_at_most() {
    let name = |len: usize| "q".repeat(len);
    let lines = |queue: &str| format!("    queue: \"{queue}\"\n    dead_letter_queue: \"dead\"");
    check_in_app(&pushed(&lines(&name(63))), expect![]);
    check_in_app(
        &pushed(&lines(&name(64))),
        expect![[r#"
        5:12-78 connection.value_invalid: `qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq…` is no queue name: it has 64 characters, and 63 are the most
            a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
    "#]],
    );
    check_in_app(&pushed(&lines("7")), expect![]);
}

#[test]
fn a_queue_is_not_its_own_dead_letter_queue() {
    check_in_app(
        &pushed("    queue: \"stock\"\n    dead_letter_queue: \"stock\""),
        expect![[r#"
        6:24-31 connection.value_invalid: `stock` is connection `stock`'s queue and its own dead-letter queue
            write another name: `dead_letter_queue: "stock-dead"`
    "#]],
    );
}

#[test]
fn keys_that_the_pushing_driver_does_not_take_are_refused_with_why() {
    let lines = "    queue: \"stock\"\n    dead_letter_queue: \"dead\"\n    domains: []\n    max_retries: 3\n    \
                 deadletter_queue: \"x\"\n    token: env(\"T\")\n    colour: 1";
    check_in_app(
        &pushed(lines),
        expect![[r#"
        7:5-12 connection.key_invalid: connection `stock` takes no `domains`
            remove it: this driver reaches no host, since Cloudflare pushes the messages to the Worker
        8:5-16 connection.key_invalid: connection `stock` takes no `max_retries`
            the consumer's settings are the same for every app, and `jadpo build` writes them
        9:5-21 connection.key_invalid: connection `stock` takes no `deadletter_queue`
            it takes driver, queue, dead_letter_queue
        10:5-10 connection.key_invalid: connection `stock` takes no `token`
            remove it: Cloudflare pushes the messages, so no token is needed
        11:5-11 connection.key_invalid: connection `stock` takes no `colour`
            it takes driver, queue, dead_letter_queue
    "#]],
    );
}

#[test]
fn a_queue_has_one_connection() {
    let source = r#"connections: {
  a: { driver: Driver.cloudflare_queues, queue: "one", dead_letter_queue: "dead" }
  b: { driver: Driver.cloudflare_queues, queue: "one", dead_letter_queue: "dead-b" }
  c: { driver: Driver.cloudflare_queues, queue: "three", dead_letter_queue: "dead" }
  d: { driver: Driver.cloudflare_queues, queue: "dead", dead_letter_queue: "three" }
  e: { driver: Driver.cloudflare_pull, account: env("A"), queue: "dead-b", token: env("T") }
}
"#;
    check_in_app(
        source,
        expect![[r#"
        4:49-54 connection.value_invalid: `one` is already connection `a`'s queue
            a queue has one consumer, and dead-letter queues are consumed too: give `b` a queue of its own
        5:77-83 connection.value_invalid: `dead` is already connection `a`'s dead-letter queue
            a queue has one consumer, and dead-letter queues are consumed too: give `c` a dead-letter queue of its own
        6:49-55 connection.value_invalid: `dead` is already connection `a`'s dead-letter queue
            a queue has one consumer, and dead-letter queues are consumed too: give `d` a queue of its own
        6:76-83 connection.value_invalid: `three` is already connection `c`'s queue
            a queue has one consumer, and dead-letter queues are consumed too: give `d` a dead-letter queue of its own
        7:66-74 connection.value_invalid: `dead-b` is already connection `b`'s dead-letter queue
            a queue has one consumer, and dead-letter queues are consumed too: give `e` a queue of its own
    "#]],
    );
}

#[test]
fn a_queue_that_is_local_or_pulled_has_one_connection_too() {
    let source = r#"connections: {
  a: { driver: Driver.cloudflare_queues, queue: "jobs", dead_letter_queue: "dead" }
  b: { driver: Driver.local_queue, queue: "jobs" }
  c: { driver: Driver.local_queue, queue: "jobs" }
  d: { driver: Driver.cloudflare_pull, account: env("A"), queue_id: "5e1b9969eb974d8c99c48d19df104c7a", token: env("T") }
  e: { driver: Driver.cloudflare_pull, account: env("B"), queue_id: "5E1B9969EB974D8C99C48D19DF104C7A", token: env("T") }
}
events: { E: Json }
receiving: { a: { event: E }, b: { event: E }, c: { event: E }, d: { event: E }, e: { event: E } }
subscribers: { s: { on: E, run: f } }
"#;
    check_in_app(
        source,
        expect![[r#"
            4:43-49 connection.value_invalid: `jobs` is already connection `a`'s queue
                no two connections name one queue: use `a` or name another queue for `b`
            5:43-49 connection.value_invalid: `jobs` is already connection `a`'s queue
                no two connections name one queue: use `a` or name another queue for `c`
            7:69-103 connection.value_invalid: `5E1B9969EB974D8C99C48D19DF104C7A` is already connection `d`'s queue
                no two connections name one queue: use `d` or name another queue for `e`
        "#]],
    );
}

#[test]
fn a_driver_is_named_with_its_family() {
    let source = "connections: {\n  a: { driver: Driver.cloudflare_queue }\n  b: { driver: local_queue }\n  \
                  c: { driver: \"local_queue\" }\n  d: { driver: Driver.kafka }\n  e: {}\n  f: \"queue\"\n}\n";
    check_in_app(
        source,
        expect![[r#"
        3:16-39 connection.name_unknown: there is no `Driver.cloudflare_queue`
            did you mean `Driver.cloudflare_queues`?
        4:16-27 connection.name_unknown: there is no `local_queue`
            did you mean `Driver.local_queue`?
        5:16-29 connection.value_invalid: `driver` takes a Driver, and this is a text
            write one of Driver.cloudflare_queues, Driver.cloudflare_pull, Driver.local_queue
        6:16-28 connection.name_unknown: there is no `Driver.kafka`
            write one of Driver.cloudflare_queues, Driver.cloudflare_pull, Driver.local_queue
        7:3-4 connection.key_missing: connection `e` has no `driver:`
            add a line to it: `driver: Driver.cloudflare_queues`
        8:6-13 connection.value_invalid: `f` takes a block, and this is a text
            write `f: { driver: Driver.cloudflare_queues, … }`
    "#]],
    );
}

#[test]
fn the_pull_driver_needs_an_account_a_token_and_one_queue() {
    check_in_app(
        "connections: {\n  a: { driver: Driver.cloudflare_pull }\n}\n",
        expect![[r#"
        3:3-4 connection.key_missing: connection `a` has no `account:`
            add a line to it: `account: env("CF_ACCOUNT_ID")`
        3:3-4 connection.key_missing: connection `a` has no `token:`
            add a line to it: `token: env("CF_QUEUES_TOKEN")`
        3:3-4 connection.key_missing: connection `a` has no `queue_id:` and no `queue:`
            add a line to it: `queue_id: "5e1b9969eb974d8c99c48d19df104c7a"`, or `queue:` with its name
    "#]],
    );
    let both = r#"connections: {
  a: { driver: Driver.cloudflare_pull, account: "0123", queue: "q", queue_id: "5e1b", token: "secret" }
}
"#;
    check_in_app(
        both,
        expect![[r#"
            3:57-62 connection.key_invalid: connection `a` names its queue twice
                remove `queue:` or `queue_id:`; the id needs no look-up at start
            3:94-102 connection.value_invalid: a secret is never written in the app file
                write `env("CF_QUEUES_TOKEN")` and set CF_QUEUES_TOKEN where the app runs
        "#]],
    );
}

#[test]
fn the_pull_driver_s_values_have_their_ranges() {
    let source = r#"connections: {
  a: {
    driver: Driver.cloudflare_pull
    account: "a b"
    queue_id: "5e1b9969eb974d8c99c48d19df104c7g"
    token: env("CF-TOKEN")
    batch_size: 101
    visibility: 13h
    base_url: "http://queues.example.com/api"
  }
  b: {
    driver: Driver.cloudflare_pull
    account: env("A")
    queue_id: "5e1b"
    token: env()
    batch_size: 10s
    visibility: 30
    domains: ["https://api.cloudflare.com/client", "API.cloudflare.com", 7]
    dead_letter_queue: "x"
  }
  c: {
    driver: Driver.cloudflare_pull
    account: env("A")
    queue: "stock"
    token: env("DB")
    visibility: 999ms
    domains: ["example.com"]
  }
}
"#;
    check_in_app(
        source,
        expect![[r#"
            5:14-19 connection.value_invalid: `a b` is no account id
                an account's id has 32 hex digits; the dashboard and `wrangler whoami` show it
            6:47-48 connection.value_invalid: `5e1b9969eb974d8c99c48d19df104c7g` is no queue id: `g` at place 32 is not a hex digit
                `wrangler queues info NAME` shows a queue's id
            7:12-27 connection.value_invalid: env() takes one name of an environment variable, in quotes
                write `env("CF_QUEUES_TOKEN")`: letters, digits and underscores, in quotes
            10:15-46 connection.value_invalid: `http://queues.example.com/api` does not end in `/client/v4`
                write an address like `https://queues.example.com/client/v4`
            15:15-21 connection.value_invalid: `5e1b` is no queue id: an id has 32 hex digits, and this has 4
                `wrangler queues info NAME` shows a queue's id
            16:12-17 connection.value_invalid: env() takes one name of an environment variable, in quotes
                write `env("CF_QUEUES_TOKEN")`: letters, digits and underscores, in quotes
            17:17-20 connection.value_invalid: `batch_size` takes a number, and this is a duration
                write a whole number from 1 to 100: `batch_size: 1`
            18:17-19 connection.value_invalid: `visibility` takes a duration, and this is a number
                say the unit: `visibility: 30s` is 30 seconds
            19:15-50 connection.value_invalid: `https://api.cloudflare.com/client` is no host: a host has no scheme and no path
                write `"api.cloudflare.com"`; a domain is a host, with a port when it is not the usual one
            19:52-72 connection.value_invalid: `API.cloudflare.com` is no host: it is not a host's name in lowercase, like `api.cloudflare.com`
                a domain is a host, with a port when it is not the usual one
            19:74-75 connection.value_invalid: `domains` takes a text, and this is a number
                write a text in double quotes, like `"…"`
            20:5-22 connection.key_invalid: connection `b` takes no `dead_letter_queue`
                set it on the pull consumer: `wrangler queues consumer http add QUEUE --dead-letter-queue NAME`
            26:16-20 connection.value_invalid: `DB` is taken: a Worker's own binding has that name
                use another name
            27:17-22 connection.value_invalid: `visibility` is out of range
                write a duration from 1s to 12h
            28:14-29 connection.value_invalid: `domains` does not allow `api.cloudflare.com`, which this connection reaches
                add it: `domains: ["api.cloudflare.com"]`
        "#]],
    );
}

#[test]
fn a_token_over_plain_http_to_another_machine_is_noted() {
    let source = r#"connections: {
  a: { driver: Driver.cloudflare_pull, account: env("A"), queue: "a", token: env("T"), base_url: "http://10.0.0.7:8787/client/v4" }
  b: { driver: Driver.cloudflare_pull, account: env("A"), queue: "b", token: env("T"), base_url: "http://127.0.0.1:8787/client/v4" }
}
events: { E: Json }
receiving: { a: { event: E }, b: { event: E } }
subscribers: { s: { on: E, run: f } }
"#;
    check_in_app(
        source,
        expect![[r#"
        3:98-130 note.plain_http: the token travels over http:// to another machine
            use https://
    "#]],
    );
}

#[test]
fn a_local_queue_names_functions_that_exist_once_each() {
    let source = r#"connections: {
  a: { driver: Driver.local_queue, queue: "Jobs", functions: [pay, pai, pay, "pay"], max_receives: 0, visibility: 1d }
  b: { driver: Driver.local_queue, queue: "b", functions: pay, dead_letter_queue: "x" }
}
functions: { pay: { run: pay } }
"#;
    check_in_app(
        source,
        expect![[r#"
            3:44-45 connection.value_invalid: `Jobs` is no local queue's name: the capital letter `J` at place 1 is not allowed
                write `"jobs"`; a local queue's name is 1 to 58 lowercase letters, digits and dashes, with a letter or digit at both ends, and does not start with `schedule-`
            3:68-71 connection.name_unknown: there is no function `pai`
                did you mean `pay`?
            3:73-76 connection.value_invalid: function `pay` is named twice, and it gets every message once
                remove one of them
            3:78-83 connection.value_invalid: `functions` takes the name of a function, and this is a text
                write it without quotes: `pay`
            3:100-101 connection.value_invalid: `max_receives` is 0, which is out of range
                write a number from 1 to 101
            3:115-117 connection.value_invalid: `visibility` is out of range
                write a duration from 1s to 12h
            4:59-62 connection.value_invalid: `functions` takes a list, and this is a name
                write `functions: [handle_payment]`
            4:64-81 connection.key_invalid: connection `b` takes no `dead_letter_queue`
                remove it: a local queue has its own dead letters; see `jadpo queues dead-letters`
        "#]],
    );
}
