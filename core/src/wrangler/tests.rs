use super::*;

fn program() -> Program {
    serde_json::from_str(
        r#"{
            "format": 1,
            "app": "warehouse",
            "connections": {
                "stock": {"driver": "cloudflare_queues", "queue": "stock-events", "dead_letter_queue": "stock-dead"},
                "orders": {"driver": "cloudflare_queues", "queue": "orders", "dead_letter_queue": "orders-dead"},
                "supplier": {
                    "driver": "cloudflare_pull", "account": {"env": "CF_ACCOUNT_ID"}, "queue": {"name": "jobs"},
                    "token": {"env": "CF_QUEUES_TOKEN"}, "domains": ["api.cloudflare.com"],
                    "batch_size": 10, "visibility_ms": 30500
                }
            },
            "events": {"StockMoved": {"record": [{"name": "sku", "type": "text"}]}},
            "receiving": {"stock": {"event": "StockMoved"}},
            "subscribers": {
                "ledger": {"on": "StockMoved", "target": {"call": "https://ledger.example.com/events"},
                           "secret": {"env": "LEDGER_SECRET"}},
                "reorder": {"on": "StockMoved", "target": {"service": "reorder-worker"}}
            },
            "deployables": {
                "edge": {"target": "workers", "triggers": ["http", "subscribers", "tick"]},
                "front_door": {"target": "workers", "triggers": ["http"]},
                "server": {"target": "native", "triggers": ["http", "tick"]}
            }
        }"#,
    )
    .unwrap()
}

#[test]
fn the_wrangler_file_of_a_whole_worker_is_this_text() {
    let file = wrangler_file(&program(), "edge").unwrap();
    assert_eq!(file.to_json().unwrap(), include_str!("golden/warehouse-edge.json"));
}

#[test]
fn each_queue_and_its_dead_letter_queue_are_consumers_with_the_driver_s_settings() {
    let consumers = wrangler_file(&program(), "edge").unwrap().queues.unwrap().consumers;
    let told: Vec<_> = consumers
        .iter()
        .map(|c| {
            let numbers = (c.max_batch_size, c.max_batch_timeout, c.max_retries);
            (c.queue.as_str(), numbers, c.dead_letter_queue.as_deref())
        })
        .collect();
    assert_eq!(
        told,
        [
            ("orders", (10, 5, 30), Some("orders-dead")),
            ("orders-dead", (10, 5, 100), None),
            ("stock-events", (10, 5, 30), Some("stock-dead")),
            ("stock-dead", (10, 5, 100), None),
        ]
    );
}

#[test]
fn a_worker_gets_only_what_its_triggers_ask_for() {
    let file = wrangler_file(&program(), "front_door").unwrap();
    assert_eq!(file.name, "warehouse-front-door");
    assert_eq!((file.queues, file.services.len()), (None, 0));
    assert!(file.workers_dev);
    assert_eq!(file.triggers.crons, [""; 0], "an empty list is written: it removes the crons of an earlier deploy");

    let mut program = program();
    program.deployables.get_mut("edge").unwrap().triggers = vec![Trigger::Subscribers];
    let file = wrangler_file(&program, "edge").unwrap();
    assert!(!file.workers_dev && file.triggers.crons.is_empty());
    assert_eq!(file.queues.unwrap().consumers.len(), 4);
}

#[test]
fn all_deployables_of_an_app_share_its_database() {
    let databases = |name| wrangler_file(&program(), name).unwrap().d1_databases;
    assert_eq!(databases("edge"), databases("front_door"));
    assert_eq!(databases("edge")[0].database_name, "warehouse");
}

#[test]
fn a_setting_of_zero_is_written_as_zero() {
    let consumer = Consumer {
        queue: "q".to_owned(),
        max_batch_size: 1,
        max_batch_timeout: 0,
        max_retries: 0,
        dead_letter_queue: None,
    };
    let json = serde_json::to_value(consumer).unwrap();
    assert_eq!(json, serde_json::json!({"queue": "q", "max_batch_size": 1, "max_batch_timeout": 0, "max_retries": 0}));
}

#[test]
fn a_pulled_queue_is_no_consumer_and_the_command_that_makes_it_one_is_told() {
    let text = wrangler_file(&program(), "edge").unwrap().to_json().unwrap();
    assert!(!text.contains("jobs") && !text.contains("http_pull"));
    let told = steps(&program(), "server");
    let pull = told.iter().find(|step| step.run.contains("consumer http add")).unwrap();
    assert_eq!(
        pull.run,
        "npx wrangler queues consumer http add jobs --batch-size 10 --message-retries 30 \
         --visibility-timeout-secs 31 --retry-delay-secs 10 --dead-letter-queue DEAD_LETTER_QUEUE_NAME"
    );
}

#[test]
fn the_steps_after_a_build_make_queues_store_and_secrets_before_the_deploy() {
    let runs: Vec<String> = steps(&program(), "edge").into_iter().map(|step| step.run).collect();
    assert_eq!(
        runs,
        [
            "npx wrangler queues create orders",
            "npx wrangler queues create orders-dead",
            "npx wrangler queues create stock-events",
            "npx wrangler queues create stock-dead",
            "npx wrangler d1 create warehouse --update-config=false",
            "npx wrangler d1 migrations apply DB --remote",
            "npx wrangler secret put JADPO_ADMIN_TOKEN",
            "npx wrangler secret put LEDGER_SECRET",
            "npx wrangler deploy",
        ]
    );
}

#[test]
fn two_workers_on_one_queue_are_refused_by_the_queue_s_and_both_their_names() {
    let mut program = program();
    program.deployables.get_mut("front_door").unwrap().triggers.push(Trigger::Subscribers);
    let told: Vec<String> = conflicts(&program).iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    for part in ["`edge`", "`front_door`", "`orders`"] {
        assert!(told[0].contains(part), "{}", told[0]);
    }
}

#[test]
fn deployables_whose_worker_would_be_the_same_are_refused() {
    let mut program = program();
    let spec = program.deployables["front_door"].clone();
    program.deployables.insert("Front_Door".to_owned(), spec);
    assert!(matches!(conflicts(&program).as_slice(), [WranglerError::SameWorker { .. }]));
}

#[test]
fn what_has_no_wrangler_file_says_why() {
    let why = |name: &str| wrangler_file(&program(), name).unwrap_err().to_string();
    assert!(why("nope").contains("no deployable `nope`"));
    assert!(why("server").contains("`server` does not run on Workers"));
    let mut program = program();
    program.app = "a".repeat(60);
    assert!(wrangler_file(&program, "edge").unwrap_err().to_string().contains("longer than 63"));
}

#[test]
fn the_compatibility_date_is_past_the_changes_that_matter() {
    assert!(
        COMPATIBILITY_DATE > "2024-03-18" && COMPATIBILITY_DATE > "2026-03-12" && COMPATIBILITY_DATE <= "2026-11-17"
    );
}

#[test]
fn a_native_deployable_with_queues_needs_its_programs_and_a_token_for_senders() {
    let program: Program = serde_json::from_str(
        r#"{
            "format": 1, "app": "shop",
            "connections": {
                "jobs": {"driver": "local_queue", "queue": "jobs", "functions": ["pay", "mail", "log"],
                         "max_receives": 3, "visibility_ms": 30000}
            },
            "functions": {
                "pay": {"target": {"exec": ["./bin/pay.sh", "--once"]}},
                "mail": {"target": {"exec": ["/usr/bin/mail"]}},
                "log": {"target": {"exec": ["logger"]}}
            },
            "webhooks": {"hook": {"queue": "jobs", "verify": {"github": {"env": "HOOK_SECRET"}}}},
            "deployables": {"server": {"target": "native", "triggers": ["http", "tick"]}}
        }"#,
    )
    .unwrap();
    let steps: Vec<String> = steps(&program, "server").into_iter().map(|step| step.run).collect();
    assert_eq!(
        steps,
        [
            "install -D FOLDER/bin/pay.sh ./bin/pay.sh",
            "export JADPO_ENQUEUE_TOKEN=$(openssl rand -hex 32)",
            "export HOOK_SECRET=…",
            "jadpo serve program.json --deployable server",
        ]
    );
}
