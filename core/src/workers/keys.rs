//! The keys of a Wrangler file that say nothing about running its Worker here, and those that ask for what jadpo has
//! not. Those that it reads are in [`super::read`]. Together they are all that Wrangler's schema knows, which a test
//! compares.

use super::at::At;
use super::note::Found;
use super::tree::Kind;

/// What a key's value must be, as far as Wrangler checks it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Truth,
    Text,
    Texts,
    List,
    Table,
    Any,
}

/// A key that is not read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) form: Form,
    /// Whether an environment has it from the top level.
    pub(super) is_inherited: bool,
    pub(super) treatment: Treatment,
}

/// What is done with it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Treatment {
    /// It is about the way to Cloudflare, or about Wrangler.
    Irrelevant,
    /// It changes nothing here, which somebody may need to know; completes "…, so ".
    Ignored(&'static str),
    /// jadpo has nothing to give: what it is, and what can be done.
    Refused(&'static str, &'static str),
}

use Form::{Any, List, Table, Text, Texts, Truth};
use Treatment::{Ignored, Irrelevant, Refused};

const fn inherited(name: &'static str, form: Form, treatment: Treatment) -> Key {
    Key { name, form, is_inherited: true, treatment }
}

const fn own(name: &'static str, form: Form, treatment: Treatment) -> Key {
    Key { name, form, is_inherited: false, treatment }
}

const ELSEWHERE: &str = "leave it out of the environment that runs here (`--env`), and call the service over HTTP";
const D1_INSTEAD: &str = "keep the data in a D1 database or a Durable Object, which jadpo has, or leave the binding \
    out of the environment that runs here (`--env`)";

/// Keys of the top level and of environments.
pub(super) const KEYS: &[Key] = &[
    inherited("account_id", Text, Irrelevant),
    inherited("workers_dev", Truth, Irrelevant),
    inherited("preview_urls", Truth, Irrelevant),
    inherited("routes", List, Irrelevant),
    inherited("route", Any, Irrelevant),
    inherited("preserve_file_names", Truth, Irrelevant),
    inherited("limits", Table, Irrelevant),
    inherited("placement", Table, Irrelevant),
    inherited("logpush", Truth, Irrelevant),
    inherited("upload_source_maps", Truth, Irrelevant),
    inherited("observability", Table, Irrelevant),
    inherited("cache", Table, Irrelevant),
    inherited("compliance_region", Text, Irrelevant),
    inherited("python_modules", Table, Irrelevant),
    inherited("previews", Table, Irrelevant),
    inherited("first_party_worker", Truth, Irrelevant),
    inherited("access", Table, Ignored("nobody checks here who may call the Worker: let a proxy before jadpo do that")),
    own("tail_consumers", List, Ignored("no tail Worker is given its traces: jadpo's log has them")),
    own("streaming_tail_consumers", List, Ignored("no tail Worker is given its traces: jadpo's log has them")),
    inherited("assets", Table, Refused("static assets", "serve them by a web server before jadpo, or from the Worker")),
    inherited("logfwdr", Table, Refused("logfwdr binding", "leave it out")),
    own("workflows", List, Refused("workflows", "send the steps through queues, which jadpo has")),
    own("kv_namespaces", List, Refused("KV namespaces", D1_INSTEAD)),
    own("r2_buckets", List, Refused("R2 buckets", ELSEWHERE)),
    own("cloudchamber", Table, Refused("containers", ELSEWHERE)),
    own("containers", List, Refused("containers", ELSEWHERE)),
    own("send_email", List, Refused("email to send", ELSEWHERE)),
    own("connect", List, Refused("TCP handlers", "answer over HTTP")),
    own("vectorize", List, Refused("Vectorize indexes", ELSEWHERE)),
    own("ai_search_namespaces", List, Refused("AI Search", ELSEWHERE)),
    own("ai_search", List, Refused("AI Search", ELSEWHERE)),
    own("agent_memory", List, Refused("Agent Memory", ELSEWHERE)),
    own("hyperdrive", List, Refused("Hyperdrive", ELSEWHERE)),
    own("analytics_engine_datasets", List, Refused("Analytics Engine datasets", ELSEWHERE)),
    own("browser", Table, Refused("browser binding", ELSEWHERE)),
    own("analytics", Table, Refused("analytics binding", ELSEWHERE)),
    own("ai", Table, Refused("Workers AI", ELSEWHERE)),
    own("images", Table, Refused("images binding", ELSEWHERE)),
    own("media", Table, Refused("media binding", ELSEWHERE)),
    own("stream", Table, Refused("stream binding", ELSEWHERE)),
    own("unsafe", Table, Refused("`unsafe` bindings", "leave it out of the environment that runs here (`--env`)")),
    own("mtls_certificates", List, Refused("client certificates", ELSEWHERE)),
    own("dispatch_namespaces", List, Refused("dispatch namespaces", "bind the Workers one by one, by `services`")),
    own("pipelines", List, Refused("pipelines", ELSEWHERE)),
    own("k2", List, Refused("K2 streams", ELSEWHERE)),
    own("secrets_store_secrets", List, Refused("the Secrets Store", "name the secret in `secrets.required`")),
    own("artifacts", List, Refused("artifacts", ELSEWHERE)),
    own("unsafe_hello_world", List, Refused("hello-world binding", "leave it out")),
    own("flagship", List, Refused("Flagship", ELSEWHERE)),
    own("ratelimits", List, Refused("rate limits", "count in a Durable Object, which jadpo has")),
    own("worker_loaders", List, Refused("worker loaders", ELSEWHERE)),
    own("vpc_services", List, Refused("VPC services", ELSEWHERE)),
    own("vpc_networks", List, Refused("VPC networks", ELSEWHERE)),
];

/// Keys of the top level only.
pub(super) const TOP_KEYS: &[Key] = &[
    inherited("$schema", Text, Irrelevant),
    inherited("keep_vars", Truth, Irrelevant),
    inherited("send_metrics", Truth, Irrelevant),
    inherited("dependencies_instrumentation", Table, Irrelevant),
    inherited("addresses", Texts, Ignored("no mail reaches the Worker here")),
    inherited("pages_build_output_dir", Text, Refused("Pages projects", "make it a Worker, with `main`")),
    inherited("site", Table, Refused("Workers Sites", "serve the files by a web server before jadpo")),
    inherited("wasm_modules", Table, Refused("`wasm_modules`", "import the file: `import wasm from \"./x.wasm\"`")),
    inherited("text_blobs", Table, Refused("`text_blobs`", "import the file: `import text from \"./x.txt\"`")),
    inherited("data_blobs", Table, Refused("`data_blobs`", "import the file: `import data from \"./x.bin\"`")),
];

/// Keys that Wrangler had once and refuses now.
pub(super) const REMOVED: &[(&str, &str)] = &[
    ("node_compat", "write `nodejs_compat` into `compatibility_flags`"),
    ("legacy_env", "leave it out: every environment is a Worker of its own, `NAME-ENVIRONMENT`"),
];

impl Key {
    /// Checks a value of the key, and says what is to be said of it.
    pub(super) fn check(&self, found: &mut Found, at: &At<'_>) {
        let is_right = match self.form {
            Truth => at.truth(found).is_some(),
            Text => at.text(found).is_some(),
            Texts => at.texts(found).is_some(),
            List => at.list(found).is_some(),
            Table => at.table(found).is_some(),
            Any => true,
        };
        if !is_right || (is_container(&at.value.kind) && !at.is_filled()) {
            return;
        }
        match self.treatment {
            Irrelevant => {}
            Ignored(so) => at.warn(found, format!("`{}` does nothing here", at.path), so),
            Refused(what, help) => at.refuse(found, format!("jadpo has no {what}: `{}`", at.path), help),
        }
    }
}

fn is_container(kind: &Kind) -> bool {
    matches!(kind, Kind::List(_) | Kind::Table(_))
}
