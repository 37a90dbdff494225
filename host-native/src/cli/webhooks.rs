//! `jadpo webhooks`: the addresses that outside systems post to.

use clap::{Parser, Subcommand};
use jadpo_core::admin::queues::Webhook;
use serde_json::json;

use super::output::{self, Exit};
use super::place::{self, Needs, Opened, Place};
use super::queues::agreed;
use super::words::plain;
use crate::http;
use crate::operator::{Operator, OperatorError};

/// Where a server answers if nobody ever said anything else.
const BASE: &str = "http://127.0.0.1:7878";

/// Arguments of `jadpo webhooks`. All flags go before or after the subcommand alike.
#[derive(Parser)]
#[command(after_help = "\
Whoever knows a webhook's address may post to it: the token in it is the credential. `jadpo dev` serves webhooks \
without one. Where the server is reached under another address than it listens on, --base says it.

Examples:
  jadpo webhooks list --base https://hooks.example.com
  jadpo webhooks rotate stripe-events       the old address is dead at once, so it asks; --force does not

Exit codes: 0 it is done, 1 it could not be done, 2 it was asked wrongly.
With --json: {\"webhooks\": […]}, or of rotate one webhook: {name, url, queue, verify (stripe, github, shopify, \
standard)}.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    place: Place,
    /// The address under which the server is reached [default: the one it listens on]
    #[arg(long, global = true, value_name = "URL")]
    base: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    /// List the webhooks and their addresses (the default)
    List,
    /// Give a webhook a new address; nothing is taken at the old one any more. It asks before it does
    Rotate {
        /// The webhook
        name: String,
        /// Do not ask; where there is no terminal to ask on, nothing is done without it
        #[arg(long)]
        force: bool,
    },
}

/// Asks and prints.
pub(crate) fn run(args: &Args) -> Exit {
    let needs = match &args.command {
        None | Some(Command::List) => Needs::Look,
        Some(Command::Rotate { .. }) => Needs::Change,
    };
    place::run(&args.place, needs, async |opened: &Opened| answer(args, &opened.operator).await)
}

async fn answer(args: &Args, operator: &Operator) -> Result<Exit, OperatorError> {
    if let Some(base) = &args.base {
        http::uri(base).map_err(|what| OperatorError::input(what, Some("--base takes https://hooks.example.com")))?;
    }
    let rotated = match &args.command {
        Some(Command::Rotate { name, force }) => {
            let known = operator.webhooks().await?.webhooks;
            let has_token = |webhook: &Webhook| webhook.name == *name && !webhook.path.ends_with(&format!("/{name}"));
            let what = format!("give the webhook {} another address and take nothing at its old one", plain(name));
            // What cannot be done is refused in its own words.
            if known.iter().any(has_token) && !force && !agreed(&what)? {
                return Ok(Exit::Failed);
            }
            Some(operator.rotate_webhook(name).await?)
        }
        None | Some(Command::List) => None,
    };
    let known = operator.webhooks().await?;
    let base = args.base.as_deref().or(operator.url()).or(known.base.as_deref()).unwrap_or(BASE);
    let url = |webhook: &Webhook| format!("{}{}", base.trim_end_matches('/'), webhook.path);
    let told = |webhook: &Webhook| json!({"name": webhook.name, "url": url(webhook), "queue": webhook.queue, "verify": webhook.verify});
    match (&rotated, args.place.json) {
        (Some(webhook), true) => output::line(&told(webhook).to_string()),
        (Some(webhook), false) => {
            output::line(&format!("{} → {}", plain(&webhook.name), plain(&url(webhook))));
            output::line("its old address is dead: have the sender post to this one");
        }
        (None, true) => {
            let webhooks: Vec<_> = known.webhooks.iter().map(told).collect();
            output::line(&json!({ "webhooks": webhooks }).to_string());
        }
        (None, false) if known.webhooks.is_empty() => output::line("the app declares no webhooks"),
        // No table: a terminal must not break an address in two.
        (None, false) => known.webhooks.iter().for_each(|webhook| {
            let verify = webhook
                .verify
                .as_ref()
                .map_or("no signature is asked for".to_owned(), |scheme| format!("signed as {} does", plain(scheme)));
            output::line(&format!("{} → {}", plain(&webhook.name), plain(&url(webhook))));
            output::line(&format!("    to the queue {}; {verify}", plain(&webhook.queue)));
        }),
    }
    Ok(Exit::Done)
}
