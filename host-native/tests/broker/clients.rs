//! What clients of the API need of a store: an account, consumers, tokens.

use jadpo_core::broker::{BrokerError, ConsumerKind, ConsumerSettings, NewApiToken, Settings};

use super::support::Fixture;

fn worker(name: &str) -> ConsumerKind {
    ConsumerKind::Worker { script: name.to_owned(), environment: Some("live".to_owned()) }
}

fn new(name: &str) -> NewApiToken {
    NewApiToken {
        name: name.to_owned(),
        may_read: true,
        may_write: false,
        queues: vec!["jobs".to_owned()],
        expires_at_ms: None,
    }
}

#[test]
fn a_consumer_and_what_is_set_for_it_outlast_a_restart_and_go_together() {
    let mut f = Fixture::with(Settings::default());
    let settings = ConsumerSettings { max_retries: 9, ..ConsumerSettings::default() };
    let added = f.run(|broker, sql, at| broker.add_consumer(sql, at, "jobs", worker("w"), settings, None)).unwrap();
    f.restart();
    let known = f.run(|broker, _, _| broker.consumer("jobs").map(|consumer| consumer.cloned())).unwrap();
    assert_eq!(known, Some(added));
    assert_eq!(f.run(|broker, _, _| Ok(broker.info("jobs")?.settings.consumer.max_retries)).unwrap(), 9);
    f.run(|broker, sql, at| broker.purge(sql, at, "jobs")).unwrap();
    assert!(f.run(|broker, _, _| Ok(broker.consumer("jobs")?.is_some())).unwrap(), "a purge takes messages alone");
    f.run(|broker, sql, at| broker.remove_consumer(sql, at, "jobs")).unwrap();
    f.restart();
    assert!(f.run(|broker, _, _| Ok(broker.consumer("jobs")?.is_none())).unwrap());
    let left = f.run(|broker, _, _| Ok(broker.info("jobs")?.settings.consumer.clone())).unwrap();
    assert_eq!(left, ConsumerSettings::default());
    let gone = f.run(|broker, sql, at| broker.remove_consumer(sql, at, "jobs"));
    assert_eq!(gone, Err(BrokerError::ConsumerNotFound { queue: "jobs".to_owned() }));
}

#[test]
fn a_queue_has_one_consumer_and_its_refused_second_changes_no_setting() {
    let mut f = Fixture::with(Settings::default());
    let kind = ConsumerKind::HttpPull;
    let set = kind.default_settings();
    f.run(|broker, sql, at| broker.add_consumer(sql, at, "jobs", kind, set, None)).unwrap();
    let other = ConsumerSettings { max_retries: 0, ..ConsumerSettings::default() };
    let second = f.run(|broker, sql, at| broker.add_consumer(sql, at, "jobs", worker("w"), other, None));
    assert!(matches!(second, Err(BrokerError::ConsumerExists { .. })), "{second:?}");
    let set = f.run(|broker, _, _| Ok(broker.info("jobs")?.settings.consumer.clone())).unwrap();
    assert_eq!((set.max_retries, set.batch_size), (3, 5));
}

#[test]
fn the_account_is_the_store_s_and_stays() {
    let mut f = Fixture::new();
    let account = f.run(|broker, _, _| Ok(broker.account().to_owned())).unwrap();
    assert!(account.len() == 32 && account.bytes().all(|byte| byte.is_ascii_hexdigit()));
    f.restart();
    assert_eq!(f.run(|broker, _, _| Ok(broker.account().to_owned())).unwrap(), account);
    let other = Fixture::new().run(|broker, _, _| Ok(broker.account().to_owned())).unwrap();
    assert_ne!(other, account);
}

#[test]
fn a_token_is_known_by_its_secret_until_it_is_revoked_or_expires() {
    let mut f = Fixture::new();
    let (made, shown) = f.run(|broker, sql, at| broker.create_token(sql, at, new("a"))).unwrap();
    let expires = NewApiToken { expires_at_ms: Some(f.at.wall_ms + 1_000), ..new("b") };
    let (_, short) = f.run(|broker, sql, at| broker.create_token(sql, at, expires)).unwrap();
    f.restart();
    let knows = |f: &mut Fixture, text: &str| f.run(|broker, _, at| Ok(broker.token(at, text).cloned())).unwrap();
    assert_eq!(knows(&mut f, &shown), Some(made.clone()));
    f.pass_ms(999);
    assert!(knows(&mut f, &short).is_some());
    f.pass_ms(1);
    assert!(knows(&mut f, &short).is_none());
    let secret = shown.splitn(3, '_').nth(2).unwrap();
    for wrong in [format!("jadpo_{}_", made.id), format!("jadpo__{secret}"), format!("{shown}_"), secret.to_owned()] {
        assert!(knows(&mut f, &wrong).is_none(), "{wrong}");
    }
    f.run(|broker, sql, _| broker.revoke_token(sql, "a")).unwrap();
    assert!(knows(&mut f, &shown).is_none());
    f.restart();
    assert!(knows(&mut f, &shown).is_none());
}

#[test]
fn two_tokens_of_one_moment_differ_and_a_name_is_taken_once() {
    let mut f = Fixture::new();
    let made = ["a", "b"].map(|name| f.run(|broker, sql, at| broker.create_token(sql, at, new(name))).unwrap());
    assert!(made[0].0.id != made[1].0.id && made[0].1 != made[1].1);
    let again = f.run(|broker, sql, at| broker.create_token(sql, at, new("a")));
    assert!(matches!(again, Err(BrokerError::TokenExists(_))), "{again:?}");
    for name in ["", " ", "a\nb", &"x".repeat(201)] {
        assert!(f.run(|broker, sql, at| broker.create_token(sql, at, new(name))).is_err(), "{name}");
    }
    let odd = NewApiToken { queues: vec!["Not A Queue".to_owned()], ..new("c") };
    assert!(f.run(|broker, sql, at| broker.create_token(sql, at, odd)).is_err());
}
