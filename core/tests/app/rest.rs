use expect_test::expect;

use crate::{check, check_in_app};

#[test]
fn an_app_has_a_name_of_its_form() {
    check(
        "",
        expect![[r#"
        1:1-1 app.key_missing: the file is empty
            start it with a line like `app: "warehouse"`
    "#]],
    );
    check(
        "app: \"My App\"",
        expect![[r#"
            1:7-8 app.value_invalid: `My App` is no app name: the capital letter `M` at place 1 is not allowed
                write `"my-app"`; an app's name has lowercase letters, digits and dashes, and at most 63 of them
        "#]],
    );
    check(
        "app: 7",
        expect![[r#"
            1:6-7 app.value_invalid: `app` takes a text, and this is a number
                write a text in double quotes, like `"…"`
        "#]],
    );
    check(
        "app: shop",
        expect![[r#"
            1:6-10 app.value_invalid: `app` takes a text, and this is a name
                write it in double quotes: `"shop"`
        "#]],
    );
    check(
        "connections: [1]\nevents: 3\napp: \"a\"",
        expect![[r#"
        1:14-17 connection.value_invalid: `connections` takes a block, and this is a list
            write `connections: { NAME: … }`
        2:9-10 event.value_invalid: `events` takes a block, and this is a number
            write `events: { NAME: … }`
    "#]],
    );
}

#[test]
fn types_that_do_not_exist_are_named_with_what_was_meant() {
    let source = "events: {\n  A: { a: String, b: integer?, c: [Datetime], d: Txet, e: Bytes, f: 7, g: { h: Foo } }\n  \
                  B: Text?\n  C: []\n  D: [Text, Int]\n  E: \"Text\"\n  F: [Bytes]\n  G: Map(Text)\n  H: Bytes\n}\n";
    check_in_app(
        source,
        expect![[r#"
        3:11-17 event.name_unknown: there is no type `String`
            did you mean `Text`?
        3:22-29 event.name_unknown: there is no type `integer`
            did you mean `Int`?
        3:36-44 event.name_unknown: there is no type `Datetime`
            did you mean `Instant`?
        3:50-54 event.name_unknown: there is no type `Txet`
            did you mean `Text`?
        3:59-64 event.value_invalid: `Bytes` is the type of a whole body only: JSON has no bytes
            write `Text` for bytes in base64, or give the whole event the type: `Blob: Bytes`
        3:69-70 event.value_invalid: `f` takes a type, and this is a number
            write a type, like Text, Int?, [Text] or { sku: Text }
        3:80-83 event.name_unknown: there is no type `Foo`
            the types are Text, Int, Float, Bool, Instant, Uuid, Json, T?, [T] and { field: T }
        4:6-11 event.value_invalid: event `B` may not be optional: a message always has a body
            remove the `?`, or write `Json` for a body that may be null
        5:6-8 event.value_invalid: the list type of `C` names 0 types, and it takes one
            write `[T]`: a list of one type, like `[Text]`; `[Json]` holds anything
        6:6-17 event.value_invalid: the list type of `D` names 2 types, and it takes one
            write `[T]`: a list of one type, like `[Text]`; `[Json]` holds anything
        7:6-12 event.value_invalid: `E` takes a type, and this is a text
            write a type, like Text, Int?, [Text] or { sku: Text }
        8:7-12 event.value_invalid: `Bytes` is the type of a whole body only: JSON has no bytes
            write `Text` for bytes in base64, or give the whole event the type: `Blob: Bytes`
        9:6-15 event.value_invalid: `G` takes a type, and this is a call
            write a type, like Text, Int?, [Text] or { sku: Text }
    "#]],
    );
}

#[test]
fn a_field_s_name_may_be_any_json_key_in_quotes() {
    check_in_app(
        "events: { A: { \"@id\": Text, \"\": Int } }\n",
        expect![[r#"
        2:29-31 event.value_invalid: a field's name has 1 to 256 bytes, and this has 0
            write the JSON key
    "#]],
    );
    check_in_app(
        "events: { \"@id\": Text }\n",
        expect![[r#"
        2:11-16 syntax.name_invalid: `@id` is not a name
            names have at most 64 letters, digits and underscores, and start with a letter
    "#]],
    );
}

#[test]
fn receiving_names_a_connection_and_an_event_that_exist() {
    let source = r#"connections: {
  jobs: { driver: Driver.local_queue, queue: "jobs", functions: [f] }
  text: { driver: Driver.local_queue, queue: "text" }
  orders: { driver: Driver.local_queue, queue: "orders" }
  flags: { driver: Driver.local_queue, queue: "flags" }
}
functions: { f: { run: f } }
events: { Order: { id: Uuid?, tags: [Text] }, Note: Text }
receiving: {
  jobs: { event: Order }
  text: { event: Note, id: "id" }
  orders: { event: Order, id: "tags" }
  order: { event: Ordr }
  flags: { event: "Order", id: "", key: "x" }
  nothing: {}
}
subscribers: { s: { on: Order, run: f }, t: { on: Note, run: f } }
"#;
    check_in_app(
        source,
        expect![[r#"
            11:3-7 receiving.value_invalid: the messages of `jobs` already go to its functions
                remove `functions:` from the connection, or this entry
            12:28-32 receiving.value_invalid: this event's body has no keys, so none of them can be its id
                remove `id:`; the message's own id is used then
            13:31-37 receiving.value_invalid: `tags` cannot be an idempotency key
                name a field of type Text, Int or Uuid
            14:3-8 receiving.name_unknown: there is no connection `order`
                did you mean `orders`?
            14:19-23 receiving.name_unknown: there is no event `Ordr`
                did you mean `Order`?
            15:19-26 receiving.value_invalid: `event` takes the name of an event, and this is a text
                write it without quotes: `Order`
            15:32-34 receiving.value_invalid: `id` names no key of the body
                write the name of a key at the body's top: `id: "movement_id"`
            15:36-39 receiving.key_invalid: receiving entry `flags` takes no `key`
                it takes event, id
            16:3-10 receiving.name_unknown: there is no connection `nothing`
                declare it under `connections:`
            16:3-10 receiving.key_missing: receiving entry `nothing` has no `event:`
                add a line to it: `event: StockMoved`
        "#]],
    );
}

#[test]
fn a_subscriber_is_on_an_event_and_reached_in_one_way() {
    let source = r#"events: { Order: Json }
subscribers: {
  a: {}
  b: { on: Ordre, call: "https://example.com" }
  c: { on: Order, call: "https://example.com", run: c, service: "x" }
  d: { on: Order, exec: ["./d"] }
  e: { on: Order, call: "example.com/orders" }
  f: { on: Order, call: "ftp://example.com" }
  g: { on: Order, call: "https://user:secret@example.com/" }
  h: { on: Order, call: "https://exa mple.com/" }
  i: { on: Order, call: env("URL") }
  j: { on: Order, service: "My_Worker" }
  k: { on: Order, run: "audit", secret: env("S") }
  l: { on: Order, call: "https://example.com", secret: "s3cret" }
  m: { on: [Order], call: "https://" }
}
"#;
    check_in_app(
        source,
        expect![[r#"
            4:3-4 subscriber.key_missing: subscriber `a` has no `on:`
                add a line to it: `on: StockMoved`
            4:3-4 subscriber.key_missing: subscriber `a` has no target, one of `call:`, `service:`, `run:`
                add one line to it: `call: "https://ledger.example.com/events"` or `service: "reorder-worker"` or `run: audit`
            5:12-17 subscriber.name_unknown: there is no event `Ordre`
                did you mean `Order`?
            6:48-51 subscriber.key_invalid: subscriber `c` has `call:` and `run:`
                keep one of them; for both, write a second subscriber
            6:56-63 subscriber.key_invalid: subscriber `c` has `call:` and `service:`
                keep one of them; for both, write a second subscriber
            7:19-23 subscriber.key_invalid: subscriber `d` takes no `exec`
                only a function runs a program; a subscriber is reached by `call:`, `service:` or `run:`
            8:25-45 subscriber.value_invalid: `example.com/orders` is no address: it does not start with http:// or https://
                write `"https://example.com/orders"`; write an address like `https://ledger.example.com/events`
            9:25-44 subscriber.value_invalid: `ftp://example.com` is no address: its scheme is `ftp`, and only http and https are called
                write an address like `https://ledger.example.com/events`
            10:25-59 subscriber.value_invalid: `https://user:secret@example.com/` is no address: it holds a user name or a password, and a secret is never written in the app file
                write an address like `https://ledger.example.com/events`
            11:37-38 subscriber.value_invalid: `https://exa mple.com/` is no address: an address has no blanks and no line breaks
                write an address like `https://ledger.example.com/events`
            12:25-35 subscriber.value_invalid: `call` takes a text, and this is a call
                write it out in double quotes; it is needed when the app is checked and built
            13:29-30 subscriber.value_invalid: `My_Worker` is no Worker name: the capital letter `M` at place 1 is not allowed
                write `"my-worker"`; a Worker's name has lowercase letters, digits and dashes, as in its own Wrangler file
            14:24-31 subscriber.value_invalid: `run` takes the name of a linked function, and this is a text
                write it without quotes: `audit`
            14:33-39 subscriber.key_invalid: subscriber `k` signs nothing: it is a function in this host
                remove `secret:`; it signs what is sent by `call:` and `service:`
            15:56-64 subscriber.value_invalid: a secret is never written in the app file
                write `env("L_SECRET")` and set L_SECRET where the app runs
            16:12-19 subscriber.value_invalid: `on` takes the name of an event, and this is a list
                write the name of an event
            16:27-37 subscriber.value_invalid: `https://` is no address: empty host
                write an address like `https://ledger.example.com/events`
        "#]],
    );
}

#[test]
fn a_function_is_called_run_or_executed() {
    let source = r#"functions: {
  a: {}
  b: { service: "x" }
  c: { exec: [] }
  d: { exec: "./d" }
  e: { run: e, schedule: "0 * * *" }
  f: { run: f, schedule: "61 * * * *" }
  g: { run: g, schedule: "@hourly" }
  h: { run: h, schedule: "*/5 8-18 * * MON-FRI", color: "x" }
  i: { call: "http://127.0.0.1:1/", run: i }
}
"#;
    check_in_app(
        source,
        expect![[r#"
            3:3-4 function.key_missing: function `a` has no target, one of `call:`, `exec:`, `run:`, `send:`
                add one line to it: `call: "https://ledger.example.com/events"` or `exec: ["./pay.sh"]` or `run: audit` or `send: "jobs"`
            4:8-15 function.key_invalid: function `b` takes no `service`
                a function runs natively, where there are no service bindings: use `call:`
            5:14-16 function.value_invalid: `exec` names no program
                write the program and its arguments: `exec: ["./pay.sh", "--once"]`
            6:14-19 function.value_invalid: `exec` takes a list, and this is a text
                write `exec: ["./pay.sh"]`
            7:26-35 function.value_invalid: `0 * * *` is no schedule: a schedule has five fields, and this has 4
                its fields are minute, hour, day of the month, month and day of the week, in UTC: "0 * * * *"
            8:26-38 function.value_invalid: `61 * * * *` is no schedule: number out of bounds
                its fields are minute, hour, day of the month, month and day of the week, in UTC: "0 * * * *"
            9:26-35 function.value_invalid: `@hourly` is no schedule: a schedule has five fields, and this has 1
                its fields are minute, hour, day of the month, month and day of the week, in UTC: "0 * * * *"
            10:50-55 function.key_invalid: function `h` takes no `color`
                it takes call, exec, run, send, schedule, body
            11:37-40 function.key_invalid: function `i` has `call:` and `run:`
                keep one of them; for both, write a second function
        "#]],
    );
}

#[test]
fn a_webhook_writes_to_a_local_queue_and_verifies_with_a_secret_from_the_environment() {
    let source = r#"connections: { jobs: { driver: Driver.local_queue, queue: "jobs", functions: [f] } }
functions: { f: { run: f } }
webhooks: {
  a: {}
  b: { queue: "job" }
  c: { queue: jobs }
  d: { queue: "jobs", verify: Verify.gitlab(env("S")) }
  e: { queue: "jobs", verify: Verify.github("s3cret") }
  f: { queue: "jobs", verify: Verify.github() }
  g: { queue: "jobs", verify: Verify.github }
  h: { queue: "jobs", verify: Verify.standard(env("S")), token: 1 }
}
"#;
    check_in_app(
        source,
        expect![[r#"
            5:3-4 webhook.key_missing: webhook `a` has no `queue:`
                add a line to it: `queue: "jobs"`
            6:15-20 webhook.name_unknown: there is no local queue `job`
                did you mean `jobs`?
            7:15-19 webhook.value_invalid: `queue` takes a text, and this is a name
                write it in double quotes: `"jobs"`
            8:31-54 webhook.name_unknown: there is no `Verify.gitlab`
                did you mean `Verify.github`?
            9:45-53 webhook.value_invalid: a secret is never written in the app file
                write `env("E_SECRET")` and set E_SECRET where the app runs
            10:31-46 webhook.value_invalid: a Verify takes one secret, and this has 0
                write `verify: Verify.github(env("F_SECRET"))`
            11:31-44 webhook.value_invalid: `verify` takes a Verify, and this is a name
                write `verify: Verify.standard(env("G_SECRET"))`, or Verify.stripe, .github, .shopify
            12:58-63 webhook.key_invalid: webhook `h` takes no `token`
                it takes queue, verify
        "#]],
    );
}

#[test]
fn a_deployable_has_a_target_and_triggers() {
    let source = r#"deployables: {
  a: {}
  b: { target: Target.worker, triggers: [Trigger.cron] }
  c: { target: "native", triggers: Trigger.tick }
  d: { target: Target.native, triggers: [] }
  e: { target: Target.native, triggers: [Trigger.tick, Trigger.tick], region: "weur" }
}
"#;
    check_in_app(
        source,
        expect![[r#"
        3:3-4 deployable.key_missing: deployable `a` has no `target:`
            add a line to it: `target: Target.workers`
        3:3-4 deployable.key_missing: deployable `a` has no `triggers:`
            add a line to it: `triggers: [Trigger.http, Trigger.subscribers, Trigger.tick]`
        4:16-29 deployable.name_unknown: there is no `Target.worker`
            did you mean `Target.workers`?
        4:42-54 deployable.name_unknown: there is no `Trigger.cron`
            write one of Trigger.http, Trigger.subscribers, Trigger.tick
        5:16-24 deployable.value_invalid: `target` takes a Target, and this is a text
            write one of Target.workers, Target.native
        5:36-48 deployable.value_invalid: `triggers` takes a list, and this is a name
            write `triggers: [Trigger.http, Trigger.tick]`
        6:41-43 deployable.value_invalid: deployable `d` has no trigger, so it does nothing
            write what it does: `triggers: [Trigger.http, Trigger.subscribers, Trigger.tick]`
        7:56-68 deployable.value_invalid: `Trigger.tick` is named twice
            remove one of them
        7:71-77 deployable.key_invalid: deployable `e` takes no `region`
            it takes target, triggers
    "#]],
    );
}

const PUSHED: &str = r#"connections: { stock: { driver: Driver.cloudflare_queues, queue: "stock", dead_letter_queue: "dead" } }
events: { E: Json }
receiving: { stock: { event: E } }
"#;

#[test]
fn a_native_deployable_that_runs_subscribers_is_refused_what_cloudflare_pushes() {
    let source = format!(
        "{PUSHED}subscribers: {{ s: {{ on: E, service: \"other\" }} }}\ndeployables: {{\n  \
         server: {{ target: Target.native, triggers: [Trigger.http, Trigger.subscribers] }}\n  \
         quiet: {{ target: Target.native, triggers: [Trigger.http, Trigger.tick] }}\n  \
         edge: {{ target: Target.workers, triggers: [Trigger.subscribers, Trigger.tick] }}\n}}\n"
    );
    check_in_app(
        &source,
        expect![[r#"
        7:61-80 target.driver_refused: native deployable `server` runs Trigger.subscribers, and connection `stock` has Driver.cloudflare_queues: Cloudflare pushes its messages to a Worker, so no native server receives them
            give connection `stock` `driver: Driver.cloudflare_pull`, which reads the queue over HTTP; or remove Trigger.subscribers from `server` and run it in a deployable with `target: Target.workers`
        7:61-80 target.subscriber_refused: native deployable `server` runs Trigger.subscribers, and subscriber `s` is reached by the service binding of Worker `other`, which only Workers have
            give subscriber `s` `call:` with the Worker's address; or remove Trigger.subscribers from `server` and run it in a deployable with `target: Target.workers`
    "#]],
    );
}

#[test]
fn a_refusal_is_found_beside_other_problems_of_the_connection() {
    let source = "connections: { stock: { driver: Driver.cloudflare_queues, queue: \"Stock\" } }\n\
                  deployables: { server: { target: Target.native, triggers: [Trigger.subscribers] } }\n";
    check_in_app(
        source,
        expect![[r#"
            2:16-21 connection.key_missing: connection `stock` has no `dead_letter_queue:`
                add a line to it: `dead_letter_queue: "warehouse-events-dead"`
            2:67-68 connection.value_invalid: `Stock` is no queue name: the capital letter `S` at place 1 is not allowed
                write `"stock"`; a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends
            3:60-79 target.driver_refused: native deployable `server` runs Trigger.subscribers, and connection `stock` has Driver.cloudflare_queues: Cloudflare pushes its messages to a Worker, so no native server receives them
                give connection `stock` `driver: Driver.cloudflare_pull`, which reads the queue over HTTP; or remove Trigger.subscribers from `server` and run it in a deployable with `target: Target.workers`
        "#]],
    );
}

#[test]
fn two_workers_do_not_consume_one_queue_or_share_one_name() {
    let source = format!(
        "{PUSHED}subscribers: {{ s: {{ on: E, run: f }} }}\ndeployables: {{\n  \
         edge_a: {{ target: Target.workers, triggers: [Trigger.subscribers, Trigger.tick] }}\n  \
         edge_b: {{ target: Target.workers, triggers: [Trigger.subscribers, Trigger.tick] }}\n  \
         Edge_B: {{ target: Target.workers, triggers: [Trigger.http] }}\n  \
         {}: {{ target: Target.workers, triggers: [Trigger.http] }}\n}}\n",
        "x".repeat(64)
    );
    check_in_app(
        &source,
        expect![[r#"
        8:48-67 target.consumer_twice: deployables `edge_a` and `edge_b` would both consume the queue of connection `stock`, and a queue has one consumer
            remove Trigger.subscribers from `edge_a` or `edge_b`
        9:3-9 target.name_refused: deployables `edge_b` and `Edge_B` would both be Worker `shop-edge-b`
            a Worker's name has no capitals and no underscores: give one of them another name
        10:3-67 target.name_refused: the Worker of deployable `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` would be `shop-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`: it has 69 characters, and 63 are the most
            a Worker's name is the app's, a dash and the deployable's: give the deployable another name
    "#]],
    );
}

#[test]
fn what_nothing_uses_is_noted_and_no_problem() {
    let source = r#"connections: {
  stock: { driver: Driver.cloudflare_queues, queue: "stock", dead_letter_queue: "dead" }
  pulled: { driver: Driver.cloudflare_pull, account: env("A"), queue: "pulled", token: env("T") }
  jobs: { driver: Driver.local_queue, queue: "jobs" }
  orders: { driver: Driver.cloudflare_queues, queue: "orders", dead_letter_queue: "orders-dead" }
}
functions: { idle: { run: f }, timed: { run: f, schedule: "* * * * *" } }
events: { Unused: Json, Unmade: Json, Unheard: Json }
receiving: { orders: { event: Unheard } }
subscribers: { s: { on: Unmade, run: f } }
deployables: { edge: { target: Target.workers, triggers: [Trigger.http] } }
"#;
    check_in_app(
        source,
        expect![[r#"
            3:3-8 note.unused: nothing receives connection `stock`: every message is retried until it is a dead letter
                name it in `receiving:` with the event that its messages become
            4:3-9 note.unused: nothing receives connection `pulled`: it is not read
                name it in `receiving:` with the event that its messages become
            5:3-7 note.unused: nothing receives connection `jobs`: it keeps its messages
                give it `functions: [NAME]`, or name it in `receiving:` with the event that its messages become
            6:3-9 note.unreachable: no deployable receives connection `orders`: it needs a Workers deployable with Trigger.subscribers
                add `target: Target.workers` with Trigger.subscribers
            8:14-18 note.unused: nothing calls function `idle`
                name it in a local queue's `functions:`, or give it a `schedule:`
            8:32-37 note.unreachable: no deployable runs the schedule of function `timed`: it needs a native deployable with Trigger.tick
                add a deployable with `target: Target.native` and Trigger.tick
            9:11-17 note.unused: nothing uses event `Unused`
                name it in `receiving:`, or remove it
            9:25-31 note.unused: event `Unmade` never happens: no connection becomes it
                name it in `receiving:`
            9:39-46 note.unused: event `Unheard` has no subscriber: it is kept and goes nowhere
                add one under `subscribers:`
        "#]],
    );
}

#[test]
fn a_worker_without_a_tick_and_a_binding_that_a_native_tick_lacks_are_noted() {
    let source = r#"connections: {
  stock: { driver: Driver.cloudflare_queues, queue: "stock", dead_letter_queue: "dead" }
  jobs: { driver: Driver.local_queue, queue: "jobs" }
}
events: { E: Json }
receiving: { stock: { event: E }, jobs: { event: E } }
subscribers: { s: { on: E, service: "other" }, t: { on: E, call: "http://ledger.internal/", secret: env("S") } }
deployables: {
  edge: { target: Target.workers, triggers: [Trigger.subscribers] }
  server: { target: Target.native, triggers: [Trigger.tick] }
}
"#;
    check_in_app(
        source,
        expect![[r#"
        8:16-17 note.unreachable: native deployable `server` has no service bindings: a delivery to `s` in its own store would wait and fail
            use `call:` with the Worker's address
        8:66-91 note.plain_http: a signed body travels over http:// to another machine
            use https://
        10:3-7 note.unreachable: deployable `edge` has no tick: what it cannot deliver at once, and what an operator retries, waits
            add Trigger.tick
    "#]],
    );
}

#[test]
fn a_block_holds_a_thousand_things_and_no_more() {
    let events: String = (0..1_001).map(|number| format!("  E{number}: Json\n")).collect();
    let found = crate::found(&format!("app: \"a\"\nevents: {{\n{events}}}\n"));
    assert!(found.starts_with("1003:3-8 file.too_many: `events` holds 1001 things"), "{found}");
}

#[test]
fn a_file_has_a_mebibyte_and_no_more() {
    let file = |len: usize| format!("app: \"a\"{}", " ".repeat(len - 8));
    assert_eq!(crate::found(&file(1024 * 1024)), "");
    let found = crate::found(&file(1024 * 1024 + 1));
    assert!(found.starts_with("1:1-1 file.too_large: the file has 1048577 bytes"), "{found}");
}

#[test]
fn a_hundred_problems_are_reported_and_the_rest_is_counted() {
    let bad: String = (0..900).map(|number| format!("  E{number}: Foo\n")).collect();
    let found = crate::found(&format!("app: \"a\"\nevents: {{\n{bad}}}\n"));
    assert_eq!(found.matches("event.name_unknown").count(), 100);
    assert!(found.ends_with("and 800 more\n"), "{found}");
}
