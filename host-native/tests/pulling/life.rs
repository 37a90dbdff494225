//! A server that pulls, from its start to its stop.

use std::time::Duration;

use crate::cloud::{ACCOUNT, Cloud, Fault, TOKEN, What};
use crate::support::{Server, folder};
use crate::{all_is_kept_once, app, client, events, serve, wait_until};

const ENVS: [(&str, &str); 2] = [("CF_ACCOUNT_ID", ACCOUNT), ("CF_QUEUES_TOKEN", TOKEN)];

#[test]
fn a_stop_gives_back_what_was_pulled_and_not_received_and_nothing_stays_leased() {
    let cloud = Cloud::start();
    let dir = folder(&app(&cloud.url, ", visibility: 10m", ""));
    cloud.fail(What::Pull, &[Fault::Late(Duration::from_millis(800))]);
    cloud.send_many(5);
    let server = serve(dir.path());
    wait_until("it pulls", || cloud.leased() == 5);
    assert_eq!(server.stop("TERM"), Some(0));
    assert_eq!((cloud.waiting(), cloud.leased(), events(dir.path()).len()), (5, 0, 0));
    let last = cloud.asked(What::Ack).pop().unwrap();
    let retries = last.body["retries"].as_array().unwrap();
    assert!(retries.len() == 5 && retries.iter().all(|retry| retry["delay_seconds"] == 0), "{retries:?}");
}

#[test]
fn a_stop_in_the_middle_of_work_leaves_each_message_kept_and_gone_or_free() {
    let cloud = Cloud::start();
    let dir = folder(&app(&cloud.url, ", visibility: 10m", ""));
    cloud.send_many(20_000);
    let server = serve(dir.path());
    wait_until("it works", || cloud.waiting() < 19_000);
    assert_eq!(server.stop("TERM"), Some(0));
    assert_eq!(cloud.leased(), 0);
    assert_eq!(cloud.waiting() + events(dir.path()).len(), 20_000);
}

#[test]
fn a_stop_does_not_wait_for_a_server_that_never_answers_longer_than_its_grace() {
    let cloud = Cloud::start();
    cloud.fail(What::Pull, &[Fault::Late(Duration::from_secs(60))]);
    let dir = folder(&app(&cloud.url, "", ""));
    let server = Server::serve(dir.path(), &["--grace", "1"], &ENVS);
    wait_until("it pulls", || !cloud.asked(What::Pull).is_empty());
    let stopping = std::time::Instant::now();
    server.signal("TERM");
    server.logged("pull.left_to_leases");
    server.logged("server.stopped");
    assert!(stopping.elapsed() < Duration::from_secs(10), "{:?}", stopping.elapsed());
}

#[test]
fn an_empty_queue_is_asked_less_and_less_and_never_given_up() {
    let cloud = Cloud::start();
    let (dir, _server) = client(&cloud);
    wait_until("it pulls", || !cloud.asked(What::Pull).is_empty());
    std::thread::sleep(Duration::from_secs(4));
    let asked = cloud.asked(What::Pull).len();
    assert!((3..20).contains(&asked), "{asked} pulls in four seconds");
    let bodies = cloud.send_many(1);
    all_is_kept_once(&cloud, dir.path(), &bodies);
}

#[test]
fn dev_pulls_whatever_the_deployables_say_and_serve_only_where_they_do() {
    let cloud = Cloud::start();
    let text = app(&cloud.url, "", "").replace("[Trigger.http, Trigger.tick]", "[Trigger.http]");
    let dir = folder(&text);
    let server = Server::serve(dir.path(), &[], &ENVS);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(cloud.asked(What::List).len(), 0);
    assert_eq!(server.stop("TERM"), Some(0));
    let bodies = cloud.send_many(3);
    let _server = Server::dev_with(dir.path(), &[], &ENVS);
    all_is_kept_once(&cloud, dir.path(), &bodies);
}

#[test]
fn two_servers_on_one_queue_share_it() {
    let cloud = Cloud::start();
    let text = app(&cloud.url, ", visibility: 10m", "");
    let (one, other) = (folder(&text), folder(&text));
    let servers = [serve(one.path()), serve(other.path())];
    cloud.send_many(4_000);
    wait_until("the queue is empty", || cloud.waiting() == 0);
    drop(servers);
    let (mine, theirs) = (events(one.path()), events(other.path()));
    assert_eq!(mine.len() + theirs.len(), 4_000);
    assert!(mine.keys().all(|body| !theirs.contains_key(body)));
    assert!(!mine.is_empty() && !theirs.is_empty(), "{} and {}", mine.len(), theirs.len());
}
