//! `jadpo deliveries`: what is parked or has failed, seen and retried.

mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::host::NativeHost;
use crate::operator::{Operator, OperatorError};
use crate::store::{OpenError, OpenStore};
use clap::{Parser, Subcommand, ValueEnum};
use jadpo_core::admin::{Filter, ItemId, Kind};
use jadpo_core::bindings::ADMIN_TOKEN;
use jadpo_core::program::{PROGRAM_FORMAT, Program};
use jadpo_core::start::App;
use serde_json::json;

use super::diagnostics::AppFile;
use super::load::{self, Load};
use super::output::{self, Exit};

/// Items listed at most when nothing is said.
const LIMIT_DEFAULT: u32 = 100;

/// Arguments of `jadpo deliveries`. All flags go before or after the subcommand alike.
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    which: Which,
    /// Print one JSON object in place of text
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// List what is parked or has failed (the default)
    List,
    /// Show one item and its body
    Show {
        /// The item's id, as p12 or d34.ledger
        id: String,
        /// Write the body to standard output, byte for byte, and nothing else
        #[arg(long)]
        body: bool,
    },
    /// Have items tried again: parked messages are read anew, failed deliveries get as many attempts again
    Retry {
        /// The items' ids
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        ids: Vec<String>,
        /// Everything that fits the filters
        #[arg(long)]
        all: bool,
    },
}

/// Where to look.
#[derive(clap::Args)]
struct Place {
    /// A running Worker or server
    #[arg(long, global = true, value_name = "URL", conflicts_with = "store")]
    url: Option<String>,
    /// Its token; better in the environment variable JADPO_ADMIN_TOKEN, where no process list shows it
    #[arg(long, global = true, value_name = "TOKEN", requires = "url")]
    token: Option<String>,
    /// A store's file [default: .jadpo/store.db]
    #[arg(long, global = true, value_name = "FILE")]
    store: Option<PathBuf>,
    /// With a store: its app file or program.json, which tells a failed delivery's queue [default: app.jadpo]
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "url")]
    app: Option<PathBuf>,
}

/// Filters, for `list` and for `retry --all`.
#[derive(clap::Args)]
struct Which {
    /// Only this queue, its dead-letter queue included
    #[arg(long, global = true)]
    queue: Option<String>,
    /// Only this connection
    #[arg(long, global = true)]
    connection: Option<String>,
    /// Only this reason: unreadable, rejected, dead_lettered or failed
    #[arg(long, global = true)]
    reason: Option<String>,
    /// Only deliveries to this subscriber
    #[arg(long, global = true)]
    subscriber: Option<String>,
    /// Only this event
    #[arg(long, global = true)]
    event: Option<String>,
    /// Only one of the two kinds
    #[arg(long, global = true)]
    kind: Option<KindArg>,
    /// List this many at most [default: 100]
    #[arg(long, global = true, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindArg {
    /// Messages that could not become an event
    Parked,
    /// Deliveries whose attempts are spent
    Failed,
}

impl Which {
    fn filter(&self) -> Filter {
        Filter {
            kind: self.kind.map(|kind| match kind {
                KindArg::Parked => Kind::Parked,
                KindArg::Failed => Kind::Failed,
            }),
            queue: self.queue.clone(),
            connection: self.connection.clone(),
            reason: self.reason.clone(),
            subscriber: self.subscriber.clone(),
            event: self.event.clone(),
        }
    }
}

/// Asks and prints.
pub(crate) fn run(args: &Args) -> Exit {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::error(&format!("cannot start: {error}"), None);
            return Exit::Failed;
        }
    };
    let (operator, store) = match open(args) {
        Ok(opened) => opened,
        Err(error) => return fail(args, &error),
    };
    let exit = runtime.block_on(answer(args, &operator)).unwrap_or_else(|error| fail(args, &error));
    drop(operator);
    drop(runtime);
    if let Some(store) = store {
        store.close();
    }
    exit
}

fn open(args: &Args) -> Result<(Operator, Option<OpenStore>), OperatorError> {
    if let Some(url) = &args.place.url {
        let token = args.place.token.clone().or_else(|| std::env::var(ADMIN_TOKEN).ok()).filter(|t| !t.is_empty());
        let token = token.ok_or_else(|| OperatorError {
            what: format!("`{url}` asks for a token"),
            help: Some(format!("put the deployment's token into the environment variable {ADMIN_TOKEN}")),
            is_input: true,
        })?;
        return Ok((Operator::at(url, token)?, None));
    }
    let path = args.place.store.clone().unwrap_or_else(|| PathBuf::from(".jadpo/store.db"));
    let store = OpenStore::existing(&path).map_err(|error| OperatorError {
        what: error.to_string(),
        help: Some("name the store's file with --store, or a running deployment with --url".to_owned()),
        is_input: matches!(error, OpenError::Missing(_)),
    })?;
    Ok((Operator::of(NativeHost::new(store.handle()), app(args)?), Some(store)))
}

/// The app of a local store: the one that was named, else the app file here, else one that declares nothing.
fn app(args: &Args) -> Result<App, OperatorError> {
    let Some(file) = &args.place.app else {
        let here = AppFile::read(Path::new("app.jadpo")).ok();
        let here = here.and_then(|file| jadpo_core::app::compile(&file.source).program);
        return Ok(App::new(here.unwrap_or_else(nothing_declared)));
    };
    match load::program(file, None, args.json) {
        Load::Program(program) => Ok(App::new(*program)),
        Load::Reported(_) => Err(OperatorError {
            what: format!("`{}` is not an app that can be used", file.display()),
            help: Some("leave --app out: only the queues of failed deliveries will be missing".to_owned()),
            is_input: true,
        }),
    }
}

fn nothing_declared() -> Program {
    Program {
        format: PROGRAM_FORMAT,
        app: String::new(),
        connections: BTreeMap::new(),
        functions: BTreeMap::new(),
        webhooks: BTreeMap::new(),
        events: BTreeMap::new(),
        receiving: BTreeMap::new(),
        subscribers: BTreeMap::new(),
        deployables: BTreeMap::new(),
    }
}

async fn answer(args: &Args, operator: &Operator) -> Result<Exit, OperatorError> {
    let filter = args.which.filter();
    match &args.command {
        None | Some(Command::List) => {
            let limit = args.which.limit.unwrap_or(LIMIT_DEFAULT);
            let (items, more) = operator.list(&filter, limit as usize).await?;
            if args.json {
                output::line(&json!({"items": items, "more": more}).to_string());
            } else {
                view::list(&items, more);
            }
            Ok(Exit::Done)
        }
        Some(Command::Show { id, body }) => {
            if ItemId::parse(id).is_none() {
                return Err(OperatorError {
                    what: format!("`{id}` is no id"),
                    help: Some(
                        "an id is p and a number, or d, a number, a dot and a subscriber: p12, d34.ledger".into(),
                    ),
                    is_input: true,
                });
            }
            let item = operator.show(id).await?;
            if *body {
                return Ok(view::body(&item));
            }
            if args.json {
                output::line(&json!(item).to_string());
            } else {
                view::item(&item);
            }
            Ok(Exit::Done)
        }
        Some(Command::Retry { ids, all }) => {
            if !all && filter != Filter::default() {
                return Err(OperatorError {
                    what: "a filter goes with --all, not with ids".to_owned(),
                    help: None,
                    is_input: true,
                });
            }
            let retried = if *all { operator.retry_all(&filter).await? } else { operator.retry(ids).await? };
            if args.json {
                output::line(&json!({"retried": retried.retried, "unknown": retried.unknown}).to_string());
            } else {
                view::retried(&retried);
            }
            Ok(if retried.unknown.is_empty() { Exit::Done } else { Exit::Failed })
        }
    }
}

fn fail(args: &Args, error: &OperatorError) -> Exit {
    if args.json {
        output::line(&json!({"error": error.what, "help": error.help}).to_string());
    } else {
        output::error(&error.what, error.help.as_deref());
    }
    if error.is_input { Exit::Wrong } else { Exit::Failed }
}
