//! `connections:` — the three drivers, their keys, defaults and ranges.

use std::collections::{BTreeMap, BTreeSet};

use super::claims::{Claims, Role};
use super::code::{Area, Code};
use super::fields::{Fields, optional, required};
use super::names::Names;
use super::problem::quote;
use super::syntax::{Block, Entry, What};
use super::values::{Key, Reading, Text};
use super::{forms, local_queues};
use crate::local;
use crate::program::{Connection, PullQueue, Setting};

/// Messages asked for in one pull when the app does not say.
const PULL_BATCH_SIZE: u32 = 10;
/// The most messages of one pull (Cloudflare's limit).
const PULL_BATCH_SIZE_MAX: u32 = 100;
const QUEUE_RULE: &str =
    "a queue's name is 1 to 63 lowercase letters, digits and dashes, with a letter or digit at both ends";
const CLOUDFLARE_API_HOST: &str = "api.cloudflare.com";

#[derive(Clone, Copy)]
pub(super) enum Driver {
    CloudflareQueues,
    CloudflarePull,
    LocalQueue,
}

const DRIVERS: [(&str, Driver); 3] = [
    ("cloudflare_queues", Driver::CloudflareQueues),
    ("cloudflare_pull", Driver::CloudflarePull),
    ("local_queue", Driver::LocalQueue),
];

/// Reads every connection, and sees to it that no two of them have one queue.
pub(super) fn read(reading: &mut Reading<'_>, block: &Block, names: &Names<'_>) -> BTreeMap<String, Connection> {
    let mut connections = BTreeMap::new();
    let mut claims = Claims::default();
    for entry in &block.entries {
        if let Some(connection) = connection(reading, entry, names, &mut claims) {
            connections.insert(entry.key.clone(), connection);
        }
    }
    claims.finish(reading);
    connections
}

fn connection<'a>(
    reading: &mut Reading<'_>,
    entry: &'a Entry,
    names: &Names<'_>,
    claims: &mut Claims<'a>,
) -> Option<Connection> {
    let fields = Fields::of(reading, Area::Connection, entry, "{ driver: Driver.cloudflare_queues, … }")?;
    let Some(driver) = fields.entry("driver") else {
        fields.missing(reading, "`driver:`", "add a line to it: `driver: Driver.cloudflare_queues`");
        return None;
    };
    match reading.choice(fields.key("driver"), &driver.value, "Driver", &DRIVERS)? {
        Driver::CloudflareQueues => cloudflare_queues(reading, fields, claims),
        Driver::CloudflarePull => cloudflare_pull(reading, fields, claims),
        Driver::LocalQueue => local_queues::read(reading, fields, names, claims),
    }
}

fn cloudflare_queues<'a>(reading: &mut Reading<'_>, fields: Fields<'a>, claims: &mut Claims<'a>) -> Option<Connection> {
    const WRITTEN_OUT: &str = "the consumer's settings are the same for every app, and `jadpo build` writes them";
    let known = [
        required("driver", "Driver.cloudflare_queues"),
        required("queue", "\"warehouse-events\""),
        required("dead_letter_queue", "\"warehouse-events-dead\""),
    ];
    let refused = [
        ("domains", "remove it: this driver reaches no host, since Cloudflare pushes the messages to the Worker"),
        ("account", "remove it: the Worker is deployed to the account that owns the queue"),
        ("token", "remove it: Cloudflare pushes the messages, so no token is needed"),
        ("batch_size", WRITTEN_OUT),
        ("max_batch_size", WRITTEN_OUT),
        ("max_batch_timeout", WRITTEN_OUT),
        ("max_retries", WRITTEN_OUT),
        ("visibility", WRITTEN_OUT),
        ("max_receives", WRITTEN_OUT),
    ];
    fields.check(reading, &known, &refused);
    let queue = fields.entry("queue").and_then(|entry| cloudflare_name(reading, fields.key("queue"), entry));
    let dead = fields.entry("dead_letter_queue");
    let dead = dead.and_then(|entry| cloudflare_name(reading, fields.key("dead_letter_queue"), entry));
    if let Some(queue) = queue {
        claims.cloudflare(reading, fields.name, Role::Queue, queue);
    }
    if let Some(dead) = dead {
        claims.cloudflare(reading, fields.name, Role::DeadLetterQueue, dead);
    }
    // A name that is wrong is said, so no program comes of this; what a target refuses is found all the same.
    let written = |name: Option<Text<'_>>| name.map(|name| name.text.to_owned()).unwrap_or_default();
    Some(Connection::CloudflareQueues { queue: written(queue), dead_letter_queue: written(dead) })
}

fn cloudflare_name<'a>(reading: &mut Reading<'_>, key: Key<'_>, entry: &'a Entry) -> Option<Text<'a>> {
    let entry =
        name_written_out(reading, key, entry, "the consumer is written into the Wrangler file when the app is built")?;
    reading.formed(key, &entry.value, "queue name", forms::label, QUEUE_RULE).map(|(text, ())| text)
}

/// The entry, unless its value is to come from the environment.
pub(super) fn name_written_out<'a>(
    reading: &mut Reading<'_>,
    key: Key<'_>,
    entry: &'a Entry,
    why: &str,
) -> Option<&'a Entry> {
    if let What::Call(..) = entry.value.what {
        let message = format!("`{}` is read from the environment, and it must be written out", key.name);
        let help = format!("write the queue's name: `{}: \"warehouse-events\"`; {why}", key.name);
        reading.findings.problem(Code::ConnectionValueInvalid, entry.value.span, message).help(help);
        return None;
    }
    Some(entry)
}

fn cloudflare_pull<'a>(reading: &mut Reading<'_>, fields: Fields<'a>, claims: &mut Claims<'a>) -> Option<Connection> {
    let known = [
        required("driver", "Driver.cloudflare_pull"),
        required("account", "env(\"CF_ACCOUNT_ID\")"),
        optional("queue_id"),
        optional("queue"),
        required("token", "env(\"CF_QUEUES_TOKEN\")"),
        optional("domains"),
        optional("base_url"),
        optional("batch_size"),
        optional("visibility"),
    ];
    let refused = [
        (
            "dead_letter_queue",
            "set it on the pull consumer: `wrangler queues consumer http add QUEUE --dead-letter-queue NAME`",
        ),
        ("max_retries", "set it on the pull consumer: `wrangler queues consumer http add QUEUE --message-retries N`"),
    ];
    fields.check(reading, &known, &refused);
    let account = fields.entry("account").and_then(|entry| account(reading, fields, entry));
    let token = fields.entry("token");
    let token = token.and_then(|entry| reading.secret(fields.key("token"), &entry.value, "CF_QUEUES_TOKEN"));
    let queue = pull_queue(reading, fields, claims);
    let (base_url, host) = base_url(reading, fields)?;
    let domains = domains(reading, fields, &host);
    let batch_size = match fields.entry("batch_size") {
        Some(entry) => reading.count(fields.key("batch_size"), &entry.value, 1, PULL_BATCH_SIZE_MAX),
        None => Some(PULL_BATCH_SIZE),
    };
    let visibility_ms = visibility(reading, fields);
    Some(Connection::CloudflarePull {
        account: account?,
        queue: queue?,
        token: token?,
        domains: domains?,
        base_url,
        batch_size: batch_size?,
        visibility_ms: visibility_ms?,
    })
}

fn account(reading: &mut Reading<'_>, fields: Fields<'_>, entry: &Entry) -> Option<Setting> {
    const ACCOUNT_LEN_MAX: usize = 64;
    let account = reading.setting(fields.key("account"), &entry.value, "CF_ACCOUNT_ID")?;
    let is_right = |text: &str| {
        (1..=ACCOUNT_LEN_MAX).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    if let Setting::Text(text) = &account
        && !is_right(text)
    {
        let message = format!("{} is no account id", quote(text));
        let help = "an account's id has 32 hex digits; the dashboard and `wrangler whoami` show it";
        reading.findings.problem(Code::ConnectionValueInvalid, entry.value.span, message).help(help);
        return None;
    }
    Some(account)
}

fn pull_queue<'a>(reading: &mut Reading<'_>, fields: Fields<'a>, claims: &mut Claims<'a>) -> Option<PullQueue> {
    match (fields.entry("queue_id"), fields.entry("queue")) {
        (Some(_), Some(name)) => {
            let message = format!("connection {} names its queue twice", quote(fields.name));
            let help = "remove `queue:` or `queue_id:`; the id needs no look-up at start";
            reading.findings.problem(Code::ConnectionKeyInvalid, name.key_span, message).help(help);
            None
        }
        (None, None) => {
            let help = "add a line to it: `queue_id: \"5e1b9969eb974d8c99c48d19df104c7a\"`, or `queue:` with its name";
            fields.missing(reading, "`queue_id:` and no `queue:`", help);
            None
        }
        (Some(entry), None) => {
            let rule = "`wrangler queues info NAME` shows a queue's id";
            let key = fields.key("queue_id");
            let (text, ()) = reading.formed(key, &entry.value, "queue id", forms::queue_id, rule)?;
            claims.pulled_id(reading, fields.name, text);
            Some(PullQueue::Id(text.text.to_ascii_lowercase()))
        }
        (None, Some(entry)) => {
            let text = cloudflare_name(reading, fields.key("queue"), entry)?;
            claims.cloudflare(reading, fields.name, Role::Pulled, text);
            Some(PullQueue::Name(text.text.to_owned()))
        }
    }
}

/// The address in place of Cloudflare's, and the host that is reached. Nothing when what is written is wrong.
fn base_url(reading: &mut Reading<'_>, fields: Fields<'_>) -> Option<(Option<String>, String)> {
    const ENDING: &str = "/client/v4";
    let Some(entry) = fields.entry("base_url") else { return Some((None, CLOUDFLARE_API_HOST.to_owned())) };
    let rule = "write an address like `https://queues.example.com/client/v4`";
    let (text, url) = reading.formed(fields.key("base_url"), &entry.value, "address", forms::address, rule)?;
    if !url.path().ends_with(ENDING) || url.query().is_some() || url.fragment().is_some() {
        let message = format!("{} does not end in `{ENDING}`", quote(text.text));
        reading.findings.problem(Code::ConnectionValueInvalid, text.span, message).help(rule);
        return None;
    }
    if url.scheme() == "http" && !forms::is_loopback(&url) {
        let message = "the token travels over http:// to another machine".to_owned();
        reading.findings.note(Code::NotePlainHttp, text.span, message, Some("use https://".to_owned()));
    }
    Some((Some(text.text.to_owned()), forms::host_of(&url)))
}

fn domains(reading: &mut Reading<'_>, fields: Fields<'_>, host: &str) -> Option<Vec<String>> {
    let Some(entry) = fields.entry("domains") else { return Some(vec![host.to_owned()]) };
    let key = fields.key("domains");
    let items = reading.list(key, &entry.value, &format!("[\"{host}\"]"))?;
    let mut domains = BTreeSet::new();
    let mut is_right = true;
    for item in items {
        let rule = "a domain is a host, with a port when it is not the usual one";
        match reading.formed(key, item, "host", forms::host, rule) {
            Some((text, ())) => {
                domains.insert(text.text.to_owned());
            }
            None => is_right = false,
        }
    }
    if is_right && !domains.contains(host) {
        let message = format!("`domains` does not allow {}, which this connection reaches", quote(host));
        let help = format!("add it: `domains: [\"{host}\"]`");
        reading.findings.problem(Code::ConnectionValueInvalid, entry.value.span, message).help(help);
        return None;
    }
    is_right.then(|| domains.into_iter().collect())
}

pub(super) fn visibility(reading: &mut Reading<'_>, fields: Fields<'_>) -> Option<u64> {
    match fields.entry("visibility") {
        Some(entry) => reading.duration_ms(fields.key("visibility"), &entry.value, local::VISIBILITY_MS_MAX, "12h"),
        None => Some(local::VISIBILITY_MS),
    }
}
