use std::fs;
use std::path::Path;

use super::*;

const APP: &str = r#"{
    "format": 1,
    "app": "warehouse",
    "connections": {"stock": {"driver": "cloudflare_queues", "queue": "stock", "dead_letter_queue": "stock-dead"}},
    "events": {"StockMoved": "json"},
    "receiving": {"stock": {"event": "StockMoved"}},
    "subscribers": {"ledger": {"on": "StockMoved", "target": {"call": "https://ledger.example.com/"}}},
    "deployables": {
        "edge": {"target": "workers", "triggers": ["http", "subscribers", "tick"]},
        "server": {"target": "native", "triggers": ["http", "tick"]}
    }
}"#;

/// `(module (func) (export "queue" (func 0)))`.
const WASM: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x09\x01\x05queue\0\0\x0a\x04\x01\x02\0\x0b";

fn program() -> Program {
    serde_json::from_str(APP).unwrap()
}

fn worker(dir: &Path) -> Worker {
    fs::write(dir.join("worker.js"), "import './worker.wasm';").unwrap();
    fs::write(dir.join("worker.wasm"), WASM).unwrap();
    Worker::from_dir(dir).unwrap()
}

struct Fixture {
    out: tempfile::TempDir,
    worker: Worker,
}

impl Fixture {
    fn new() -> Self {
        Self { out: tempfile::tempdir().unwrap(), worker: worker(tempfile::tempdir().unwrap().path()) }
    }
    fn build(&self, program: &Program) -> Result<Vec<Written>, BuildError> {
        let folders = folders(program, None, Some(&self.worker))?;
        let placed: Vec<_> = folders.into_iter().map(|f| (self.out.path().join(&f.deployable), f)).collect();
        write(&placed)
    }
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.out.path().join(name)).unwrap()
    }
}

fn all_files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            found.extend(all_files(&path).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
        } else {
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_worker_s_folder_holds_all_that_a_deploy_needs_and_a_native_one_its_program() {
    let fixture = Fixture::new();
    fixture.build(&program()).unwrap();
    let names: Vec<String> = all_files(fixture.out.path()).into_keys().collect();
    assert_eq!(
        names,
        [
            "edge/.jadpo-build.json",
            "edge/index.js",
            "edge/migrations/0001_jadpo.sql",
            "edge/program.json",
            "edge/worker.js",
            "edge/worker.wasm",
            "edge/wrangler.json",
            "server/.jadpo-build.json",
            "server/program.json",
        ]
    );
    assert_eq!(serde_json::from_str::<Program>(&fixture.read("edge/program.json")).unwrap(), program());
}

#[test]
fn the_same_app_gives_the_same_bytes_in_any_folder_and_again_in_the_same_one() {
    let (one, other) = (Fixture::new(), Fixture::new());
    one.build(&program()).unwrap();
    other.build(&program()).unwrap();
    let first = all_files(one.out.path());
    assert_eq!(first, all_files(other.out.path()));
    let again = one.build(&program()).unwrap();
    assert!(again.iter().all(|written| written.kept.is_empty() && written.removed.is_empty()));
    assert_eq!(first, all_files(one.out.path()));
}

#[test]
fn a_file_of_the_user_s_is_neither_replaced_nor_removed() {
    let fixture = Fixture::new();
    let edge = fixture.out.path().join("edge");
    fs::create_dir_all(&edge).unwrap();
    fs::write(edge.join("wrangler.json"), "mine").unwrap();
    assert!(matches!(fixture.build(&program()), Err(BuildError::NotOurs { .. })));
    assert_eq!(all_files(fixture.out.path()).len(), 1, "a refused build writes nothing");

    fs::remove_file(edge.join("wrangler.json")).unwrap();
    fs::write(edge.join("notes.txt"), "mine").unwrap();
    fixture.build(&program()).unwrap();
    fixture.build(&program()).unwrap();
    assert_eq!(fixture.read("edge/notes.txt"), "mine");
}

#[test]
fn a_file_changed_by_hand_is_kept_beside_the_new_one() {
    let fixture = Fixture::new();
    fixture.build(&program()).unwrap();
    for (text, kept) in [("mine", "wrangler.json.changed"), ("mine too", "wrangler.json.changed-2")] {
        fs::write(fixture.out.path().join("edge/wrangler.json"), text).unwrap();
        let written = fixture.build(&program()).unwrap();
        assert_eq!(written[0].kept, [("wrangler.json".to_owned(), kept.to_owned())]);
        assert_eq!(fixture.read(&format!("edge/{kept}")), text);
        assert!(fixture.read("edge/wrangler.json").contains("warehouse-edge"));
    }
}

#[test]
fn what_an_earlier_build_wrote_and_this_one_does_not_goes() {
    let fixture = Fixture::new();
    fixture.build(&program()).unwrap();
    let mut native = program();
    native.deployables.get_mut("edge").unwrap().target = Platform::Native;
    native.deployables.get_mut("edge").unwrap().triggers = vec![Trigger::Tick];
    fs::write(fixture.out.path().join("edge/worker.js"), "changed by hand").unwrap();
    let written = fixture.build(&native).unwrap();
    assert!(written[0].removed.contains(&"wrangler.json".to_owned()));
    let left: Vec<String> = all_files(&fixture.out.path().join("edge")).into_keys().collect();
    assert_eq!(left, [".jadpo-build.json", "program.json", "worker.js"], "but not what was changed by hand");
}

#[test]
fn a_manifest_that_points_outside_its_folder_removes_nothing_there() {
    let fixture = Fixture::new();
    let victim = fixture.out.path().join("victim");
    fs::write(&victim, "").unwrap();
    fs::create_dir_all(fixture.out.path().join("server")).unwrap();
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let manifest = format!(r#"{{"files": {{"../victim": "{empty}"}}}}"#);
    fs::write(fixture.out.path().join("server").join(MANIFEST), manifest).unwrap();
    fixture.build(&program()).unwrap();
    assert!(victim.exists());
}

#[test]
fn a_linked_function_needs_a_worker_of_one_s_own() {
    let fixture = Fixture::new();
    let mut app = program();
    app.subscribers.get_mut("ledger").unwrap().target = Target::Run("audit".to_owned());
    assert!(fixture.build(&app).is_ok(), "a custom Worker may link it");
    if let Some(embedded) = Worker::embedded() {
        let refused = folders(&app, None, Some(&embedded)).unwrap_err();
        assert!(refused.to_string().contains("`audit`") && refused.help().unwrap().contains("--worker DIR"));
    }
}

#[test]
fn a_worker_without_a_queue_handler_is_refused_where_queues_are_received() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.js"), "").unwrap();
    assert!(matches!(Worker::from_dir(dir.path()), Err(BuildError::NotAWorker { .. })), "no Wasm");
    fs::write(dir.path().join("index_bg.wasm"), b"\0asm\x01\0\0\0").unwrap();
    let deaf = Worker::from_dir(dir.path()).unwrap();
    let refused = folders(&program(), None, Some(&deaf)).unwrap_err();
    assert!(refused.to_string().contains("exports no `queue`"), "{refused}");
    assert!(folders(&program(), Some("server"), Some(&deaf)).is_ok());
}

#[test]
fn worker_build_s_own_names_are_taken_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.js"), "import './index_bg.wasm'").unwrap();
    fs::write(dir.path().join("index_bg.wasm"), WASM).unwrap();
    fs::write(dir.path().join("package.json"), "{}").unwrap();
    let worker = Worker::from_dir(dir.path()).unwrap();
    let names: Vec<&str> = worker.files().map(|(name, _)| name).collect();
    assert_eq!(names, ["index_bg.wasm", "worker.js"]);
}

#[test]
fn only_the_named_deployable_is_built_and_an_unknown_one_is_refused_with_the_known() {
    let fixture = Fixture::new();
    let built = folders(&program(), Some("server"), None).unwrap();
    assert_eq!(built.len(), 1, "and a native one needs no Worker");
    assert!(matches!(folders(&program(), Some("edge"), None), Err(BuildError::NoWorker)));
    let refused = folders(&program(), Some("egde"), Some(&fixture.worker)).unwrap_err();
    assert!(refused.is_input() && refused.help().unwrap().contains("edge, server"));
}

#[test]
fn a_deployable_s_name_never_leads_out_of_the_folder() {
    let fixture = Fixture::new();
    for name in ["../evil", "", ".", "a/b", "a\\b"] {
        let mut app = program();
        let spec = app.deployables["server"].clone();
        app.deployables = BTreeMap::from([(name.to_owned(), spec)]);
        assert!(matches!(fixture.build(&app), Err(BuildError::FolderName { .. })), "{name}");
    }
}
