//! What of a Worker is run: its script, and the modules beside it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use jadpo_core::workers::{Code, ModuleKind, Worker};

use super::failure::Failure;

/// A module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Module {
    /// By what others import it.
    pub(super) name: String,
    pub(super) kind: ModuleKind,
    pub(super) bytes: Vec<u8>,
}

/// A Worker's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Script {
    /// Modules, the entry first.
    Modules(Vec<Module>),
    /// One script that listens for events.
    Classic(String),
}

/// Code that is ready to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bundle {
    pub(super) script: Script,
    /// The files that it was made of.
    pub(super) sources: Vec<PathBuf>,
    /// Where the script's places are in the sources.
    pub(super) map: Option<Vec<u8>>,
    /// What else its making had to say.
    pub(super) notes: Vec<String>,
}

/// Modules that a Worker may have, and folders that are gone into for them.
const MODULES_MAX: usize = 2_000;
const FOLDERS_MAX: usize = 10_000;
/// Most bytes of all of them: what Cloudflare takes of a Worker before it is compressed.
const BYTES_MAX: usize = 64 << 20;

/// The entry as it is, and the files beside it that its rules name.
pub(super) fn as_they_are(worker: &Worker, folder: &Path) -> Result<Bundle, Failure> {
    let code = &worker.code;
    let entry = folder.join(&code.main);
    let base = match &code.base_dir {
        Some(base) => folder.join(base),
        None => entry.parent().unwrap_or(folder).to_owned(),
    };
    let main = read(worker, &entry)?;
    let mut sources = vec![entry.clone()];
    let Some(name) = name_within(&entry, &base) else {
        let what = format!("the Worker `{}`: its entry {} is not in {}", worker.name, entry.display(), base.display());
        return Err(Failure::wrong(what, "set `base_dir` to a folder that holds the entry, or leave it out"));
    };
    if !exports(&String::from_utf8_lossy(&main)) {
        let script = Script::Classic(String::from_utf8_lossy(&main).into_owned());
        return Ok(Bundle { script, sources, map: None, notes: Vec::new() });
    }
    let kind = if name.ends_with(".cjs") { ModuleKind::CommonJs } else { ModuleKind::EsModule };
    let mut total = main.len();
    let mut modules = vec![Module { name, kind, bytes: main }];
    for (name, (file, kind)) in beside(worker, code, &base, &entry)? {
        let bytes = read(worker, &file)?;
        total += bytes.len();
        if total > BYTES_MAX {
            let what = format!("the modules of the Worker `{}` have more than {BYTES_MAX} bytes", worker.name);
            return Err(Failure::wrong(what, "narrow the globs of `rules`, or set `base_dir`"));
        }
        modules.push(Module { name, kind, bytes });
        sources.push(file);
    }
    Ok(Bundle { script: Script::Modules(modules), sources, map: None, notes: Vec::new() })
}

/// The files beside an entry that a rule names, by their names as modules.
fn beside(
    worker: &Worker,
    code: &Code,
    base: &Path,
    entry: &Path,
) -> Result<BTreeMap<String, (PathBuf, ModuleKind)>, Failure> {
    let mut found = BTreeMap::new();
    let mut folders = vec![base.to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        seen += 1;
        if seen > FOLDERS_MAX {
            let what = format!("the Worker `{}`: {} has more than {FOLDERS_MAX} folders", worker.name, base.display());
            return Err(Failure::wrong(what, "set `base_dir` to a folder that holds its modules only"));
        }
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for one in entries.flatten() {
            let path = one.path();
            let called = one.file_name();
            if path.is_dir() {
                if !called.to_string_lossy().starts_with('.') && called != "node_modules" {
                    folders.push(path);
                }
                continue;
            }
            let Some(name) = name_within(&path, base).filter(|_| path != entry) else { continue };
            let fits = |glob: &String| fast_glob::glob_match(glob.split('?').next().unwrap_or(glob), &name);
            if let Some(rule) = code.rules.iter().find(|rule| rule.globs.iter().any(fits)) {
                found.insert(name, (path, rule.kind));
            }
            if found.len() > MODULES_MAX {
                let what = format!("the Worker `{}` has more than {MODULES_MAX} modules", worker.name);
                return Err(Failure::wrong(what, "narrow the globs of `rules`, or set `base_dir`"));
            }
        }
    }
    Ok(found)
}

fn read(worker: &Worker, file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error| {
        let what = format!("the Worker `{}`: {} cannot be read: {error}", worker.name, file.display());
        Failure::wrong(what, "`main` in the Wrangler file names the entry, relative to that file")
    })
}

/// A file's name as a module: its path from the base, with slashes.
fn name_within(file: &Path, base: &Path) -> Option<String> {
    let clean =
        |path: &Path| -> PathBuf { path.components().filter(|part| !matches!(part, Component::CurDir)).collect() };
    let (file, base) = (clean(file), clean(base));
    let parts: Option<Vec<&str>> = file.strip_prefix(base).ok()?.iter().map(|part| part.to_str()).collect();
    Some(parts?.join("/")).filter(|name| !name.is_empty())
}

/// Whether a script exports something, and so is a module: the word where a statement may begin.
fn exports(text: &str) -> bool {
    text.match_indices("export").any(|(at, word)| {
        let (before, after) = (text.split_at(at).0, text.split_at(at + word.len()).1);
        let begins = before.trim_end().chars().next_back().is_none_or(|c| matches!(c, ';' | '}' | '/' | ')'))
            || before.trim_end_matches([' ', '\t']).ends_with('\n');
        begins && after.starts_with(|c: char| c.is_whitespace() || matches!(c, '{' | '*'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_exports_is_a_module() {
        for module in
            ["export default {}", "const a=1;export{a as default};", "a()\n  export * from './b'", "/* */export {}"]
        {
            assert!(exports(module), "{module}");
        }
        for classic in
            ["addEventListener('fetch', (e) => {})", "const text = 'an export default'", "exports.a = 1; x.export()"]
        {
            assert!(!exports(classic), "{classic}");
        }
    }

    #[test]
    fn a_module_is_named_by_its_path_from_the_base() {
        let name = |file: &str, base: &str| name_within(Path::new(file), Path::new(base));
        assert_eq!(name("/a/b/../b/c.js", "/a/b/.."), Some("b/c.js".to_owned()));
        assert_eq!(name("/a/./b/c.js", "/a"), Some("b/c.js".to_owned()));
        assert_eq!(name("/x/c.js", "/a"), None);
    }
}
