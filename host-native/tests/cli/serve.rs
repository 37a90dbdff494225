use std::fs;
use std::time::Duration;

use crate::support::{Server, TOKEN, app_text, http, jadpo, receive_into, stderr, subscriber};

const BEARER: (&str, &str) = ("authorization", "Bearer a-token-of-the-operator");

fn folder(app: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("app.jadpo"), app).unwrap();
    dir
}

fn good() -> String {
    app_text("sku: Text", "http://127.0.0.1:9/")
}

#[test]
fn it_answers_health_to_all_and_the_operator_s_endpoint_to_who_has_the_token() {
    let dir = folder(&good());
    let server = Server::start(dir.path(), &[], &[("JADPO_ADMIN_TOKEN", TOKEN)]);
    assert_eq!(http(&server.url, "GET", "/healthz", &[], b""), (200, "ok\n".to_owned()));
    assert_eq!(http(&server.url, "GET", "/nowhere", &[], b"").0, 404);
    assert_eq!(http(&server.url, "GET", "/.jadpo/deliveries", &[], b"").0, 401);
    let wrong = ("authorization", "Bearer a-token-of-the-operatoR");
    assert_eq!(http(&server.url, "GET", "/.jadpo/deliveries", &[wrong], b"").0, 401);
    let (status, body) = http(&server.url, "GET", "/.jadpo/deliveries", &[BEARER], b"");
    assert_eq!((status, body.as_str()), (200, r#"{"items":[]}"#));
}

#[test]
fn without_a_token_there_is_no_operator_s_endpoint() {
    let dir = folder(&good());
    let server = Server::start(dir.path(), &[], &[]);
    assert_eq!(http(&server.url, "GET", "/.jadpo/deliveries", &[BEARER], b"").0, 404);
}

#[test]
fn a_body_or_a_head_that_is_too_large_is_refused_and_the_server_lives_on() {
    let dir = folder(&good());
    let server = Server::start(dir.path(), &[], &[("JADPO_ADMIN_TOKEN", TOKEN)]);
    let large = vec![b'x'; 2_000_000];
    let (status, body) = http(&server.url, "POST", "/.jadpo/deliveries/retry", &[BEARER], &large);
    assert!(status == 413 || status == 0, "{status} {body}");
    let long = "x".repeat(100_000);
    let (status, _) = http(&server.url, "GET", "/healthz", &[("x-long", &long)], b"");
    assert_eq!(status, 431);
    assert_eq!(http(&server.url, "GET", "/healthz", &[], b"").0, 200);
}

#[test]
fn a_signal_ends_it_in_good_order_and_the_store_is_free_again() {
    let dir = folder(&good());
    for signal in ["TERM", "INT"] {
        let server = Server::start(dir.path(), &[], &[]);
        assert_eq!(server.stop(signal), Some(0));
    }
}

#[test]
fn a_second_server_on_the_same_store_is_refused_and_told_who_has_it() {
    let dir = folder(&good());
    let _first = Server::start(dir.path(), &[], &[]);
    let second = jadpo(dir.path(), &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(2));
    assert!(stderr(&second).contains("in use by another jadpo (process "), "{}", stderr(&second));
}

#[test]
fn a_server_killed_outright_leaves_a_store_that_the_next_one_opens() {
    let dir = folder(&good());
    let killed = Server::start(dir.path(), &[], &[]);
    assert_eq!(killed.stop("KILL"), None);
    Server::start(dir.path(), &[], &[]);
}

#[test]
fn a_deployable_that_does_not_run_here_is_refused() {
    let dir = folder(&good());
    for (name, said) in [("edge", "runs on Workers"), ("nope", "no deployable `nope`")] {
        let refused = jadpo(dir.path(), &["serve", "--deployable", name]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = jadpo(dir.path(), &["serve", "--listen", &busy.local_addr().unwrap().to_string()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("cannot listen on"), "{}", stderr(&refused));
}

#[test]
fn a_parked_message_that_an_operator_retried_becomes_an_event_with_a_build_that_reads_it() {
    let (url, calls) = subscriber(204);
    let (old, new) = (app_text("sku: Text, quantity: Int", &url), app_text("sku: Text, quantity: Text", &url));
    let dir = folder(&old);
    receive_into(&dir.path().join(".jadpo/queues.db"), &old, &[r#"{"sku": "A", "quantity": "many"}"#]);

    let server = Server::start(dir.path(), &[], &[]);
    let retried = jadpo(dir.path(), &["deliveries", "retry", "p1", "--store", ".jadpo/queues.db"]);
    assert_eq!(retried.status.code(), Some(0), "{}", stderr(&retried));
    assert_eq!(server.logged("tick.done")["still_parked"], 1, "the old build still cannot read it");
    assert_eq!(server.stop("TERM"), Some(0));

    fs::write(dir.path().join("app.jadpo"), new).unwrap();
    let server = Server::start(dir.path(), &[], &[]);
    assert_eq!(
        jadpo(dir.path(), &["deliveries", "retry", "--all", "--store", ".jadpo/queues.db"]).status.code(),
        Some(0)
    );
    assert_eq!(server.logged("tick.done")["kept"], 1);
    let call = calls.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(
        call.contains("jadpo-event: stockmoved") && call.ends_with(r#"{"sku": "A", "quantity": "many"}"#),
        "{call}"
    );
    assert_eq!(server.stop("TERM"), Some(0));
    assert!(calls.try_recv().is_err(), "it was delivered once");
}
