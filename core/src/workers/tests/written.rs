//! How a file is written: keys written twice, what is no JSON or TOML, numbers.

use expect_test::expect;

use super::super::{Format, read};
use super::{given, problems, said, warnings, with, worker};

#[test]
fn a_key_written_twice_counts_as_it_is_written_last_and_that_is_said() {
    let text = with(r#""minify": 5, "minify": true"#);
    assert!(worker(&text).code.minify);
    expect![[r#"
        file @ "minify"
          `minify` is written twice, and what is written last counts
          help: leave one of them out
    "#]]
    .assert_eq(&warnings(&text, None));
}

#[test]
fn what_is_no_json_or_toml_is_said_once() {
    for (text, expected) in [
        (
            "",
            expect![[r#"
                file @ -
                  the file is empty
                  help: write `{ "name": "…", "main": "src/index.ts", "compatibility_date": "…" }`
            "#]],
        ),
        (
            "// nothing\n",
            expect![[r#"
                file @ -
                  the file is empty
                  help: write `{ "name": "…", "main": "src/index.ts", "compatibility_date": "…" }`
            "#]],
        ),
        (
            "[]",
            expect![[r#"
                file @ []
                  the file holds a list, and a Wrangler file is a table
                  help: write `{ … }`
            "#]],
        ),
        (
            "{ \"name\": \"a\" \"main\": \"b\" }",
            expect![[r#"
                file @ nothing
                  the file is no JSON: expected comma
                  help: write it as JSON; comments and a comma after the last entry are allowed
            "#]],
        ),
        (
            "{ \"vars\": { \"A\": [{} {}] } }",
            expect![[r#"
                file @ nothing
                  the file is no JSON: expected comma
                  help: write it as JSON; comments and a comma after the last entry are allowed
            "#]],
        ),
        (
            "{ name: 'a' }",
            expect![[r#"
                file @ name
                  the file is no JSON: expected string for object property
                  help: write it as JSON; comments and a comma after the last entry are allowed
            "#]],
        ),
        (
            "{ \"a\": 1e999 }",
            expect![[r#"
                file @ 1e999
                  the number is larger than any that JSON carries
                  help: -
            "#]],
        ),
        (
            "{ \"a\": ",
            expect![[r#"
                file @ nothing
                  the file is no JSON: expected value after colon in object property
                  help: write it as JSON; comments and a comma after the last entry are allowed
            "#]],
        ),
    ] {
        expected.assert_eq(&problems(text, None));
    }
    let toml = "name = w\nmain = \"w.js\"\n";
    expect![[r#"
        file @ w
          the file is no TOML: string values must be quoted, expected literal string
          help: write it as TOML: `key = "text"`, `key = 3`, `key = ["a", "b"]`, `[table]`
    "#]]
    .assert_eq(&said(toml, &read(toml, Format::Toml, None).unwrap_err()));
    let toml = "name = \"w\"\nmain = \"w.js\"\ncompatibility_date = 2026-11-01\n[vars]\nA = 2026-11-01\nB = inf\n";
    expect![[r#"
        file @ inf
          the number is no finite one
          help: write it in quotes
    "#]]
    .assert_eq(&said(toml, &read(toml, Format::Toml, None).unwrap_err()));
}

#[test]
fn a_whole_number_that_json_writes_in_another_way_is_that_number() {
    let text = with(r#""vars": { "A": 1e3, "B": -0.5, "C": 9007199254740993 }"#);
    expect![[r#"{"A": Json(Number(1000)), "B": Json(Number(-0.5)), "C": Json(Number(9007199254740993))}"#]]
        .assert_eq(&format!("{:?}", given(&text, None).worker.vars));
}
