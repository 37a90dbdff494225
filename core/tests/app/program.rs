use expect_test::expect_file;
use jadpo_core::app::{compile, compile_for, network, refusal};
use jadpo_core::program::Program;

const DESIGN: &str = include_str!("design.jadpo");
const WAREHOUSE: &str = include_str!("../../../host-test/apps/warehouse/app.jadpo");
const SUPPLIER: &str = include_str!("../../../host-test/apps/supplier/app.jadpo");

fn program(source: &str) -> Program {
    let compiled = compile(source);
    assert_eq!(compiled.problems, []);
    compiled.program.unwrap()
}

#[test]
fn the_app_of_the_design_compiles_to_its_program() {
    let json = serde_json::to_string_pretty(&program(DESIGN)).unwrap();
    expect_file!["design.json"].assert_eq(&format!("{json}\n"));
}

#[test]
fn the_demo_s_app_compiles_to_its_program_without_a_note() {
    assert_eq!(compile(WAREHOUSE).notes, []);
    let json = serde_json::to_string_pretty(&program(WAREHOUSE)).unwrap();
    expect_file!["warehouse.json"].assert_eq(&format!("{json}\n"));
}

#[test]
fn the_example_of_a_queue_that_is_pulled_compiles_to_its_program_without_a_note() {
    assert_eq!(compile(SUPPLIER).notes, []);
    let json = serde_json::to_string_pretty(&program(SUPPLIER)).unwrap();
    expect_file!["supplier.json"].assert_eq(&format!("{json}\n"));
}

#[test]
fn a_program_comes_back_from_its_json_as_it_was() {
    for source in [DESIGN, WAREHOUSE, SUPPLIER] {
        let program = program(source);
        let json = serde_json::to_string(&program).unwrap();
        assert_eq!(serde_json::from_str::<Program>(&json).unwrap(), program);
    }
}

#[test]
fn every_key_has_its_default_and_its_value() {
    let json = |source: &str| serde_json::to_value(&program(source).connections["a"]).unwrap();
    let pull = "app: \"x\"\nconnections: { a: { driver: Driver.cloudflare_pull, account: \"acc\", queue: \"q\", token: env(\"T\")";
    assert_eq!(
        json(&format!("{pull} }} }}")),
        serde_json::json!({
            "driver": "cloudflare_pull", "account": {"text": "acc"}, "queue": {"name": "q"}, "token": {"env": "T"},
            "domains": ["api.cloudflare.com"], "batch_size": 10, "visibility_ms": 30_000,
        })
    );
    let own = "base_url: \"http://127.0.0.1:8787/client/v4\", batch_size: 100, visibility: 12h";
    assert_eq!(
        json(&format!("{pull}, {own} }} }}")),
        serde_json::json!({
            "driver": "cloudflare_pull", "account": {"text": "acc"}, "queue": {"name": "q"}, "token": {"env": "T"},
            "domains": ["127.0.0.1:8787"], "base_url": "http://127.0.0.1:8787/client/v4", "batch_size": 100,
            "visibility_ms": 43_200_000,
        })
    );
    assert_eq!(
        json("app: \"x\"\nconnections: { a: { driver: Driver.local_queue, queue: \"q\" } }"),
        serde_json::json!({
            "driver": "local_queue", "queue": "q", "functions": [], "max_receives": 3, "visibility_ms": 30_000,
        })
    );
}

#[test]
fn a_whole_body_has_a_type_and_fields_keep_their_order() {
    let events = program(
        "app: \"x\"\nevents: { A: Json, B: Text, C: Bytes, D: [Int], E: { z: Int?, \"a b\": { n: [Float?] } } }",
    );
    assert_eq!(
        serde_json::to_value(&events.events).unwrap(),
        serde_json::json!({
            "A": "json", "B": "text", "C": "bytes", "D": {"list": "int"},
            "E": {"record": [
                {"name": "z", "type": {"optional": "int"}},
                {"name": "a b", "type": {"record": [{"name": "n", "type": {"list": {"optional": "float"}}}]}},
            ]},
        })
    );
}

#[test]
fn the_network_report_lists_no_host_for_what_cloudflare_pushes() {
    let line = |deployable: Option<&str>| -> Vec<String> {
        let reached = network(&program(DESIGN), deployable).into_iter();
        reached.map(|reach| format!("{} {} {} {:?}", reach.kind, reach.name, reach.through, reach.hosts)).collect()
    };
    let everywhere = [
        "connection jobs Driver.local_queue []",
        "connection supplier_queue Driver.cloudflare_pull [\"api.cloudflare.com\"]",
        "connection warehouse_queue Driver.cloudflare_queues []",
        "subscriber audit run: audit []",
        "subscriber ledger call: [\"ledger.example.com\"]",
        "subscriber reorder service: reorder-worker []",
        "function handle_payment call: [\"127.0.0.1:3000\"]",
        "function sweep call: [\"127.0.0.1:3000\"]",
    ];
    assert_eq!(line(None), everywhere);
    assert_eq!(line(Some("edge")), [&everywhere[2..3], &everywhere[3..6]].concat());
    assert_eq!(line(Some("server")), [&everywhere[0..2], &everywhere[3..5], &everywhere[6..8]].concat());
    assert_eq!(line(Some("nowhere")), Vec::<String>::new());
}

#[test]
fn a_refusal_has_the_same_words_at_check_and_wherever_a_program_is_used() {
    let source = WAREHOUSE.replace("[Trigger.http, Trigger.tick]", "[Trigger.http, Trigger.subscribers]");
    let compiled = compile(&source);
    let said: Vec<_> = compiled.problems.into_iter().map(|found| (found.code, found.message, found.help)).collect();
    let program = compile_for(&source, Some("edge")).program.expect("the other deployable is right");
    let refused = refusal(&program, "server").into_iter();
    let refused: Vec<_> = refused.map(|refused| (refused.code, refused.message, Some(refused.help))).collect();
    assert_eq!(said, refused);
    assert_eq!(said.len(), 2, "the driver and the service binding");
    let driver = &said[0];
    assert!(driver.1.contains("`server`") && driver.1.contains("`warehouse_queue`"), "{}", driver.1);
    assert!(driver.2.as_ref().unwrap().contains("Driver.cloudflare_pull"));
    assert_eq!(refusal(&program, "edge"), []);
    assert_eq!(refusal(&program, "nowhere"), []);
}

#[test]
fn the_deepest_type_that_is_taken_comes_back_from_its_json() {
    let deepest = |depth: usize| {
        let inner = (1..depth).fold("Json?".to_owned(), |inner, _| format!("{{ a: {inner} }}?"));
        format!("app: \"x\"\nevents: {{ E: {{ a: {inner} }} }}")
    };
    let program = program(&deepest(24));
    let json = serde_json::to_string(&program).unwrap();
    assert_eq!(serde_json::from_str::<Program>(&json).unwrap(), program);
    assert_eq!(compile(&deepest(25)).problems.len(), 1);
}
