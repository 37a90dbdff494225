//! How a Worker's modules come about: `main`, `rules`, `build`, and what the bundler is told.

use std::collections::BTreeMap;

use super::at::{At, Table};
use super::note::Found;
use super::scope::Scope;
use super::{Build, Code, ModuleKind, Rule, quote};

/// Wrangler's rules, which come after the file's own.
const DEFAULT_RULES: [(ModuleKind, &[&str]); 3] = [
    (ModuleKind::Text, &["**/*.txt", "**/*.html", "**/*.sql"]),
    (ModuleKind::Data, &["**/*.bin"]),
    (ModuleKind::Wasm, &["**/*.wasm", "**/*.wasm?module"]),
];
const KINDS: [(&str, ModuleKind); 5] = [
    ("ESModule", ModuleKind::EsModule),
    ("CommonJS", ModuleKind::CommonJs),
    ("CompiledWasm", ModuleKind::Wasm),
    ("Text", ModuleKind::Text),
    ("Data", ModuleKind::Data),
];

/// Reads all of it; nothing, if there is no entry.
pub(super) fn read(found: &mut Found, scope: &Scope<'_>) -> Option<Code> {
    let main = scope.inherited(found, "main", main);
    if main.is_none() && !scope.has("main") {
        let help = "write the module that is the Worker's entry: `\"main\": \"src/index.ts\"`";
        scope.top.at.missing(found, "main", help);
    }
    let truth = |found: &mut Found, key| scope.inherited(found, key, |found, at| at.truth(found));
    let no_bundle = truth(found, "no_bundle").unwrap_or_default();
    let find_additional_modules = truth(found, "find_additional_modules").unwrap_or(no_bundle);
    let (minify, keep_names) = (truth(found, "minify"), truth(found, "keep_names"));
    let text = |found: &mut Found, key| scope.inherited(found, key, |found, at| at.text(found).map(str::to_owned));
    let (base_dir, tsconfig) = (text(found, "base_dir"), text(found, "tsconfig"));
    let (jsx_factory, jsx_fragment) = (text(found, "jsx_factory"), text(found, "jsx_fragment"));
    let own_rules = scope.inherited(found, "rules", rules).unwrap_or_default();
    Some(Code {
        rules: in_force(found, own_rules),
        alias: scope.top(found, "alias", |found, at| texts(found, &at)).unwrap_or_default(),
        define: scope.own(found, "define", |found, at| texts(found, &at)).unwrap_or_default(),
        build: scope.inherited(found, "build", build).flatten(),
        main: main?,
        no_bundle,
        base_dir,
        find_additional_modules,
        tsconfig,
        minify: minify.unwrap_or_default(),
        keep_names: keep_names.unwrap_or(true),
        jsx_factory: jsx_factory.unwrap_or_else(|| "React.createElement".to_owned()),
        jsx_fragment: jsx_fragment.unwrap_or_else(|| "React.Fragment".to_owned()),
    })
}

fn main(found: &mut Found, at: At<'_>) -> Option<String> {
    let main = at.filled(found, "the module that is the Worker's entry")?;
    if main.ends_with(".py") {
        let help = "write the Worker in JavaScript, TypeScript, or a language that becomes Wasm";
        at.refuse(found, format!("jadpo runs no Python: `{}` is {}", at.path, quote(main)), help);
    }
    Some(main.to_owned())
}

fn texts(found: &mut Found, at: &At<'_>) -> Option<BTreeMap<String, String>> {
    let table = at.table(found)?;
    let mut texts = BTreeMap::new();
    for (key, at) in table.all() {
        if let Some(text) = at.text(found) {
            texts.insert(key.to_owned(), text.to_owned());
        }
    }
    Some(texts)
}

fn build(found: &mut Found, at: At<'_>) -> Option<Option<Build>> {
    let table = at.table(found)?;
    table.unknown(found, &["command", "cwd", "watch_dir"], false);
    let command = table.text(found, "command").filter(|command| !command.is_empty());
    let cwd = table.text(found, "cwd").map(str::to_owned);
    let watch_dirs = match table.get("watch_dir") {
        Some(at) if at.is_list() => at.strings(found)?,
        Some(at) => vec![at.text(found)?.to_owned()],
        None => vec!["./src".to_owned()],
    };
    Some(command.map(|command| Build { command: command.to_owned(), cwd, watch_dirs }))
}

/// A rule as it is written, with whether the next of its kind holds too, where that is said.
struct Written {
    rule: Rule,
    fallthrough: Option<bool>,
    path: String,
    span: std::ops::Range<usize>,
    is_used: bool,
}

fn rules(found: &mut Found, at: At<'_>) -> Option<Vec<Written>> {
    if at.is_null() {
        return Some(Vec::new());
    }
    let entries = at.tables(found);
    Some(entries.iter().filter_map(|entry| rule(found, entry)).collect())
}

fn rule(found: &mut Found, entry: &Table<'_>) -> Option<Written> {
    let named = KINDS.map(|(name, _)| name).join(", ");
    let kind = entry.required(found, "type", &format!("write one of {named}"));
    let known = kind.and_then(|kind| KINDS.iter().find(|(name, _)| *name == kind));
    if let (Some(kind), None) = (kind, known) {
        let message = format!("`{}.type` is {}, which is no kind of module here", entry.at.path, quote(kind));
        entry.at.wrong(found, message, format!("write one of {named}"));
    }
    let globs = match entry.get("globs") {
        Some(at) => at.strings(found),
        None => {
            entry.at.wrong(found, format!("`{}` has no `globs`", entry.at.path), "write `\"globs\": [\"**/*.txt\"]`");
            None
        }
    };
    let fallthrough = entry.truth(found, "fallthrough");
    let rule = Rule { kind: known?.1, globs: globs? };
    let (path, span) = (entry.at.path.clone(), entry.at.value.span.clone());
    Some(Written { rule, fallthrough, path, span, is_used: entry.at.is_used })
}

/// Of each kind only the first rule holds, unless that says `fallthrough`; Wrangler's own come last.
fn in_force(found: &mut Found, own: Vec<Written>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut ended: BTreeMap<ModuleKind, (Option<bool>, String)> = BTreeMap::new();
    for Written { rule, fallthrough, path, span, is_used } in own {
        match ended.get(&rule.kind) {
            Some((first, ended_by)) => {
                if *first != Some(false) && is_used {
                    let message = format!("`{path}` is not reached: `{ended_by}` is of the same kind and comes first");
                    let help = Some(format!("write `\"fallthrough\": true` into `{ended_by}`"));
                    found.warning(super::Note { path, message, help, span: Some(span) });
                }
            }
            None => {
                if fallthrough != Some(true) {
                    ended.insert(rule.kind, (fallthrough, path));
                }
                rules.push(rule);
            }
        }
    }
    let defaults = DEFAULT_RULES.iter().filter(|(kind, _)| !ended.contains_key(kind));
    rules.extend(
        defaults.map(|(kind, globs)| Rule { kind: *kind, globs: globs.iter().map(|g| (*g).to_owned()).collect() }),
    );
    rules
}
