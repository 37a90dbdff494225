//! What workerd is told: a config in the text form of Cap'n Proto, and the modules' files beside it.
//!
//! Everything that comes from a Worker's own files is written as a string with all that could end it escaped, or is a file
//! of its own whose name we gave.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jadpo_core::workers::{ModuleKind, Service, Var, Worker};
use serde_json::json;

use super::modules::Script;
use super::project::Project;
use crate::server::workers::{DISPATCHER, DISPATCHER_JS, PROBER, PROBER_JS};

/// Takes what Workers log, and hands it to us.
const TAIL: &str = include_str!("tail.js");
/// Answers for a Worker that is not here.
const STAND_IN: &str = include_str!("stand_in.js");
/// The day whose behaviour our own Workers go by.
const OUR_DATE: &str = "2026-04-01";
/// The header by which a Worker's `request.cf` comes.
pub(super) const CF_HEADER: &str = "jadpo-cf";
/// The headers by which our own service knows what it is asked.
pub(super) const SERVICE: &str = "jadpo-service";
pub(super) const NAME: &str = "jadpo-name";
pub(super) const DELAY: &str = "jadpo-delay-s";

/// Where a workerd finds its files and sockets.
pub(super) struct Places<'a> {
    /// A folder of its own, for it alone.
    pub(super) folder: &'a Path,
    /// Our own service's socket.
    pub(super) inner: &'a Path,
    /// Where Durable Objects are kept.
    pub(super) objects: &'a Path,
}

impl Places<'_> {
    pub(super) fn config(&self) -> PathBuf {
        self.folder.join("config.capnp")
    }

    pub(super) fn dispatcher(&self) -> PathBuf {
        self.folder.join("d")
    }

    /// The socket of the HTTP of a Worker, by its place among them.
    pub(super) fn worker(&self, index: usize) -> PathBuf {
        self.folder.join(format!("w{index}"))
    }
}

/// Writes the config and the modules' files. `stand_ins` are Workers that are called and not here,
/// and are answered for, each with its entrypoints that are called.
pub(super) fn write(
    projects: &[Project],
    stand_ins: &BTreeMap<String, BTreeSet<String>>,
    places: &Places<'_>,
) -> std::io::Result<()> {
    let mut files = Files { folder: places.folder, count: 0 };
    let mut services = Vec::new();
    let mut outer = Outer { inner: places.inner, services: BTreeMap::new() };
    for project in projects {
        services.push(worker(project, &mut files, &mut outer)?);
    }
    for (name, entrypoints) in stand_ins {
        services.push(stand_in(name, entrypoints, &mut files)?);
    }
    services.push(tail(&mut files, &mut outer)?);
    services.push(dispatcher(projects, &mut files)?);
    services.push(prober(projects, &mut files)?);
    services.extend(outer.services.into_values());
    // As in Wrangler's own local runtime: a Worker may well call what else runs on the machine, or beside it in one's own
    // network. That holds in production too, where it is for a firewall to say what a server reaches.
    services.push(
        "(name = \"internet\", network = (allow = [\"public\", \"private\"], tlsOptions = (trustBrowserCas = true)))"
            .to_owned(),
    );
    if projects.iter().any(Project::has_objects) {
        let path = text(&places.objects.to_string_lossy());
        services.push(format!("(name = \"objects\", disk = (path = {path}, writable = true))"));
    }
    let mut sockets = vec![socket("d", &places.dispatcher(), "dispatcher", "")];
    for (index, project) in projects.iter().enumerate() {
        let options = format!("cfBlobHeader = {}", text(CF_HEADER));
        sockets.push(socket(
            &format!("w{index}"),
            &places.worker(index),
            &service_name(&project.worker.name),
            &options,
        ));
    }
    let config = format!(
        "using Workerd = import \"/workerd/workerd.capnp\";\n\
         const config :Workerd.Config = (\n  logging = (structuredLogging = true),\n  services = [\n    {}\n  ],\n  \
         sockets = [\n    {}\n  ]\n);\n",
        services.join(",\n    "),
        sockets.join(",\n    "),
    );
    files.write("config.capnp", config.as_bytes())
}

/// A Worker's name among the services: no other service has this beginning.
fn service_name(worker: &str) -> String {
    format!("worker:{worker}")
}

fn worker(project: &Project, files: &mut Files<'_>, outer: &mut Outer<'_>) -> std::io::Result<String> {
    let Worker { name, .. } = &project.worker;
    let code = match &project.bundle.script {
        Script::Classic(script) => format!("serviceWorkerScript = {}", files.embed(script.as_bytes())?),
        Script::Modules(modules) => {
            let mut all = Vec::new();
            for module in modules {
                let kind = match module.kind {
                    ModuleKind::EsModule => "esModule",
                    ModuleKind::CommonJs => "commonJsModule",
                    ModuleKind::Wasm => "wasm",
                    ModuleKind::Text => "text",
                    ModuleKind::Data => "data",
                };
                all.push(format!("(name = {}, {kind} = {})", text(&module.name), files.embed(&module.bytes)?));
            }
            format!("modules = [{}]", all.join(", "))
        }
    };
    let mut parts = vec![
        code,
        format!("compatibilityDate = {}", text(&project.compatibility_date)),
        format!("compatibilityFlags = [{}]", list(project.worker.compatibility_flags.iter().map(String::as_str))),
        format!("bindings = [{}]", bindings(project, outer).join(", ")),
        format!("cacheApiOutbound = {}", text(&outer.service("cache", name, None))),
        format!(
            "streamingTails = [(name = \"tail\", props = (json = {}))]",
            text(&json!({"worker": name}).to_string())
        ),
    ];
    if project.has_objects() {
        let classes = project.classes();
        let namespaces = classes.iter().map(|(class, has_sql)| {
            // As in Wrangler's own local runtime.
            let key = format!("{name}-{class}");
            format!("(className = {}, uniqueKey = {}, enableSql = {has_sql})", text(class), text(&key))
        });
        parts.push(format!("durableObjectNamespaces = [{}]", namespaces.collect::<Vec<_>>().join(", ")));
        parts.push("durableObjectStorage = (localDisk = \"objects\")".to_owned());
    }
    Ok(format!("(name = {}, worker = ({}))", text(&service_name(name)), parts.join(", ")))
}

fn bindings(project: &Project, outer: &mut Outer<'_>) -> Vec<String> {
    let worker = &project.worker;
    let mut all = Vec::new();
    for (name, var) in &worker.vars {
        if project.secrets.contains_key(name) {
            continue;
        }
        all.push(match var {
            Var::Text(value) => variable(name, value),
            Var::Json(value) => format!("(name = {}, json = {})", text(name), text(&value.to_string())),
        });
    }
    all.extend(project.secrets.iter().map(|(name, value)| variable(name, value)));
    if let Some(name) = &worker.version_metadata {
        all.push(format!("(name = {}, json = {})", text(name), text(&project.version.to_string())));
    }
    for producer in &worker.producers {
        let service = outer.service("queue", &producer.queue, producer.delivery_delay_s);
        all.push(format!("(name = {}, queue = {})", text(&producer.binding), text(&service)));
    }
    for database in &worker.databases {
        let service = outer.service("d1", &database.key(), None);
        all.push(format!(
            "(name = {}, wrapped = (moduleName = \"cloudflare-internal:d1-api\", innerBindings = [(name = \"fetcher\", \
             service = {})]))",
            text(&database.binding),
            text(&service),
        ));
    }
    all.extend(worker.services.iter().map(service));
    for object in &worker.durable_objects {
        let script = object.script.as_deref().filter(|script| *script != worker.name);
        let of = script.map(|script| format!(", serviceName = {}", text(&service_name(script)))).unwrap_or_default();
        let class = text(&object.class);
        let name = text(&object.binding);
        all.push(format!("(name = {name}, durableObjectNamespace = (className = {class}{of}))"));
    }
    all
}

/// A variable of text. A text of Cap'n Proto ends at a NUL for who reads it in C; in JSON one is written as six letters.
fn variable(name: &str, value: &str) -> String {
    if value.contains('\0') {
        return format!("(name = {}, json = {})", text(name), text(&json!(value).to_string()));
    }
    format!("(name = {}, text = {})", text(name), text(value))
}

fn service(service: &Service) -> String {
    let mut to = format!("name = {}", text(&service_name(&service.service)));
    if let Some(entrypoint) = &service.entrypoint {
        let _ = write!(to, ", entrypoint = {}", text(entrypoint));
    }
    if let Some(props) = &service.props {
        let _ = write!(to, ", props = (json = {})", text(&props.to_string()));
    }
    format!("(name = {}, service = ({to}))", text(&service.binding))
}

fn dispatcher(projects: &[Project], files: &mut Files<'_>) -> std::io::Result<String> {
    let to = projects.iter().map(|project| {
        let name = &project.worker.name;
        format!("(name = {}, service = {})", text(name), text(&service_name(name)))
    });
    // To itself, for what it tries out on itself first.
    let own = [(DISPATCHER, "dispatcher"), (PROBER, "prober")];
    let own = own.map(|(name, service)| format!("(name = {}, service = {})", text(name), text(service)));
    Ok(format!(
        "(name = \"dispatcher\", worker = (modules = [(name = \"dispatcher.js\", esModule = {})], compatibilityDate = \
         {}, compatibilityFlags = [\"service_binding_extra_handlers\"], bindings = [{}]))",
        files.embed(DISPATCHER_JS.as_bytes())?,
        text(OUR_DATE),
        own.into_iter().chain(to).collect::<Vec<_>>().join(", "),
    ))
}

/// It sees the Workers of modules alone: a script in the old syntax has no handlers that could be looked at.
fn prober(projects: &[Project], files: &mut Files<'_>) -> std::io::Result<String> {
    let modules = projects.iter().filter(|project| matches!(project.bundle.script, Script::Modules(_)));
    let to = modules.map(|project| {
        let name = &project.worker.name;
        format!("(name = {}, service = {})", text(name), text(&service_name(name)))
    });
    Ok(format!(
        "(name = \"prober\", worker = (modules = [(name = \"prober.js\", esModule = {})], compatibilityDate = {}, \
         bindings = [{}]))",
        files.embed(PROBER_JS.as_bytes())?,
        text(OUR_DATE),
        to.collect::<Vec<_>>().join(", "),
    ))
}

fn tail(files: &mut Files<'_>, outer: &mut Outer<'_>) -> std::io::Result<String> {
    Ok(format!(
        "(name = \"tail\", worker = (modules = [(name = \"tail.js\", esModule = {})], compatibilityDate = {}, \
         compatibilityFlags = [\"streaming_tail_worker\"], bindings = [(name = \"SINK\", service = {})]))",
        files.embed(TAIL.as_bytes())?,
        text(OUR_DATE),
        text(&outer.service("tail", "", None)),
    ))
}

fn stand_in(name: &str, entrypoints: &BTreeSet<String>, files: &mut Files<'_>) -> std::io::Result<String> {
    let mut script = STAND_IN.to_owned();
    for entrypoint in entrypoints.iter().filter(|name| *name != "default") {
        let _ = writeln!(script, "export {{ StandIn as {} }};", json!(entrypoint));
    }
    Ok(format!(
        "(name = {}, worker = (modules = [(name = \"stand_in.js\", esModule = {})], compatibilityDate = {}, \
         bindings = [(name = \"NAME\", text = {})], streamingTails = [(name = \"tail\", props = (json = {}))]))",
        text(&service_name(name)),
        files.embed(script.as_bytes())?,
        text(OUR_DATE),
        text(name),
        text(&json!({"worker": name}).to_string()),
    ))
}

fn socket(name: &str, path: &Path, service: &str, options: &str) -> String {
    let path = text(&format!("unix:{}", path.display()));
    format!("(name = {}, address = {path}, http = ({options}), service = {})", text(name), text(service))
}

/// The services that are ours: all of them one socket, each with headers that say what is asked of whom.
struct Outer<'a> {
    inner: &'a Path,
    services: BTreeMap<String, String>,
}

impl Outer<'_> {
    /// The name of a service of ours, which is made if it is not there.
    fn service(&mut self, kind: &str, of: &str, delay_s: Option<u32>) -> String {
        let delay = delay_s.map(|delay_s| delay_s.to_string());
        let name = format!("{kind}:{}:{of}", delay.as_deref().unwrap_or_default());
        let header = |name: &str, value: &str| format!("(name = {}, value = {})", text(name), text(value));
        // A header's value is ASCII, and a Worker's name may be anything.
        let of: String = form_urlencoded::byte_serialize(of.as_bytes()).collect();
        let mut headers = vec![header(SERVICE, kind), header(NAME, &of)];
        // A Worker may set headers in what it asks of a database's service; these are then replaced or taken out.
        headers.push(match &delay {
            Some(delay) => header(DELAY, delay),
            None => format!("(name = {})", text(DELAY)),
        });
        let address = text(&format!("unix:{}", self.inner.display()));
        let service = format!(
            "(name = {}, external = (address = {address}, http = (injectRequestHeaders = [{}])))",
            text(&name),
            headers.join(", "),
        );
        self.services.insert(name.clone(), service);
        name
    }
}

/// The files of modules, under names that we give.
struct Files<'a> {
    folder: &'a Path,
    count: usize,
}

impl Files<'_> {
    fn embed(&mut self, bytes: &[u8]) -> std::io::Result<String> {
        let name = format!("m{}", self.count);
        self.count += 1;
        self.write(&name, bytes)?;
        Ok(format!("embed \"{name}\""))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        std::fs::write(self.folder.join(name), bytes)
    }
}

fn list<'a>(all: impl Iterator<Item = &'a str>) -> String {
    all.map(text).collect::<Vec<_>>().join(", ")
}

/// A string of Cap'n Proto.
fn text(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c if c.is_ascii_control() => {
                let _ = write!(quoted, "\\x{:02x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_string() {
        assert_eq!(text("a\"b\\c\n\t\u{7f}ü"), r#""a\"b\\c\n\x09\x7fü""#);
    }
}
