use expect_test::expect;

use crate::{check, check_in_app};

#[test]
fn commas_and_new_lines_part_entries_and_comments_do_not_count() {
    check(
        "\u{feff}// a file\r\napp: \"a\", events: { A: { a: Text, b: Int }, B: Json // one\r\n}\r\n",
        expect![[r#"
        2:21-22 note.unused: nothing uses event `A`
            name it in `receiving:`, or remove it
        2:45-46 note.unused: nothing uses event `B`
            name it in `receiving:`, or remove it
    "#]],
    );
}

#[test]
fn escapes_are_read_and_wrong_ones_pointed_at() {
    check_in_app(
        r#"events: { "\u{41}": Json }"#,
        expect![[r#"
        2:11-19 note.unused: nothing uses event `A`
            name it in `receiving:`, or remove it
    "#]],
    );
    check_in_app(
        r#"events: { A: { "a\q": Text, "\u{d800}": Text, "\u00e9": Text, "é\x": Text } }"#,
        expect![[r#"
        2:18-20 syntax.text_invalid: `\q` is not an escape
            the escapes are \" \\ \n \r \t and \u{HEX}; a backslash itself is \\
        2:30-38 syntax.text_invalid: `\u{d800}` is not an escape
            the escapes are \" \\ \n \r \t and \u{HEX}; a backslash itself is \\
        2:48-50 syntax.text_invalid: `\u` is not an escape
            the escapes are \" \\ \n \r \t and \u{HEX}; a backslash itself is \\
        2:65-67 syntax.text_invalid: `\x` is not an escape
            the escapes are \" \\ \n \r \t and \u{HEX}; a backslash itself is \\
    "#]],
    );
}

#[test]
fn a_text_ends_on_its_line() {
    check(
        "app: \"shop\nevents: { A: Foo }",
        expect![[r#"
        1:6-11 syntax.text_invalid: this text has no closing quote on its line
            close it with `"`; a line break inside a text is written `\n`
        2:14-17 event.name_unknown: there is no type `Foo`
            the types are Text, Int, Float, Bool, Instant, Uuid, Json, T?, [T] and { field: T }
    "#]],
    );
    check(
        "app: 'shop'\nevents: { A: Foo }",
        expect![[r#"
        1:6-12 syntax.unexpected: `'shop'` cannot stand here
            texts stand in double quotes: "…"
        2:14-17 event.name_unknown: there is no type `Foo`
            the types are Text, Int, Float, Bool, Instant, Uuid, Json, T?, [T] and { field: T }
    "#]],
    );
    check(
        "app: “shop”\n",
        expect![[r#"
            1:6-12 syntax.unexpected: `“shop”` cannot stand here
                texts stand in straight double quotes: "…"
        "#]],
    );
}

#[test]
fn numbers_and_durations_have_their_forms() {
    let source = r#"connections: {
  a: { driver: Driver.local_queue, queue: "a", functions: [f], visibility: 1.5s }
  b: { driver: Driver.local_queue, queue: "b", functions: [f], visibility: 10sec }
  c: { driver: Driver.local_queue, queue: "c", functions: [f], visibility: -10s, max_receives: 99999999999999999999 }
  d: { driver: Driver.local_queue, queue: "d", functions: [f], visibility: 500_000_000_000_000_000d, max_receives: -1 }
  e: { driver: Driver.local_queue, queue: "e", functions: [f], visibility: 30_000ms, max_receives: 0x10 }
}
functions: { f: { run: f } }
"#;
    check_in_app(
        source,
        expect![[r#"
        3:76-80 syntax.number_invalid: `1.5s` is not a number here
            numbers are whole; write a smaller unit, like 1500ms for 1.5s
        4:76-81 syntax.number_invalid: `10sec` is not a number here
            a duration is a whole number and one unit: 250ms, 10s, 5m, 2h or 1d
        5:76-80 syntax.number_invalid: `-10s` is out of range
            numbers are whole numbers of 64 bits, and durations are not negative
        5:96-116 syntax.number_invalid: `99999999999999999999` is out of range
            numbers are whole numbers of 64 bits, and durations are not negative
        6:76-100 syntax.number_invalid: `500_000_000_000_000_000d` is out of range
            numbers are whole numbers of 64 bits, and durations are not negative
        6:116-118 connection.value_invalid: `max_receives` is -1, which is out of range
            write a number from 1 to 101
        7:100-104 syntax.number_invalid: `0x10` is not a number here
            a duration is a whole number and one unit: 250ms, 10s, 5m, 2h or 1d
    "#]],
    );
}

#[test]
fn a_key_without_a_colon_or_a_value_is_said_once() {
    let source = "connections {\n  a: {\n    driver: Driver.local_queue\n    queue:\n    visibility = 30s\n    functions\n  }\n}\n";
    check_in_app(
        source,
        expect![[r#"
            2:1-12 syntax.unexpected: there is no `:` between `connections` and its value
                write `connections: …`
            5:5-10 syntax.value_missing: `queue` has no value
                write a value after `queue:`
            6:16-17 syntax.unexpected: there is no `:` between `visibility` and its value
                write `visibility: …`
            7:5-14 syntax.unexpected: there is no `:` between `functions` and its value
                write `functions: …`
        "#]],
    );
    check_in_app(
        "events: { A: , B: Json, C: }",
        expect![[r#"
        2:11-12 syntax.value_missing: `A` has no value
            write a value after `A:`
        2:25-26 syntax.value_missing: `C` has no value
            write a value after `C:`
    "#]],
    );
    check_in_app(
        "events:",
        expect![[r#"
        2:1-7 syntax.value_missing: `events` has no value
            write a value after `events:`
    "#]],
    );
}

#[test]
fn a_name_has_letters_digits_and_underscores() {
    check_in_app(
        "events: { stock-moved: Json, Lager_Bestand: Json, _x: Json, Überraschung: Json, 9a: Json }",
        expect![[r#"
            2:11-22 syntax.name_invalid: `stock-moved` is not a name
                names have letters, digits and underscores, and start with a letter; write `stock_moved`
            2:51-53 syntax.name_invalid: `_x` is not a name
                names have letters, digits and underscores, and start with a letter; write `x`
            2:61-73 syntax.name_invalid: `Überraschung` is not a name
                names have at most 64 letters, digits and underscores, and start with a letter
            2:81-83 syntax.unexpected: `9a` cannot stand here
                an entry starts with its name, as in `key: value`
        "#]],
    );
}

#[test]
fn a_name_written_twice_is_refused_with_both_places() {
    check_in_app(
        "events: { A: Json, B: { x: Int, x: Text }, A: Text }\nevents: { C: Json }\napp: \"b\"",
        expect![[r#"
        2:33-34 syntax.key_twice: `x` is written twice
            remove one of them, or give one another name
        2:44-45 syntax.key_twice: `A` is written twice
            remove one of them, or give one another name
        3:1-7 syntax.key_twice: `events` is written twice
            remove one of them, or give one another name
        4:1-4 syntax.key_twice: `app` is written twice
            remove one of them, or give one another name
    "#]],
    );
}

#[test]
fn one_brace_that_is_missing_is_one_problem() {
    let source = r#"connections: {
  a: {
    driver: Driver.local_queue
    queue: "a"
    functions: [f]
  b: {
    driver: Driver.local_queue
    queue: "B"
    functions: [f]
  }
}
functions: { f: { run: f } }
"#;
    check_in_app(
        source,
        expect![[r#"
            3:6-7 syntax.unclosed: this `{` is never closed
                write `}` where it ends
            9:13-14 connection.value_invalid: `B` is no local queue's name: the capital letter `B` at place 1 is not allowed
                write `"b"`; a local queue's name is 1 to 58 lowercase letters, digits and dashes, with a letter or digit at both ends, and does not start with `schedule-`
        "#]],
    );
    check_in_app(
        "events: {\n  A: Json\n\nfunctions: {\n  f: { runs: f }\n}\n",
        expect![[r#"
            2:9-10 syntax.unclosed: this `{` is never closed
                write `}` where it ends
            6:8-12 function.key_invalid: function `f` takes no `runs`
                did you mean `run`?
        "#]],
    );
    check_in_app(
        "events: {\n  A: [Json\n  B: Foo\n}\nfunctions: {\n  f: { runs: f }\n}\n",
        expect![[r#"
            3:6-7 syntax.unclosed: this `[` is never closed
                write `]` where it ends
            4:6-9 event.name_unknown: there is no type `Foo`
                the types are Text, Int, Float, Bool, Instant, Uuid, Json, T?, [T] and { field: T }
            7:8-12 function.key_invalid: function `f` takes no `runs`
                did you mean `run`?
        "#]],
    );
}

#[test]
fn one_brace_too_many_is_one_problem() {
    check_in_app(
        "events: {\n  A: Json\n  }\n}\nfunctions: {\n  f: { runs: f }\n}\n",
        expect![[r#"
            4:3-4 syntax.unclosed: this `}` closes nothing
                remove it, or open it before
            7:8-12 function.key_invalid: function `f` takes no `runs`
                did you mean `run`?
        "#]],
    );
    check_in_app(
        "events: { A: Json ] }\nfunctions: { f: { runs: f } }",
        expect![[r#"
            2:19-20 syntax.unclosed: this `]` closes nothing
                remove it, or open it before
            3:19-23 function.key_invalid: function `f` takes no `runs`
                did you mean `run`?
        "#]],
    );
}

#[test]
fn reading_goes_on_after_what_cannot_be_read() {
    let source = "events: {\n  ; A: Json\n  B: @x\n  C: Driver.\n  D: Json E: Json\n  F: Json,, G: Foo\n  /* no */ H: Foo\n  # no\n  I: Foo\n}\n";
    check_in_app(
        source,
        expect![[r#"
            3:3-4 syntax.unexpected: `;` cannot stand here
                entries are parted by a comma or a new line
            4:6-7 syntax.unexpected: `@` cannot stand here
                a value is a text, a number, a duration, true or false, a name, a call, a list or a block
            5:12-13 syntax.unexpected: the name ends with a dot
                a name goes on after its dot, as in `Driver.local_queue`
            6:11-12 syntax.unexpected: `E` cannot stand here
                entries are parted by a comma or a new line
            7:11-12 syntax.unexpected: `,` cannot stand here
                an entry starts with its name, as in `key: value`
            7:16-19 event.name_unknown: there is no type `Foo`
                the types are Text, Int, Float, Bool, Instant, Uuid, Json, T?, [T] and { field: T }
            8:3-11 syntax.unexpected: `/* no */` cannot stand here
                comments start with //
            9:3-7 syntax.unexpected: `# no` cannot stand here
                comments start with //
            10:6-9 event.name_unknown: there is no type `Foo`
                the types are Text, Int, Float, Bool, Instant, Uuid, Json, T?, [T] and { field: T }
        "#]],
    );
}

#[test]
fn an_unknown_block_is_skipped_whatever_it_holds() {
    let source = r#"capabilities: { http: { allow: ["*"] }, `what`: @ever => { x -> y; } }
fn total(order) -> Money { return order.lines.map(l => l.price * "}".len()) }
entities {
  Order { id: Uuid @primary }
}
version: 3
subscriber: { a: 1 }
events: { A: Json }
"#;
    check_in_app(
        source,
        expect![[r#"
        2:1-13 note.block_skipped: `capabilities` is not a block that jadpo reads, so it is skipped
        3:1-3 note.block_skipped: `fn` is not a block that jadpo reads, so it is skipped
        4:1-9 note.block_skipped: `entities` is not a block that jadpo reads, so it is skipped
        7:1-8 note.block_skipped: `version` is not a block that jadpo reads, so it is skipped
        8:1-11 note.block_skipped: `subscriber` is not a block that jadpo reads, so it is skipped
            did you mean `subscribers`?
        9:11-12 note.unused: nothing uses event `A`
            name it in `receiving:`, or remove it
    "#]],
    );
}

#[test]
fn an_unknown_block_that_is_never_closed_does_not_swallow_the_file() {
    check_in_app(
        "entities: {\n  Order: {\n    id: Uuid\n  }\nevents: {\n  A: Foo\n}\n",
        expect![[r#"
        2:11-12 syntax.unclosed: this `{` is never closed
            write `}` where it ends
        7:6-9 event.name_unknown: there is no type `Foo`
            the types are Text, Int, Float, Bool, Instant, Uuid, Json, T?, [T] and { field: T }
        2:1-9 note.block_skipped: `entities` is not a block that jadpo reads, so it is skipped
    "#]],
    );
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| format!("events: {{ A: {}Json{} }}", "[".repeat(depth), "]".repeat(depth));
    check_in_app(
        &nested(63),
        expect![[r#"
            2:39-119 event.value_invalid: this type is nested more than 24 deep
                write `Json` for what is so deep
        "#]],
    );
    check_in_app(
        &nested(64),
        expect![[r#"
            2:39-121 event.value_invalid: this type is nested more than 24 deep
                write `Json` for what is so deep
            2:77-78 syntax.too_deep: this is nested more than 64 deep
                write it with fewer levels
        "#]],
    );
}

#[test]
fn optional_is_said_once() {
    check_in_app(
        "events: { A: { a: Int??, b: [Text?]?, c: 7? } }",
        expect![[r#"
        2:23-24 syntax.unexpected: one `?` is enough
            remove this `?`
        2:42-43 event.value_invalid: `c` takes a type, and this is a number
            write a type, like Text, Int?, [Text] or { sku: Text }
    "#]],
    );
}

#[test]
fn queues_and_schedules_have_no_block_of_their_own() {
    check_in_app(
        "queues: { jobs: { functions: [pay] } }\nschedules: { sweep: \"0 * * * *\" }\n",
        expect![[r#"
            2:1-7 app.key_invalid: `queues` is not a block of its own
                a queue is a connection: `connections: { jobs: { driver: Driver.local_queue, queue: "jobs" } }`
            3:1-10 app.key_invalid: `schedules` is not a block of its own
                a schedule belongs to its function: `functions: { sweep: { exec: ["./sweep.sh"], schedule: "0 * * * *" } }`
        "#]],
    );
}
