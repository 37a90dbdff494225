//! `project.toml` and `dev.toml`, by what their author sees.

use expect_test::{Expect, expect};
use jadpo_core::app::project::{self, DevSettings};
use jadpo_core::app::{Compiled, Lines};

/// Compares what is found in both files with what is expected: a line per problem or note, its help under it.
#[track_caller]
fn check(project: &str, dev: &str, expected: Expect) {
    let found = project::compile(project, Some(dev));
    let dev_found = found.dev.unwrap();
    let is_right = found.project.problems.is_empty() && dev_found.problems.is_empty();
    assert_eq!(found.project.program.is_some(), is_right, "a program exactly when nothing is wrong");
    let mut text = lines("project.toml", project, &found.project);
    text += &lines("dev.toml", dev, &dev_found);
    expected.assert_eq(&text);
}

fn lines(file: &str, source: &str, compiled: &Compiled) -> String {
    let lines = Lines::new(source);
    let problems = compiled.problems.iter().map(|found| (found.code, found.span, &found.message, &found.help));
    let notes = compiled.notes.iter().map(|found| (found.code, found.span, &found.message, &found.help));
    let mut text = String::new();
    for (code, span, message, help) in problems.chain(notes) {
        let (line, column) = lines.position(span.start);
        let (_, end) = lines.position(span.end);
        text += &format!("{file}:{line}:{column}-{end} {code}: {message}\n");
        if let Some(help) = help {
            text += &format!("    {help}\n");
        }
    }
    text
}

/// The seed's own example, with the functions that it has elsewhere.
const SEED: &str = r#"
[[queues]]
name = "jobs"
functions = ["handle-payment"]   # the consumer(s) — every message goes to each
max_receives = 3                 # attempts before a message dead-letters

[[webhooks]]
name = "stripe-events"
queue = "jobs"
"#;

const SEED_DEV: &str = r#"
[dev]
queues = "immediate"        # a POST runs the consumer inline and returns every attempt's outcome
queue_tick_ms = 500         # the drain cadence in async mode (default 10000)
queue_visibility_ms = 500   # how long a failed delivery stays invisible (default 30000)

[functions]
handle-payment = "http://127.0.0.1:3000/handle-payment"
"#;

#[test]
fn the_example_of_the_documentation_becomes_a_program_and_settings() {
    let found = project::compile(SEED, Some(SEED_DEV));
    let settings = DevSettings { immediate: Some(true), tick_ms: Some(500), visibility_ms: Some(500) };
    assert_eq!(found.settings, settings);
    let program = serde_json::to_string_pretty(&found.project.program.unwrap()).unwrap();
    expect![[r#"
        {
          "format": 1,
          "app": "app",
          "connections": {
            "jobs": {
              "driver": "local_queue",
              "queue": "jobs",
              "functions": [
                "handle-payment"
              ],
              "max_receives": 3,
              "visibility_ms": 30000
            }
          },
          "functions": {
            "handle-payment": {
              "target": {
                "call": "http://127.0.0.1:3000/handle-payment"
              }
            }
          },
          "webhooks": {
            "stripe-events": {
              "queue": "jobs"
            }
          },
          "events": {},
          "receiving": {},
          "subscribers": {},
          "deployables": {
            "server": {
              "target": "native",
              "triggers": [
                "http",
                "tick"
              ]
            }
          }
        }"#]]
    .assert_eq(&program);
}

#[test]
fn a_function_without_an_entry_is_told_where_to_be_written() {
    check(
        SEED,
        "[functions]\nhandle-paymnt = [\"./pay.sh\"]",
        expect![[r#"
            project.toml:4:14-30 queue.name_unknown: function `handle-payment` has no entry under [functions]
                did you mean `handle-paymnt`?
        "#]],
    );
    check(
        SEED,
        "",
        expect![[r#"
        project.toml:4:14-30 queue.name_unknown: function `handle-payment` has no entry under [functions]
            say where it is, in project.toml or dev.toml: `[functions]` and under it `handle-payment = "http://127.0.0.1:3000/handle-payment"`, or a program: `handle-payment = ["./handle-payment.sh"]`
    "#]],
    );
}

#[test]
fn a_developer_s_function_stands_before_the_project_s() {
    let project = format!("{SEED}\n[functions]\nhandle-payment = \"https://pay.example.com/\"");
    let found = project::compile(&project, Some(SEED_DEV)).project.program.unwrap();
    assert_eq!(
        serde_json::to_value(&found.functions["handle-payment"].target).unwrap(),
        serde_json::json!({"call": "http://127.0.0.1:3000/handle-payment"})
    );
    let without_dev = project::compile(&project, None);
    assert!(without_dev.dev.is_none());
    assert_eq!(
        serde_json::to_value(&without_dev.project.program.unwrap().functions["handle-payment"].target).unwrap(),
        serde_json::json!({"call": "https://pay.example.com/"})
    );
}

#[test]
fn every_form_of_a_function_is_read() {
    let project = r#"
[[queues]]
name = "jobs"
functions = ["a", "b", "c", "d"]
visibility_ms = 1500
concurrency = 1
[[queues]]
name = "more"
functions = ["e"]
[functions]
a = "http://127.0.0.1:3000/a"
b = ["./b.sh", "--once"]
c = { run = "c" }
d = { send = "more", body = { kind = "resize", sizes = [1, 2.5], ok = true } }
e = { exec = ["./e"] }
f = { call = "http://127.0.0.1:3000/f", schedule = "0 * * * *", body = "go" }
"#;
    let program = project::compile(project, None).project.program.unwrap();
    let functions = serde_json::to_string(&program.functions).unwrap();
    expect![[r#"
        {"a":{"target":{"call":"http://127.0.0.1:3000/a"}},
        "b":{"target":{"exec":["./b.sh","--once"]}},
        "c":{"target":{"run":"c"}},
        "d":{"target":{"send":"more"},
        "body":{"json":"{\"kind\":\"resize\",\"ok\":true,\"sizes\":[1,2.5]}"}},
        "e":{"target":{"exec":["./e"]}},
        "f":{"target":{"call":"http://127.0.0.1:3000/f"},
        "schedule":"0 * * * *","body":{"text":"go"}}}"#]]
    .assert_eq(&functions.replace("},\"", "},\n\""));
    let jobs = serde_json::to_string(&program.connections["jobs"]).unwrap();
    expect![[r#"{"driver":"local_queue","queue":"jobs","functions":["a","b","c","d"],"max_receives":3,"visibility_ms":1500,"concurrency":1}"#]].assert_eq(&jobs);
}

#[test]
fn everything_wrong_is_found_in_one_run_in_both_files() {
    let project = r#"name = "My Shop"
colour = 1
[auth]
provider = "x"
[[queue]]
name = "a"
[dev]
queues = "immediate"
[[queues]]
functions = "f"
[[queues]]
name = "Jobs"
functions = ["f", "f", 3]
max_receives = 0
visibility = 30
dead_letter_queue = "d"
[[queues]]
name = "schedule-x"
[[queues]]
name = "ok"
functions = ["f"]
[[queues]]
name = "ok"
[[queues]]
name = "ok-dead"
[[webhooks]]
name = "Stripe"
queue = "nobody"
[[webhooks]]
name = "w"
queue = "okk"
verify = { stripe = "whsec_0123456789" }
[[webhooks]]
queue = "ok"
verify = { strype = "SECRET" }
functions = ["f"]
[functions]
f = "127.0.0.1:3000/f"
g = 3
h = { call = "http://127.0.0.1/", run = "h" }
i = { schedule = "0 0 30 2 *" }
j = { run = "j", body = "b" }
k = { send = "nowhere" }
l = []
1m = "http://127.0.0.1/"
"#;
    let dev = r#"
[dev]
queues = "sometimes"
queue_tick_ms = 5
queue_visibility_ms = "500"
queue_tick = 3
[[queues]]
name = "other"
"#;
    check(
        project,
        dev,
        expect![[r#"
            project.toml:1:8-17 project.value_invalid: `My Shop` is no app name: the capital letter `M` at place 1 is not allowed
                write `"my-shop"`; it has lowercase letters, digits and dashes
            project.toml:2:1-7 project.key_invalid: project.toml takes no `colour`
                it takes name, queues, webhooks, functions
            project.toml:5:3-8 project.key_invalid: project.toml takes no `queue`
                did you mean `queues`?
            project.toml:7:2-5 project.key_invalid: project.toml takes no `dev`
                write it in dev.toml, beside this file: a server for production does not read that
            project.toml:9:1-11 queue.key_missing: a queue has no `name`
                add a line to it: `name = "jobs"`
            project.toml:10:13-16 queue.value_invalid: `functions` takes a list of texts, and this is a text
                write `functions = ["handle-payment"]`
            project.toml:12:8-14 queue.value_invalid: `Jobs` is no local queue's name: the capital letter `J` at place 1 is not allowed
                write `"jobs"`; a local queue's name is 1 to 58 lowercase letters, digits and dashes, with a letter or digit at both ends, and does not start with `schedule-`
            project.toml:13:24-25 queue.value_invalid: `functions` takes a list of texts, and this is a number
                write `functions = ["handle-payment"]`
            project.toml:14:16-17 queue.value_invalid: `max_receives` is 0, which is out of range
                write a number from 1 to 101
            project.toml:15:1-11 queue.key_invalid: queue `Jobs` takes no `visibility`
                did you mean `visibility_ms`?
            project.toml:16:1-18 queue.key_invalid: queue `Jobs` takes no `dead_letter_queue`
                remove it: a queue has its own dead letters; see `jadpo queues dead-letters`
            project.toml:18:8-20 queue.value_invalid: `schedule-x` is no local queue's name: names that start with `schedule-` are those of the queues of schedules
                a local queue's name is 1 to 58 lowercase letters, digits and dashes, with a letter or digit at both ends, and does not start with `schedule-`
            project.toml:23:8-12 queue.value_invalid: there is a queue `ok` already
                give one of them another name, or make one of both
            project.toml:25:8-17 queue.value_invalid: `ok-dead` is the dead-letter queue of `ok`
                give the queue another name
            project.toml:27:8-16 webhook.value_invalid: `Stripe` is no webhook's name: the capital letter `S` at place 1 is not allowed
                write `"stripe"`; a webhook's name, which is part of its address, has lowercase letters, digits and dashes
            project.toml:28:9-17 webhook.name_unknown: there is no queue `nobody`
                declare it: `[[queues]]` and under it `name = "nobody"`
            project.toml:31:9-14 webhook.name_unknown: there is no queue `okk`
                did you mean `ok`?
            project.toml:32:21-39 webhook.value_invalid: `stripe` takes the name of an environment variable, in capitals
                a secret is never written in the file: write `"STRIPE_WEBHOOK_SECRET"` and set it where jadpo runs
            project.toml:33:1-13 webhook.key_missing: a webhook has no `name`
                add a line to it: `name = "stripe-events"`
            project.toml:35:12-18 webhook.name_unknown: there is no verification `strype`
                did you mean `stripe`?
            project.toml:36:1-10 webhook.key_invalid: a webhook takes no `functions`
                name them in the queue that the webhook writes to: a webhook runs nothing on its own
            project.toml:38:5-23 function.value_invalid: `127.0.0.1:3000/f` is no address: it does not start with http:// or https://
                write `"http://127.0.0.1:3000/f"`; for a program, write a list: `["./pay.sh"]`
            project.toml:39:5-6 function.value_invalid: function `g` is a number
                write an address, `"http://127.0.0.1:3000/…"`; a program, `["./pay.sh"]`; or a table with one of `call`, `exec`, `run` and `send`
            project.toml:40:5-46 function.key_invalid: function `h` has `call` and `run`
                keep one of them; for both, write a second function
            project.toml:41:5-32 function.key_missing: function `i` has no target, one of `call`, `exec`, `run` and `send`
                add one line to it: `call = "http://127.0.0.1:3000/…"`
            project.toml:41:18-30 function.value_invalid: `0 0 30 2 *` is no schedule: no such day ever comes
                its fields are minute, hour, day of the month, month and day of the week, in UTC: "0 * * * *"
            project.toml:42:5-30 function.key_invalid: nothing sends the `body` of function `j`
                remove it, since the function is called with each message's own body; or give it a `schedule`
            project.toml:43:14-23 function.value_invalid: there is no queue `nowhere`
                declare it in project.toml: `[[queues]]` and under it its `name`
            project.toml:44:5-7 function.value_invalid: this names no program
                write the program and its arguments: `["./pay.sh", "--once"]`
            project.toml:45:1-3 syntax.name_invalid: `1m` is not a function's name
                names have at most 64 letters, digits, dashes and underscores, and start with a letter
            project.toml:3:2-6 note.block_skipped: `auth` is not a table that jadpo reads, so it is skipped
            dev.toml:3:10-21 dev.value_invalid: `queues` is neither "immediate" nor "async"
                write `queues = "immediate"`: a POST then runs the functions and answers with every attempt
            dev.toml:4:17-18 dev.value_invalid: `queue_tick_ms` is 5, which is out of range
                write a number from 10 to 3600000
            dev.toml:5:23-28 dev.value_invalid: `queue_visibility_ms` takes a number, and this is a text
                write a whole number from 1 to 43200000: `queue_visibility_ms = 1`
            dev.toml:6:1-11 dev.key_invalid: [dev] takes no `queue_tick`
                did you mean `queue_tick_ms`?
            dev.toml:7:3-9 project.key_invalid: dev.toml takes no `queues`
                declare it in project.toml: it is the same for every developer
        "#]],
    );
}

#[test]
fn text_that_is_no_toml_is_said_with_its_place_and_hides_no_other_problem() {
    check(
        "[[queues]\nname = \"jobs\"\n",
        "",
        expect![[r#"
            project.toml:1:10-10 syntax.toml_invalid: unclosed array table, expected `]`
                write it as TOML: `key = "text"`, `key = 3`, `key = ["a", "b"]`, `[table]`
        "#]],
    );
    check(
        "[[queues]]\nname = jobs\n[[webhooks]]\nname = \"w\"\nqueue = \"jobs\"\nx = 1\n",
        "[dev",
        expect![[r#"
            project.toml:2:8-12 syntax.toml_invalid: string values must be quoted, expected literal string
                write it as TOML: `key = "text"`, `key = 3`, `key = ["a", "b"]`, `[table]`
            project.toml:6:1-2 webhook.key_invalid: webhook `w` takes no `x`
                it takes name, queue, verify
            dev.toml:1:5-5 syntax.toml_invalid: unclosed table, expected `]`
                write it as TOML: `key = "text"`, `key = 3`, `key = ["a", "b"]`, `[table]`
        "#]],
    );
    check(
        "a = \"\u{e9}\nb = \"\u{e9}",
        "",
        expect![[r#"
            project.toml:1:7-7 syntax.toml_invalid: invalid basic string, expected `"`
                write it as TOML: `key = "text"`, `key = 3`, `key = ["a", "b"]`, `[table]`
            project.toml:2:7-7 syntax.toml_invalid: invalid basic string, expected `"`
                write it as TOML: `key = "text"`, `key = 3`, `key = ["a", "b"]`, `[table]`
        "#]],
    );
}

#[test]
fn messages_that_would_go_round_are_refused() {
    let project = r#"
[[queues]]
name = "a"
functions = ["to-b"]
[[queues]]
name = "b"
functions = ["to-a"]
[functions]
to-b = { send = "b" }
to-a = { send = "a" }
"#;
    check(
        project,
        "",
        expect![[r#"
        project.toml:9:1-5 function.value_invalid: function `to-b` sends messages of queue `a` to queue `b`, from where they come back, without end
            send to a queue whose functions do not send them back
        project.toml:10:1-5 function.value_invalid: function `to-a` sends messages of queue `b` to queue `a`, from where they come back, without end
            send to a queue whose functions do not send them back
    "#]],
    );
}

#[test]
fn schedules_must_have_queues_of_their_own() {
    let project = r#"
[functions]
sweep-all = { run = "s", schedule = "0 * * * *" }
sweep_all = { run = "s", schedule = "0 * * * *" }
a-name-of-fifty-characters-which-is-one-more-than-x = { run = "s", schedule = "0 * * * *" }
"#;
    check(
        project,
        "",
        expect![[r#"
        project.toml:4:1-10 function.value_invalid: the schedules of `sweep-all` and `sweep_all` would both send to queue `schedule-sweep-all`
            a queue's name has no capitals and no underscores: give one of them another name
        project.toml:5:1-52 function.value_invalid: the messages of the schedule of `a-name-of-fifty-characters-which-is-one-more-than-x` would go to queue `schedule-a-name-of-fifty-characters-which-is-one-more-than-x`
            that is no queue's name: give the function a name of at most 49 characters that ends with a letter or digit
    "#]],
    );
}

#[test]
fn the_secret_that_somebody_wrote_by_mistake_is_not_said_again() {
    let project =
        "[[queues]]\nname = \"q\"\n[[webhooks]]\nname = \"w\"\nqueue = \"q\"\nverify = { stripe = \"whsec_abc\" }";
    for found in project::compile(project, None).project.problems {
        let text = format!("{}{}", found.message, found.help.unwrap_or_default());
        assert!(!text.contains("whsec_abc"), "{text}");
    }
}

#[test]
fn too_much_is_refused_before_it_is_read() {
    let big = " ".repeat(1024 * 1024 + 1);
    check(
        &big,
        "",
        expect![[r#"
        project.toml:1:1-1 file.too_large: the file has 1048577 bytes, and 1048576 are the most
            keep data elsewhere
    "#]],
    );
    let names = |count: usize| (0..count).map(|n| format!("\"f{n}\"")).collect::<Vec<_>>().join(",");
    let entries: String = (0..51).map(|n| format!("f{n} = {{ run = \"f\" }}\n")).collect();
    let many = format!("[[queues]]\nname = \"q\"\nfunctions = [{}]\n[functions]\n{entries}", names(51));
    check(
        &many,
        "",
        expect![[r#"
            project.toml:3:304-309 queue.value_invalid: the queue has 51 functions, and 50 are the most
                let one of them send on to a second queue with the others: `{ send = "NAME" }`
        "#]],
    );
    let many = format!("[[queues]]\nname = \"q\"\nfunctions = [{}]\n[functions]\n{entries}", names(50));
    assert!(project::compile(&many, None).project.program.is_some());
}

mod fuzz {
    use super::*;
    use proptest::prelude::*;

    /// Whatever the files hold, each finding has a place in its file, and there is a program exactly when nothing is
    /// wrong.
    fn read(project: &str, dev: &str) {
        let found = project::compile(project, Some(dev));
        let dev_found = found.dev.unwrap();
        let is_right = found.project.problems.is_empty() && dev_found.problems.is_empty();
        assert_eq!(found.project.program.is_some(), is_right);
        for (source, compiled) in [(project, &found.project), (dev, &dev_found)] {
            let spans = compiled.problems.iter().map(|one| one.span).chain(compiled.notes.iter().map(|one| one.span));
            for span in spans {
                assert!(source.get(span.start..span.end).is_some(), "{span:?} in {source:?}");
            }
            assert!(compiled.problems.iter().all(|one| one.help.is_some()), "{:?}", compiled.problems);
        }
    }

    const PIECES: [&str; 34] = [
        "[[queues]]",
        "[[webhooks]]",
        "[functions]",
        "[dev]",
        "[",
        "]",
        "[[",
        "]]",
        "\n",
        "\n",
        "=",
        ".",
        ",",
        "{",
        "}",
        "\"",
        "'",
        "#",
        "name",
        "queue",
        "queues",
        "functions",
        "verify",
        "schedule",
        "send",
        "body",
        "call",
        "\"jobs\"",
        "\"é\"",
        "3",
        "-1.5e9",
        "true",
        "2026-11-30",
        "inf",
    ];

    proptest! {
        #[test]
        fn any_text_is_read(project in any::<String>(), dev in any::<String>()) {
            read(&project, &dev);
        }

        #[test]
        fn any_pieces_are_read(
            project in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..40),
            dev in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..20),
        ) {
            read(&project.join(" "), &dev.join(" "));
        }

        #[test]
        fn a_right_file_that_is_cut_and_mended_anywhere_is_read(cut in 0..400_usize, len in 0..40_usize, put in "[\\[\\]={}\"\n a-z]{0,4}") {
            let mut text: Vec<char> = SEED.chars().collect();
            let from = cut.min(text.len());
            let to = (from + len).min(text.len());
            text.splice(from..to, put.chars());
            read(&text.into_iter().collect::<String>(), SEED_DEV);
        }
    }

    #[test]
    fn nesting_without_end_is_read() {
        for piece in ["[", "{a=", "[[", "a."] {
            read(&format!("x = {}", piece.repeat(100_000)), "");
            read(&piece.repeat(100_000), "");
        }
        read(
            &format!(
                "[functions]\nf = {{ run = \"f\", schedule = \"0 * * * *\", body = {}1{} }}",
                "[".repeat(70),
                "]".repeat(70)
            ),
            "",
        );
    }
}

#[test]
fn a_table_that_can_only_be_meant_for_jadpo_is_a_problem_that_says_where_it_goes() {
    check(
        "[[queues]]\nname = \"jobs\"\n[[functions]]\nname = \"pay\"\n[[schedules]]\nname = \"sweep\"\n",
        "[[schedules]]\nname = \"sweep\"\n",
        expect![[r#"
            project.toml:3:1-14 project.value_invalid: `functions` takes a table, and this is a list
                write `[functions]` with one bracket, and under it `NAME = …` for each
            project.toml:5:3-12 project.key_invalid: project.toml takes no `schedules`
                a schedule belongs to its function: under `[functions]` write `sweep = { exec = ["./sweep.sh"], schedule = "0 * * * *" }`
            dev.toml:1:3-12 project.key_invalid: dev.toml takes no `schedules`
                a schedule belongs to its function: under `[functions]` write `sweep = { exec = ["./sweep.sh"], schedule = "0 * * * *" }`
        "#]],
    );
}
