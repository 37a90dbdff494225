//! What a server handles and what it does not, as its start tells it.

use std::collections::BTreeSet;

use jadpo_core::broker::{BrokerError, ConsumerKind, QueueInfo};
use jadpo_core::program::{Connection, Program, Setting, Target, Verify};
use jadpo_core::pulling::Source;
use jadpo_core::trigger::{Consumer, Declared, Triggers};

use crate::broker::{ApiPlace, Broker};
use crate::functions::Linked;

/// What there is to tell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Declared queues.
    pub queues: Vec<DeclaredQueue>,
    /// Webhooks, and the queues that they write to.
    pub webhooks: Vec<(String, String)>,
    /// What a client of the API needs to know.
    pub api: ApiPlace,
    /// Queues that are pulled over HTTP, and their ids.
    pub pulled: Vec<(String, String)>,
    /// Connections that are pulled from, if anything is received.
    pub sources: Vec<Source>,
    /// What is amiss.
    pub concerns: Vec<Concern>,
}

/// A declared queue, as it is told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredQueue {
    /// Its name.
    pub name: String,
    /// Who gets its messages.
    pub handler: Handler,
    /// How often a message is tried.
    pub attempts: u32,
    /// After how long a failed message is tried again, in milliseconds.
    pub visibility_ms: u32,
}

/// Who gets a queue's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handler {
    /// These functions, each with how it is reached.
    Functions(Vec<(String, String)>),
    /// They become this event.
    Event(String),
    /// Whoever pulls them over HTTP.
    Pulled,
    /// A Worker of this name, which does not run here.
    Worker(String),
    /// Nobody.
    Nobody,
}

/// Something that does not keep a server from starting and that somebody should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Concern {
    /// Messages wait in a queue, and nobody here handles them.
    NoConsumer {
        /// The queue.
        queue: String,
        /// How many wait.
        messages: u64,
    },
    /// A webhook writes to a queue that nobody handles.
    NoHandler {
        /// The webhook.
        webhook: String,
        /// The queue.
        queue: String,
    },
    /// A connection whose messages do not come here.
    NotReceived {
        /// The connection.
        connection: String,
        /// Why not.
        why: &'static str,
    },
    /// An environment variable is not set.
    NotSet(String),
    /// A linked function is not in this binary.
    NotLinked(String),
}

impl Concern {
    /// What is amiss and what to do, for a person.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::NoConsumer { queue, messages } => {
                let waits =
                    if *messages == 1 { "1 message waits".to_owned() } else { format!("{messages} messages wait") };
                format!(
                    "{waits} in queue `{queue}`, and nothing here handles them: give it `functions:` or name it in \
                     `receiving:`"
                )
            }
            Self::NoHandler { webhook, queue } => {
                format!(
                    "webhook `{webhook}` writes to queue `{queue}`, whose messages nothing here handles: they are kept"
                )
            }
            Self::NotReceived { connection, why } => format!("connection `{connection}` is not received here: {why}"),
            Self::NotSet(variable) => format!("the environment variable {variable} is not set"),
            Self::NotLinked(function) => format!("the function `{function}` is not linked into this binary"),
        }
    }

    /// Its name in the log, and what it is about.
    #[must_use]
    pub fn logged(&self) -> (&'static str, Vec<(&'static str, serde_json::Value)>) {
        match self {
            Self::NoConsumer { queue, messages } => {
                ("queue.no_consumer", vec![("queue", queue.as_str().into()), ("messages", (*messages).into())])
            }
            Self::NoHandler { webhook, queue } => {
                ("webhook.no_handler", vec![("webhook", webhook.as_str().into()), ("queue", queue.as_str().into())])
            }
            Self::NotReceived { connection, why } => {
                ("connection.not_received", vec![("connection", connection.as_str().into()), ("why", (*why).into())])
            }
            Self::NotSet(variable) => ("env.missing", vec![("variable", variable.as_str().into())]),
            Self::NotLinked(function) => ("function.not_linked", vec![("function", function.as_str().into())]),
        }
    }
}

/// Looks at the program, the store and the environment.
///
/// # Errors
/// [`BrokerError::Store`].
pub async fn report(
    program: &Program,
    triggers: &Triggers,
    broker: &Broker,
    linked: &Linked,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Report, BrokerError> {
    let consumers = broker.consumers().await?;
    let queues = triggers.declared().map(|declared| match consumers.get(&declared.queue) {
        None => declared_queue(program, declared),
        Some(consumer) => {
            let handler = match &consumer.kind {
                ConsumerKind::HttpPull => Handler::Pulled,
                ConsumerKind::Worker { script, .. } => Handler::Worker(script.clone()),
            };
            DeclaredQueue { handler, ..declared_queue(program, declared) }
        }
    });
    let (queues, sources) = (queues.collect(), Source::all(program));
    let mut report = Report { queues, sources, api: broker.api_place().await?, ..Report::default() };
    report.webhooks = program.webhooks.iter().map(|(name, webhook)| (name.clone(), webhook.queue.clone())).collect();
    let is_handled = |name: &str| {
        consumers.contains_key(name)
            || report.queues.iter().any(|queue| queue.name == name && queue.handler != Handler::Nobody)
    };
    let infos = broker.list().await?;
    let is_pulled = |name: &str| consumers.get(name).is_some_and(|consumer| consumer.kind == ConsumerKind::HttpPull);
    let pulled = infos.iter().filter(|info| is_pulled(&info.name));
    report.pulled = pulled.map(|info| (info.name.clone(), info.id.clone())).collect();
    let mut concerns = Vec::new();
    for info in infos.iter().filter(|info| !is_handled(&info.name) && !takes_dead_letters(&infos, &info.name)) {
        let messages = broker.metrics(&info.name).await?.messages;
        if messages > 0 {
            concerns.push(Concern::NoConsumer { queue: info.name.clone(), messages });
        }
    }
    for (webhook, queue) in report.webhooks.iter().filter(|(_, queue)| !is_handled(queue)) {
        concerns.push(Concern::NoHandler { webhook: webhook.clone(), queue: queue.clone() });
    }
    concerns.extend(program.connections.iter().filter_map(|(name, connection)| not_received(name, connection)));
    concerns.extend(variables(program).into_iter().filter(|name| env(name).is_none()).map(Concern::NotSet));
    concerns.extend(runs(program).into_iter().filter(|name| !linked.has(name)).map(Concern::NotLinked));
    report.concerns = concerns;
    Ok(report)
}

fn declared_queue(program: &Program, declared: &Declared) -> DeclaredQueue {
    let event = || {
        let mut receiving = program.receiving.iter();
        receiving.find_map(|(name, receiving)| match program.connections.get(name) {
            Some(Connection::LocalQueue { queue, .. }) if *queue == declared.queue => Some(receiving.event.clone()),
            _ => None,
        })
    };
    let how =
        |name: &String| program.functions.get(name).map_or_else(String::new, |function| reached(&function.target));
    let handler = match &declared.consumer {
        Consumer::Functions(names) => Handler::Functions(names.iter().map(|name| (name.clone(), how(name))).collect()),
        Consumer::Receiving => event().map_or(Handler::Nobody, Handler::Event),
        Consumer::Nobody => Handler::Nobody,
    };
    DeclaredQueue {
        name: declared.queue.clone(),
        handler,
        attempts: declared.settings.consumer.max_retries + 1,
        visibility_ms: declared.visibility_ms,
    }
}

fn reached(target: &Target) -> String {
    match target {
        Target::Call(address) => address.clone(),
        Target::Exec(words) => words.join(" "),
        Target::Run(name) => format!("linked as {name}"),
        Target::Send(queue) => format!("to queue {queue}"),
        Target::Service(worker) => format!("Worker {worker}"),
    }
}

fn takes_dead_letters(infos: &[QueueInfo], queue: &str) -> bool {
    infos.iter().any(|info| info.settings.consumer.dead_letter_queue.as_deref() == Some(queue))
}

fn not_received(name: &str, connection: &Connection) -> Option<Concern> {
    let why = match connection {
        Connection::CloudflareQueues { .. } => {
            "Cloudflare pushes its messages to a Worker; what was parked of them in this store is read again here"
        }
        Connection::CloudflarePull { .. } | Connection::LocalQueue { .. } => return None,
    };
    Some(Concern::NotReceived { connection: name.to_owned(), why })
}

/// The environment variables that the program names.
fn variables(program: &Program) -> BTreeSet<String> {
    let sources = Source::all(program);
    let pulled = sources.iter().flat_map(|source| source.variables().map(str::to_owned));
    secrets(program).into_iter().chain(pulled).collect()
}

/// The environment variables by which others prove to this server who they are, or it to them: those of webhooks and
/// of subscribers. Whoever knows one of them can pretend to be its sender.
#[must_use]
pub fn secrets(program: &Program) -> BTreeSet<String> {
    let secret = |verify: &Verify| match verify {
        Verify::Stripe(secret) | Verify::Github(secret) | Verify::Shopify(secret) | Verify::Standard(secret) => {
            secret.clone()
        }
    };
    let webhooks = program.webhooks.values().filter_map(|webhook| webhook.verify.as_ref().map(secret));
    let subscribers = program.subscribers.values().filter_map(|subscriber| subscriber.secret.clone());
    let name = |setting| match setting {
        Setting::Env(name) => Some(name),
        Setting::Text(_) => None,
    };
    webhooks.chain(subscribers).filter_map(name).collect()
}

/// The linked functions that the program names.
fn runs(program: &Program) -> BTreeSet<String> {
    let functions = program.functions.values().map(|function| &function.target);
    let targets = functions.chain(program.subscribers.values().map(|subscriber| &subscriber.target));
    let run = |target: &Target| match target {
        Target::Run(name) => Some(name.clone()),
        _ => None,
    };
    targets.filter_map(run).collect()
}
