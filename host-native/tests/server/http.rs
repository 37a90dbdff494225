//! What HTTP brings: bodies of every size and speed, heads of every kind, and clients that behave oddly.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use jadpo_core::broker::{Content, Peek, Peeked};

use crate::support::{Function, Reply, Server, app, connect, folder, head, jadpo, payload, raw, request};

const PEEK: Peek = Peek { max: 100, after: None };

/// An app whose queue `jobs` nobody handles, and one webhook.
fn kept() -> String {
    "app: \"shop\"\nconnections: { jobs: { driver: Driver.local_queue, queue: \"jobs\" } }\n\
     webhooks: { hook: { queue: \"jobs\" } }\n"
        .to_owned()
}

fn held(server: &Server) -> Vec<Peeked> {
    server.beside(async |broker| broker.peek("jobs", PEEK).await).unwrap()
}

fn bodies(server: &Server) -> Vec<Vec<u8>> {
    held(server).into_iter().map(|peeked| peeked.message.body).collect()
}

#[test]
fn an_unknown_queue_is_404_and_nothing_is_kept_unless_queues_are_made_when_needed() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    for name in ["unknown", "UPPER", "a.b", "..%2f..", "%2e%2e", "jobs%00", &"x".repeat(70)] {
        let reply = server.post(&format!("/_queues/{name}"), b"x");
        assert_eq!((reply.status, reply.code().as_str()), (404, "queue_not_found"), "{name}");
    }
    assert_eq!(server.get("/_queues")["queues"].as_array().unwrap().len(), 2);
    assert_eq!(server.stop("TERM"), Some(0));
    let server = Server::dev(dir.path(), &["--create-queues"]);
    server.send("unknown", "x");
    assert_eq!(server.queue("unknown")["messages"], 1);
    assert_eq!(server.queue("unknown")["dead_letters"]["queue"], "unknown-dead");
    for name in ["UPPER", "a.b", "..%2f..", &"x".repeat(60)] {
        let reply = server.post(&format!("/_queues/{name}"), b"x");
        assert_eq!((reply.status, reply.code().as_str()), (400, "name_invalid"), "{name}");
    }
}

#[test]
fn a_path_that_tries_to_escape_leads_nowhere() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    for path in
        ["/_queues/../app.jadpo", "/../../etc/passwd", "/_queues/..%2f..%2fetc", "/_webhooks/../x", "//etc", "/"]
    {
        let reply = request(&server.url, "GET", path, &[], b"");
        assert_eq!(reply.status, 404, "{path}");
    }
}

#[test]
fn methods_that_an_address_does_not_take_are_405_and_probes_are_answered_and_nothing_is_kept() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    let ask = |method: &str, path: &str| request(&server.url, method, path, &[], b"");
    let hook = "/_webhooks/hook";
    assert_eq!((ask("HEAD", hook).status, ask("OPTIONS", hook).status), (200, 204));
    for method in ["GET", "PUT", "DELETE", "PATCH", "post"] {
        let reply = ask(method, hook);
        assert_eq!((reply.status, reply.headers["allow"].as_str()), (405, "POST, HEAD, OPTIONS"), "{method}");
    }
    for (name, query) in
        [("WebSub", "hub.mode=subscribe&hub.topic=t&hub.challenge=a%3Cb"), ("Dropbox", "challenge=a%3Cb")]
    {
        let reply = ask("GET", &format!("{hook}?{query}"));
        assert_eq!((reply.status, reply.body.as_slice()), (200, &b"a<b"[..]), "{name}");
        let is_plain = reply.headers["content-type"].starts_with("text/plain");
        assert!(is_plain && reply.headers["x-content-type-options"] == "nosniff", "{name}: {reply:?}");
    }
    assert_eq!(ask("GET", &format!("{hook}?hub.mode=unsubscribe&hub.challenge=a")).status, 405);
    let events = request(&server.url, "OPTIONS", hook, &[("webhook-request-origin", "eventgrid.azure.net")], b"");
    let allowed = ["webhook-allowed-origin", "webhook-allowed-rate"].map(|name| events.headers[name].as_str());
    assert_eq!((events.status, allowed), (200, ["eventgrid.azure.net", "*"]));
    let queue = "/_queues/jobs";
    assert_eq!((ask("GET", queue).status, ask("HEAD", queue).status, ask("OPTIONS", queue).status), (200, 200, 204));
    assert!(ask("HEAD", queue).body.is_empty());
    for method in ["PUT", "DELETE", "PATCH"] {
        let reply = ask(method, queue);
        assert_eq!(reply.status, 405, "{method}");
        assert!(reply.headers["allow"].contains("POST"));
    }
    assert_eq!(ask("DELETE", "/healthz").status, 405);
    assert_eq!(ask("GET", "/_queues/jobs/batch").status, 405);
    assert_eq!(server.queue("jobs")["messages"], 0);
}

#[test]
fn every_json_scalar_and_an_empty_body_are_kept_byte_for_byte() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    let scalars = payload("nasty-scalars.ndjson");
    let mut lines: Vec<&[u8]> = scalars.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 13);
    lines.push(b"");
    for path in ["/_queues/jobs", "/_webhooks/hook"] {
        for line in &lines {
            let json = [("content-type", "application/json")];
            assert_eq!(request(&server.url, "POST", path, &json, line).status, 202);
        }
    }
    assert_eq!(bodies(&server), [&lines[..], &lines[..]].concat());
    assert_eq!(held(&server)[13].message.content, Content::Bytes, "no JSON is empty");
}

#[test]
fn deep_json_is_carried_as_it_is() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    let deeper = ["[".repeat(60_000), "]".repeat(60_000)].concat().into_bytes();
    for body in [payload("nasty-deep-200.json"), deeper] {
        let json = [("content-type", "application/json")];
        assert_eq!(request(&server.url, "POST", "/_queues/jobs", &json, &body).status, 202);
        assert_eq!(bodies(&server).pop(), Some(body));
    }
}

#[test]
fn a_body_may_have_128_000_bytes_and_one_more_is_refused_with_limit_and_actual() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    assert_eq!(server.post("/_queues/jobs", &vec![b'x'; 128_000]).status, 202);
    for path in ["/_queues/jobs", "/_webhooks/hook"] {
        for size in [128_001, 132_096] {
            let reply = server.post(path, &vec![b'x'; size]);
            assert_eq!((reply.status, reply.code().as_str()), (413, "body_too_large"));
            let error = &reply.json()["error"];
            assert_eq!((&error["limit"], &error["actual"]), (&128_000.into(), &size.into()));
        }
    }
    // Without a length it is counted as it comes.
    let chunked = |bytes: usize| {
        let head = head(&server.url, "POST", "/_queues/jobs", &[("transfer-encoding", "chunked")]);
        let body = format!("{bytes:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(bytes));
        Reply::read(&raw(&server.url, format!("{head}\r\n{body}").as_bytes()))
    };
    assert_eq!(chunked(128_000).status, 202);
    let refused = chunked(128_001);
    assert_eq!((refused.status, &refused.json()["error"]["actual"]), (413, &128_001.into()));
    // Of what never ends nobody knows the size.
    let mut endless = connect(&server.url);
    let head = head(&server.url, "POST", "/_queues/jobs", &[("transfer-encoding", "chunked")]);
    endless.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    while endless.write_all(chunk.as_bytes()).is_ok() {}
    assert_eq!(server.queue("jobs")["messages"], 2);
}

#[test]
fn who_asks_before_sending_too_much_is_told_before_sending() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    let expecting = |length: usize| {
        let headers = [("expect", "100-continue"), ("content-length", &length.to_string())];
        let mut stream = connect(&server.url);
        stream.write_all(format!("{}\r\n", head(&server.url, "POST", "/_queues/jobs", &headers)).as_bytes()).unwrap();
        let mut answer = [0; 25];
        stream.read_exact(&mut answer).unwrap();
        (String::from_utf8_lossy(&answer).into_owned(), stream)
    };
    let (answer, _) = expecting(200_000);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let (answer, mut stream) = expecting(5);
    assert_eq!(answer, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(Reply::read(&rest).status, 202);
    assert_eq!(bodies(&server), [b"hello"]);
}

#[test]
fn http_1_0_without_a_host_is_served_and_so_are_two_requests_sent_in_one_go() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    let old = raw(&server.url, b"POST /_queues/jobs HTTP/1.0\r\ncontent-length: 3\r\n\r\nold");
    assert_eq!(Reply::read(&old).status, 202);
    let host = server.url.strip_prefix("http://").unwrap();
    let first = format!("POST /_queues/jobs HTTP/1.1\r\nhost: {host}\r\ncontent-length: 3\r\n\r\none");
    let second = format!("{}content-length: 3\r\n\r\ntwo", head(&server.url, "POST", "/_queues/jobs", &[]));
    let answers = raw(&server.url, [first, second].concat().as_bytes());
    assert_eq!(String::from_utf8_lossy(&answers).matches("HTTP/1.1 202").count(), 2);
    assert_eq!(bodies(&server), [b"old", b"one", b"two"]);
}

#[test]
fn what_arrived_whole_is_kept_also_from_who_closes_at_once_and_what_did_not_is_not() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    for number in 0..20 {
        let mut stream = connect(&server.url);
        let head = head(&server.url, "POST", "/_queues/jobs", &[("content-length", "2")]);
        stream.write_all(format!("{head}\r\n{number:02}").as_bytes()).unwrap();
        if number % 2 == 0 {
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        }
        drop(stream);
    }
    for _ in 0..5 {
        let mut stream = connect(&server.url);
        let head = head(&server.url, "POST", "/_queues/jobs", &[("content-length", "10")]);
        stream.write_all(format!("{head}\r\nhalf").as_bytes()).unwrap();
        drop(stream);
    }
    let kept = server.wait_for("jobs", |queue| queue["messages"] == 20);
    assert_eq!(kept["bytes"], 40);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(server.queue("jobs")["messages"], 20);
    // Who closed only its own side still gets its answer, also when it closed while it was waited for.
    let mut stream = connect(&server.url);
    stream
        .write_all(format!("{}\r\n", head(&server.url, "POST", "/_queues/jobs", &[("content-length", "4")])).as_bytes())
        .unwrap();
    std::thread::sleep(Duration::from_millis(100));
    stream.write_all(b"last").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(Reply::read(&answer).status, 202);
}

#[test]
fn a_body_that_is_slow_is_408_after_15_seconds_and_nothing_of_it_is_kept() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    let mut stream = connect(&server.url);
    let head = head(&server.url, "POST", "/_queues/jobs", &[("content-length", "1000")]);
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let started = Instant::now();
    std::thread::spawn(move || {
        while writer.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(500));
        }
    });
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    assert!(started.elapsed() >= Duration::from_secs(14), "{:?}", started.elapsed());
    assert_eq!(server.queue("jobs")["messages"], 0);
}

#[test]
fn headers_and_the_query_reach_the_function_as_they_came_and_too_many_are_431() {
    let function = Function::answering(200);
    let dir = folder(&app(&[("pay", &function.url)], ""));
    let server = Server::dev(dir.path(), &[]);
    let long = "y".repeat(16_000);
    let host = server.url.strip_prefix("http://").unwrap();
    let mut sent = format!("POST /_queues/jobs?a=1&a=2&b=%00 HTTP/1.1\r\nHost: {host}\r\nX-Tag: one\r\nX-Tag: two\r\n");
    sent.push_str(&format!("X-MiXed: CaSe\r\nX-Long: {long}\r\nContent-Type: text/plain; charset=latin1\r\n"));
    let odd =
        [b"X-Odd: \xe9\xff\xa9\r\n".as_slice(), b"Content-Length: 4\r\nConnection: close\r\n\r\nb\xe9\xffy"].concat();
    let reply = Reply::read(&raw(&server.url, &[sent.as_bytes(), &odd].concat()));
    assert_eq!(reply.status, 202);
    let call = function.call();
    assert_eq!(call.body, b"b\xe9\xffy");
    assert!(call.head.starts_with("POST /handle?a=1&a=2&b=%00 HTTP/1.1"), "{}", call.head.lines().next().unwrap());
    let values = |name: &str| {
        let lines = call.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(values("x-tag"), ["one", "two"]);
    assert_eq!(values("x-mixed"), ["CaSe"]);
    assert_eq!(values("x-long"), [long]);
    assert_eq!(values("x-odd"), ["\u{e9}\u{ff}\u{a9}"]);
    assert_eq!(values("content-type"), ["text/plain; charset=latin1"]);
    assert_eq!((values("x-forwarded-host"), values("content-length")), (vec![host.to_owned()], vec!["4".to_owned()]));
    assert_eq!(values("host").len(), 1, "the function's own");
    let received = values("jadpo-received-at");
    assert!(received[0].len() == 24 && received[0].ends_with('Z'), "{received:?}");
    let longer = "z".repeat(100_000);
    assert_eq!(request(&server.url, "POST", "/_queues/jobs", &[("x-long", &longer)], b"x").status, 431);
    server.wait_until_empty("jobs");
    assert!(function.calls().is_empty());
}

#[test]
fn a_batch_is_kept_whole_or_not_at_all() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    let batch = |body: &str| request(&server.url, "POST", "/api/queues/v1/jobs/batch", &[], body.as_bytes());
    let one = r#"{"body":{"n":9007199254740993},"content_type":"json"}"#;
    let many = |count: usize| format!(r#"{{"messages":[{}]}}"#, vec![one; count].join(","));
    let reply = batch(
        r#"{"messages":[{"body":"a","content_type":"text"},{"body":"AP//","content_type":"bytes","delay_seconds":0},{"body":"a"}],"delay_seconds":60}"#,
    );
    assert_eq!((reply.status, reply.json()["ids"].as_array().unwrap().len()), (202, 3));
    assert_eq!((&server.queue("jobs")["messages"], &server.queue("jobs")["delayed"]), (&3.into(), &2.into()));
    let refused = [
        (many(101), 413, "batch_count"),
        (many(0), 400, "batch_count"),
        (format!(r#"{{"messages":[{one},{{"body":1,"content_type":"text"}}]}}"#), 400, "message_invalid"),
        (format!(r#"{{"messages":[{one},{{"body":1,"content_type":"xml"}}]}}"#), 400, "message_invalid"),
        (format!(r#"{{"messages":[{one},{{"body":1,"delay_seconds":86401}}]}}"#), 400, "message_invalid"),
        (format!(r#"{{"messages":[{one},{{"body":"{}"}}]}}"#, "x".repeat(128_000)), 413, "message_too_big"),
        ("[]".to_owned(), 400, "batch_invalid"),
    ];
    for (body, status, code) in refused {
        let reply = batch(&body);
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (status, code),
            "{}",
            body.chars().take(100).collect::<String>()
        );
    }
    assert_eq!(server.queue("jobs")["messages"], 3, "no part of a batch is kept");
    assert_eq!(batch(&many(100)).status, 202);
    assert_eq!(bodies(&server)[1], br#"{"n":9007199254740993}"#, "as it was written, digit for digit");
}

#[test]
fn a_page_in_a_browser_is_refused_and_a_provider_behind_a_tunnel_is_not() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    let origin = [("origin", "https://evil.example")];
    for (method, path) in [("POST", "/_queues/jobs"), ("POST", "/_queues/jobs/batch"), ("GET", "/_queues")] {
        let reply = request(&server.url, method, path, &origin, b"x");
        assert_eq!((reply.status, reply.code().as_str()), (403, "origin_refused"), "{method} {path}");
    }
    let tunnel =
        b"POST /_queues/jobs HTTP/1.1\r\nhost: rebound.example\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx";
    let reply = Reply::read(&raw(&server.url, tunnel));
    assert_eq!((reply.status, reply.code().as_str()), (403, "host_refused"));
    assert!(reply.json()["error"]["help"].as_str().unwrap().contains("--allow-host rebound.example"), "{reply:?}");
    let other = folder(&kept());
    let allowing = Server::dev(other.path(), &["--listen", "0.0.0.0:0", "--allow-host", "Rebound.example"]);
    let local = allowing.url.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(Reply::read(&raw(&local, tunnel)).status, 202, "a name that was allowed");
    let stranger = String::from_utf8_lossy(tunnel).replace("rebound", "other");
    assert_eq!(Reply::read(&raw(&local, stranger.as_bytes())).status, 403);
    let hook =
        b"POST /_webhooks/hook HTTP/1.1\r\nhost: rebound.example\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx";
    assert_eq!(Reply::read(&raw(&server.url, hook)).status, 202);
    assert_eq!(server.queue("jobs")["messages"], 1);
}

#[test]
fn a_port_that_is_taken_is_told_with_who_has_it_and_what_to_do() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    let address = server.url.strip_prefix("http://").unwrap();
    let stderr = |output: std::process::Output| (output.status.code(), String::from_utf8(output.stderr).unwrap());
    let (code, said) = stderr(jadpo(dir.path(), &["dev", "--listen", address, "--store", "other.db"]));
    assert_eq!(code, Some(1));
    assert!(said.contains("another jadpo answers there") && said.contains("--listen"), "{said}");
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, said) =
        stderr(jadpo(dir.path(), &["dev", "--listen", &busy.local_addr().unwrap().to_string(), "--store", "other.db"]));
    assert_eq!(code, Some(1));
    assert!(said.contains("another program listens there") && said.contains("ss -ltnp"), "{said}");
    let (code, said) = stderr(jadpo(dir.path(), &["dev", "--listen", "127.0.0.1:0"]));
    assert_eq!(code, Some(2));
    assert!(said.contains(&format!("process {}", server.pid())), "{said}");
}

#[test]
fn a_store_that_another_process_holds_is_told_in_time_and_nothing_is_kept_of_the_call() {
    let dir = folder(&kept());
    let server = Server::dev(dir.path(), &[]);
    let ready = || request(&server.url, "GET", "/readyz", &[], b"");
    assert_eq!(ready().status, 200);
    std::thread::sleep(Duration::from_millis(600));
    let other = rusqlite::Connection::open(dir.path().join(".jadpo/queues.db")).unwrap();
    other.busy_timeout(Duration::from_secs(30)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = Instant::now();
    let reply = ready();
    assert_eq!((reply.status, reply.code().as_str()), (503, "not_ready"), "{reply:?}");
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    let batch = format!(r#"{{"messages":[{}]}}"#, vec![r#"{"body":1}"#; 100].join(","));
    let reply = server.post("/_queues/jobs/batch", batch.as_bytes());
    assert_eq!((reply.status, reply.code().as_str()), (503, "store_unavailable"), "{reply:?}");
    assert_eq!(reply.headers["retry-after"], "1");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert_eq!(request(&server.url, "GET", "/healthz", &[], b"").status, 200);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(server.queue("jobs")["messages"], 0);
    assert_eq!(server.post("/_queues/jobs/batch", batch.as_bytes()).status, 202);
    assert_eq!(ready().status, 200);
}
