//! Rust functions that are linked in: by queues, by subscribers, and by a binary of one's own.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jadpo::functions::{Linked, LinkedCall};
use jadpo::host::NativeHost;
use jadpo::store::OpenStore;
use jadpo_core::host::{Call, CallOutcome, Host};
use jadpo_core::program::Target;
use jadpo_core::trigger::FunctionOutcome;

use crate::{Fixture, LONG, call, error};

fn run(name: &str) -> Target {
    Target::Run(name.to_owned())
}

#[tokio::test]
async fn a_linked_function_gets_the_body_the_headers_and_the_query() {
    let seen: Arc<Mutex<Option<LinkedCall>>> = Arc::default();
    let keep = Arc::clone(&seen);
    let linked = Linked::new().with("keep", move |call| {
        let keep = Arc::clone(&keep);
        async move {
            *keep.lock().unwrap() = Some(call);
            Ok(())
        }
    });
    let fixture = Fixture::with(linked).await;
    let mut call = call(run("keep"), b"\x00\xFF", LONG);
    call.query = Some("a=1".to_owned());
    assert_eq!(fixture.functions.call(call).await, FunctionOutcome::Returned(Ok(())));
    let seen = seen.lock().unwrap().take().unwrap();
    assert_eq!((seen.body.as_slice(), seen.query.as_deref()), (b"\x00\xFF".as_slice(), Some("a=1")));
    assert_eq!(seen.header("CONTENT-type"), Some("application/json"));
}

#[tokio::test]
async fn an_error_is_a_failure_in_the_function_s_own_words_and_a_panic_is_one_too() {
    let linked = Linked::new()
        .with("fails", |_| async { Err("the card was refused".to_owned()) })
        .with("panics", |_| async { panic!("out of {}", "cards") })
        .with("panics_before", |_| -> std::future::Ready<Result<(), String>> { panic!("at once") });
    let fixture = Fixture::with(linked).await;
    let failed = |name: &'static str| fixture.call(run(name), b"{}", LONG);
    assert_eq!(failed("fails").await, FunctionOutcome::Returned(Err("the card was refused".to_owned())));
    assert_eq!(failed("panics").await, FunctionOutcome::Returned(Err("it panicked: out of cards".to_owned())));
    assert_eq!(failed("panics_before").await, FunctionOutcome::Returned(Err("it panicked: at once".to_owned())));
    assert_eq!(error(&failed("nobody").await), "the function nobody is not linked in");
}

#[tokio::test]
async fn a_linked_function_is_ended_at_the_limit() {
    struct Ended(Arc<AtomicBool>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let ended = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&ended);
    let linked = Linked::new().with("hangs", move |_| {
        let ended = Ended(Arc::clone(&mark));
        async move {
            tokio::time::sleep(LONG * 10).await;
            drop(ended);
            Ok(())
        }
    });
    let fixture = Fixture::with(linked).await;
    let outcome = fixture.call(run("hangs"), b"{}", Duration::from_millis(200)).await;
    assert_eq!(error(&outcome), "it did not return within 0.2 s");
    let started = Instant::now();
    while !ended.load(Ordering::SeqCst) {
        assert!(started.elapsed() < LONG, "it goes on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_subscriber_s_run_is_the_linked_function_of_that_name() {
    let folder = tempfile::tempdir().unwrap();
    let store = OpenStore::create(&folder.path().join("store.db")).unwrap();
    let linked = Linked::new().with("audit", |call| async move {
        match call.header("jadpo-event") {
            Some("StockMoved") if call.body == b"{}" => Ok(()),
            _ => Err("another event".to_owned()),
        }
    });
    let host = NativeHost::new(store.handle()).with_linked(linked);
    let delivery = |event: &str, function: &str| Call {
        subscriber: "audit".to_owned(),
        target: run(function),
        headers: vec![("jadpo-event", event.to_owned())],
        body: b"{}".to_vec(),
        timeout_ms: 5_000,
    };
    let answered = CallOutcome::Answered { status: 200, retry_after: None };
    assert_eq!(host.call(delivery("StockMoved", "audit")).await, answered);
    assert_eq!(host.call(delivery("Other", "audit")).await, CallOutcome::Unanswered("another event".to_owned()));
    assert_eq!(
        host.call(delivery("StockMoved", "other")).await,
        CallOutcome::Unanswered("the function other is not linked in".to_owned())
    );
}

/// The example in `examples/linked.rs`, built with the tests: an app of its own with a function in it.
#[test]
fn a_binary_of_one_s_own_is_the_whole_command_line_with_its_functions() {
    let folder = tempfile::tempdir().unwrap();
    let app = "app: \"shop\"\nconnections: { jobs: { driver: Driver.local_queue, queue: \"jobs\", functions: [count] } }\n\
        functions: { count: { run: count_bytes } }\n";
    std::fs::write(folder.path().join("app.jadpo"), app).unwrap();
    let example = crate::project::example("linked");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut server = Command::new(&example)
        .args(["dev", "--tick-ms", "50", "--listen", &address.to_string()])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let url = format!("http://{address}");
    let counted = crate::project::until(|| {
        crate::project::http(&url, "POST", "/_queues/jobs", "four")?;
        std::fs::read_to_string(folder.path().join("counted.txt")).ok()
    });
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(counted.starts_with("4 bytes\n"), "{counted}");
}
