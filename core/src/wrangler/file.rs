//! The Wrangler file's form. The names are Wrangler's own and the order of the fields is the order in the file.

use serde::Serialize;

/// `wrangler.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WranglerFile {
    /// Where an editor finds the file's schema.
    #[serde(rename = "$schema")]
    pub schema: &'static str,
    /// The Worker's name.
    pub name: String,
    /// The module that is its entry.
    pub main: &'static str,
    /// The day whose runtime behaviour it asks for.
    pub compatibility_date: &'static str,
    /// Behaviour beside that day's.
    pub compatibility_flags: Vec<&'static str>,
    /// Whether it answers at its workers.dev address.
    pub workers_dev: bool,
    /// Whether each uploaded version answers at an address of its own.
    pub preview_urls: bool,
    /// Whether a deploy leaves variables that were set in the dashboard as they are.
    pub keep_vars: bool,
    /// Whether the files are uploaded as they are.
    pub no_bundle: bool,
    /// Which files become modules, and of what kind.
    pub rules: Vec<Rule>,
    /// The store.
    pub d1_databases: Vec<D1Database>,
    /// The queues that it consumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<Queues>,
    /// When it is called without a message. Written when empty too: left out, a deploy would keep older ones.
    pub triggers: Triggers,
    /// Other Workers that it calls, and itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Service>,
    /// Its logs.
    pub observability: Observability,
}

impl WranglerFile {
    /// The file's text, the same bytes for the same values.
    ///
    /// # Errors
    /// None that these types can cause; the serializer's own is handed on.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }
}

/// Files that match one of the globs are modules of this kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// `ESModule`, `CompiledWasm`, or `Text`, whose default export is the file's text.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Which files.
    pub globs: Vec<&'static str>,
    /// Whether Wrangler's own rules of that kind hold besides.
    pub fallthrough: bool,
}

/// A D1 database. It has no id here: Wrangler finds it by its name, or makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct D1Database {
    /// What the Worker calls it.
    pub binding: &'static str,
    /// Its name in the account.
    pub database_name: String,
    /// The folder of its migrations.
    pub migrations_dir: &'static str,
}

/// What the Worker has to do with queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Queues {
    /// The queues that it consumes.
    pub consumers: Vec<Consumer>,
}

/// One consumed queue. Each number is written, 0 too: left out it would mean the platform's default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Consumer {
    /// The queue's name.
    pub queue: String,
    /// Messages in a batch at most, 1 to 100.
    pub max_batch_size: u32,
    /// Seconds that a batch waits to fill, 0 to 60.
    pub max_batch_timeout: u32,
    /// Retries after the first delivery, 0 to 100.
    pub max_retries: u32,
    /// Where a message goes once they are spent; without one it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter_queue: Option<String>,
}

/// When the Worker is called by the clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Triggers {
    /// Cron expressions, in UTC.
    pub crons: Vec<&'static str>,
}

/// A binding to a Worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Service {
    /// What this Worker calls it.
    pub binding: String,
    /// Its name.
    pub service: String,
    /// Which of its named entrypoints, if not the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<&'static str>,
}

/// Whether logs are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Observability {
    /// They are.
    pub enabled: bool,
}
