//! `jadpo tokens`: what clients of the Queues API show.

use clap::{Parser, Subcommand, ValueEnum};
use jadpo_core::admin::queues::{NewToken, Scope, Token};
use serde_json::json;

use super::output::{self, Exit};
use super::place::{self, Needs, Opened, Place};
use super::spans::duration;
use super::words::{self, count, plain, when};
use crate::api::PREFIX;
use crate::host::now_ms;
use crate::operator::{Operator, OperatorError};

/// Where a server answers if nobody says anything else.
const BASE: &str = "http://127.0.0.1:7878";

/// Arguments of `jadpo tokens`. All flags go before or after the subcommand alike.
#[derive(Parser)]
#[command(after_help = "\
Clients of the Queues API show a token (`Authorization: Bearer`) and name the account; both are in what `create` prints. \
To take messages and to settle them, a token needs read and write. It is shown once: the store keeps a hash of it.

Examples:
  jadpo tokens create puller --queue jobs
  jadpo tokens create dashboard --scopes read --expires 90d
  jadpo tokens revoke puller                 good for nothing at once

Exit codes: 0 it is done, 1 it could not be done, 2 it was asked wrongly.
With --json: {\"account\", \"tokens\": [{name, id, scopes (read, write), queues, created_at_ms, expires_at_ms}]}; of create \
one token with \"account\", \"secret\" and \"url\" (the server's, if it ever ran); of revoke one token.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    place: Place,
}

#[derive(Subcommand)]
enum Command {
    /// List the tokens (the default)
    List,
    /// Make a token, and show it this once
    Create(CreateArgs),
    /// Make a token good for nothing
    Revoke {
        /// Its name
        name: String,
    },
}

#[derive(clap::Args)]
struct CreateArgs {
    /// What it is called: for whom it is
    name: String,
    /// What it may do
    #[arg(long, value_enum, value_delimiter = ',', default_value = "read,write")]
    scopes: Vec<Scopes>,
    /// Only for this queue, which need not be there yet; may be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    queue: Vec<String>,
    /// After how long it is good for nothing, as 90d [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    expires: Option<std::time::Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scopes {
    /// Look at queues and their messages
    Read,
    /// Change them
    Write,
}

/// Asks and prints.
pub(crate) fn run(args: &Args) -> Exit {
    let needs = match &args.command {
        None | Some(Command::List) => Needs::Look,
        Some(Command::Create(_)) => Needs::Store,
        Some(_) => Needs::Change,
    };
    place::run(&args.place, needs, async |opened: &Opened| answer(args, &opened.operator).await)
}

async fn answer(args: &Args, operator: &Operator) -> Result<Exit, OperatorError> {
    let as_json = args.place.json;
    match &args.command {
        None | Some(Command::List) => {
            let tokens = operator.tokens().await?;
            if as_json {
                output::line(&json!(tokens).to_string());
            } else {
                list(&tokens.account, &tokens.tokens);
            }
        }
        Some(Command::Create(args)) => create(args, operator, as_json).await?,
        Some(Command::Revoke { name }) => {
            let token = operator.revoke_token(name).await?;
            if as_json {
                output::line(&json!(token).to_string());
            } else {
                output::line(&format!("{} is good for nothing any more", plain(&token.name)));
            }
        }
    }
    Ok(Exit::Done)
}

async fn create(args: &CreateArgs, operator: &Operator, as_json: bool) -> Result<(), OperatorError> {
    let scope = |scope: &Scopes| match scope {
        Scopes::Read => Scope::Read,
        Scopes::Write => Scope::Write,
    };
    let expires_in = args.expires.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    let new = NewToken {
        name: args.name.clone(),
        scopes: args.scopes.iter().map(scope).collect(),
        queues: args.queue.clone(),
        expires_at_ms: expires_in.map(|time_ms| now_ms().saturating_add(time_ms)),
    };
    let made = operator.create_token(&new).await?;
    if as_json {
        output::line(&json!(made).to_string());
        return Ok(());
    }
    let base = operator.url().or(made.url.as_deref()).unwrap_or(BASE).trim_end_matches('/');
    output::line(&made.secret);
    output::line("");
    output::line(&format!("That is the token {}. It is shown this once. A client takes:", plain(&made.token.name)));
    output::line(&format!("  CLOUDFLARE_API_BASE_URL={}{PREFIX}", plain(base)));
    output::line(&format!("  CLOUDFLARE_ACCOUNT_ID={}", made.account));
    output::line("  CLOUDFLARE_API_TOKEN=the token");
    Ok(())
}

fn list(account: &str, tokens: &[Token]) {
    if tokens.is_empty() {
        output::line("there are no tokens; `jadpo tokens create NAME` makes one");
    } else {
        let mut table = words::table(["token", "id", "may", "queues", "made", "expires"]);
        let now_ms = now_ms();
        for token in tokens {
            let scopes: Vec<&str> = token.scopes.iter().map(word).collect();
            let queues = if token.queues.is_empty() { "all".to_owned() } else { token.queues.join(", ") };
            let expires = match token.expires_at_ms {
                None => "never".to_owned(),
                Some(at_ms) if at_ms <= now_ms => "expired".to_owned(),
                Some(at_ms) => when(at_ms, now_ms),
            };
            table.add_row([
                plain(&token.name),
                token.id.clone(),
                scopes.join(", "),
                plain(&queues),
                when(token.created_at_ms, now_ms),
                expires,
            ]);
        }
        words::unbroken(&mut table, &[1]);
        output::line(&table.to_string());
        output::line(&count(tokens.len() as u64, "token"));
    }
    output::line(&format!("account {account}"));
}

fn word(scope: &Scope) -> &'static str {
    match scope {
        Scope::Read => "read",
        Scope::Write => "write",
    }
}
