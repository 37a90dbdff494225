//! `[[webhooks]]` — each is an address that writes to a queue.

use std::collections::{BTreeMap, BTreeSet};

use super::super::code::{Area, Code};
use super::super::problem::{Span, closest, quote};
use super::super::{ENTRIES_MAX, forms};
use super::Both;
use super::table::{Table, span_of};
use crate::program::{Setting, Verify, Webhook};

const VERIFY_HELP: &str = "write the provider and the environment variable that holds its secret: `verify = { stripe = \
    \"STRIPE_WEBHOOK_SECRET\" }`, or github, shopify, standard";

/// Makes a verification of its secret.
type Scheme = fn(Setting) -> Verify;

const SCHEMES: [(&str, Scheme); 4] = [
    ("stripe", Verify::Stripe),
    ("github", Verify::Github),
    ("shopify", Verify::Shopify),
    ("standard", Verify::Standard),
];

pub(super) fn read(top: &Table<'_>, queues: &BTreeSet<&str>, found: &mut Both) -> BTreeMap<String, Webhook> {
    let mut webhooks = BTreeMap::new();
    let mut places: BTreeMap<&str, Span> = BTreeMap::new();
    let tables = top.tables(found, "webhooks");
    if let Some((over, _)) = tables.get(ENTRIES_MAX) {
        let message = format!("there are {} webhooks, and {ENTRIES_MAX} are the most", tables.len());
        found.of(top.file).problem(Code::FileTooMany, *over, message).help("split the project in two");
        return webhooks;
    }
    for (span, table) in tables {
        let name = table.get("name").and_then(|name| name.get_ref().as_str());
        let what = name.map_or_else(|| "a webhook".to_owned(), |name| format!("webhook {}", quote(name)));
        let table = top.inner(Area::Webhook, what, span, table);
        table.check(found, &["name", "queue", "verify"], &[("secret", VERIFY_HELP), ("functions", FUNCTIONS_HELP)]);
        let name = name_of(&table, found);
        let queue = queue(&table, queues, found);
        let verify = match table.get("verify") {
            Some(_) => verify(&table, found).map(Some),
            None => Some(None),
        };
        let (Some((name, at)), Some(queue), Some(verify)) = (name, queue, verify) else { continue };
        if let Some(first) = places.get(name) {
            let message = format!("there is a webhook {} already", quote(name));
            let said = found.of(top.file).problem(Code::WebhookValueInvalid, at, message);
            said.help("give one of them another name").related(*first, "the first is here");
        } else {
            places.insert(name, at);
            webhooks.insert(name.to_owned(), Webhook { queue, verify });
        }
    }
    webhooks
}

const FUNCTIONS_HELP: &str = "name them in the queue that the webhook writes to: a webhook runs nothing on its own";

fn name_of<'t>(table: &Table<'t>, found: &mut Both) -> Option<(&'t str, Span)> {
    if table.get("name").is_none() {
        table.missing(found, "`name`", "add a line to it: `name = \"stripe-events\"`");
    }
    let rule = "a webhook's name, which is part of its address, has lowercase letters, digits and dashes";
    let name = table.formed(found, "name", "webhook's name", forms::label, rule)?;
    Some((name, table.get("name").map_or(table.span, span_of)))
}

fn queue(table: &Table<'_>, queues: &BTreeSet<&str>, found: &mut Both) -> Option<String> {
    if table.get("queue").is_none() {
        table.missing(found, "`queue`", "add a line to it: `queue = \"jobs\"`");
    }
    let (queue, span) = table.text(found, "queue")?;
    if !queues.contains(queue) && !table.damaged {
        let message = format!("there is no queue {}", quote(queue));
        let help = match closest(queue, queues.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("declare it: `[[queues]]` and under it `name = {queue:?}`"),
        };
        found.of(table.file).problem(Code::WebhookNameUnknown, span, message).help(help);
        return None;
    }
    Some(queue.to_owned())
}

fn verify(table: &Table<'_>, found: &mut Both) -> Option<Verify> {
    let value = table.get("verify")?;
    let inner = match value.get_ref().as_table() {
        Some(inner) if inner.len() == 1 => inner,
        Some(_) => {
            let said =
                found.of(table.file).problem(Code::WebhookValueInvalid, span_of(value), "`verify` names one provider");
            said.help(VERIFY_HELP);
            return None;
        }
        None => {
            table.wrong_kind(found, "verify", value, "a table", VERIFY_HELP);
            return None;
        }
    };
    let fields = table.inner(Area::Webhook, "verify".to_owned(), span_of(value), inner);
    let (provider, span, _) = fields.entries().next()?;
    let Some((_, scheme)) = SCHEMES.iter().find(|(known, _)| *known == provider) else {
        let message = format!("there is no verification {}", quote(provider));
        let help = match closest(provider, SCHEMES.iter().map(|(name, _)| *name)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => VERIFY_HELP.to_owned(),
        };
        found.of(table.file).problem(Code::WebhookNameUnknown, span, message).help(help);
        return None;
    };
    let (variable, span) = fields.text(found, provider)?;
    // What is written may be the secret itself, so it is not said again.
    if !is_variable(variable) {
        let message = format!("`{provider}` takes the name of an environment variable, in capitals");
        let help =
            "a secret is never written in the file: write `\"STRIPE_WEBHOOK_SECRET\"` and set it where jadpo runs";
        found.of(table.file).problem(Code::WebhookValueInvalid, span, message).help(help);
        return None;
    }
    Some(scheme(Setting::Env(variable.to_owned())))
}

fn is_variable(text: &str) -> bool {
    forms::is_env_name(text) && text.chars().all(|c| !c.is_ascii_lowercase())
}
