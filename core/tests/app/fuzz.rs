//! No file, however broken, makes the reader panic, hang or use much memory.

use std::time::{Duration, Instant};

use jadpo_core::app::{PROBLEMS_MAX, SOURCE_LEN_MAX, compile};
use jadpo_core::program::Program;
use proptest::prelude::*;

const DESIGN: &str = include_str!("design.jadpo");

/// What holds of every file.
fn holds(source: &str) {
    let compiled = compile(source);
    assert_eq!(compiled.program.is_some(), compiled.problems.is_empty());
    assert!(compiled.problems.len() <= PROBLEMS_MAX && compiled.notes.len() <= PROBLEMS_MAX);
    assert!(compiled.problems_more == 0 || compiled.problems.len() == PROBLEMS_MAX);
    assert!(compiled.problems.is_sorted_by_key(|problem| problem.span));
    let spans = compiled.problems.iter().flat_map(|found| [Some(found.span), found.related.as_ref().map(|it| it.0)]);
    for span in spans.flatten().chain(compiled.notes.iter().map(|note| note.span)) {
        assert!(source.get(span.start..span.end).is_some(), "{span:?} is no part of the source");
    }
    for problem in &compiled.problems {
        assert!(problem.message.len() < 2_000, "a message is for a person: {}", problem.message.len());
    }
    assert_eq!(compile(source), compiled, "the same file gives the same result");
    if let Some(program) = compiled.program {
        let json = serde_json::to_string(&program).unwrap();
        assert_eq!(serde_json::from_str::<Program>(&json).unwrap(), program);
    }
}

fn char_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

/// One change of a right file: a part of it gone, doubled, or something put in its place.
fn mutated(source: &str, (at, len, piece): &(usize, usize, String)) -> String {
    let start = char_boundary(source, at % (source.len() + 1));
    let end = char_boundary(source, start + len);
    format!("{}{}{}", &source[..start], piece, &source[end..])
}

fn piece() -> impl Strategy<Value = String> {
    let tokens = prop::sample::select(vec![
        "",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ":",
        ",",
        ".",
        "?",
        "\"",
        "'",
        "\\",
        "//",
        "/*",
        "#",
        "\n",
        " ",
        "app",
        "true",
        "env(",
        "Driver.",
        "Driver.cloudflare_queues",
        "10s",
        "-7",
        "0x",
        "\"a\"",
        "queue:",
        "events: {",
        "Text?",
        "é",
        "\u{0}",
        "\u{feff}",
        "Target.native",
        "connections: {",
        "dead_letter_queue: \"a\"",
        "\r\n",
    ]);
    prop_oneof![4 => prop::collection::vec(tokens, 0..6).prop_map(|all| all.concat()), 1 => ".{0,12}"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read(source in "(.|\n){0,400}") {
        holds(&source);
    }

    #[test]
    fn any_bytes_that_are_text_are_read(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        holds(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_tokens_are_read(pieces in prop::collection::vec(piece(), 0..60)) {
        holds(&pieces.concat());
    }

    #[test]
    fn a_right_file_with_a_few_changes_is_read(changes in prop::collection::vec((any::<usize>(), 0..40usize, piece()), 1..6)) {
        let source = changes.iter().fold(DESIGN.to_owned(), |source, change| mutated(&source, change));
        holds(&source);
    }
}

#[test]
fn a_file_cut_off_anywhere_is_read() {
    for (at, _) in DESIGN.char_indices() {
        holds(&DESIGN[..at]);
    }
}

#[test]
fn a_file_that_lacks_any_one_of_its_bytes_is_read() {
    for (at, c) in DESIGN.char_indices() {
        holds(&format!("{}{}", &DESIGN[..at], &DESIGN[at + c.len_utf8()..]));
    }
}

/// Much of a pattern, read in a time that leaves no room for more than linear work.
#[test]
fn a_long_file_of_any_pattern_is_read_in_little_time() {
    let patterns = [
        "{",
        "}",
        "[",
        "]",
        "(",
        "a:{",
        "a:[",
        "a: [{",
        "{[(",
        "}])",
        "a(",
        "env(",
        "a.",
        "a?",
        "?",
        ":",
        ",",
        "\"",
        "\\",
        "\"a\"",
        "\"\\u{",
        "'",
        "/*",
        "//",
        "#",
        "-",
        "1",
        "1s ",
        "a ",
        "a\n",
        "a: ",
        "a: 1\n",
        "a: b: ",
        "a: {}\n",
        "a: {\n",
        "  {\n",
        "}\n",
        "  }\n",
        "a: [1, ",
        "x {}\n",
        "é",
        "\u{0}",
        "events: {",
        "events: { A: ",
        "\n",
        "\r\n",
        "a: { b: [\n",
    ];
    const LEN: usize = 128 * 1024;
    for pattern in patterns {
        for start in
            ["", "app: \"a\"\nevents: {\n A: [", "connections: { a: { driver: Driver.cloudflare_pull, domains: ["]
        {
            let source = format!("{start}{}", pattern.repeat(LEN / pattern.len()));
            timed(&format!("{start}{pattern}…"), &source);
        }
    }
}

/// As much as a file may have of what takes the most tokens, brackets and problems.
#[test]
fn a_full_file_is_read_in_little_time() {
    for pattern in ["{", "}", "a: {\n", "x {}\n", "a: [1, ", "\""] {
        timed(pattern, &pattern.repeat(SOURCE_LEN_MAX / pattern.len()));
    }
}

#[test]
fn a_full_file_of_many_things_is_read_in_little_time() {
    let many = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
    let keys = many(60_000, &|n| format!("k{n}: Text\n"));
    timed("many fields", &format!("app: \"a\"\nevents: {{ A: {{\n{keys}}} }}"));
    let names = many(60_000, &|n| format!("f{n},"));
    timed(
        "many unknown names",
        &format!(
            "app: \"a\"\nconnections: {{ a: {{ driver: Driver.local_queue, queue: \"a\", functions: [{names}] }} }}\n\
         functions: {{ {} }}",
            many(990, &|n| format!("g{n}: {{ run: f }},"))
        ),
    );
    let hosts = many(40_000, &|n| format!("\"h{n}.example.com\","));
    timed("many hosts", &format!("connections: {{ a: {{ driver: Driver.cloudflare_pull, domains: [{hosts}] }} }}"));
    let connections = many(1_000, &|n| {
        format!("c{n}: {{ driver: Driver.cloudflare_queues, queue: \"q{n}\", dead_letter_queue: \"d{n}\" }}\n")
    });
    let native = many(1_000, &|n| format!("n{n}: {{ target: Target.native, triggers: [Trigger.subscribers] }}\n"));
    timed("each with each", &format!("app: \"a\"\nconnections: {{\n{connections}}}\ndeployables: {{\n{native}}}\n"));
}

fn timed(name: &str, source: &str) {
    const MOST: Duration = Duration::from_secs(20); // a debug build on a busy machine; what is quadratic takes minutes
    assert!(source.len() <= SOURCE_LEN_MAX);
    #[allow(clippy::disallowed_methods, reason = "a test may look at the clock")]
    let start = Instant::now();
    let compiled = compile(source);
    assert!(compiled.problems.len() <= PROBLEMS_MAX);
    let took = start.elapsed();
    assert!(took < MOST, "{name} took {took:?}");
}
