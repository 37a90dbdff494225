//! What a native server needs of an app file: local queues, functions that send, schedules, webhooks.

use expect_test::expect;
use jadpo_core::app::{compile, network};

use crate::check_in_app;

/// A function that every queue here has.
const F: &str = "functions: { f: { run: f } }\n";

#[test]
fn a_local_queue_s_name_leaves_room_for_its_dead_letter_queue_s() {
    let queue = |name: &str| {
        format!("connections: {{ a: {{ driver: Driver.local_queue, queue: \"{name}\", functions: [f] }} }}\n{F}")
    };
    check_in_app(&queue(&"q".repeat(58)), expect![""]);
    check_in_app(
        &queue(&"q".repeat(59)),
        expect![[r#"
        2:56-117 connection.value_invalid: `qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq` is no local queue's name: it has 59 characters, and 58 are the most, since its dead-letter queue is named `NAME-dead`
            a local queue's name is 1 to 58 lowercase letters, digits and dashes, with a letter or digit at both ends, and does not start with `schedule-`
    "#]],
    );
    check_in_app(
        &queue("schedule-sweep"),
        expect![[r#"
        2:57-66 connection.value_invalid: `schedule-sweep` is no local queue's name: names that start with `schedule-` are those of the queues of schedules
            a local queue's name is 1 to 58 lowercase letters, digits and dashes, with a letter or digit at both ends, and does not start with `schedule-`
    "#]],
    );
    check_in_app(&queue("schedule"), expect![""]);
    check_in_app(
        "connections: { a: { driver: Driver.local_queue, queue: env(\"Q\") } }",
        expect![[r#"
        2:56-64 connection.value_invalid: `queue` is read from the environment, and it must be written out
            write the queue's name: `queue: "warehouse-events"`; the queue is made when the server starts
    "#]],
    );
}

#[test]
fn nobody_has_a_local_queue_s_dead_letter_queue_wherever_it_is_declared() {
    check_in_app(
        r#"connections: {
    dead: { driver: Driver.local_queue, queue: "jobs-dead", functions: [f] }
    jobs: { driver: Driver.local_queue, queue: "jobs", functions: [f] }
    mail: { driver: Driver.local_queue, queue: "mail", functions: [f] }
    pushed: { driver: Driver.cloudflare_queues, queue: "mail-dead", dead_letter_queue: "x" }
    other: { driver: Driver.cloudflare_queues, queue: "y", dead_letter_queue: "mail" }
}
functions: { f: { run: f } }
events: { E: Json }
receiving: { pushed: { event: E }, other: { event: E } }
subscribers: { s: { on: E, run: f } }
"#,
        expect![[r#"
            3:48-59 connection.value_invalid: `jobs-dead` is the dead-letter queue of connection `jobs`, so connection `dead` cannot have it
                name another queue
            6:56-67 connection.value_invalid: `mail-dead` is the dead-letter queue of connection `mail`, so connection `pushed` cannot have it
                name another queue
            7:79-85 connection.value_invalid: `mail` is already connection `mail`'s queue
                no two connections name one queue: use `mail` or name another queue for `other`
        "#]],
    );
}

#[test]
fn concurrency_is_a_number_of_messages() {
    check_in_app(
        r#"connections: {
    a: { driver: Driver.local_queue, queue: "a", functions: [f], concurrency: 0 }
    b: { driver: Driver.local_queue, queue: "b", functions: [f], concurrency: 251 }
    c: { driver: Driver.local_queue, queue: "c", functions: [f], concurrency: "1" }
    d: { driver: Driver.local_queue, queue: "d", functions: [f], concurrency: 250 }
    e: { driver: Driver.cloudflare_queues, queue: "e", dead_letter_queue: "e-dead", concurrency: 1 }
}
functions: { f: { run: f } }
"#,
        expect![[r#"
            3:79-80 connection.value_invalid: `concurrency` is 0, which is out of range
                write a number from 1 to 250
            4:79-82 connection.value_invalid: `concurrency` is 251, which is out of range
                write a number from 1 to 250
            5:79-82 connection.value_invalid: `concurrency` takes a number, and this is a text
                write a whole number from 1 to 250: `concurrency: 1`
            7:85-96 connection.key_invalid: connection `e` takes no `concurrency`
                it takes driver, queue, dead_letter_queue
        "#]],
    );
}

#[test]
fn a_queue_has_no_more_functions_than_its_messages_can_remember() {
    let names: Vec<String> = (0..51).map(|n| format!("f{n}")).collect();
    let declared: String = names.iter().map(|name| format!("{name}: {{ run: f }}\n")).collect();
    let app = |count: usize| {
        let called = names[..count].join(", ");
        format!(
            "connections: {{ a: {{ driver: Driver.local_queue, queue: \"a\", functions: [{called}] }} }}\nfunctions: {{\n{declared}}}"
        )
    };
    check_in_app(
        &app(51),
        expect![[r#"
        2:313-316 connection.value_invalid: the queue has 51 functions, and 50 are the most
            let one of them send on to a second queue with the others: `send: "NAME"`
    "#]],
    );
    assert!(compile(&format!("app: \"a\"\n{}", app(50))).problems.is_empty());
}

#[test]
fn a_function_sends_to_a_local_queue_that_is_declared() {
    check_in_app(
        r#"connections: {
    jobs: { driver: Driver.local_queue, queue: "jobs", functions: [on] }
    next: { driver: Driver.local_queue, queue: "next", functions: [f] }
    pushed: { driver: Driver.cloudflare_queues, queue: "pushed", dead_letter_queue: "dead" }
}
functions: {
    f: { run: f }
    on: { send: "next" }
    a: { send: "nxt", schedule: "0 * * * *" }
    b: { send: "pushed", schedule: "0 * * * *" }
    c: { send: next, schedule: "0 * * * *" }
    d: { send: "next", call: "http://127.0.0.1/" }
}
subscribers: { s: { on: E, send: "next" } }
events: { E: Json }
"#,
        expect![[r#"
            10:16-21 function.value_invalid: there is no local queue `nxt`
                did you mean `next`?
            11:16-24 function.value_invalid: there is no local queue `pushed`
                a function sends to the queue of a Driver.local_queue connection: declare one
            12:16-20 function.value_invalid: `send` takes a text, and this is a name
                write it in double quotes: `"next"`
            13:10-14 function.key_invalid: function `d` has `call:` and `send:`
                keep one of them; for both, write a second function
            15:28-32 subscriber.key_invalid: subscriber `s` takes no `send`
                only a function sends to a queue; a subscriber is reached by `call:`, `service:` or `run:`
        "#]],
    );
}

#[test]
fn a_broken_connection_may_be_the_one_that_is_sent_to() {
    check_in_app(
        "connections: { a: { driver: Driver.local_queue, queue: \"A\" } }\nfunctions: { f: { send: \"a\", schedule: \"0 * * * *\" } }",
        expect![[r#"
            2:57-58 connection.value_invalid: `A` is no local queue's name: the capital letter `A` at place 1 is not allowed
                write `"a"`; a local queue's name is 1 to 58 lowercase letters, digits and dashes, with a letter or digit at both ends, and does not start with `schedule-`
        "#]],
    );
}

#[test]
fn messages_that_would_go_round_without_end_are_refused() {
    check_in_app(
        r#"connections: {
    a: { driver: Driver.local_queue, queue: "a", functions: [to_b, f] }
    b: { driver: Driver.local_queue, queue: "b", functions: [to_c] }
    c: { driver: Driver.local_queue, queue: "c", functions: [to_a, to_d] }
    d: { driver: Driver.local_queue, queue: "d", functions: [f] }
    e: { driver: Driver.local_queue, queue: "e", functions: [to_a, to_d] }
    self: { driver: Driver.local_queue, queue: "self", functions: [to_self] }
}
functions: {
    f: { run: f }
    to_a: { send: "a" }
    to_b: { send: "b" }
    to_c: { send: "c" }
    to_d: { send: "d" }
    to_self: { send: "self", body: "again" }
}
"#,
        expect![[r#"
            12:19-22 function.value_invalid: function `to_a` sends messages of queue `c` to queue `a`, from where they come back, without end
                send to a queue whose functions do not send them back
            13:19-22 function.value_invalid: function `to_b` sends messages of queue `a` to queue `b`, from where they come back, without end
                send to a queue whose functions do not send them back
            14:19-22 function.value_invalid: function `to_c` sends messages of queue `b` to queue `c`, from where they come back, without end
                send to a queue whose functions do not send them back
            16:22-28 function.value_invalid: function `to_self` sends the messages of queue `self` to that queue, without end
                send to a queue whose functions do not send them back
        "#]],
    );
}

#[test]
fn a_written_body_is_a_text_or_json() {
    let source = r#"app: "a"
connections: { q: { driver: Driver.local_queue, queue: "q", functions: [f] } }
functions: {
    f: { run: f }
    a: { send: "q", schedule: "0 * * * *", body: "{\"a\":1}" }
    b: { send: "q", schedule: "0 * * * *", body: { kind: "sweep", "odd key": [1, -2, true, false, { deep: [] }] } }
    c: { call: "http://127.0.0.1/c", schedule: "0 * * * *", body: 9223372036854775807 }
}
"#;
    let compiled = compile(source);
    assert_eq!(compiled.problems, []);
    let functions = compiled.program.unwrap().functions;
    let bodies: Vec<String> =
        functions.values().map(|function| serde_json::to_string(&function.body).unwrap()).collect();
    expect![[r#"
        {"text":"{\"a\":1}"}
        {"json":"{\"kind\":\"sweep\",\"odd key\":[1,-2,true,false,{\"deep\":[]}]}"}
        {"json":"9223372036854775807"}
        null"#]]
    .assert_eq(&bodies.join("\n"));
}

#[test]
fn what_no_json_has_is_no_body() {
    let long = "x".repeat(128_001);
    check_in_app(
        &format!(
            r#"connections: {{ q: {{ driver: Driver.local_queue, queue: "q", functions: [f] }} }}
functions: {{
    f: {{ run: f, body: "nobody sends it" }}
    a: {{ send: "q", schedule: "0 * * * *", body: {{ at: 10s }} }}
    b: {{ send: "q", schedule: "0 * * * *", body: [name] }}
    c: {{ send: "q", schedule: "0 * * * *", body: env("BODY") }}
    d: {{ send: "q", schedule: "0 * * * *", body: "{long}" }}
}}
"#
        ),
        expect![[r#"
            4:18-22 function.key_invalid: nothing sends the `body:` of function `f`
                remove it, since the function is called with each message's own body; or give it a `schedule:`
            5:56-59 function.value_invalid: `body` cannot hold a duration
                write texts in double quotes, whole numbers, true, false, lists and blocks
            6:51-55 function.value_invalid: `body` cannot hold a name
                write texts in double quotes, whole numbers, true, false, lists and blocks
            7:50-61 function.value_invalid: `body` cannot hold a call
                write texts in double quotes, whole numbers, true, false, lists and blocks
            8:50-128053 function.value_invalid: the body has 128001 bytes, and a message has at most 128000
                send less
        "#]],
    );
}

#[test]
fn schedules_have_queues_of_their_own_with_names_that_queues_can_have() {
    let long = "f".repeat(50);
    check_in_app(
        &format!(
            r#"connections: {{ q: {{ driver: Driver.local_queue, queue: "q", functions: [x] }} }}
functions: {{
    x: {{ run: x }}
    Sweep_All: {{ run: s, schedule: "0 * * * *" }}
    sweep_all: {{ run: s, schedule: "5 * * * *" }}
    SWEEP_ALL: {{ send: "q", schedule: "5 * * * *" }}
    sweep_: {{ run: s, schedule: "0 * * * *" }}
    {long}: {{ run: s, schedule: "0 * * * *" }}
    never: {{ run: s, schedule: "0 0 30 2 *" }}
    leap: {{ run: s, schedule: "0 0 29 2 *" }}
}}
"#
        ),
        expect![[r#"
            6:5-14 function.value_invalid: the schedules of `Sweep_All` and `sweep_all` would both send to queue `schedule-sweep-all`
                a queue's name has no capitals and no underscores: give one of them another name
            8:5-11 function.value_invalid: the messages of the schedule of `sweep_` would go to queue `schedule-sweep-`
                that is no queue's name: give the function a name of at most 49 characters that ends with a letter or digit
            9:5-55 function.value_invalid: the messages of the schedule of `ffffffffffffffffffffffffffffffffffffffffffffffffff` would go to queue `schedule-ffffffffffffffffffffffffffffffffffffffffffffffffff`
                that is no queue's name: give the function a name of at most 49 characters that ends with a letter or digit
            10:32-44 function.value_invalid: `0 0 30 2 *` is no schedule: no such day ever comes
                its fields are minute, hour, day of the month, month and day of the week, in UTC: "0 * * * *"
        "#]],
    );
}

#[test]
fn what_no_deployable_does_is_noted() {
    check_in_app(
        r#"connections: {
    jobs: { driver: Driver.local_queue, queue: "jobs", functions: [f] }
    stock: { driver: Driver.local_queue, queue: "stock", max_receives: 5 }
    alone: { driver: Driver.local_queue, queue: "alone" }
}
functions: { f: { run: f }, sweep: { run: sweep, schedule: "0 * * * *" } }
webhooks: { hook: { queue: "alone" } }
events: { E: Json }
receiving: { stock: { event: E } }
subscribers: { s: { on: E, run: f } }
deployables: { edge: { target: Target.workers, triggers: [Trigger.http] } }
"#,
        expect![[r#"
            3:5-9 note.unreachable: no deployable receives connection `jobs`: it needs a native deployable with Trigger.tick
                add a deployable with `target: Target.native` and Trigger.tick
            4:5-10 note.unreachable: no deployable receives connection `stock`: it needs a native deployable with Trigger.tick
                add a deployable with `target: Target.native` and Trigger.tick
            4:58-70 note.unused: `max_receives` of connection `stock` does nothing: its messages are received, and what cannot be is parked at once
                remove it
            5:5-10 note.unused: nothing receives connection `alone`: it keeps its messages
                give it `functions: [NAME]`, or name it in `receiving:` with the event that its messages become
            7:29-34 note.unreachable: no deployable runs the schedule of function `sweep`: it needs a native deployable with Trigger.tick
                add a deployable with `target: Target.native` and Trigger.tick
            8:13-17 note.unreachable: no deployable answers webhook `hook`: it needs a native deployable with Trigger.http
                add a deployable with `target: Target.native` and Trigger.http
        "#]],
    );
    check_in_app(
        r#"connections: { jobs: { driver: Driver.local_queue, queue: "jobs", functions: [f] } }
functions: { f: { run: f, schedule: "0 * * * *" } }
webhooks: { hook: { queue: "jobs" } }
deployables: { server: { target: Target.native, triggers: [Trigger.http] } }
"#,
        expect![[r#"
            2:16-20 note.unreachable: no deployable receives connection `jobs`: it needs a native deployable with Trigger.tick
                add a deployable with `target: Target.native` and Trigger.tick
            3:14-15 note.unreachable: no deployable runs the schedule of function `f`: it needs a native deployable with Trigger.tick
                add a deployable with `target: Target.native` and Trigger.tick
        "#]],
    );
    check_in_app(
        r#"connections: { jobs: { driver: Driver.local_queue, queue: "jobs", functions: [f] } }
functions: { f: { run: f, schedule: "0 * * * *" } }
webhooks: { hook: { queue: "jobs" } }
deployables: { server: { target: Target.native, triggers: [Trigger.http, Trigger.tick] } }
"#,
        expect![""],
    );
}

#[test]
fn the_network_report_has_the_hosts_of_functions() {
    let source = r#"app: "a"
connections: { q: { driver: Driver.local_queue, queue: "q", functions: [a, b, c, d] }, r: { driver: Driver.local_queue, queue: "r" } }
functions: {
    a: { call: "http://127.0.0.1:3000/a" }
    b: { exec: ["./b.sh", "--once"] }
    c: { run: c }
    d: { send: "r" }
    e: { call: "https://pay.example.com/e", schedule: "0 * * * *" }
}
deployables: {
    edge: { target: Target.workers, triggers: [Trigger.http] }
    server: { target: Target.native, triggers: [Trigger.http, Trigger.tick] }
}
"#;
    let program = compile(source).program.unwrap();
    let lines = |deployable: Option<&str>| {
        let lines = network(&program, deployable).into_iter();
        let lines =
            lines.map(|reach| format!("{} {} {} [{}]\n", reach.kind, reach.name, reach.through, reach.hosts.join(",")));
        lines.collect::<String>()
    };
    expect![[r#"
        connection q Driver.local_queue []
        connection r Driver.local_queue []
        function a call: [127.0.0.1:3000]
        function b exec: ./b.sh --once []
        function c run: c []
        function d send: r []
        function e call: [pay.example.com]
    "#]]
    .assert_eq(&lines(None));
    assert_eq!(lines(Some("server")), lines(None));
    assert_eq!(lines(Some("edge")), "", "a Worker has no local queues and no functions");
}
