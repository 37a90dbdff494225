//! The clocks of a server and of a command that opens its store: both tell one time, whatever the wall's does.

use jadpo_core::broker::{Broker, Moment, NewBatch, Settings};

use super::support::{Fixture, batch, delayed, settings};

const HALF_A_DAY_MS: i64 = 43_200_000;

fn send_in_5_s(queue: &mut Fixture) {
    queue.send_batch("jobs", &NewBatch { messages: vec![delayed("m", 5)], delay_s: None }).unwrap();
}

/// A server that has started, and the queue `jobs`.
fn served() -> Fixture {
    let mut server = Fixture::with(Settings::default());
    server.sweep();
    server
}

/// Does this as a command that opens the store at this moment, beside the server.
fn beside(server: &mut Fixture, at: Moment, work: impl FnOnce(&mut Fixture)) {
    let servers_time = std::mem::replace(&mut server.at, at);
    let mut command = server.opened_beside(true);
    server.swap(&mut command);
    work(server);
    server.at = servers_time;
    server.swap(&mut command);
}

fn arrives_after_5_s(server: &mut Fixture) {
    server.pass_ms(4_999);
    assert!(server.bodies("jobs").is_empty());
    server.pass_ms(1);
    let taken = server.take("jobs");
    assert_eq!(server.ack("jobs", &taken).acked, 1);
}

#[test]
fn a_delay_is_as_long_as_it_was_meant_however_the_wall_clock_jumped_while_the_server_ran() {
    // The last one is a machine that slept: the steady clock stood still.
    for (jump_ms, ran_s) in [(HALF_A_DAY_MS, 10), (-HALF_A_DAY_MS, 29), (30_000_000, 0)] {
        let mut server = served();
        server.pass_s(ran_s);
        server.at.wall_ms += jump_ms;
        let at = server.at;
        beside(&mut server, at, send_in_5_s);
        arrives_after_5_s(&mut server);
        // And long after the clocks were written down for the first time.
        for _ in 0..100 {
            server.pass_s(10);
            server.sweep();
        }
        let at = server.at;
        beside(&mut server, at, send_in_5_s);
        arrives_after_5_s(&mut server);
    }
}

#[test]
fn a_lease_of_a_command_and_the_retention_of_what_it_sends_go_by_the_server_s_clocks() {
    let mut server = served();
    server.run(|broker, sql, at| broker.update(sql, at, "jobs", settings(|s| s.retention_s = 60))).unwrap();
    server.pass_s(29);
    server.at.wall_ms -= HALF_A_DAY_MS;
    let at = server.at;
    beside(&mut server, at, |command| {
        command.send("jobs", "m");
        assert_eq!(command.bodies("jobs"), ["m"]);
    });
    server.pass_ms(29_999);
    assert!(server.bodies("jobs").is_empty(), "it is leased for 30 s");
    server.pass_ms(1);
    assert_eq!(server.bodies("jobs"), ["m"]);
    server.pass_ms(29_999);
    assert_eq!(server.sweep_all(), 0);
    server.pass_ms(1);
    assert_eq!(server.sweep_all(), 1, "a minute after it was sent");
}

#[test]
fn a_command_whose_every_clock_is_wrong_is_believed_no_further_than_the_server_writes() {
    for lie_ms in [HALF_A_DAY_MS, -HALF_A_DAY_MS] {
        let mut server = served();
        server.pass_s(10);
        let at = Moment { wall_ms: server.at.wall_ms + lie_ms, steady_ms: server.at.steady_ms + lie_ms, ..server.at };
        beside(&mut server, at, send_in_5_s);
        server.pass_s(40);
        assert_eq!(server.bodies("jobs"), ["m"], "{lie_ms}");
    }
}

#[test]
fn a_store_whose_clocks_an_older_build_wrote_down_is_no_further_off() {
    for lie_ms in [0, HALF_A_DAY_MS, -HALF_A_DAY_MS] {
        let mut server = served();
        server.connection.execute("UPDATE jadpo_broker SET steady_ms = NULL", []).unwrap();
        server.pass_s(10);
        let at = Moment { wall_ms: server.at.wall_ms + lie_ms, ..server.at };
        beside(&mut server, at, send_in_5_s);
        server.pass_s(40);
        assert_eq!(server.bodies("jobs"), ["m"], "{lie_ms}");
    }
}

#[test]
fn a_command_that_was_there_first_follows_a_server_that_starts() {
    for jump_ms in [HALF_A_DAY_MS, -HALF_A_DAY_MS] {
        let mut store = served();
        // That server has ended, and a command opens the store.
        store.pass_s(100);
        let mut command: Broker = store.opened_beside(false);
        store.at.wall_ms += jump_ms;
        store.pass_s(100);
        store.restart();
        store.sweep();
        store.swap(&mut command);
        send_in_5_s(&mut store);
        store.swap(&mut command);
        if jump_ms > 0 {
            arrives_after_5_s(&mut store);
        } else {
            // The server began where the clocks were last written down, and the command was 200 s further.
            store.pass_s(206);
            assert_eq!(store.bodies("jobs"), ["m"]);
        }
    }
}

#[test]
fn a_command_alone_goes_by_the_wall_and_runs_on_when_others_write() {
    let mut store = served();
    store.pass_s(1_000_000);
    let mut first = store.opened_beside(false);
    let mut second = store.opened_beside(false);
    store.swap(&mut first);
    send_in_5_s(&mut store);
    store.swap(&mut first);
    store.pass_s(60);
    store.swap(&mut second);
    assert_eq!(store.bodies("jobs"), ["m"], "it is a minute later for the other one too");
    store.send_batch("jobs", &batch(&["n"])).unwrap();
    assert_eq!(store.bodies("jobs"), ["n"]);
}
