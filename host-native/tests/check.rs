//! `jadpo check` as a person and a tool run it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::string_slice, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder with an app file, gone when the test ends.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(source: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("app.jadpo"), source).unwrap();
        Folder(folder)
    }

    fn check(&self, args: &[&str]) -> Output {
        check_in(self.0.path(), args)
    }
}

fn check_in(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jadpo"))
        .arg("check")
        .args(args)
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON object")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn warehouse() -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../host-test/apps/warehouse/app.jadpo"].iter().collect();
    fs::read_to_string(path).unwrap()
}

const WRONG: &str =
    "app: \"shop\"\nconnections: {\n    stock: { driver: Driver.cloudflare_queues, queue: \"Stock\" }\n}\n";

#[test]
fn a_right_file_in_this_folder_is_done() {
    let output = Folder::with(warehouse()).check(&[]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), "app.jadpo: no problems\n");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn every_problem_is_shown_with_its_place_its_line_and_what_to_write() {
    let output = Folder::with(WRONG).check(&[]);
    assert_eq!(output.status.code(), Some(2));
    let shown = text(&output.stderr);
    for part in [
        "error[connection.key_missing]: connection `stock` has no `dead_letter_queue:`",
        "error[connection.value_invalid]: `Stock` is no queue name",
        " --> app.jadpo:3:56\n",
        "3 |     stock: { driver: Driver.cloudflare_queues, queue: \"Stock\" }\n",
        "  |                                                        ^\n",
        "help: write `\"stock\"`",
        "app.jadpo: 2 problems\n",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colours where nobody sees them");
}

#[test]
fn json_is_one_object_with_places_and_codes() {
    let output = Folder::with(WRONG).check(&["--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stderr), "");
    let report = json(&output);
    assert_eq!(report["file"], "app.jadpo");
    assert_eq!(report["ok"], false);
    assert_eq!(report["notes"], serde_json::json!([]));
    let problem = &report["problems"][1];
    assert_eq!(problem["code"], "connection.value_invalid");
    assert_eq!(problem["severity"], "error");
    assert_eq!(
        [&problem["line"], &problem["column"], &problem["end_line"], &problem["end_column"]]
            .map(|it| it.as_u64().unwrap()),
        [3, 56, 3, 57]
    );
    assert!(problem["help"].as_str().unwrap().contains("\"stock\""));
    assert!(report.get("network").is_none(), "only when it is asked for");
}

#[test]
fn the_network_report_is_a_table_or_part_of_the_json() {
    let folder = Folder::with(warehouse());
    let table = folder.check(&["--network"]);
    assert_eq!(table.status.code(), Some(0));
    let row = text(&table.stdout).lines().find(|line| line.contains("warehouse_queue")).unwrap().to_owned();
    assert!(row.contains("Driver.cloudflare_queues") && row.contains("none"), "{row}");
    assert!(text(&table.stdout).contains("127.0.0.1:8788"));

    let report = json(&folder.check(&["--network", "--json"]));
    let connection = serde_json::json!({"kind": "connection", "name": "warehouse_queue", "through": "Driver.cloudflare_queues", "hosts": []});
    assert_eq!(report["network"][0], connection);
    assert_eq!(report["network"].as_array().unwrap().len(), 3);

    let native = json(&folder.check(&["--network", "--json", "--deployable", "server"]));
    let names: Vec<&str> =
        native["network"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ledger"], "a native server has no queue binding and no service binding");
}

#[test]
fn one_deployable_is_checked_beside_another_that_is_refused() {
    let folder = Folder::with(warehouse().replace("[Trigger.http, Trigger.tick]", "[Trigger.subscribers]"));
    let all = folder.check(&[]);
    assert_eq!(all.status.code(), Some(2));
    assert!(text(&all.stderr).contains("error[target.driver_refused]: native deployable `server`"));
    assert_eq!(folder.check(&["--deployable", "server"]).status.code(), Some(2));
    assert_eq!(folder.check(&["--deployable", "edge"]).status.code(), Some(0));
    let unknown = Folder::with(warehouse()).check(&["--deployable", "edgy"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("the app declares edge, server"));
}

#[test]
fn a_file_that_is_not_there_is_wrong_input_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let output = check_in(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("there is no file `app.jadpo`, and no project.toml beside it"), "{told}");
    let report = json(&check_in(folder.path(), &["no.jadpo", "--json"]));
    assert_eq!((&report["ok"], &report["file"]), (&Value::from(false), &Value::from("no.jadpo")));
    assert_eq!(report["problems"][0]["code"], "file.unreadable");
}

#[test]
fn a_folder_stands_for_its_app_file() {
    let folder = Folder::with(warehouse());
    assert_eq!(check_in(Path::new("/"), &[folder.0.path().to_str().unwrap()]).status.code(), Some(0));
}

#[test]
fn bytes_that_are_no_text_and_files_that_are_too_large_are_refused() {
    let output = Folder::with(b"app: \"a\"\n\xff").check(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is not UTF-8 text: line 2"), "{}", text(&output.stderr));
    let output = Folder::with(vec![b' '; 2_000_000]).check(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("2000000 bytes"), "{}", text(&output.stderr));
}

#[test]
fn a_problem_on_a_line_of_a_mebibyte_is_shown_without_the_line() {
    let output = Folder::with(format!("app: \"a\", events: {{ {} B: Foo }}", "a".repeat(1_000_000))).check(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stderr.len() < 10_000, "{} bytes", output.stderr.len());
    assert!(text(&output.stderr).contains("--> app.jadpo:1:"), "{}", text(&output.stderr));
}

#[test]
fn a_file_of_nothing_but_problems_ends_with_how_many_there_are() {
    let fields: String = (0..5_000).map(|number| format!("f{number}: Foo\n")).collect();
    let output = Folder::with(format!("app: \"a\"\nevents: {{ E: {{\n{fields}}} }}")).check(&[]);
    assert!(text(&output.stderr).ends_with("app.jadpo: 100 problems, and 4900 more\n"));
}

#[test]
fn a_program_that_is_not_there_or_may_not_be_run_is_a_note() {
    let folder = Folder::with(
        "app: \"a\"\nfunctions: {\n  a: { exec: [\"./gone.sh\"], schedule: \"0 * * * *\" }\n  \
         b: { exec: [\"./text.sh\"], schedule: \"0 * * * *\" }\n  c: { exec: [\"no-such-program\"], schedule: \"0 * * * *\" }\n  \
         d: { exec: [\"sh\", \"-c\", \"true\"], schedule: \"0 * * * *\" }\n}\n",
    );
    fs::write(folder.0.path().join("text.sh"), "#!/bin/sh\n").unwrap();
    let output = folder.check(&["--json"]);
    assert_eq!(output.status.code(), Some(0), "on another machine they may be there");
    let report = json(&output);
    let notes: Vec<(u64, &str)> = report["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| (note["line"].as_u64().unwrap(), note["message"].as_str().unwrap()))
        .collect();
    assert_eq!(
        notes,
        [
            (3, "function `a` runs `./gone.sh`, which is not there"),
            (4, "function `b` runs `./text.sh`, which is no executable file"),
            (5, "function `c` runs `no-such-program`, and no such program is on the PATH"),
        ]
    );
    assert!(report["notes"][1]["help"].as_str().unwrap().starts_with("make it executable: chmod +x "), "{report}");
}

#[test]
fn a_code_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let known = check_in(folder.path(), &["--explain", "target.driver_refused"]);
    assert_eq!(known.status.code(), Some(0));
    assert!(text(&known.stdout).contains("Driver.cloudflare_pull"));
    let unknown = check_in(folder.path(), &["--explain", "target.refused"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("target.driver_refused"));
}
