//! A Worker's entry and all that it imports, as one script and the files that go with it: by esbuild, asked for what
//! Wrangler asks it for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use jadpo_core::workers::{Code, ModuleKind, Worker};
use serde::Deserialize;
use tokio::process::Command;

use super::failure::Failure;
use super::modules::{self, Bundle, Module, Script};
use super::node::BUILTINS;
use super::private_folder;

/// What esbuild says of what it did.
#[derive(Deserialize)]
struct Metafile {
    inputs: BTreeMap<String, Input>,
    outputs: BTreeMap<String, Output>,
}

#[derive(Deserialize)]
struct Input {
    imports: Vec<Import>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    entry_point: Option<String>,
    exports: Vec<String>,
    imports: Vec<Import>,
    inputs: BTreeMap<String, serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Import {
    path: String,
    #[serde(default)]
    external: bool,
}

/// What a bundling goes by.
pub(super) struct Bundling<'a> {
    pub(super) esbuild: &'a Path,
    /// The Wrangler file's folder.
    pub(super) folder: &'a Path,
    /// A folder for what comes of it, which is made.
    pub(super) into: &'a Path,
    pub(super) is_dev: bool,
}

/// Bundles a Worker.
pub(super) async fn bundle(worker: &Worker, bundling: &Bundling<'_>) -> Result<Bundle, Failure> {
    let code = &worker.code;
    let Bundling { esbuild, folder, into, .. } = bundling;
    private_folder(into).map_err(|error| Failure::failed(format!("{}: {error}", into.display()), ""))?;
    let metafile = into.join("meta.json");
    let mut command = Command::new(esbuild);
    command
        // Not a name alone: that would be a package, and one with a dash at its beginning an option.
        .arg(folder.join(&code.main))
        .args(arguments(worker, bundling.is_dev))
        .arg(format!("--outdir={}", into.display()))
        .arg(format!("--metafile={}", metafile.display()))
        .current_dir(folder)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = command.output().await.map_err(|error| {
        let help = "name another with --esbuild, or leave that out: it is then found or fetched by npm";
        Failure::failed(format!("esbuild ({}) cannot be run: {error}", esbuild.display()), help)
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(told(worker, &said));
    }
    let metafile = std::fs::read(&metafile).map_err(|error| error.to_string());
    let metafile: Metafile = metafile
        .and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()))
        .map_err(|error| Failure::failed(format!("esbuild did not say what it has made: {error}"), ""))?;
    let mut bundle = collected(worker, &metafile, folder, into)?;
    let said = said.trim_end();
    if !said.is_empty() {
        bundle.notes.push(said.to_owned());
    }
    Ok(bundle)
}

/// What went wrong, as esbuild tells it: with file, line, and the line itself.
fn told(worker: &Worker, said: &str) -> Failure {
    let is_for_node = |line: &str| line.contains("--platform=node");
    let wants_node = said.lines().any(is_for_node);
    // What esbuild advises is for who has its command line.
    let is_advice = |line: &str| is_for_node(line) || line.trim_start().starts_with("You can mark the path");
    let lines: Vec<&str> = said.lines().filter(|line| !is_advice(line)).collect();
    let help = if wants_node {
        "a module of Node.js is there with `\"compatibility_flags\": [\"nodejs_compat\"]` in the Wrangler file"
    } else if said.contains("Could not resolve") {
        "a package that is not there is installed with `npm install NAME` beside the Wrangler file; a file's path is \
         relative to the file that imports it"
    } else {
        ""
    };
    Failure::wrong(format!("the Worker `{}` cannot be bundled:\n{}", worker.name, lines.join("\n").trim_end()), help)
}

fn arguments(worker: &Worker, is_dev: bool) -> Vec<String> {
    let code = &worker.code;
    let mode = if is_dev { "development" } else { "production" };
    let mut arguments: Vec<String> = [
        "--bundle",
        "--format=esm",
        "--target=es2024",
        "--sourcemap=linked",
        "--entry-names=index",
        "--asset-names=[name]-[hash]",
        "--conditions=workerd,worker,browser",
        "--main-fields=browser,module,main",
        "--external:cloudflare:*",
        "--external:workerd:*",
        "--external:node:*",
        "--loader:.js=jsx",
        "--loader:.mjs=jsx",
        "--loader:.cjs=jsx",
        "--log-level=warning",
        "--log-limit=20",
        "--color=false",
        "--define:navigator.userAgent=\"Cloudflare-Workers\"",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(format!("--define:process.env.NODE_ENV=\"{mode}\""));
    arguments.push(format!("--jsx-factory={}", code.jsx_factory));
    arguments.push(format!("--jsx-fragment={}", code.jsx_fragment));
    if code.keep_names {
        arguments.push("--keep-names".to_owned());
    }
    if code.minify {
        arguments.push("--minify".to_owned());
    }
    if let Some(tsconfig) = &code.tsconfig {
        arguments.push(format!("--tsconfig={tsconfig}"));
    }
    let has_node = worker.compatibility_flags.iter().any(|flag| flag.starts_with("nodejs_compat"));
    if has_node {
        arguments.push("--define:global=globalThis".to_owned());
        let bare = BUILTINS.iter().filter(|name| !code.alias.contains_key(**name));
        arguments.extend(bare.map(|name| format!("--alias:{name}=node:{name}")));
    }
    arguments.extend(code.alias.iter().map(|(from, to)| format!("--alias:{from}={to}")));
    arguments.extend(code.define.iter().map(|(name, text)| format!("--define:{name}={text}")));
    arguments.extend(copied(code).into_keys().map(|ending| format!("--loader:{ending}=copy")));
    arguments.extend(named(code).map(|(name, _)| format!("--external:*/{name}")));
    arguments
}

/// The endings of files that become modules as they are, by the Worker's rules: esbuild goes by endings.
fn copied(code: &Code) -> BTreeMap<String, ModuleKind> {
    let mut endings = BTreeMap::new();
    for rule in &code.rules {
        if matches!(rule.kind, ModuleKind::EsModule | ModuleKind::CommonJs) {
            continue;
        }
        for glob in &rule.globs {
            let last = last_part(glob);
            let Some((_, after)) = last.rsplit_once('*') else { continue };
            if let Some(at) = after.find('.') {
                endings.entry(after.split_at(at).1.to_owned()).or_insert(rule.kind);
            }
        }
    }
    endings
}

/// The files that rules call by their whole names: their endings may be those of others that are something else.
fn named(code: &Code) -> impl Iterator<Item = (&str, ModuleKind)> {
    let all = code.rules.iter().filter(|rule| !matches!(rule.kind, ModuleKind::EsModule | ModuleKind::CommonJs));
    let all = all.flat_map(|rule| rule.globs.iter().map(|glob| (last_part(glob), rule.kind)));
    all.filter(|(name, _)| !name.is_empty() && !name.contains(['*', '[', '{']))
}

fn last_part(glob: &str) -> &str {
    let last = glob.rsplit('/').next().unwrap_or(glob);
    last.split('?').next().unwrap_or(last)
}

/// The modules that such files become, each with the import that means it: esbuild has left those as they are written.
fn named_modules(
    code: &Code,
    metafile: &Metafile,
    folder: &Path,
) -> Result<BTreeMap<String, (Module, PathBuf)>, Failure> {
    let mut found = BTreeMap::new();
    for (importer, input) in &metafile.inputs {
        for import in input.imports.iter().filter(|import| import.external) {
            let name = last_part(&import.path);
            let Some((_, kind)) = named(code).find(|(file, _)| *file == name) else { continue };
            let file = folder.join(importer).parent().unwrap_or(folder).join(&import.path);
            let bytes = std::fs::read(&file).map_err(|error| {
                let what = format!("{}, which {importer} imports, cannot be read: {error}", file.display());
                Failure::wrong(what, "a file's path is relative to the file that imports it")
            })?;
            let module = Module { name: format!("named-{}-{name}", found.len()), kind, bytes };
            found.entry(import.path.clone()).or_insert((module, file));
        }
    }
    Ok(found)
}

/// What esbuild has made, as modules.
fn collected(worker: &Worker, metafile: &Metafile, folder: &Path, into: &Path) -> Result<Bundle, Failure> {
    let code = &worker.code;
    let nothing = || Failure::failed("esbuild has made no script", "");
    let (_, entry) = metafile.outputs.iter().find(|(_, output)| output.entry_point.is_some()).ok_or_else(nothing)?;
    let script = into.join("index.js");
    let mut text =
        std::fs::read_to_string(&script).map_err(|error| Failure::failed(format!("its script: {error}"), ""))?;
    let endings = copied(code);
    let mut modules = Vec::new();
    for import in entry.imports.iter().filter(|import| !import.external) {
        let (path, query) =
            import.path.split_once('?').map_or((import.path.as_str(), ""), |(path, query)| (path, query));
        let Some(output) = metafile.outputs.get(path) else { continue };
        let name = path.rsplit('/').next().unwrap_or(path);
        let source = output.inputs.keys().next().map_or(name, String::as_str);
        let kind = endings.iter().filter(|(ending, _)| source.ends_with(ending.as_str())).max_by_key(|(e, _)| e.len());
        let Some((_, kind)) = kind else { continue };
        let name = if query.is_empty() { name.to_owned() } else { format!("{name}?{query}") };
        let file = into.join(path.rsplit('/').next().unwrap_or(path));
        let bytes =
            std::fs::read(&file).map_err(|error| Failure::failed(format!("{}: {error}", file.display()), ""))?;
        modules.push(Module { name, kind: *kind, bytes });
    }
    let mut sources: Vec<PathBuf> = metafile.inputs.keys().filter_map(|input| source_of(input, folder)).collect();
    let script = if entry.exports.is_empty() {
        if !modules.is_empty() {
            let what =
                format!("the Worker `{}` listens for events and imports files, which only a module can", worker.name);
            return Err(Failure::wrong(
                what,
                "write its entry as a module: `export default { async fetch(request, env) {} }`",
            ));
        }
        Script::Classic(text)
    } else {
        for (import, (module, file)) in named_modules(code, metafile, folder)? {
            // No import leads out of the folder of the one script that has come of all.
            text = text.replace(&format!("\"{import}\""), &format!("\"./{}\"", module.name));
            modules.push(module);
            sources.push(file);
        }
        let main = Module { name: "index.js".to_owned(), kind: ModuleKind::EsModule, bytes: with_require(text).into() };
        modules.insert(0, main);
        if code.find_additional_modules {
            // What is imported by a name that only a run knows.
            for (module, file) in modules::beside(worker, folder)? {
                if modules.iter().all(|other| other.name != module.name) {
                    modules.push(module);
                    sources.push(file);
                }
            }
        }
        Script::Modules(modules)
    };
    let map = std::fs::read(into.join("index.js.map")).ok();
    Ok(Bundle { script, sources, map, made_in: into.to_owned(), notes: Vec::new() })
}

/// The file of an input, if it is one.
fn source_of(input: &str, folder: &Path) -> Option<PathBuf> {
    let path = input.split('?').next()?;
    let file = folder.join(path);
    file.is_file().then_some(file)
}

/// A package in `CommonJS` may ask for a module of Node.js by `require`, for which esbuild leaves a function that goes by
/// a `require` if there is one. It is on the first line with what was there, so that no line moves.
fn with_require(text: String) -> String {
    if !text.contains("__require(\"node:") {
        return text;
    }
    format!(
        "import {{ createRequire as __jadpoRequire }} from \"node:module\"; const require = __jadpoRequire(\"/\"); {text}"
    )
}
