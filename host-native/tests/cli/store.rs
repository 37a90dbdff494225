//! The store's file: somebody else's, an older build's, one that goes away, and one that cannot grow.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Server, app_text, http, jadpo, json, stderr, stdout};

const TOKEN: &str = "a-token-of-who-enqueues";
const BEARER: (&str, &str) = ("authorization", "Bearer a-token-of-who-enqueues");

const APP: &str = r#"app: "shop"
connections: { jobs: { driver: Driver.local_queue, queue: "jobs" } }
deployables: { server: { target: Target.native, triggers: [Trigger.http, Trigger.tick] } }
"#;

fn folder(app: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("app.jadpo"), app).unwrap();
    dir
}

fn serve(dir: &Path) -> Server {
    Server::start(dir, &[], &[("JADPO_ENQUEUE_TOKEN", TOKEN)])
}

#[test]
fn a_file_of_another_program_s_is_refused_by_every_command_and_stays_as_it_is() {
    let dir = folder(&app_text("sku: Text", "http://127.0.0.1:9/"));
    let path = dir.path().join("notes.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE notes (text TEXT)").unwrap();
    fs::write(dir.path().join("empty.db"), "").unwrap();
    fs::write(dir.path().join("text.db"), "a text that is long enough not to be taken for an empty database").unwrap();
    let names = || {
        let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let (before, files) = (fs::read(&path).unwrap(), names());
    let commands: [&[&str]; 6] = [
        &["queues", "list"],
        &["queues", "create", "jobs"],
        &["queues", "send", "jobs", "x"],
        &["triggers"],
        &["deliveries"],
        &["serve", "--listen", "127.0.0.1:0"],
    ];
    for command in commands {
        for file in ["notes.db", "text.db"] {
            let refused = jadpo(dir.path(), &[command, &["--store", file]].concat());
            assert_eq!(refused.status.code(), Some(2), "{command:?} {file}: {}", stderr(&refused));
            assert!(stderr(&refused).contains("is no store of jadpo's"), "{}", stderr(&refused));
        }
    }
    let refused = jadpo(dir.path(), &["queues", "list", "--store", "empty.db"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert_eq!((fs::read(&path).unwrap(), names()), (before, files));
}

#[test]
fn a_server_whose_store_is_deleted_says_so_takes_nothing_more_and_is_not_ready() {
    let dir = folder(APP);
    let server = serve(dir.path());
    assert_eq!(http(&server.url, "POST", "/_queues/jobs", &[BEARER], b"a").0, 202);
    assert_eq!(http(&server.url, "GET", "/readyz", &[], b"").0, 200);
    for ending in ["", "-wal", "-shm"] {
        fs::remove_file(dir.path().join(format!(".jadpo/queues.db{ending}"))).unwrap();
    }
    let (status, body) = http(&server.url, "POST", "/_queues/jobs", &[BEARER], b"b");
    assert_eq!(status, 503, "{body}");
    let lost = server.logged("store.lost");
    assert!(lost["error"].as_str().unwrap().contains("deleted or moved"), "{lost}");
    assert_eq!(lost["level"], "error");
    std::thread::sleep(std::time::Duration::from_millis(600));
    let (status, body) = http(&server.url, "GET", "/readyz", &[], b"");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("deleted or moved") && body.matches("the store is unavailable").count() == 1, "{body}");
}

#[test]
fn a_second_server_is_refused_on_a_link_to_the_store() {
    let dir = folder(APP);
    let _server = serve(dir.path());
    std::os::unix::fs::symlink("queues.db", dir.path().join(".jadpo/link.db")).unwrap();
    fs::remove_file(dir.path().join(".jadpo/queues.db.lock")).unwrap();
    for store in [".jadpo/queues.db", ".jadpo/link.db"] {
        let second = jadpo(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--store", store]);
        assert_eq!(second.status.code(), Some(2), "{}", stderr(&second));
        assert!(stderr(&second).contains("is in use by another jadpo"), "{}", stderr(&second));
    }
}

#[test]
fn past_the_limit_of_a_file_s_size_a_send_fails_the_server_lives_and_what_was_kept_is_there() {
    let dir = folder(APP);
    // In units of 512 bytes: four megabytes.
    let script = "ulimit -f 8192; exec \"$0\" serve --listen 127.0.0.1:0";
    let mut server = Command::new("sh");
    server.args(["-c", script, env!("CARGO_BIN_EXE_jadpo")]).current_dir(dir.path());
    let mut server = server.env("JADPO_ENQUEUE_TOKEN", TOKEN).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let started = lines.find_map(|line| {
        let line: serde_json::Value = serde_json::from_str(&line.ok()?).ok()?;
        (line["event"] == "server.started").then_some(line)
    });
    let url = started.unwrap()["url"].as_str().unwrap().to_owned();
    std::thread::spawn(move || lines.for_each(drop));
    let body = vec![b'x'; 100_000];
    let mut kept = 0;
    let mut refused = 0;
    for _ in 0..120 {
        match http(&url, "POST", "/_queues/jobs", &[BEARER], &body).0 {
            202 => kept += 1,
            503 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(kept >= 20 && refused >= 20, "{kept} kept, {refused} refused");
    assert_eq!(http(&url, "GET", "/healthz", &[], b"").0, 200);
    server.kill().unwrap();
    server.wait().unwrap();
    let shown = json(&jadpo(dir.path(), &["queues", "show", "jobs", "--json"]));
    assert_eq!(shown["messages"], kept);
}

#[test]
fn what_cannot_be_printed_was_not_done_and_a_closed_pipe_is_no_failure() {
    let dir = folder(APP);
    assert!(jadpo(dir.path(), &["queues", "create", "jobs"]).status.success());
    let full = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let commands: [&[&str]; 5] =
        [&["queues", "list", "--json"], &["queues"], &["triggers"], &["check"], &["check", "--json"]];
    for command in commands {
        let mut unwritten = crate::support::command(dir.path(), command);
        let unwritten = unwritten.stdout(full()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(unwritten.status.code(), Some(1), "{command:?}: {}", stderr(&unwritten));
        assert!(stderr(&unwritten).contains("could not be written"), "{}", stderr(&unwritten));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = crate::support::command(dir.path(), command).stdout(writer).output().unwrap();
        assert_eq!(closed.status.code(), Some(0), "{command:?}: {}", stderr(&closed));
    }
}

#[test]
fn a_schedule_that_a_clock_ahead_has_run_shows_when_it_goes_on() {
    let app = r#"app: "shop"
functions: { sweep: { call: "http://127.0.0.1:9/", schedule: "0 * * * *" } }
"#;
    let dir = folder(app);
    let ahead_ms = jadpo::host::now_ms() + 12 * 3_600_000;
    crate::support::with_broker(dir.path(), async |broker| {
        broker.pass("sweep", ahead_ms).await.unwrap();
        let run = jadpo_core::broker::Run {
            at_ms: ahead_ms,
            outcome: jadpo_core::broker::RunOutcome::Done,
            error: None,
            message: None,
        };
        broker.record_runs(vec![("queue:schedule-sweep".to_owned(), run)]).await.unwrap();
    });
    let triggers = json(&jadpo(dir.path(), &["triggers", "--json"]));
    let next_ms = triggers["triggers"][0]["next_at_ms"].as_i64().unwrap();
    assert!(next_ms > ahead_ms && next_ms <= ahead_ms + 3_600_000, "{triggers}");
    let listed = jadpo(dir.path(), &["triggers"]);
    let listed = stdout(&listed);
    assert!(listed.contains("schedule:sweep does not run before") && listed.contains("11 h ahead of now"), "{listed}");
}
