//! Clients that mean harm, and a machine that lacks something.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use jadpo_core::broker::{Content, NewBatch, NewMessage, Redrive, RedriveFilter};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::support::{Function, LONG, Server, TOKEN, app, connect, folder, head, on_store, request};

fn batch(body: &str) -> NewBatch {
    let message = NewMessage { content: Content::Text, body: body.into(), delay_s: None, meta: None };
    NewBatch { messages: vec![message], delay_s: None }
}

/// A connection on which so much is asked, and nothing read, that the server cannot answer more.
fn stuck(url: &str) -> TcpStream {
    let mut stream = connect(url);
    stream.set_nonblocking(true).unwrap();
    let ask = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(400);
    let (mut blocked, mut at) = (0, 0);
    while blocked < 5 {
        match stream.write(&ask.as_bytes()[at..]) {
            Ok(count) => (at, blocked) = ((at + count) % ask.len(), 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                blocked += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => panic!("{error}"),
        }
    }
    stream
}

#[test]
fn who_asks_and_never_reads_is_cut_off() {
    let dir = folder(&app(&[], "").replace("functions: []", "max_receives: 3"));
    let server = Server::dev(dir.path(), &[]);
    let mut stream = stuck(&server.url);
    let started = Instant::now();
    let error = loop {
        match stream.write(b"G") {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => break error,
        }
        assert!(started.elapsed() < LONG, "it is still there");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
}

#[test]
fn connections_that_do_nothing_keep_nobody_out_and_leave_descriptors_for_the_functions() {
    let function = Function::answering(200);
    let dir = folder(&app(&[("pay", &function.url)], ""));
    let server = Server::dev_with_few_descriptors(dir.path(), 128);
    let mut held: Vec<TcpStream> = (0..8).map(|_| stuck(&server.url)).collect();
    for index in 0..300 {
        let mut stream = connect(&server.url);
        match index % 3 {
            0 => stream
                .write_all(b"POST /_queues/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nx")
                .unwrap(),
            1 => stream.write_all(b"GET /healthz HTT").unwrap(),
            _ => {}
        }
        held.push(stream);
    }
    let started = Instant::now();
    assert_eq!(request(&server.url, "GET", "/healthz", &[], b"").status, 200);
    server.send("jobs", "x");
    assert_eq!(function.call().attempt(), 1);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    server.wait_until_empty("jobs");
    drop(held);
}

#[test]
fn a_call_that_could_not_begin_for_lack_of_descriptors_is_no_attempt() {
    let function = Function::answering(200);
    let program = "exec: [\"./fine.sh\"]";
    let source = app(&[("pay", &function.url)], "max_receives: 1")
        .replace("functions: [pay]", "functions: [pay, print]")
        .replace("functions: {\n", &format!("functions: {{\n    print: {{ {program} }}\n"));
    let dir = folder(&source);
    let script = dir.path().join("fine.sh");
    std::fs::write(&script, "#!/bin/sh\ncat > got\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::dev(dir.path(), &[]);
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    let limit = |current| prlimit(Some(pid), Resource::Nofile, current).unwrap();
    // Not one more than there are.
    let before = limit(Rlimit { current: Some(3), ..getrlimit(Resource::Nofile) });
    server.beside(async |broker| broker.send("jobs", batch("x")).await).unwrap();
    for _ in 0..3 {
        let line = server.logged("function.not_started");
        assert!(line["error"].as_str().unwrap().contains("Too many open files"), "{line}");
    }
    limit(before);
    assert_eq!(function.call().attempt(), 1);
    let looked = server.wait_until_empty("jobs");
    assert_eq!(looked["dead_letters"]["messages"], 0, "{looked:#}");
    assert_eq!(std::fs::read(dir.path().join("got")).unwrap(), b"x");
    assert!(function.calls().is_empty(), "and it is called once");
}

fn served(triggers: &str) -> String {
    format!(
        "app: \"shop\"\nconnections: {{ jobs: {{ driver: Driver.local_queue, queue: \"jobs\" }} }}\n\
         deployables: {{ server: {{ target: Target.native, triggers: [{triggers}] }} }}\n"
    )
}

#[test]
fn nothing_is_read_of_who_gives_no_token() {
    let dir = folder(&served("Trigger.http"));
    let tokens = [("JADPO_ENQUEUE_TOKEN", TOKEN), ("JADPO_ADMIN_TOKEN", "a-token-of-the-operator")];
    let server = Server::serve(dir.path(), &[], &tokens);
    for path in ["/client/v4/accounts/x/queues", "/.jadpo/queues", "/_queues/jobs", "/_queues/jobs/batch"] {
        for authorization in ["", "authorization: Bearer a-token-of-nobody\r\n"] {
            for length in ["content-length: 1999999", "transfer-encoding: chunked"] {
                let head = head(&server.url, "POST", path, &[]);
                let mut stream = connect(&server.url);
                // The body is never sent, and what is not read need not be waited for.
                stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
                stream.write_all(format!("{head}{authorization}{length}\r\n\r\n").as_bytes()).unwrap();
                let mut answer = [0; 12];
                stream.read_exact(&mut answer).unwrap_or_else(|error| panic!("{path} {length}: {error}"));
                assert_eq!(&answer, b"HTTP/1.1 401", "{path} {length}");
            }
        }
    }
}

#[test]
fn bodies_under_way_have_room_together_and_who_finds_none_is_told_to_come_back() {
    let dir = folder(&served("Trigger.http"));
    let server = Server::dev(dir.path(), &[]);
    let unfinished = |_| {
        let mut stream = connect(&server.url);
        stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        let head = head(&server.url, "POST", "/_queues/jobs/batch", &[("content-length", "2000000")]);
        let _ = stream.write_all(format!("{head}\r\n").as_bytes());
        let _ = stream.write_all(&vec![b' '; 1_999_999]);
        stream
    };
    let held: Vec<TcpStream> = (0..40).map(unfinished).collect();
    let refused = held.iter().filter(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut answer = [0; 12];
        (&mut &**stream).read_exact(&mut answer).is_ok() && &answer == b"HTTP/1.1 503"
    });
    assert!(refused.count() >= 5);
    drop(held);
    let started = Instant::now();
    while server.post("/_queues/jobs", &vec![b'x'; 128_000]).status != 202 {
        assert!(started.elapsed() < LONG, "there is room again when they are gone");
    }
}

#[test]
fn a_page_in_a_browser_posts_to_no_webhook_of_a_developer_s_server() {
    let dir = folder(&format!("{}webhooks: {{ hook: {{ queue: \"jobs\" }} }}\n", served("Trigger.http")));
    let server = Server::dev(dir.path(), &[]);
    let post = |headers: &[(&str, &str)]| request(&server.url, "POST", "/_webhooks/hook", headers, b"x").status;
    assert_eq!(post(&[("origin", "http://evil.example")]), 403);
    assert_eq!(post(&[("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(server.queue("jobs")["messages"], 0);
    assert_eq!(post(&[]), 202);
}

#[test]
fn a_schedule_that_fails_keeps_no_other_from_running() {
    let function = Function::answering(200);
    let dir = folder(&format!(
        "app: \"shop\"\nconnections: {{ target: {{ driver: Driver.local_queue, queue: \"target-a\" }} }}\n\
         functions: {{\n    aa: {{ send: \"target-a\", schedule: \"* * * * *\" }}\n    \
             bb: {{ call: \"{}\", schedule: \"* * * * *\" }}\n}}\n",
        function.url
    ));
    let server = Server::dev(dir.path(), &[]);
    // As if both had been ten minutes ago for the last time.
    let store = rusqlite::Connection::open(dir.path().join(".jadpo/queues.db")).unwrap();
    store.busy_timeout(LONG).unwrap();
    let refusing = "CREATE TRIGGER no_more BEFORE UPDATE ON jadpo_triggers \
        WHEN new.name = 'schedule:aa' AND new.last_occurrence > old.last_occurrence \
        BEGIN SELECT raise(ABORT, 'no more'); END";
    store.execute_batch(refusing).unwrap();
    let long_ago = jadpo::host::now_ms() - 600_000;
    let wait = Instant::now();
    while store.execute("UPDATE jadpo_triggers SET last_occurrence = ?1", [long_ago]).unwrap() < 2 {
        assert!(wait.elapsed() < LONG);
    }
    let failed = server.logged("schedule.failed");
    assert_eq!(failed["schedule"], "aa", "{failed}");
    assert_eq!(function.call().header("jadpo-queue"), Some("schedule-bb"));
}

#[test]
fn a_server_that_only_answers_http_carries_redrives_out() {
    let dir = folder(&served("Trigger.http"));
    let server = Server::serve(dir.path(), &[], &[("JADPO_ENQUEUE_TOKEN", TOKEN)]);
    let redrive = Redrive {
        source: "jobs-dead".to_owned(),
        to: Some("jobs".to_owned()),
        filter: RedriveFilter::default(),
        rate_per_s: None,
    };
    let task = server
        .beside(async |broker| {
            broker.send("jobs-dead", batch("x")).await?;
            broker.redrive(redrive).await
        })
        .unwrap();
    assert_eq!(server.logged("redrive.done")["redrive"], task.id);
    assert_eq!(server.stop("TERM"), Some(0));
    let held = on_store(&dir.path().join(".jadpo/queues.db"), async |broker| broker.metrics("jobs").await).unwrap();
    assert_eq!(held.messages, 1);
}

#[test]
fn a_second_signal_ends_the_programs_too() {
    let source = "app: \"shop\"\nconnections: { jobs: { driver: Driver.local_queue, queue: \"jobs\", functions: [long] } }\n\
        functions: { long: { exec: [\"sh\", \"-c\", \"sleep 1000 & echo $! > started; wait\"] } }\n";
    let dir = folder(source);
    let mut server = Server::dev(dir.path(), &[]);
    server.send("jobs", "x");
    let started = Instant::now();
    let pid = loop {
        let written = std::fs::read_to_string(dir.path().join("started")).unwrap_or_default();
        if written.ends_with('\n') {
            break written.trim().to_owned();
        }
        assert!(started.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(20));
    };
    server.signal("TERM");
    server.logged("server.stopping");
    server.signal("TERM");
    assert_eq!(server.ended(), Some(1));
    let runs = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z")
    };
    let ended = Instant::now();
    while runs() {
        assert!(ended.elapsed() < Duration::from_secs(10), "process {pid} goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_token_of_the_operator_that_is_too_short_is_refused_at_the_start() {
    let dir = folder(&served("Trigger.http"));
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_jadpo"))
        .arg("serve")
        .current_dir(dir.path())
        .env("JADPO_ENQUEUE_TOKEN", TOKEN)
        .env("JADPO_ADMIN_TOKEN", "short")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("JADPO_ADMIN_TOKEN"));
}
