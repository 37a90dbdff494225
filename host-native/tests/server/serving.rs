//! `jadpo serve`: tokens, readiness, and a stop that loses nothing.

use std::time::{Duration, Instant};

use crate::support::{Answer, Function, LONG, Server, TOKEN, app, folder, jadpo, on_store, request};

const BEARER: (&str, &str) = ("authorization", "Bearer a-token-for-enqueueing");

fn served(functions: &[(&str, &str)], more: &str) -> String {
    format!(
        "{}webhooks: {{ hook: {{ queue: \"jobs\" }} }}\n\
         deployables: {{ server: {{ target: Target.native, triggers: [Trigger.http, Trigger.tick] }} }}\n",
        app(functions, more)
    )
}

fn serve(dir: &std::path::Path, args: &[&str]) -> Server {
    Server::serve(dir, args, &[("JADPO_ENQUEUE_TOKEN", TOKEN), ("JADPO_ADMIN_TOKEN", "a-token-of-the-operator")])
}

#[test]
fn sending_and_looking_need_a_token_and_a_webhook_the_one_in_its_address() {
    let function = Function::answering(200);
    let dir = folder(&served(&[("pay", &function.url)], ""));
    let server = serve(dir.path(), &[]);
    let ask =
        |method: &str, path: &str, headers: &[(&str, &str)]| request(&server.url, method, path, headers, b"x").status;
    assert_eq!(ask("POST", "/_queues/jobs", &[]), 401);
    assert_eq!(ask("POST", "/_queues/jobs", &[("authorization", "Bearer a-token-for-enqueueinG")]), 401);
    assert_eq!(ask("POST", "/_queues/jobs/batch", &[]), 401);
    assert_eq!(ask("GET", "/_queues", &[]), 401);
    assert_eq!(ask("GET", "/_queues/jobs", &[]), 401);
    assert_eq!(ask("POST", "/api/queues/v1/jobs", &[BEARER]), 202);
    assert_eq!(ask("GET", "/_queues/jobs", &[BEARER]), 200);
    let operator = ("authorization", "Bearer a-token-of-the-operator");
    assert_eq!((ask("GET", "/_queues", &[operator]), ask("POST", "/_queues/jobs", &[operator])), (200, 401));
    let call = function.call();
    assert!(!call.head.to_lowercase().contains("authorization"), "our token is handed to nobody: {}", call.head);
    let token = server.beside(async |broker| broker.webhook_token("hook").await).unwrap();
    for path in ["/_webhooks/hook", "/_webhooks/hook/", "/_webhooks/hook/wrong", "/_webhooks/nope/wrong"] {
        for method in ["POST", "HEAD", "OPTIONS", "GET"] {
            assert_eq!(ask(method, path, &[BEARER]), 404, "{method} {path}");
        }
    }
    let path = format!("/api/webhooks/hook/{token}");
    assert_eq!((ask("POST", &path, &[]), ask("HEAD", &path, &[]), ask("GET", &path, &[])), (202, 200, 405));
    assert_eq!(function.call().text(), "x");
    let rotated = server.beside(async |broker| broker.rotate_webhook_token("hook").await).unwrap();
    assert_eq!((ask("POST", &path, &[]), ask("POST", &format!("/_webhooks/hook/{rotated}"), &[])), (404, 202));
    let logged = format!("{:?}", server.log());
    assert!(!logged.contains(&token) && !logged.contains(TOKEN), "no token is in the log");
}

#[test]
fn without_a_token_nothing_is_sent_over_http_and_a_token_that_is_too_short_is_refused() {
    let dir = folder(&served(&[], "").replace("functions: []", "max_receives: 3"));
    let server = Server::serve(dir.path(), &[], &[]);
    let reply = request(&server.url, "POST", "/_queues/jobs", &[BEARER], b"x");
    assert_eq!((reply.status, reply.code().as_str()), (403, "enqueue_off"));
    assert_eq!(server.stop("TERM"), Some(0));
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_jadpo"))
        .arg("serve")
        .current_dir(dir.path())
        .env("JADPO_ENQUEUE_TOKEN", "short")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("at least 16"));
}

#[test]
fn messages_are_delivered_as_they_arrive_and_those_of_another_process_too() {
    let function = Function::answering(200);
    let dir = folder(&served(&[("pay", &function.url)], ""));
    let server = serve(dir.path(), &[]);
    let sent = Instant::now();
    assert_eq!(request(&server.url, "POST", "/_queues/jobs", &[BEARER], b"here").status, 202);
    let call = function.call();
    assert!(call.at - sent < Duration::from_secs(2), "{:?}", call.at - sent);
    let message = jadpo_core::broker::NewMessage {
        content: jadpo_core::broker::Content::Text,
        body: b"beside".to_vec(),
        delay_s: None,
        meta: None,
    };
    let batch = jadpo_core::broker::NewBatch { messages: vec![message], delay_s: None };
    server.beside(async |broker| broker.send("jobs", batch).await).unwrap();
    assert_eq!(function.call().text(), "beside");
}

#[test]
fn a_stop_lets_running_calls_end_and_is_not_ready_meanwhile() {
    let function = Function::with(|_| Answer::After(Duration::from_millis(2_000), 200));
    let dir = folder(&served(&[("slow", &function.url)], "concurrency: 1"));
    let mut server = serve(dir.path(), &[]);
    let ready = |server: &Server| request(&server.url, "GET", "/readyz", &[], b"");
    assert_eq!((ready(&server).status, request(&server.url, "GET", "/healthz", &[], b"").status), (200, 200));
    for body in [b"one", b"two"] {
        assert_eq!(request(&server.url, "POST", "/_queues/jobs", &[BEARER], body).status, 202);
    }
    assert_eq!(function.call_within(LONG).unwrap().text(), "one");
    server.signal("TERM");
    server.logged("server.stopping");
    let reply = ready(&server);
    assert_eq!((reply.status, reply.code().as_str()), (503, "not_ready"));
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains("stopping"));
    // It is durable until the end, so it is taken until the end.
    assert_eq!(request(&server.url, "POST", "/_queues/jobs", &[BEARER], b"three").status, 202);
    assert_eq!(server.ended(), Some(0));
    assert!(server.log().iter().any(|line| line["event"] == "server.stopped"));
    assert!(function.calls().is_empty(), "nothing more was begun");
    let left = on_store(&dir.path().join(".jadpo/queues.db"), async |broker| broker.metrics("jobs").await).unwrap();
    assert_eq!((left.messages, left.in_flight), (2, 0), "one is done; the others were given back or never taken");
}

#[test]
fn what_runs_on_past_the_grace_is_left_to_its_lease_and_a_second_signal_ends_at_once() {
    let function = Function::with(|_| Answer::Bytes(Vec::new()));
    let dir = folder(&served(&[("hang", &function.url)], ""));
    let mut server = serve(dir.path(), &["--grace", "1"]);
    assert_eq!(request(&server.url, "POST", "/_queues/jobs", &[BEARER], b"x").status, 202);
    function.call();
    let started = Instant::now();
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
    assert!((1..8).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    assert_eq!(server.logged("drain.left_to_leases")["running"], 1);
    let left = on_store(&dir.path().join(".jadpo/queues.db"), async |broker| broker.metrics("jobs").await).unwrap();
    assert_eq!((left.messages, left.in_flight), (1, 1));

    let dir = folder(&served(&[("hang", &function.url)], ""));
    let mut server = serve(dir.path(), &["--grace", "600"]);
    assert_eq!(request(&server.url, "POST", "/_queues/jobs", &[BEARER], b"x").status, 202);
    function.call();
    server.signal("INT");
    server.logged("server.stopping");
    server.signal("INT");
    assert_eq!(server.ended(), Some(1));
}

#[test]
fn a_program_that_the_stop_kills_gives_its_message_back_at_once() {
    let app = "app: \"a\"\nconnections: { jobs: { driver: Driver.local_queue, queue: \"jobs\", functions: [hang] } }\n\
        functions: { hang: { exec: [\"./hang.sh\"] } }\n\
        deployables: { server: { target: Target.native, triggers: [Trigger.http, Trigger.tick] } }\n";
    let dir = folder(app);
    script(dir.path(), "hang.sh", "touch began; sleep 5; touch ended");
    let mut server = serve(dir.path(), &["--grace", "1"]);
    assert_eq!(request(&server.url, "POST", "/_queues/jobs", &[BEARER], b"x").status, 202);
    let end = Instant::now() + LONG;
    while !dir.path().join("began").exists() {
        assert!(Instant::now() < end, "the program never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
    assert_eq!(server.logged("drain.given_back")["running"], 1);
    let store = dir.path().join(".jadpo/queues.db");
    let (left, taken) = on_store(&store, async |broker| {
        let left = broker.metrics("jobs").await.unwrap();
        let take = jadpo_core::broker::Take { max: 1, visibility_ms: None };
        (left, broker.take("jobs", take).await.unwrap())
    });
    assert_eq!((left.messages, left.in_flight), (1, 0));
    assert_eq!(taken.messages[0].message.attempts, 1, "the attempt that was broken off does not count");
    std::thread::sleep(Duration::from_secs(5));
    assert!(!dir.path().join("ended").exists(), "it was killed");
}

/// Writes a program of the shell.
fn script(dir: &std::path::Path, name: &str, lines: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = dir.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_server_waits_a_little_for_a_store_that_another_has_and_says_so() {
    let function = Function::answering(200);
    let dir = folder(&served(&[("pay", &function.url)], ""));
    let first = serve(dir.path(), &[]);
    let refused = jadpo(dir.path(), &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("store.in_use") && told.contains("and was still after 2 s"), "{told}");
    let pid = first.pid();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap()
    });
    let second = serve(dir.path(), &[]);
    assert!(killer.join().unwrap().success());
    assert_eq!(request(&second.url, "GET", "/readyz", &[], b"").status, 200);
}

#[test]
fn what_check_refuses_serve_refuses_in_the_same_words() {
    let refused = "app: \"a\"\nconnections: { q: { driver: Driver.cloudflare_queues, queue: \"q\", dead_letter_queue: \"q-dead\" } }\n\
        deployables: { server: { target: Target.native, triggers: [Trigger.http, Trigger.subscribers] } }\n";
    let dir = folder(refused);
    let [check, serve] = [&["check"][..], &["serve", "--deployable", "server"]].map(|args| jadpo(dir.path(), args));
    assert_eq!((check.status.code(), serve.status.code()), (Some(2), Some(2)));
    let text = |output: &std::process::Output| {
        [output.stdout.clone(), output.stderr.clone()].map(|bytes| String::from_utf8(bytes).unwrap()).concat()
    };
    let said = text(&serve);
    assert!(said.contains("target.driver_refused") && said.contains("Driver.cloudflare_pull"), "{said}");
    for line in said.lines().filter(|line| line.contains("server")) {
        assert!(text(&check).contains(line.trim()), "{line}");
    }
    assert!(!dir.path().join(".jadpo").exists(), "nothing is made before the refusal");
}

#[test]
fn a_start_tells_of_queues_that_nobody_handles_and_of_what_is_missing() {
    let dir = folder(
        "app: \"shop\"\n\
         connections: {\n    idle: { driver: Driver.local_queue, queue: \"idle\" }\n\
             stock: { driver: Driver.cloudflare_queues, queue: \"stock\", dead_letter_queue: \"stock-dead\" }\n}\n\
         functions: { audit: { run: audit, schedule: \"0 0 1 1 *\" } }\n\
         webhooks: { hook: { queue: \"idle\", verify: Verify.github(env(\"HOOK_SECRET\")) } }\n\
         events: { StockMoved: { sku: Text } }\nreceiving: { stock: { event: StockMoved } }\n",
    );
    let server = Server::dev(dir.path(), &[]);
    for _ in 0..10 {
        server.send("idle", "x");
    }
    assert_eq!(server.stop("TERM"), Some(0));
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_jadpo"))
        .args(["dev", "--listen", "127.0.0.1:0"])
        .current_dir(dir.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    child.kill().unwrap();
    let said = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    for part in [
        "10 messages wait in queue `idle`",
        "webhook `hook` writes to queue `idle`, whose messages nothing here handles",
        "connection `stock` is not received here",
        "the environment variable HOOK_SECRET is not set",
        "the function `audit` is not linked into this binary",
        "/_queues/idle",
        "to audit (linked as audit); 3 attempts, 30 s apart",
        "/_webhooks/hook",
        ".jadpo/queues.db",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains('\u{1b}'), "colours are for terminals");
    let server = Server::dev(dir.path(), &[]);
    assert_eq!(server.queue("idle")["messages"], 10, "they are kept");
}

#[test]
fn everything_that_a_flag_says_an_environment_variable_may_say() {
    let dir = folder(&served(&[], "").replace("functions: []", "max_receives: 3"));
    let envs = [
        ("JADPO_ENQUEUE_TOKEN", TOKEN),
        ("JADPO_STORE", "elsewhere/of-mine.db"),
        ("JADPO_DEPLOYABLE", "server"),
        ("JADPO_DURABILITY", "relaxed"),
        ("JADPO_GRACE", "1"),
        ("JADPO_TICK", "3"),
    ];
    let server = Server::serve(dir.path(), &[], &envs);
    assert_eq!(request(&server.url, "POST", "/_queues/jobs", &[BEARER], b"x").status, 202);
    assert_eq!(server.stop("TERM"), Some(0));
    let held = on_store(&dir.path().join("elsewhere/of-mine.db"), async |broker| broker.metrics("jobs").await);
    assert_eq!(held.unwrap().messages, 1);
    let wrong = std::process::Command::new(env!("CARGO_BIN_EXE_jadpo"))
        .arg("serve")
        .current_dir(dir.path())
        .env("JADPO_DEPLOYABLE", "nope")
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("no deployable `nope`"));
}
