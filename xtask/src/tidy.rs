//! Rules about the repository's files that no other tool checks, as ordinary tests.

use crate::Args;
use clap::CommandFactory;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A file longer than this holds more than one thing.
const LINES_MAX: usize = 500;
/// Tests may be longer: their cases are all of one kind.
const TEST_LINES_MAX: usize = 700;

/// Each file that git knows and that is text, with its path below the root.
fn committed() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().expect("git is installed");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).unwrap();
    let names = names.split('\0').filter(|name| !name.is_empty());
    let files: Vec<_> =
        names.filter_map(|name| Some((name.to_owned(), fs::read_to_string(root.join(name)).ok()?))).collect();
    assert!(files.len() > 20, "git lists only {} files", files.len());
    files
}

fn check(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with(".test.mjs") || name.ends_with("tests.rs")
}

#[test]
fn no_source_file_holds_more_than_one_room() {
    let is_source = |name: &str| Path::new(name).extension().is_some_and(|ext| ext == "rs" || ext == "mjs");
    let too_long = |(name, text): &(String, String)| {
        let max = if is_test(name) { TEST_LINES_MAX } else { LINES_MAX };
        let lines = text.lines().count();
        (is_source(name) && lines > max).then(|| format!("{name}: {lines} lines, at most {max}; split it"))
    };
    check(&committed().iter().filter_map(too_long).collect::<Vec<_>>());
}

#[test]
fn no_file_names_a_package_registry_or_somebodys_folder() {
    // Written in pieces, or this file would be the first to break the rule.
    let words = [
        ["registry.", "npmjs"],
        ["index.", "crates.io"],
        ["static.", "crates.io"],
        ["arti", "factory"],
        ["/ro", "ot/"],
        ["/Us", "ers/"],
    ]
    .map(|pieces| pieces.concat());
    let home = ["/ho", "me/"].concat();
    let mut problems = Vec::new();
    for (name, text) in committed() {
        for (at, line) in text.lines().enumerate() {
            let named = words.iter().find(|word| line.contains(word.as_str())).cloned();
            let somebodys =
                line.split(&home).nth(1).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
            if let Some(word) = named.or(somebodys.then(|| home.clone())) {
                problems.push(format!("{name}:{}: {word}", at + 1));
            }
        }
    }
    check(&problems);
}

#[test]
fn npms_lock_file_fetches_from_wherever_the_machine_does() {
    let files = committed();
    let (_, lock) =
        files.iter().find(|(name, _)| name == "host-workers/e2e/package-lock.json").expect("it is committed");
    let lock: serde_json::Value = serde_json::from_str(lock).unwrap();
    let packages = lock["packages"].as_object().unwrap();
    assert!(packages.len() > 10);
    for (name, package) in packages {
        assert!(
            package.get("resolved").is_none(),
            "{name} has `resolved`: run npm with the .npmrc beside the lock file"
        );
        assert!(name.is_empty() || package.get("integrity").is_some(), "{name} has no checksum");
    }
}

#[test]
fn the_readme_shows_every_command() {
    let files = committed();
    let (_, readme) = files.iter().find(|(name, _)| name == "README.md").expect("there is a README.md");
    let commands = Args::command();
    let missing = commands.get_subcommands().map(|command| format!("cargo xtask {}", command.get_name()));
    check(&missing.filter(|command| !readme.contains(command.as_str())).collect::<Vec<_>>());
}

#[test]
fn the_command_line_is_well_formed() {
    Args::command().debug_assert();
}

/// What cargo says of how a package comes to `jadpo-core`, for a target, as it is built on its own.
fn tree_of(package: &str, target: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(cargo)
        .args(["tree", "--offline", "--package", package, "--edges", "normal,features", "--invert", "jadpo-core"])
        .args(target)
        .current_dir(root)
        .output()
        .expect("cargo is installed");
    let tree = String::from_utf8(tree.stdout).unwrap();
    assert!(tree.contains(package), "cargo tree says nothing of {package}:\n{tree}");
    tree
}

#[test]
fn neither_the_parser_nor_the_broker_enters_the_worker() {
    let tree = tree_of("jadpo-host-workers", &["--target", "wasm32-unknown-unknown"]);
    for feature in ["broker", "compile"] {
        assert!(!tree.contains(&format!("jadpo-core feature \"{feature}\"")), "{feature}:\n{tree}");
    }
}

#[test]
fn no_host_that_is_built_has_deliberate_mistakes_in_it() {
    for (package, target) in [("jadpo-host-workers", vec!["--target", "wasm32-unknown-unknown"]), ("jadpo", vec![])] {
        let tree = tree_of(package, &target);
        assert!(!tree.contains("jadpo-core feature \"broken\""), "{package}:\n{tree}");
    }
}
