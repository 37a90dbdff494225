//! A Worker app: what its Wrangler file says of it, read as Wrangler reads it. Nothing here knows how a Worker is run.

mod at;
mod classes;
mod code;
mod conflicts;
mod dotenv;
mod json;
mod keys;
mod note;
mod queues;
mod read;
mod scope;
mod services;
#[cfg(test)]
mod tests;
mod toml;
mod tree;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::app::{closest, quote};
pub use conflicts::{conflicts, strangers};
pub use dotenv::dot_vars;
pub use note::{NOTES_MAX, Note};
pub use read::{FILE_LEN_MAX, Format, Given, read};

/// A Worker, as its Wrangler file and environment describe it.
#[derive(Debug, Clone, PartialEq)]
pub struct Worker {
    /// Its name; with an environment, `NAME-ENVIRONMENT` unless that names itself.
    pub name: String,
    /// The environment that was chosen, if one was.
    pub environment: Option<String>,
    /// How its modules come about.
    pub code: Code,
    /// The day whose runtime behaviour it asks for, `YYYY-MM-DD`.
    pub compatibility_date: String,
    /// Behaviour beside that day's.
    pub compatibility_flags: Vec<String>,
    /// What it finds in `env` that is no binding to anything: `vars`.
    pub vars: BTreeMap<String, Var>,
    /// The names that `secrets.required` lists: without them it does not start.
    pub secrets_required: Vec<String>,
    /// The queues that it sends to.
    pub producers: Vec<Producer>,
    /// The queues that it consumes.
    pub consumers: Vec<Consumer>,
    /// When its `scheduled` handler is called: cron expressions as Cloudflare reads them, in UTC.
    pub crons: Vec<String>,
    /// Other Workers that it calls.
    pub services: Vec<Service>,
    /// Its D1 databases.
    pub databases: Vec<Database>,
    /// Its Durable Object namespaces.
    pub durable_objects: Vec<DurableObject>,
    /// The classes of Durable Objects that it defines, from its `migrations`; each with whether it has SQL.
    pub classes: BTreeMap<String, bool>,
    /// What it calls the binding that tells it which version of it runs, if it has one.
    pub version_metadata: Option<String>,
    /// Where it is to answer HTTP, if the file says so: `dev.port`.
    pub port: Option<u16>,
}

/// How a Worker's modules come about. Paths are relative to the Wrangler file's folder, as it writes them.
#[derive(Debug, Clone, PartialEq)]
pub struct Code {
    /// The entry.
    pub main: String,
    /// The file is uploaded as it is, with its neighbours by `rules`: nothing is bundled.
    pub no_bundle: bool,
    /// The folder that module names are relative to, if not the entry's.
    pub base_dir: Option<String>,
    /// Whether files beside the entry become modules too, also where it is bundled.
    pub find_additional_modules: bool,
    /// Which files become modules that are not scripts, and of what kind: the file's own rules, then Wrangler's, those
    /// that a rule without `fallthrough` shuts out left out.
    pub rules: Vec<Rule>,
    /// Imports that mean others.
    pub alias: BTreeMap<String, String>,
    /// Names that are replaced by JavaScript.
    pub define: BTreeMap<String, String>,
    /// A tsconfig other than the nearest.
    pub tsconfig: Option<String>,
    /// Whether the script is made small.
    pub minify: bool,
    /// Whether names of functions are kept in what is made small.
    pub keep_names: bool,
    /// What JSX becomes a call of.
    pub jsx_factory: String,
    /// What a JSX fragment is.
    pub jsx_fragment: String,
    /// A command that makes the entry, and the folder in which it is run.
    pub build: Option<Build>,
}

/// A command that is run before the entry is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The command, for a shell.
    pub command: String,
    /// Where it is run, relative to the Wrangler file's folder.
    pub cwd: Option<String>,
    /// What is watched beside the entry's own sources, relative likewise.
    pub watch_dirs: Vec<String>,
}

/// Files that become modules of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What they become.
    pub kind: ModuleKind,
    /// Which files.
    pub globs: Vec<String>,
}

/// What a module is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModuleKind {
    /// An ECMAScript module.
    EsModule,
    /// A `CommonJS` module.
    CommonJs,
    /// A compiled Wasm module.
    Wasm,
    /// Its default export is the file's text.
    Text,
    /// Its default export is the file's bytes.
    Data,
}

/// A variable.
#[derive(Debug, Clone, PartialEq)]
pub enum Var {
    /// Text.
    Text(String),
    /// Any other value, as it stands in the file.
    Json(Value),
}

/// A queue that a Worker sends to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Producer {
    /// What it calls it.
    pub binding: String,
    /// The queue's name; where the file gives none it is made of the binding's, as Wrangler does.
    pub queue: String,
    /// Seconds by which what it sends is delayed that says nothing itself, 0 to 86,400. Cloudflare ignores it.
    pub delivery_delay_s: Option<u32>,
}

/// A queue that a Worker consumes. What the file does not say is absent, and then the platform's default holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// The queue's name.
    pub queue: String,
    /// Messages in a batch at most, 1 to 100.
    pub max_batch_size: Option<u32>,
    /// How long a batch waits to fill, in milliseconds, 0 to 60,000; the file says seconds.
    pub max_batch_timeout_ms: Option<u32>,
    /// Retries after the first delivery, 0 to 100.
    pub max_retries: Option<u32>,
    /// Seconds that a retry waits that names no delay, 0 to 86,400.
    pub retry_delay_s: Option<u32>,
    /// Where a message goes once its retries are spent.
    pub dead_letter_queue: Option<String>,
    /// Batches side by side, at most, 1 to 250.
    pub max_concurrency: Option<u32>,
}

/// A binding to a Worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// What it is called.
    pub binding: String,
    /// The Worker's name.
    pub service: String,
    /// Which of its named entrypoints, if not the default one.
    pub entrypoint: Option<String>,
    /// What the entrypoint finds in `ctx.props`.
    pub props: Option<Value>,
}

/// A D1 database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// What it is called.
    pub binding: String,
    /// Its name in the account.
    pub name: Option<String>,
    /// Its id. Two bindings with one id are one database: locally `preview_database_id` stands before it, as in Wrangler.
    pub id: Option<String>,
    /// The folder of its migrations, relative to the Wrangler file's.
    pub migrations_dir: String,
    /// The table that remembers which were applied.
    pub migrations_table: String,
}

/// A namespace of Durable Objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DurableObject {
    /// What it is called.
    pub binding: String,
    /// The class.
    pub class: String,
    /// The Worker that defines it, if not this one.
    pub script: Option<String>,
}

impl Database {
    /// What the database's file is called, without an ending: the same for every binding that means it, and another one
    /// for every other database. Its id, else its name, else the binding, if that is short and all of it is what a
    /// file's name takes everywhere, whether capitals are told apart there or not; else so much of it as is, and a hash.
    #[must_use]
    pub fn key(&self) -> String {
        let called = self.id.as_deref().or(self.name.as_deref()).unwrap_or(&self.binding);
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        // What looks as one that was changed is changed too.
        let ends_as_changed = called
            .rsplit_once('-')
            .is_some_and(|(_, end)| end.len() == HASH_DIGITS && end.bytes().all(|b| b.is_ascii_hexdigit()));
        if (1..=KEY_LEN_MAX).contains(&called.len()) && called.chars().all(fits) && !ends_as_changed {
            return called.to_owned();
        }
        let mut key: String = called.chars().take(SLUG_LEN).map(|c| c.to_ascii_lowercase()).collect();
        key = key.chars().map(|c| if fits(c) { c } else { '_' }).collect();
        key.push('-');
        for byte in Sha256::digest(called.as_bytes()).iter().take(HASH_DIGITS / 2) {
            // Writing to a text does not fail.
            let _ = write!(key, "{byte:02x}");
        }
        key
    }
}

/// Longest name of a database that is its file's as it is; characters of one that is not; and digits of the hash then.
const KEY_LEN_MAX: usize = 100;
const SLUG_LEN: usize = 40;
const HASH_DIGITS: usize = 32;
