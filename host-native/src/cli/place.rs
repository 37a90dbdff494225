//! Where an operator's command looks: in a store's file, or at a running server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jadpo_core::admin::queues::Serving;
use jadpo_core::bindings::ADMIN_TOKEN;
use jadpo_core::broker::BrokerError;
use jadpo_core::program::{PROGRAM_FORMAT, Program};
use jadpo_core::start::App;
use jadpo_core::store::StoreError;
use serde_json::json;
use tokio::runtime::Runtime;

use super::diagnostics::Checked;
use super::load;
use super::output::{self, Exit};
use super::words::plain;
use crate::broker::Broker;
use crate::host::NativeHost;
use crate::operator::{Operator, OperatorError};
use crate::store::{OpenError, OpenStore, StoreLock};

/// The variable that names a running server.
const URL: &str = "JADPO_URL";
/// The store when none is named.
const STORE: &str = ".jadpo/queues.db";

/// Where to look. All flags go before or after the subcommand alike.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// A running server, or a Worker for `deliveries`; also in the environment variable JADPO_URL
    #[arg(long, global = true, value_name = "URL", conflicts_with = "store", help_heading = "Where")]
    pub(crate) url: Option<String>,
    /// Its token; better in the environment variable JADPO_ADMIN_TOKEN, where no process list shows it
    #[arg(long, global = true, value_name = "TOKEN", help_heading = "Where")]
    token: Option<String>,
    /// A store's file, with or without a server running on it [default: .jadpo/queues.db]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Where")]
    store: Option<PathBuf>,
    /// With a store: its app file, project.toml or program.json [default: what last ran on the store, or app.jadpo]
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "url", help_heading = "Where")]
    app: Option<PathBuf>,
    /// Print JSON in place of text
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
}

/// What a command works with. Closing it is left to [`run`].
pub(crate) struct Opened {
    /// Whom to ask.
    pub(crate) operator: Operator,
    /// The store's file, if it is one.
    pub(crate) store: Option<PathBuf>,
    /// The store's queues, if it is one.
    pub(crate) broker: Option<Broker>,
}

/// What a command needs of a store that is not there or is behind this build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Whatever there is.
    Deliveries,
    /// Queues, to look at them: that changes no store.
    Look,
    /// Queues, to change something: a store that is behind this build is brought up to it.
    Change,
    /// The same, and a store if there is none.
    Store,
}

/// Opens what is to be asked, does the work, closes it, and says what went wrong.
pub(crate) fn run<W>(place: &Place, needs: Needs, work: W) -> Exit
where
    W: AsyncFnOnce(&Opened) -> Result<Exit, OperatorError>,
{
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(place.json, &OperatorError::failed(format!("cannot start: {error}"), None)),
    };
    let (opened, store) = match open(place, needs, &runtime) {
        Ok(opened) => opened,
        Err(error) => return fail(place.json, &error),
    };
    let exit = runtime.block_on(work(&opened)).unwrap_or_else(|error| fail(place.json, &error));
    drop(opened);
    drop(runtime);
    if let Some(store) = store {
        store.close();
    }
    exit
}

/// Says why a command was not carried out.
pub(crate) fn fail(as_json: bool, error: &OperatorError) -> Exit {
    if as_json {
        output::line(&json!({"error": error.what, "code": error.code(), "help": error.help}).to_string());
    } else {
        output::error(&plain(&error.what), error.help.as_deref().map(plain).as_deref());
    }
    if error.is_input { Exit::Wrong } else { Exit::Failed }
}

fn open(place: &Place, needs: Needs, runtime: &Runtime) -> Result<(Opened, Option<OpenStore>), OperatorError> {
    // A store that is named stands before an address that is only set.
    let set = std::env::var(URL).ok().filter(|url| !url.is_empty() && place.store.is_none() && place.app.is_none());
    if let Some(url) = place.url.clone().or(set) {
        let token = place.token.clone().or_else(|| std::env::var(ADMIN_TOKEN).ok()).filter(|t| !t.is_empty());
        let help =
            format!("put the server's token into the environment variable {ADMIN_TOKEN}; {}", crate::operator::OF_DEV);
        let asks = || OperatorError::input(format!("`{url}` asks for a token"), Some(&help)).coded("token_missing");
        let token = token.ok_or_else(asks)?;
        return Ok((Opened { operator: Operator::at(&url, token)?, store: None, broker: None }, None));
    }
    let path = place.store.clone().unwrap_or_else(|| PathBuf::from(STORE));
    let (store, broker) = open_store(&path, needs, runtime)?;
    let serving = broker.as_ref().map(|broker| runtime.block_on(broker.serving()));
    // What cannot be read is no reason to read nothing.
    let serving = serving.and_then(Result::ok).flatten();
    let operator = Operator::of(NativeHost::new(store.handle()), app(place, serving)?, broker.clone());
    Ok((Opened { operator, store: Some(path), broker }, Some(store)))
}

/// The store and its queues. A store that is behind this build is brought up to it if something is to be changed in it
/// and no server runs on it.
fn open_store(path: &Path, needs: Needs, runtime: &Runtime) -> Result<(OpenStore, Option<Broker>), OperatorError> {
    let store = match OpenStore::existing(path) {
        Err(OpenError::Missing(_)) if needs == Needs::Store => OpenStore::create(path),
        opened => opened,
    };
    let store = store.map_err(|error| unopened(&error))?;
    match runtime.block_on(Broker::open(store.handle())) {
        Ok(broker) => Ok((store, Some(broker))),
        Err(_) if needs == Needs::Deliveries => Ok((store, None)),
        Err(BrokerError::Store(StoreError::NotCurrent(_))) if needs == Needs::Look => {
            store.close();
            let help = "`jadpo dev` or `jadpo serve` of this build brings it up to date when it starts; or look with the \
                        build that made it";
            let what = format!("the store `{}` is of an older build", path.display());
            Err(OperatorError::failed(what, Some(help)).coded("store_behind"))
        }
        Err(BrokerError::Store(StoreError::NotCurrent(_))) => {
            store.close();
            let _lock = StoreLock::take(path).map_err(|error| {
                OperatorError::failed(
                    format!("the store `{}` is of an older build, and so is what runs on it: {error}", path.display()),
                    Some("start that server again with this build, or use the build that it has"),
                )
            })?;
            let store = OpenStore::create(path).map_err(|error| unopened(&error))?;
            let broker = runtime.block_on(Broker::open(store.handle()));
            Ok((store, Some(broker.map_err(|error| OperatorError::failed(error.to_string(), None))?)))
        }
        Err(error) => Err(OperatorError::failed(error.to_string(), None)),
    }
}

fn unopened(error: &OpenError) -> OperatorError {
    let help = match error {
        OpenError::Missing(_) => {
            "`jadpo dev` makes it where it runs; name another with --store, or a running server with --url"
        }
        _ => "name the store's file with --store, or a running server with --url",
    };
    match error {
        OpenError::Missing(_) => OperatorError::input(error.to_string(), Some(help)).coded("store_missing"),
        OpenError::Foreign { .. } => OperatorError::input(error.to_string(), Some(help)).coded("store_foreign"),
        _ => OperatorError::failed(error.to_string(), Some(help)).coded("store_unusable"),
    }
}

/// The app of a local store: the one that was named, else what a server last ran on it, else the app file here, else
/// one that declares nothing.
fn app(place: &Place, serving: Option<Serving>) -> Result<App, OperatorError> {
    let Some(file) = &place.app else {
        if let Some(serving) = serving {
            return Ok(App::new(serving.program));
        }
        let here = Checked::read(Path::new("app.jadpo"), None, true).ok();
        let here = here.and_then(|checked| checked.program);
        return Ok(App::new(here.unwrap_or_else(nothing_declared)));
    };
    match load::for_dev(file, place.json) {
        Ok((program, _)) => Ok(App::new(program)),
        Err(_) => Err(OperatorError::input(
            format!("`{}` is not an app that can be used", file.display()),
            Some("leave --app out: only what the app declares will be missing"),
        )),
    }
}

/// An app that declares nothing.
pub(super) fn nothing_declared() -> Program {
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
