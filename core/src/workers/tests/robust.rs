//! Whatever is given, nothing panics, and what is said is in its place.

use proptest::prelude::*;

use super::super::{FILE_LEN_MAX, Format, NOTES_MAX, dot_vars, read};

fn check(text: &str) {
    for format in [Format::Json, Format::Toml] {
        for environment in [None, Some("e")] {
            let notes = match read(text, format, environment) {
                Ok(given) => given.warnings,
                Err(problems) => {
                    assert!(!problems.is_empty());
                    problems
                }
            };
            assert!(notes.len() <= NOTES_MAX + 1);
            for note in notes {
                assert!(note.span.is_none_or(|span| text.get(span).is_some()));
                assert!(!note.message.is_empty());
            }
        }
    }
    let _ = dot_vars(text);
}

#[test]
fn what_nests_without_end_is_refused() {
    for text in ["[".repeat(300_000), "{\"a\":".repeat(150_000), format!("{}{}", "[".repeat(70), "]".repeat(70))] {
        check(&text);
        check(&format!("{{\"vars\": {{\"a\": {text}}}}}"));
        check(&format!("a = {text}"));
    }
    for depth in [70, 50_000] {
        let keys = vec!["a"; depth].join(".");
        check(&format!("{keys} = 1"));
        check(&format!("[{keys}]"));
        check(&format!("[[{keys}]]\n[[{keys}]]"));
    }
}

#[test]
fn a_file_that_is_too_long_is_refused() {
    check(&" ".repeat(FILE_LEN_MAX + 1));
}

#[test]
fn of_thousands_of_problems_the_first_are_said() {
    let text = format!("{{ \"queues\": {{ \"consumers\": [{}] }} }}", vec!["{\"x\": 1}"; 20_000].join(","));
    let problems = read(&text, Format::Json, None).expect_err("nothing is right");
    assert_eq!(problems.len(), NOTES_MAX + 1);
    assert!(problems[NOTES_MAX].message.contains("more problems"));
    check(&text);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "how long it takes is what is tested")]
fn a_file_as_long_as_may_be_is_read_in_a_moment_whatever_it_holds() {
    let all = |one: &dyn Fn(usize) -> String| {
        let mut text = String::new();
        for at in 0.. {
            let next = one(at);
            if text.len() + next.len() > FILE_LEN_MAX - 200 {
                return text;
            }
            text.push_str(&next);
        }
        text
    };
    let head = "\"name\": \"w\", \"main\": \"w.js\", \"compatibility_date\": \"2026-11-01\"";
    let keys = all(&|at| format!(", \"compat{at}\": 1"));
    let crons = all(&|at| format!("\"{} * * * *\",", at % 60));
    let consumers = all(&|at| format!("{{\"queue\": \"q{at}\", \"max{at}\": 1}},"));
    let objects = all(&|at| format!("{{\"name\": \"o{at}\", \"class_name\": \"O{at}\"}},"));
    for text in [
        format!("{{ {head}{keys} }}"),
        format!("{{ {head}, \"triggers\": {{ \"crons\": [{crons}] }} }}"),
        format!("{{ {head}, \"queues\": {{ \"consumers\": [{consumers}] }} }}"),
        format!("{{ {head}, \"durable_objects\": {{ \"bindings\": [{objects}] }} }}"),
        format!("{{ {head}, \"vars\": {{ \"a\": 1{keys} }} }}"),
    ] {
        let started = std::time::Instant::now();
        let _ = read(&text, Format::Json, None);
        assert!(started.elapsed().as_secs() < 20, "{:.60}… took {:?}", text, started.elapsed());
    }
}

proptest! {
    #[test]
    fn nothing_panics_on_any_text(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn nothing_panics_on_what_looks_like_a_file(parts in prop::collection::vec(prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"name\"", "\"queues\"", "\"consumers\"", "\"queue\"", "\"env\"", "\"e\"", "1", "-1.5",
        "null", "true", "\"q\"", "//x\n", "/*", "*/", "=", "\n", "[[", "]]", "queues", ".consumers", "env.e", "\"\\ud800\"",
        "'", "\u{feff}", "☃", "\"main\"", "\"triggers\"", "\"exports\"", "\"migrations\"", "\"rules\"",
    ]), 0..60)) {
        check(&parts.concat());
    }
}
