//! `kill -9` again and again while everything happens at once, each time in a fresh process.
//!
//! Two queues and two functions. `jobs` is handled, though every seventh call fails; `doomed` fails always, so its
//! messages die and a redrive sends them to `jobs`; `junk` is only sent to and emptied. Senders note what was answered
//! with 202, the functions note what they were given, and at the end nothing that was answered may be missing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{Answer, Function, LONG, Reply, Server, TOKEN, folder, request};

const ADMIN: &str = "a-token-for-the-operator";
const SENDERS: u64 = 4;
/// How many times the server is killed, unless JADPO_TEST_KILLS says otherwise.
const KILLS: u64 = 100;

/// What was answered, over all processes.
#[derive(Default)]
struct Answered {
    /// Bodies of messages that were answered with 202, by queue.
    sent: Mutex<BTreeMap<&'static str, BTreeSet<String>>>,
    next: AtomicU64,
    /// How often `junk` was emptied, by answered calls.
    emptied: AtomicU64,
}

#[test]
fn whatever_is_killed_and_when_nothing_that_was_answered_is_lost() {
    let kills = std::env::var("JADPO_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let calls = Arc::new(AtomicU64::new(0));
    let jobs =
        Function::with(move |_| Answer::Status(if calls.fetch_add(1, Ordering::Relaxed) % 7 == 6 { 500 } else { 200 }));
    let doomed = Function::answering(500);
    let dir = folder(&app(&jobs.url, &doomed.url));
    let answered = Arc::new(Answered::default());
    let mut seen = BTreeMap::new();
    for _ in 0..kills {
        let server = serve(dir.path());
        let stop = Arc::new(AtomicBool::new(false));
        let senders: Vec<_> = (0..SENDERS).map(|number| sender(number, &server.url, &answered, &stop)).collect();
        let operator = operator(&server.url, &answered, &stop);
        std::thread::sleep(Duration::from_millis(fastrand::u64(20..200)));
        server.signal("KILL");
        drop(server);
        stop.store(true, Ordering::Relaxed);
        senders.into_iter().chain([operator]).for_each(|thread| thread.join().unwrap());
        note(&jobs, &mut seen);
    }
    settle(dir.path(), &jobs, &answered, &mut seen);
}

fn app(jobs: &str, doomed: &str) -> String {
    format!(
        r#"app: "killed"
        connections: {{
            jobs: {{ driver: Driver.local_queue, queue: "jobs", functions: [work], max_receives: 100, visibility: 1s }}
            doomed: {{ driver: Driver.local_queue, queue: "doomed", functions: [fail], max_receives: 1, visibility: 1s }}
            junk: {{ driver: Driver.local_queue, queue: "junk" }}
        }}
        functions: {{ work: {{ call: "{jobs}" }}, fail: {{ call: "{doomed}" }} }}
        deployables: {{ server: {{ target: Target.native, triggers: [Trigger.http, Trigger.tick] }} }}"#
    )
}

fn serve(dir: &Path) -> Server {
    Server::serve(dir, &[], &[("JADPO_ENQUEUE_TOKEN", TOKEN), ("JADPO_ADMIN_TOKEN", ADMIN)])
}

/// Sends to all three queues, one message after the other, and notes what is answered.
fn sender(number: u64, url: &str, answered: &Arc<Answered>, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let (url, answered, stop) = (url.to_owned(), answered.clone(), stop.clone());
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let count = answered.next.fetch_add(1, Ordering::Relaxed);
            let queue = match count % 10 {
                0 => "doomed",
                1 => "junk",
                _ => "jobs",
            };
            let body = match queue {
                "junk" => format!("{} {count}", answered.emptied.load(Ordering::SeqCst)),
                _ => format!("{queue}-{number}-{count}"),
            };
            if ask(&url, "POST", &format!("/_queues/{queue}"), TOKEN, body.as_bytes())
                .is_some_and(|it| it.status == 202)
            {
                answered.sent.lock().unwrap().entry(queue).or_default().insert(body);
            }
        }
    })
}

/// Empties `junk` and redrives what died, over and over.
fn operator(url: &str, answered: &Arc<Answered>, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let (url, answered, stop) = (url.to_owned(), answered.clone(), stop.clone());
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            redrive(&url);
            if ask(&url, "DELETE", "/.jadpo/queues/junk/messages", ADMIN, b"").is_some_and(|it| it.status == 200) {
                answered.emptied.fetch_add(1, Ordering::SeqCst);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    })
}

fn redrive(url: &str) -> Option<Reply> {
    let redrive = json!({ "queue": "doomed", "to": "jobs" }).to_string();
    ask(url, "POST", "/.jadpo/redrives", ADMIN, redrive.as_bytes())
}

/// A request to a server that may die under it; `None` if there was no whole answer.
fn ask(url: &str, method: &str, path: &str, token: &str, body: &[u8]) -> Option<Reply> {
    let mut stream = TcpStream::connect(url.strip_prefix("http://")?).ok()?;
    stream.set_read_timeout(Some(LONG)).ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let reply = Reply::read(&answer);
    (reply.status != 0).then_some(reply)
}

/// Notes which attempts of which message the function saw, in the order it saw them.
fn note(function: &Function, seen: &mut BTreeMap<(String, String), Vec<u32>>) {
    for call in function.calls() {
        let id = call.header("jadpo-message-id").unwrap().to_owned();
        seen.entry((id, call.text())).or_default().push(call.attempt());
    }
}

/// Lets a last process end all that is to be done, and looks whether anything is missing.
fn settle(dir: &Path, jobs: &Function, answered: &Answered, seen: &mut BTreeMap<(String, String), Vec<u32>>) {
    let server = serve(dir);
    let bearer = format!("Bearer {ADMIN}");
    let look = |queue: &str| -> Value {
        let path = format!("/_queues/{queue}");
        request(&server.url, "GET", &path, &[("authorization", &bearer)], b"").json()
    };
    let end = Instant::now() + LONG * 2;
    loop {
        note(jobs, seen);
        let waiting: Vec<_> = ["doomed", "doomed-dead", "jobs"].map(|queue| look(queue)["messages"].clone()).into();
        if waiting.iter().all(|count| *count == 0) {
            break;
        }
        assert!(Instant::now() < end, "still waiting: {waiting:?}");
        redrive(&server.url);
        std::thread::sleep(Duration::from_millis(50));
    }
    note(jobs, seen);
    let sent = answered.sent.lock().unwrap();
    let counts = ["jobs", "doomed", "junk"].map(|queue| sent.get(queue).map_or(0, BTreeSet::len));
    assert!(counts.iter().all(|count| *count > 0), "nothing was answered: {counts:?}");
    println!(
        "answered in jobs, doomed and junk: {counts:?}; emptied {} times",
        answered.emptied.load(Ordering::SeqCst)
    );
    let handled: BTreeSet<&str> = seen.keys().map(|(_, body)| body.as_str()).collect();
    for queue in ["jobs", "doomed"] {
        let lost: Vec<_> = sent[queue].iter().filter(|body| !handled.contains(body.as_str())).collect();
        assert!(lost.is_empty(), "of {} answered in {queue}, lost: {lost:?}", sent[queue].len());
    }
    for (message, attempts) in &*seen {
        assert!(attempts.is_sorted_by(|one, next| one < next), "attempts of {message:?} did not grow: {attempts:?}");
    }
    assert_eq!(look("jobs")["dead_letters"]["messages"], 0);
    nothing_emptied_is_back(&server, &sent["junk"], answered.emptied.load(Ordering::SeqCst));
}

/// A message of `junk` says how often the queue had been emptied before it was sent.
fn nothing_emptied_is_back(server: &Server, sent: &BTreeSet<String>, emptied: u64) {
    let bodies: Vec<String> = server.beside(async |broker| {
        let (mut bodies, mut after) = (Vec::new(), None);
        loop {
            let page = broker.peek("junk", jadpo_core::broker::Peek { max: 100, after }).await.unwrap();
            let Some(last) = page.last() else { return bodies };
            after = Some(last.reference);
            bodies.extend(page.into_iter().map(|peeked| String::from_utf8(peeked.message.body).unwrap()));
        }
    });
    let epoch = |body: &str| body.split(' ').next().unwrap().parse::<u64>().unwrap();
    let back: Vec<_> = bodies.iter().filter(|body| epoch(body) < emptied).collect();
    // A sender reads the count before it sends, so the last emptying may come between: those were answered after it.
    assert!(back.iter().all(|body| epoch(body) + 1 == emptied), "emptied, and back: {back:?}");
    let there: BTreeSet<&str> = bodies.iter().map(String::as_str).collect();
    let lost: Vec<_> = sent.iter().filter(|body| epoch(body) > emptied && !there.contains(body.as_str())).collect();
    assert!(lost.is_empty(), "never emptied, and lost: {lost:?}");
}
