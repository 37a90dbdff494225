//! Whatever goes wrong between the two, each message becomes one event.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::cloud::{Asked, Cloud, Fault, TOKEN, What};
use crate::support::{Server, folder, request};
use crate::{all_is_kept_once, app, client, events, serve, store, wait_until};

const PAUSED: Fault = Fault::Status(
    409,
    "",
    r#"{"success":false,"errors":[{"code":0,"message":"queue_delivery_paused"}],"result":null}"#,
);

fn ready(server: &Server) -> (u16, String) {
    let reply = request(&server.url, "GET", "/readyz", &[], b"");
    (reply.status, String::from_utf8(reply.body).unwrap())
}

fn wait_until_ready(server: &Server) {
    wait_until("it is ready", || ready(server).0 == 200);
}

fn leases(asked: &[Asked], part: &str) -> Vec<String> {
    let of = |asked: &Asked| asked.body[part].as_array().cloned().unwrap_or_default();
    asked.iter().flat_map(of).map(|one: Value| one["lease_id"].as_str().unwrap().to_owned()).collect()
}

/// A server whose next requests of this kind go wrong in these ways, with a client. All is kept once in the end.
fn lose_nothing(what: What, faults: &[Fault]) {
    let cloud = Cloud::start();
    cloud.fail(what, faults);
    let mut bodies = cloud.send_many(40);
    let (dir, _server) = client(&cloud);
    // More comes until there was a request for every fault.
    wait_until("all went wrong that was to", || {
        let is_over = cloud.faults(what) == 0;
        if !is_over && cloud.waiting() == 0 {
            bodies.push(format!("{{\"more\":{}}}", bodies.len()));
            cloud.send(&bodies[bodies.len() - 1], Some("text"));
        }
        is_over
    });
    all_is_kept_once(&cloud, dir.path(), &bodies);
}

#[test]
fn connections_that_are_closed_and_answers_that_break_off_lose_nothing() {
    lose_nothing(What::Pull, &[Fault::Close, Fault::Lost, Fault::Half, Fault::Lost]);
    lose_nothing(What::Ack, &[Fault::Close, Fault::Lost, Fault::Half, Fault::Lost]);
}

#[test]
fn servers_that_fail_lose_nothing() {
    let gateway = Fault::Status(502, "content-type: text/html\r\n", "<html>Bad gateway</html>");
    let faults = [Fault::Status(500, "", ""), gateway, Fault::Status(503, "", "{}"), Fault::Status(429, "", "")];
    lose_nothing(What::Pull, &faults);
    lose_nothing(What::Ack, &faults);
}

#[test]
fn answers_that_are_none_of_the_api_s_lose_nothing() {
    let empty = Fault::Status(200, "", r#"{"success":true,"errors":[],"messages":[],"result":null}"#);
    lose_nothing(What::Pull, &[empty, Fault::Other(0), Fault::Other(300), Fault::Other(10_000_000)]);
    lose_nothing(What::Ack, &[Fault::Other(0), Fault::Other(300), Fault::Other(10_000_000)]);
}

#[test]
fn answers_that_come_after_the_leases_lose_nothing() {
    const LATE: Duration = Duration::from_millis(1_500);
    lose_nothing(What::Pull, &[Fault::Late(LATE), Fault::Late(LATE)]);
    lose_nothing(What::Ack, &[Fault::Late(LATE), Fault::Late(LATE)]);
}

#[test]
fn an_answer_that_is_longer_than_is_read_is_asked_for_in_smaller_parts() {
    let cloud = Cloud::start();
    // In JSON each of these is six bytes: ten such messages are 7.5 MB, and 1.8 are read.
    let bodies: Vec<String> = (0..10).map(|number| format!("{number}{}", "\u{1}".repeat(125_000))).collect();
    bodies.iter().for_each(|body| drop(cloud.send(body, Some("text"))));
    let dir = folder(&app(&cloud.url, ", visibility: 1s", "").replace("Moved: Json", "Moved: Text"));
    let _server = serve(dir.path());
    all_is_kept_once(&cloud, dir.path(), &bodies);
    let sizes: BTreeSet<u64> =
        cloud.asked(What::Pull).iter().map(|asked| asked.body["batch_size"].as_u64().unwrap()).collect();
    assert!(sizes.contains(&10) && sizes.contains(&2), "{sizes:?}");
}

#[test]
fn it_stays_away_for_as_long_as_the_server_asks() {
    let cloud = Cloud::start();
    cloud.fail(
        What::Pull,
        &[Fault::Status(429, "retry-after: 2\r\n", ""), Fault::Status(503, "retry-after: 1\r\n", "")],
    );
    let (dir, server) = client(&cloud);
    let bodies = cloud.send_many(3);
    all_is_kept_once(&cloud, dir.path(), &bodies);
    let times: Vec<_> = cloud.asked(What::Pull).iter().map(|asked| asked.at).collect();
    assert!(times[1] - times[0] >= Duration::from_secs(2) && times[2] - times[1] >= Duration::from_secs(1));
    wait_until_ready(&server);
}

#[test]
fn a_paused_queue_is_waited_for_quietly_and_goes_on_when_it_is_resumed() {
    let cloud = Cloud::start();
    cloud.always(Some(PAUSED));
    cloud.fail(What::List, &[Fault::Late(Duration::ZERO)]);
    let bodies = cloud.send_many(3);
    let (dir, server) = client(&cloud);
    let line = server.logged("pull.paused");
    assert_eq!((&line["level"], &line["connection"]), (&"info".into(), &"supply".into()));
    wait_until_ready(&server);
    std::thread::sleep(Duration::from_secs(3));
    assert!(cloud.asked(What::Pull).len() <= 4, "{}", cloud.asked(What::Pull).len());
    let said: Vec<_> = server.log().into_iter().filter(|line| line["level"] != "info").collect();
    assert!(said.iter().all(|line| line["event"] == "enqueue.off"), "{said:?}");
    cloud.always(None);
    all_is_kept_once(&cloud, dir.path(), &bodies);
}

#[test]
fn a_bad_token_is_told_and_makes_it_not_ready_and_is_in_no_log() {
    let cloud = Cloud::start();
    let refuse =
        r#"{"success":false,"errors":[{"code":10000,"message":"no: the-token-that-no-log-shows"}],"result":null}"#;
    cloud.always(Some(Fault::Status(401, "", refuse)));
    let bodies = cloud.send_many(3);
    let (dir, server) = client(&cloud);
    let line = server.logged("pull.not_ready");
    let why = line["why"].as_str().unwrap();
    assert!(why.contains("CF_QUEUES_TOKEN") && why.contains("answered 401") && why.contains("read and write"), "{why}");
    let (status, said) = ready(&server);
    assert_eq!(status, 503);
    assert!(said.contains("connection `supply`") && said.contains("CF_QUEUES_TOKEN"), "{said}");
    assert!(!said.contains(TOKEN) && !line.to_string().contains(TOKEN), "{said}: {line}");
    std::thread::sleep(Duration::from_secs(2));
    assert!(cloud.asked(What::List).len() <= 2, "it is not asked again soon");
    assert!(server.log().iter().all(|line| !line.to_string().contains(TOKEN)));
    cloud.always(None);
    all_is_kept_once(&cloud, dir.path(), &bodies);
    wait_until_ready(&server);
}

#[test]
fn a_queue_that_is_not_there_is_told_and_found_once_it_is() {
    let cloud = Cloud::start();
    cloud.exists(false);
    let bodies = cloud.send_many(3);
    let (dir, server) = client(&cloud);
    let why = server.logged("pull.not_ready")["why"].to_string();
    assert!(why.contains("knows no queue `jobs`"), "{why}");
    assert!(ready(&server).1.contains("`jobs`"));
    cloud.exists(true);
    all_is_kept_once(&cloud, dir.path(), &bodies);
    wait_until_ready(&server);
}

#[test]
fn what_is_not_set_is_told_by_its_name() {
    let cloud = Cloud::start();
    let dir = folder(&app(&cloud.url, "", ""));
    let server = Server::serve(dir.path(), &[], &[("CF_ACCOUNT_ID", "abc"), ("CF_QUEUES_TOKEN", "")]);
    server.logged("pull.not_ready");
    let (status, said) = ready(&server);
    assert!(status == 503 && said.contains("CF_QUEUES_TOKEN") && said.contains("is not set"), "{said}");
    assert_eq!(cloud.asked(What::List).len(), 0);
}

#[test]
fn a_server_that_is_not_there_or_speaks_no_tls_is_waited_for() {
    let cloud = Cloud::start();
    for (url, part) in [("http://127.0.0.1:9", "no connection"), (&cloud.url.replace("http:", "https:"), "127.0.0.1")] {
        let dir = folder(&app(url, "", ""));
        let server = serve(dir.path());
        let why = server.logged("pull.failed")["why"].to_string();
        assert!(why.contains(part), "{why}");
        let (status, said) = ready(&server);
        assert!(status == 503 && said.contains("connection `supply`"), "{said}");
        assert_eq!(server.stop("TERM"), Some(0));
    }
}

#[test]
fn an_acknowledgement_after_the_lease_is_accepted_and_a_warning() {
    let cloud = Cloud::start();
    let id = cloud.send("{}", Some("text"));
    cloud.fail(What::Pull, &[Fault::Late(Duration::from_millis(1_300))]);
    let (dir, server) = client(&cloud);
    let late = server.logged("pull.settled_late");
    assert_eq!((&late["count"], &late["why"]), (&1.into(), &"the lease is over".into()));
    all_is_kept_once(&cloud, dir.path(), &["{}".to_owned()]);
    assert_eq!(cloud.attempts(&id), 0, "it is gone");
}

#[test]
fn while_the_store_takes_nothing_messages_go_back_and_no_more_are_pulled() {
    let cloud = Cloud::start();
    let (dir, server) = client(&cloud);
    wait_until_ready(&server);
    let lock = store(dir.path());
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let bodies = cloud.send_many(1);
    wait_until("it is given back", || !leases(&cloud.asked(What::Ack), "retries").is_empty());
    let retry = &cloud.asked(What::Ack)[0].body["retries"][0];
    assert!(retry["delay_seconds"].as_u64().unwrap() >= 10, "{retry}");
    assert_eq!(leases(&cloud.asked(What::Ack), "acks").len(), 0);
    lock.execute_batch("ROLLBACK").unwrap();
    drop(lock);
    all_is_kept_once(&cloud, dir.path(), &bodies);
}

#[test]
fn a_message_that_the_store_refuses_is_retried_later_each_time_and_holds_up_no_other() {
    let cloud = Cloud::start();
    let (dir, server) = client(&cloud);
    wait_until_ready(&server);
    store(dir.path())
        .execute_batch(
            "CREATE TRIGGER poison BEFORE INSERT ON jadpo_events WHEN NEW.body LIKE '%poison%' \
             BEGIN SELECT RAISE(ABORT, 'CHECK constraint failed: poison'); END",
        )
        .unwrap();
    let poison = cloud.send(r#"{"poison":true}"#, Some("text"));
    let bodies = cloud.send_many(9);
    wait_until("the others are kept", || cloud.waiting() == 1);
    assert_eq!(events(dir.path()).len(), bodies.len());
    wait_until("it is given back", || !leases(&cloud.asked(What::Ack), "retries").is_empty());
    let retries = leases(&cloud.asked(What::Ack), "retries");
    assert!(retries[0].starts_with(&poison), "{retries:?}");
    store(dir.path()).execute_batch("DROP TRIGGER poison").unwrap();
    wait_until("it is kept too", || cloud.waiting() == 0);
    assert_eq!(events(dir.path()).len(), 10);
}

#[test]
fn messages_are_acknowledged_together_and_only_once_they_are_kept() {
    let cloud = Cloud::start();
    let bodies = cloud.send_many(500);
    let (dir, _server) = client(&cloud);
    all_is_kept_once(&cloud, dir.path(), &bodies);
    let acks = cloud.asked(What::Ack);
    let sizes: Vec<usize> = acks.iter().map(|asked| asked.body["acks"].as_array().unwrap().len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 500, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 100), "{sizes:?}");
    assert!(cloud.asked(What::Pull).iter().all(|asked| asked.authorization == format!("Bearer {TOKEN}")));
}
