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
    /// The folder that the map's paths are relative to.
    pub(super) made_in: PathBuf,
    /// What else its making had to say.
    pub(super) notes: Vec<String>,
}

impl Bundle {
    /// Whether a handler of this name can be in a script of the old syntax: somewhere its name is defined, or named as an
    /// event. Only that it cannot be is certain. What modules export is looked at once they run.
    pub(super) fn may_handle(&self, name: &str) -> bool {
        let defines = |text: &str| {
            text.match_indices(name).any(|(at, word)| {
                let before = text.split_at(at).0.chars().next_back();
                let after = text.split_at(at + word.len()).1.trim_start();
                before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '_' | '$'))
                    && after.starts_with(['(', ':', ',', '}', '=', '"', '\'', ';'])
            })
        };
        match &self.script {
            Script::Classic(script) => defines(script),
            Script::Modules(_) => true,
        }
    }

    /// Takes the code into a hash.
    pub(super) fn hash(&self, hash: &mut impl sha2::Digest) {
        match &self.script {
            Script::Classic(script) => hash.update(script),
            Script::Modules(modules) => {
                for module in modules {
                    hash.update(&module.name);
                    hash.update(module.bytes.len().to_le_bytes());
                    hash.update(&module.bytes);
                }
            }
        }
    }
}

/// Modules that a Worker may have, and folders that are gone into for them.
const MODULES_MAX: usize = 2_000;
const FOLDERS_MAX: usize = 10_000;
/// Most bytes of all of them: what Cloudflare takes of a Worker before it is compressed.
const BYTES_MAX: usize = 64 << 20;

/// The entry as it is, and the files beside it that its rules name.
pub(super) fn as_they_are(worker: &Worker, folder: &Path) -> Result<Bundle, Failure> {
    let entry = folder.join(&worker.code.main);
    let base = base_of(worker, folder);
    let main = read(worker, &entry)?;
    let mut sources = vec![entry.clone()];
    let Some(name) = name_within(&entry, &base) else {
        let what = format!("the Worker `{}`: its entry {} is not in {}", worker.name, entry.display(), base.display());
        return Err(Failure::wrong(what, "set `base_dir` to a folder that holds the entry, or leave it out"));
    };
    if !exports(&String::from_utf8_lossy(&main)) {
        let script = Script::Classic(String::from_utf8_lossy(&main).into_owned());
        return Ok(Bundle { script, sources, map: None, made_in: PathBuf::new(), notes: Vec::new() });
    }
    let kind = if name.ends_with(".cjs") { ModuleKind::CommonJs } else { ModuleKind::EsModule };
    let mut modules = vec![Module { name, kind, bytes: main }];
    for (module, file) in beside(worker, folder)? {
        modules.push(module);
        sources.push(file);
    }
    Ok(Bundle { script: Script::Modules(modules), sources, map: None, made_in: PathBuf::new(), notes: Vec::new() })
}

/// The folder that names of modules are relative to.
fn base_of(worker: &Worker, folder: &Path) -> PathBuf {
    match &worker.code.base_dir {
        Some(base) => folder.join(base),
        None => folder.join(&worker.code.main).parent().unwrap_or(folder).to_owned(),
    }
}

/// The files beside an entry that a rule names, as modules, in the order of their names.
pub(super) fn beside(worker: &Worker, folder: &Path) -> Result<Vec<(Module, PathBuf)>, Failure> {
    let (base, entry) = (base_of(worker, folder), folder.join(&worker.code.main));
    let narrower = |what: String| Failure::wrong(what, "narrow the globs of `rules`, or set `base_dir`");
    let mut found = BTreeMap::new();
    let mut folders = vec![base.clone()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        seen += 1;
        if seen > FOLDERS_MAX {
            return Err(narrower(format!(
                "the Worker `{}`: {} has more than {FOLDERS_MAX} folders",
                worker.name,
                base.display()
            )));
        }
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for one in entries.flatten() {
            let path = one.path();
            let called = one.file_name();
            // A link could lead round in a circle.
            if one.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !called.to_string_lossy().starts_with('.') && called != "node_modules" {
                    folders.push(path);
                }
                continue;
            }
            let Some(name) = name_within(&path, &base).filter(|_| path != entry) else { continue };
            if let Some(kind) = kind_of(&worker.code, &name) {
                found.insert(name, (path, kind));
            }
            if found.len() > MODULES_MAX {
                return Err(narrower(format!("the Worker `{}` has more than {MODULES_MAX} modules", worker.name)));
            }
        }
    }
    let mut total = 0;
    let mut modules = Vec::new();
    for (name, (file, kind)) in found {
        let bytes = read(worker, &file)?;
        total += bytes.len();
        if total > BYTES_MAX {
            return Err(narrower(format!(
                "the modules of the Worker `{}` have more than {BYTES_MAX} bytes",
                worker.name
            )));
        }
        modules.push((Module { name, kind, bytes }, file));
    }
    Ok(modules)
}

/// What a file is by the rules, if it is a module.
fn kind_of(code: &Code, name: &str) -> Option<ModuleKind> {
    let fits = |glob: &String| fast_glob::glob_match(glob.split('?').next().unwrap_or(glob), name);
    code.rules.iter().find(|rule| rule.globs.iter().any(fits)).map(|rule| rule.kind)
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
    fn a_handler_that_is_nowhere_defined_is_missed() {
        let of = |text: &str| Bundle {
            script: Script::Classic(text.to_owned()),
            sources: Vec::new(),
            map: None,
            made_in: PathBuf::new(),
            notes: Vec::new(),
        };
        for has in [
            "async queue(batch) {}",
            "queue: handle",
            "export { queue }",
            "addEventListener('queue', f)",
            "x.queue = f",
        ] {
            assert!(of(has).may_handle("queue"), "{has}");
        }
        for has_not in ["fetch() {}", "my_queue(x)", "the queue is long", "queues(1)"] {
            assert!(!of(has_not).may_handle("queue"), "{has_not}");
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
