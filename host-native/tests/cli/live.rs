use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Server, TOKEN, command, held, http, jadpo, jadpo_reading, json, stderr, stdout, subscriber};

const ADMIN: (&str, &str) = ("JADPO_ADMIN_TOKEN", TOKEN);

/// A folder with an app whose queue has a function at this address, a schedule and a webhook.
fn folder(call: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let app = format!(
        r#"app: "shop"
connections: {{
    jobs: {{ driver: Driver.local_queue, queue: "jobs", functions: [pay], max_receives: 1, visibility: 1s }}
}}
functions: {{
    pay: {{ call: "{call}" }}
    sweep: {{ send: "jobs", schedule: "0 4 1 1 *" }}
}}
webhooks: {{ stripe_events: {{ queue: "jobs" }} }}
deployables: {{ server: {{ target: Target.native, triggers: [Trigger.http, Trigger.tick] }} }}
"#
    );
    fs::write(dir.path().join("app.jadpo"), app).unwrap();
    dir
}

fn trigger(dir: &Path, name: &str) -> Value {
    let listed = json(&jadpo(dir, &["triggers", "--json"]));
    let triggers = listed["triggers"].as_array().unwrap();
    triggers.iter().find(|trigger| trigger["name"] == name).unwrap_or_else(|| panic!("{listed}")).clone()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn triggers_tell_what_they_run_and_how_that_last_ended() {
    let (call, calls) = subscriber(200);
    let dir = folder(&call);
    let _server = Server::dev(dir.path(), &[], &[]);
    let queue = trigger(dir.path(), "queue:jobs");
    assert_eq!(
        (&queue["kind"], &queue["functions"][0], &queue["enabled"]),
        (&"queue".into(), &"pay".into(), &true.into())
    );
    assert!(queue["last_run"].is_null(), "{queue}");
    let schedule = trigger(dir.path(), "schedule:sweep");
    assert_eq!((&schedule["schedule"], &schedule["queue"]), (&"0 4 1 1 *".into(), &"jobs".into()));
    assert!(schedule["next_at_ms"].as_i64().unwrap() > 1_700_000_000_000, "{schedule}");

    let sent = json(&jadpo(dir.path(), &["queues", "send", "jobs", "{}", "--json"]));
    assert!(calls.recv_timeout(Duration::from_secs(30)).unwrap().contains("jadpo-queue: jobs"));
    until("the run is known", || !trigger(dir.path(), "queue:jobs")["last_run"].is_null());
    let run = trigger(dir.path(), "queue:jobs")["last_run"].clone();
    assert_eq!((&run["outcome"], &run["message_id"]), (&"done".into(), &sent["ids"][0]));
    let told = stdout(&jadpo(dir.path(), &["triggers"]));
    for part in
        ["queue:jobs", "pay", "done", " ago", "schedule:sweep", "0 4 1 1 *", "never", "01-01T04:00:00Z", "2 triggers"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn while_a_trigger_is_disabled_messages_wait_and_then_they_are_delivered() {
    let (call, calls) = subscriber(200);
    let dir = folder(&call);
    let server = Server::dev(dir.path(), &[], &[ADMIN]);
    let off = jadpo(dir.path(), &["triggers", "disable", "jobs"]);
    assert_eq!(stdout(&off), "queue:jobs is disabled; messages of jobs wait\n", "{}", stderr(&off));
    // A message that was on its way when the trigger was disabled was none of these.
    jadpo(dir.path(), &["queues", "send", "jobs", "1", "--count", "3"]);
    assert!(calls.recv_timeout(Duration::from_millis(700)).is_err(), "nothing is delivered");
    assert_eq!(held(dir.path(), "jobs"), 3);
    let listed = stdout(&jadpo(dir.path(), &["queues"]));
    assert!(listed.contains("pay (trigger disabled)"), "{listed}");
    assert!(stdout(&jadpo(dir.path(), &["triggers"])).contains("disabled"));
    let on = jadpo(dir.path(), &["triggers", "enable", "queue:jobs", "--json", "--url", &server.url, "--token", TOKEN]);
    assert_eq!(json(&on)["enabled"], true);
    for _ in 0..3 {
        calls.recv_timeout(Duration::from_secs(30)).expect("what waited is delivered");
    }
    until("all is done", || held(dir.path(), "jobs") == 0);
    let slip = jadpo(dir.path(), &["triggers", "enable", "job"]);
    assert_eq!(slip.status.code(), Some(2));
    assert!(stderr(&slip).contains("there is no trigger `job`; did you mean `jobs`?"), "{}", stderr(&slip));
    let bare = jadpo(dir.path(), &["triggers", "disable", "sweep"]);
    assert_eq!(stdout(&bare), "schedule:sweep is disabled; its times pass\n");
}

#[test]
fn a_failure_is_told_with_its_reason_and_its_dead_letter_goes_back_when_it_is_mended() {
    let (call, _calls) = subscriber(500);
    let dir = folder(&call);
    let server = Server::dev(dir.path(), &["--visibility-ms", "100"], &[]);
    jadpo_reading(dir.path(), &["queues", "push", "jobs"], b"1\n2\n3\n");
    until("all died", || held(dir.path(), "jobs-dead") == 3);
    let run = trigger(dir.path(), "queue:jobs")["last_run"].clone();
    assert_eq!(run["outcome"], "failed");
    assert!(run["error"].as_str().unwrap().contains("answered 500"), "{run}");
    let told = stdout(&jadpo(dir.path(), &["queues", "dead-letters", "jobs"]));
    assert!(told.contains("pay: answered 500") && told.contains("3 dead letters"), "{told}");
    assert_eq!(server.stop("TERM"), Some(0));

    // The mended function, at another address, and a server that was not there when the redrive began.
    let (call, calls) = subscriber(200);
    let mended = folder(&call);
    fs::copy(mended.path().join("app.jadpo"), dir.path().join("app.jadpo")).unwrap();
    let begun = json(&jadpo(dir.path(), &["queues", "redrive", "jobs", "--detach", "--json"]));
    assert_eq!(begun["state"], "running");
    let _server = Server::dev(dir.path(), &[], &[]);
    for _ in 0..3 {
        calls.recv_timeout(Duration::from_secs(30)).expect("each is delivered again");
    }
    until("all is done", || held(dir.path(), "jobs") + held(dir.path(), "jobs-dead") == 0);
}

#[test]
fn in_dev_a_webhook_s_address_holds_no_token() {
    let (call, calls) = subscriber(200);
    let dir = folder(&call);
    let server = Server::dev(dir.path(), &[], &[]);
    let listed = json(&jadpo(dir.path(), &["webhooks", "--json"]));
    let webhook = &listed["webhooks"][0];
    assert_eq!(webhook["url"], format!("{}/_webhooks/stripe_events", server.url));
    assert_eq!((&webhook["queue"], &webhook["verify"]), (&"jobs".into(), &Value::Null));
    assert_eq!(http(&server.url, "POST", "/_webhooks/stripe_events", &[], b"{}").0, 202);
    calls.recv_timeout(Duration::from_secs(30)).unwrap();
    let rotated = jadpo(dir.path(), &["webhooks", "rotate", "stripe_events"]);
    assert_eq!(rotated.status.code(), Some(2));
    assert!(stderr(&rotated).contains("only `jadpo serve` asks for one"), "{}", stderr(&rotated));
}

#[test]
fn in_production_it_holds_one_and_another_after_a_rotation() {
    let (call, calls) = subscriber(200);
    let dir = folder(&call);
    let server = Server::start(dir.path(), &[], &[ADMIN]);
    let url = |args: &[&str]| {
        let listed = json(&jadpo(dir.path(), &[&["webhooks", "--json"], args].concat()));
        listed["webhooks"][0]["url"].as_str().unwrap().to_owned()
    };
    let first = url(&[]);
    assert_eq!(url(&["--url", &server.url, "--token", TOKEN]), first, "store and server say the same");
    let path = first.strip_prefix(&server.url).unwrap().to_owned();
    assert_eq!(path.len(), "/_webhooks/stripe_events/".len() + 32, "{path}");
    assert_eq!(http(&server.url, "POST", &path, &[], b"{}").0, 202);
    calls.recv_timeout(Duration::from_secs(30)).unwrap();

    let unasked = jadpo(dir.path(), &["webhooks", "rotate", "stripe_events", "--json"]);
    assert_eq!((unasked.status.code(), &json(&unasked)["code"]), (Some(2), &"not_confirmed".into()));
    assert_eq!(http(&server.url, "POST", &path, &[], b"{}").0, 202, "nobody agreed to its end");
    let rotated = json(&jadpo(dir.path(), &["webhooks", "rotate", "stripe_events", "--force", "--json"]));
    let second = rotated["url"].as_str().unwrap().strip_prefix(&server.url).unwrap();
    assert_ne!(second, path);
    assert_eq!(http(&server.url, "POST", &path, &[], b"{}").0, 404, "the old address is dead at once");
    assert_eq!(http(&server.url, "POST", second, &[], b"{}").0, 202);
    let told = stdout(&jadpo(dir.path(), &["webhooks", "list", "--base", "https://hooks.example.com/"]));
    assert!(told.starts_with(&format!("stripe_events → https://hooks.example.com{second}\n")), "{told}");
    let slip = jadpo(dir.path(), &["webhooks", "rotate", "stripe-events"]);
    assert!(stderr(&slip).contains("did you mean `stripe_events`?"), "{}", stderr(&slip));
    let odd = jadpo(dir.path(), &["webhooks", "--base", "hooks.example.com"]);
    assert_eq!(odd.status.code(), Some(2), "{}", stderr(&odd));
}

#[test]
fn a_running_server_gives_the_same_answers_as_its_store() {
    let (call, _calls) = subscriber(500);
    let dir = folder(&call);
    let server = Server::dev(dir.path(), &["--visibility-ms", "100"], &[ADMIN]);
    let there = |args: &[&str]| {
        let mut command = command(dir.path(), &[args, &["--json"]].concat());
        json(&command.env("JADPO_URL", &server.url).env("JADPO_ADMIN_TOKEN", TOKEN).output().unwrap())
    };
    let sent = there(&["queues", "send", "jobs", "{\"a\": 1}", "--count", "130"]);
    assert_eq!(sent["sent"], 130);
    until("all died", || held(dir.path(), "jobs-dead") == 130);
    for args in [
        &["queues", "list"][..],
        &["queues", "show", "jobs"],
        &["queues", "peek", "jobs-dead", "--limit", "110"],
        &["queues", "dead-letters", "jobs", "--limit", "60"],
        &["queues", "redrive", "jobs", "--dry-run"],
        &["triggers"],
        &["webhooks"],
        &["deliveries"],
    ] {
        let here = json(&jadpo(dir.path(), &[args, &["--json"]].concat()));
        assert_eq!(there(args), here, "{args:?}");
    }
    let made = there(&["queues", "create", "by-hand", "--paused"]);
    assert_eq!((&made["name"], &made["paused"]), (&"by-hand".into(), &true.into()));
    assert_eq!(there(&["queues", "resume", "by-hand"])["paused"], false);
    assert_eq!(there(&["queues", "redrive", "jobs", "--to", "by-hand", "--limit", "7"])["moved"], 7);
    assert_eq!(there(&["queues", "purge", "by-hand", "--force"])["messages"], 7);
    assert_eq!(there(&["queues", "delete", "by-hand", "--force"])["messages"], 0);
    assert_eq!(there(&["queues", "peek", "by-hand"])["code"], "queue_not_found");
    let pushed = command(dir.path(), &["queues", "push", "jobs", "nothing", "--url", &server.url]).output().unwrap();
    assert_eq!(pushed.status.code(), Some(2));
    assert!(stderr(&pushed).contains("JADPO_ADMIN_TOKEN"), "{}", stderr(&pushed));
}

#[test]
fn the_endpoint_is_closed_to_who_has_no_token_and_tells_what_it_does_not_take() {
    let (call, _calls) = subscriber(200);
    let dir = folder(&call);
    let server = Server::dev(dir.path(), &[], &[ADMIN]);
    let bearer = ("authorization", "Bearer a-token-of-the-operator");
    for path in ["queues", "queues/jobs", "triggers", "webhooks", "redrives", "queues/jobs/messages"] {
        let path = format!("/.jadpo/{path}");
        assert_eq!(http(&server.url, "GET", &path, &[], b"").0, 401, "{path}");
        assert_eq!(http(&server.url, "GET", &path, &[bearer], b"").0, 200, "{path}");
        assert_eq!(http(&server.url, "PUT", &path, &[bearer], b"").0, 405, "{path}");
    }
    for (method, path, body, status, code) in [
        ("POST", "queues", "{", 400, "request_invalid"),
        ("POST", "queues", r#"{"name": "x", "colour": 1}"#, 400, "request_invalid"),
        ("POST", "queues", r#"{"name": "jobs"}"#, 409, "queue_exists"),
        ("POST", "queues/jobs/messages", r#"{"messages": []}"#, 400, "batch_count"),
        ("POST", "queues/jobs/messages", r#"{"messages": [{}]}"#, 400, "request_invalid"),
        ("POST", "queues/jobs/messages", r#"{"messages": [{"body": "", "content_type": "json"}]}"#, 400, "json_empty"),
        ("POST", "queues/jobs/messages/remove", r#"{"refs": []}"#, 400, "request_invalid"),
        ("GET", "queues?limt=1", "", 400, "request_invalid"),
        ("GET", "queues?limit=1001", "", 400, "request_invalid"),
        ("GET", "queues/jobs/dead-letters?limt=1", "", 400, "request_invalid"),
        ("GET", "queues/jobs/messages?limit=0", "", 400, "request_invalid"),
        ("GET", "queues/jobs/messages?limit=101", "", 400, "request_invalid"),
        ("GET", "queues/jobs/messages?limit=26&full=true", "", 400, "request_invalid"),
        ("GET", "queues/jobs/messages?after=x", "", 400, "request_invalid"),
        ("GET", "queues/%2e%2e%2fjobs", "", 404, "queue_not_found"),
        ("GET", "queues/jobs/nothing", "", 404, "not_found"),
        ("GET", "redrives/x", "", 400, "request_invalid"),
        ("GET", "redrives/7", "", 404, "redrive_not_found"),
        ("POST", "webhooks/none/rotate", "", 404, "webhook_not_found"),
    ] {
        let (got, answer) = http(&server.url, method, &format!("/.jadpo/{path}"), &[bearer], body.as_bytes());
        let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{method} {path}: {answer}"));
        assert_eq!((got, &answer["error"]["code"]), (status, &code.into()), "{method} {path}: {answer}");
    }
    let large = format!(r#"{{"messages": [{{"body": "{}"}}]}}"#, "x".repeat(129_000));
    let (status, answer) = http(&server.url, "POST", "/.jadpo/queues/jobs/messages", &[bearer], large.as_bytes());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let figures = ["limit", "actual", "cloudflare_code"].map(|name| answer["error"][name].as_u64().unwrap());
    assert_eq!((status, figures), (413, [128_000, 129_000, 10_204]), "{answer}");
}

#[test]
fn messages_that_were_looked_at_can_be_removed_one_by_one() {
    let (call, _calls) = subscriber(200);
    let dir = folder(&call);
    let server = Server::dev(dir.path(), &[], &[ADMIN]);
    jadpo(dir.path(), &["triggers", "disable", "jobs"]);
    jadpo_reading(dir.path(), &["queues", "push", "jobs"], b"1\n2\n3\n");
    let listed = json(&jadpo(dir.path(), &["queues", "peek", "jobs", "--json"]));
    let place = listed["messages"][1]["ref"].as_str().unwrap();
    let bearer = ("authorization", "Bearer a-token-of-the-operator");
    let remove = || {
        let body = format!(r#"{{"refs": ["{place}", "made-up"]}}"#);
        let (status, answer) =
            http(&server.url, "POST", "/.jadpo/queues/jobs/messages/remove", &[bearer], body.as_bytes());
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str::<Value>(&answer).unwrap()
    };
    assert_eq!(remove(), serde_json::json!({"removed": 1, "unknown": ["made-up"]}));
    assert_eq!(remove(), serde_json::json!({"removed": 0, "unknown": ["made-up", place]}));
    let left = json(&jadpo(dir.path(), &["queues", "peek", "jobs", "--json"]));
    let left: Vec<&str> = left["messages"].as_array().unwrap().iter().map(|m| m["preview"].as_str().unwrap()).collect();
    assert_eq!(left, ["1", "3"]);
}

#[test]
fn what_the_app_declares_is_known_from_the_server_s_word_from_a_file_or_not_at_all() {
    let dir = folder("http://127.0.0.1:9/");
    jadpo(dir.path(), &["queues", "create", "other"]);
    assert_eq!(trigger(dir.path(), "queue:jobs")["functions"][0], "pay", "the app file here");
    fs::rename(dir.path().join("app.jadpo"), dir.path().join("shop.jadpo")).unwrap();
    let none = stdout(&jadpo(dir.path(), &["triggers"]));
    assert!(none.starts_with("there are no triggers"), "{none}");
    let named = json(&jadpo(dir.path(), &["triggers", "--json", "--app", "shop.jadpo"]));
    assert_eq!(named["triggers"].as_array().unwrap().len(), 2, "{named}");
    let server = Server::dev(dir.path(), &["shop.jadpo"], &[]);
    assert_eq!(server.stop("TERM"), Some(0));
    fs::write(dir.path().join("app.jadpo"), "app: \"other\"\n").unwrap();
    assert_eq!(trigger(dir.path(), "queue:jobs")["functions"][0], "pay", "what last ran on the store");
}
