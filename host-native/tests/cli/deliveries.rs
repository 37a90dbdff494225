use std::fs;
use std::path::Path;

use crate::support::{Server, TOKEN, app_text, jadpo, json, receive_into, stderr, stdout};

const BODIES: [&str; 4] = [r#"{"sku": 5}"#, "not json \u{1b}[2J", r#"{"sku": "A"}"#, "{\"note\": \"\u{feff}no sku\"}"];

/// A folder with an app and a store in which three of four messages are parked.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let app = app_text("sku: Text", "http://127.0.0.1:9/");
    fs::write(dir.path().join("app.jadpo"), &app).unwrap();
    receive_into(&dir.path().join(".jadpo/queues.db"), &app, &BODIES);
    dir
}

fn ids(dir: &Path, args: &[&str]) -> Vec<String> {
    let listed = json(&jadpo(dir, &[&["deliveries", "--json"], args].concat()));
    let items = listed["items"].as_array().unwrap();
    items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_parked_is_a_table_for_people_with_nothing_in_it_that_steers_their_terminal() {
    let dir = folder();
    let listed = jadpo(dir.path(), &["deliveries"]);
    assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    let told = stdout(&listed);
    for part in ["p1", "p2", "p3", "rejected", "unreadable", "stock", "3 items"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let shown = stdout(&jadpo(dir.path(), &["deliveries", "show", "p2"]));
    assert!(shown.contains("not json \\u{1b}[2J") && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn filters_and_limits_choose_what_is_listed() {
    let dir = folder();
    assert_eq!(ids(dir.path(), &[]).len(), 3);
    assert_eq!(ids(dir.path(), &["--reason", "unreadable"]), ["p2"]);
    assert_eq!(ids(dir.path(), &["--queue", "stock", "--limit", "2"]).len(), 2);
    assert_eq!(ids(dir.path(), &["--queue", "other"]), [""; 0]);
    assert_eq!(ids(dir.path(), &["--kind", "failed"]), [""; 0]);
    assert_eq!(ids(dir.path(), &["list", "--connection", "stock"]).len(), 3);
    assert_eq!(json(&jadpo(dir.path(), &["deliveries", "--limit", "2", "--json"]))["more"], true);
    let slip = jadpo(dir.path(), &["deliveries", "--reason", "rejekted"]);
    assert_eq!(slip.status.code(), Some(2));
    assert!(stderr(&slip).contains("unreadable, rejected, dead_lettered"), "{}", stderr(&slip));
}

#[test]
fn a_store_in_the_folder_itself_and_an_app_file_that_is_broken_or_not_there_do_no_harm() {
    let dir = folder();
    fs::rename(dir.path().join(".jadpo/queues.db"), dir.path().join("store.db")).unwrap();
    let listed = || json(&jadpo(dir.path(), &["deliveries", "--store", "store.db", "--queue", "stock", "--json"]));
    let with_app = listed();
    assert_eq!(with_app["items"].as_array().unwrap().len(), 3);
    fs::write(dir.path().join("app.jadpo"), "app: ").unwrap();
    assert_eq!(listed(), with_app);
    fs::remove_file(dir.path().join("app.jadpo")).unwrap();
    assert_eq!(listed(), with_app);
    let named = jadpo(dir.path(), &["deliveries", "--store", "store.db", "--app", "app.jadpo"]);
    assert_eq!(named.status.code(), Some(2), "one that was named must be right");
}

#[test]
fn a_body_comes_out_byte_for_byte() {
    let dir = folder();
    for (id, body) in [("p1", BODIES[0]), ("p2", BODIES[1]), ("p3", BODIES[3])] {
        let shown = jadpo(dir.path(), &["deliveries", "show", id, "--body"]);
        assert_eq!(shown.stdout, body.as_bytes(), "{id}: {}", stdout(&shown));
    }
}

#[test]
fn a_retry_says_how_many_were_taken_and_which_ids_are_none() {
    let dir = folder();
    let retried = jadpo(dir.path(), &["deliveries", "retry", "p1", "p99", "nonsense"]);
    assert_eq!(retried.status.code(), Some(1));
    assert!(stdout(&retried).contains("1 item"), "{}", stdout(&retried));
    assert!(stderr(&retried).contains("p99, nonsense"), "{}", stderr(&retried));
    let all = json(&jadpo(dir.path(), &["deliveries", "--json", "--reason", "unreadable", "retry", "--all"]));
    assert_eq!(all["retried"], 1, "a filter in front of the subcommand counts too: {all}");
    for args in [&["retry"][..], &["retry", "p1", "--all"], &["retry", "p1", "--queue", "stock"]] {
        assert_eq!(jadpo(dir.path(), &[&["deliveries"], args].concat()).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn a_running_server_gives_the_same_answers_as_its_store() {
    let dir = folder();
    let server = Server::start(dir.path(), &[], &[("JADPO_ADMIN_TOKEN", TOKEN)]);
    let at = ["--url", &server.url, "--token", TOKEN];
    let ask = |args: &[&str]| jadpo(dir.path(), &[&["deliveries"], args, &at[..]].concat());
    let listed = json(&ask(&["--json"]));
    let ids: Vec<&str> = listed["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["p3", "p2", "p1"], "newest first");
    assert_eq!(ask(&["show", "p2", "--body"]).stdout, BODIES[1].as_bytes());
    let retried = json(&ask(&["retry", "--all", "--queue", "stock", "--json"]));
    assert_eq!(retried["retried"], 3);
    assert_eq!(server.logged("tick.done")["still_parked"], 3);
    assert_eq!(ask(&["show", "p99"]).status.code(), Some(1));
    assert_eq!(ask(&["show", "d24"]).status.code(), Some(2), "no id at all is the caller's mistake");
}

#[test]
fn what_keeps_it_from_asking_is_said_with_what_to_do() {
    let dir = folder();
    let off = Server::start(dir.path(), &[], &[]);
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--url", &off.url, "--token", TOKEN], 1, "JADPO_ADMIN_TOKEN"),
        (&["--url", &off.url], 2, "asks for a token"),
        (&["--url", &off.url], 2, "`jadpo dev` has none unless JADPO_ADMIN_TOKEN is set where it runs"),
        (&["--url", "localhost:7900", "--token", TOKEN], 2, "write http://localhost:7900"),
        (&["--url", "127.0.0.1:7900", "--token", TOKEN], 2, "write http://127.0.0.1:7900"),
        (&["--url", "http://127.0.0.1:9", "--token", TOKEN], 1, "is it running"),
        (&["--url", "ftp://x", "--token", TOKEN], 2, "no http:// or https:// address"),
        (&["--store", "nowhere.db"], 2, "there is no store at `nowhere.db`"),
        (&["--store", "app.jadpo"], 2, "is no store of jadpo's"),
    ];
    for (args, exit, said) in cases {
        let refused = jadpo(dir.path(), &[&["deliveries"], args].concat());
        assert_eq!(refused.status.code(), Some(exit), "{args:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(said), "{args:?}: {}", stderr(&refused));
        let told = json(&jadpo(dir.path(), &[&["deliveries", "--json"], args].concat()));
        assert!(told["code"].as_str().is_some_and(|code| !code.is_empty()), "{args:?}: {told}");
    }
    assert!(!dir.path().join("nowhere.db").exists());
}
