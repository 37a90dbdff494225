//! A million messages wait, and the server goes on as if they did not.

use std::time::{Duration, Instant};

use jadpo_core::broker::{Content, NewBatch, NewMessage, Settings};

use super::support::{Function, Server, app, folder, on_store};
use jadpo::store::OpenStore;

/// Messages that wait. Their bodies are short, so that to fill the queue takes seconds.
const WAITING: usize = 1_000_000;
/// Far more than any of it takes, and far less than what looks at every message would.
const AT_ONCE: Duration = Duration::from_secs(2);
/// Bytes of memory that the server may use while the messages are some 200 MB on disk.
const MEMORY_MAX: u64 = 256 << 20;

#[test]
fn with_a_million_messages_waiting_depth_send_and_delivery_are_quick_and_memory_is_bounded() {
    let function = Function::answering(200);
    let dir = folder(&app(&[("work", &function.url)], "concurrency: 4"));
    let store = dir.path().join(".jadpo/queues.db");
    OpenStore::create(&store).unwrap().close();
    on_store(&store, async |broker| {
        broker.create("jobs", Settings::default()).await.unwrap();
        let message = NewMessage { content: Content::Text, body: b"waits".to_vec(), delay_s: None, meta: None };
        let batch = NewBatch { messages: vec![message; 100], delay_s: None };
        for _ in 0..WAITING / 10_000 {
            let sends = (0..100).map(|_| broker.send("jobs", batch.clone()));
            futures_util::future::try_join_all(sends).await.unwrap();
        }
    });
    let started = Instant::now();
    let server = Server::dev(dir.path(), &["--tick-ms", "600000"]);
    assert!(started.elapsed() < AT_ONCE * 5, "it started in {:?}", started.elapsed());
    let quick = |what: &str, work: &dyn Fn()| {
        let started = Instant::now();
        work();
        assert!(started.elapsed() < AT_ONCE, "{what} took {:?}", started.elapsed());
    };
    quick("the depth", &|| assert_eq!(server.queue("jobs")["messages"], WAITING));
    quick("a send", &|| drop(server.send("jobs", "one more")));
    quick("a list", &|| drop(server.get("/_queues")));
    drop(server);
    let server = Server::dev(dir.path(), &["--tick-ms", "100"]);
    quick("the first delivery", &|| drop(function.call()));
    for _ in 0..1_000 {
        function.call();
    }
    quick("the depth, while it delivers", &|| drop(server.queue("jobs")));
    let memory = memory_of(server.pid());
    assert!(memory < MEMORY_MAX, "the server uses {} MB", memory >> 20);
}

/// The most memory that the process has used so far, in bytes.
fn memory_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().split(' ').next().unwrap().parse::<u64>().unwrap() << 10
}
