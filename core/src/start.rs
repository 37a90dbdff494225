//! From `program.json` to an app that a host may run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::program::{Connection, PROGRAM_FORMAT, Program, Receiving, Target};

/// A started program, with what every batch needs looked up once.
#[derive(Debug, Clone, PartialEq)]
pub struct App {
    /// The program.
    pub program: Program,
    routes: BTreeMap<String, Route>,
    subscribers: BTreeMap<String, Vec<String>>,
}

/// Where a queue's messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The connection that the queue belongs to.
    pub connection: String,
    /// What its messages become; `None` for the dead letters of a connection that nothing is received from.
    pub receiving: Option<Receiving>,
    /// Whether this is the connection's dead-letter queue.
    pub dead_letters: bool,
}

/// Why a program cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartError {
    /// It is not a program: what is wrong with its JSON.
    Malformed(String),
    /// It was written in another form: by a newer or an older build.
    OtherFormat(u32),
    /// It names something that it does not have, which no build writes.
    Inconsistent(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "program.json cannot be read: {what}; build the app again"),
            Self::Inconsistent(what) => write!(f, "program.json was changed by hand: {what}; build the app again"),
            Self::OtherFormat(format) => write!(
                f,
                "program.json has form {format} and this build reads form {PROGRAM_FORMAT}; \
                 build the app again with the same jadpo"
            ),
        }
    }
}

impl std::error::Error for StartError {}

impl App {
    /// Starts the program that `program.json` carries.
    ///
    /// # Errors
    /// When it is no program, or one of another form.
    pub fn start(program_json: &str) -> Result<Self, StartError> {
        #[derive(serde::Deserialize)]
        struct Form {
            format: u32,
        }
        let malformed = |error: serde_json::Error| StartError::Malformed(error.to_string());
        let form: Form = serde_json::from_str(program_json).map_err(malformed)?;
        if form.format != PROGRAM_FORMAT {
            return Err(StartError::OtherFormat(form.format));
        }
        let program = serde_json::from_str(program_json).map_err(malformed)?;
        check_names(&program)?;
        Ok(Self::new(program))
    }

    /// Starts a program that is at hand.
    #[must_use]
    pub fn new(program: Program) -> Self {
        let mut routes = BTreeMap::new();
        for (name, connection) in &program.connections {
            let receiving = program.receiving.get(name);
            let route = |dead_letters| Route { connection: name.clone(), receiving: receiving.cloned(), dead_letters };
            match connection {
                Connection::CloudflareQueues { queue, dead_letter_queue } => {
                    if receiving.is_some() {
                        routes.insert(queue.clone(), route(false));
                    }
                    // A dead letter is parked even where nothing is received: nobody else has it any more.
                    routes.insert(dead_letter_queue.clone(), route(true));
                }
                // Its dead letters stay in a queue of this server, where an operator finds them.
                Connection::LocalQueue { queue, .. } if receiving.is_some() => {
                    routes.insert(queue.clone(), route(false));
                }
                Connection::LocalQueue { .. } | Connection::CloudflarePull { .. } => {}
            }
        }
        let mut subscribers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, subscriber) in &program.subscribers {
            subscribers.entry(subscriber.on.clone()).or_default().push(name.clone());
        }
        Self { program, routes, subscribers }
    }

    /// Where the messages of this queue go, be it one at Cloudflare or a local one; `None` for a queue that the program
    /// does not receive.
    #[must_use]
    pub fn route(&self, queue: &str) -> Option<&Route> {
        self.routes.get(queue)
    }

    /// The subscribers of an event, by name and in order.
    #[must_use]
    pub fn subscribers_of(&self, event: &str) -> &[String] {
        self.subscribers.get(event).map_or(&[], Vec::as_slice)
    }

    /// Linked functions that subscribers and functions name and this host does not have. Their deliveries and messages
    /// wait, as those of somebody who does not answer, so a host tells of them once when it starts.
    #[must_use]
    pub fn unlinked(&self, is_linked: impl Fn(&str) -> bool) -> Vec<&str> {
        let subscribers = self.program.subscribers.values().map(|subscriber| &subscriber.target);
        let functions = self.program.functions.values().map(|function| &function.target);
        let runs = subscribers.chain(functions).filter_map(|target| match target {
            Target::Run(function) => Some(function.as_str()),
            _ => None,
        });
        let missing: BTreeSet<&str> = runs.filter(|function| !is_linked(function)).collect();
        missing.into_iter().collect()
    }
}

/// Whatever a program names is there. A build writes no other, and a message read by another would be parked for it.
fn check_names(program: &Program) -> Result<(), StartError> {
    let missing = |what: String| Err(StartError::Inconsistent(what));
    for (connection, receiving) in &program.receiving {
        if !program.connections.contains_key(connection) {
            return missing(format!("it receives from {connection}, which is no connection of it"));
        }
        if !program.events.contains_key(&receiving.event) {
            return missing(format!("{connection} becomes {}, which is no event of it", receiving.event));
        }
    }
    let mut queues = BTreeSet::new();
    for (name, connection) in &program.connections {
        let Connection::LocalQueue { queue, functions, .. } = connection else { continue };
        queues.insert(queue.as_str());
        if let Some(function) = functions.iter().find(|function| !program.functions.contains_key(*function)) {
            return missing(format!("{name} calls {function}, which is no function of it"));
        }
    }
    for (name, webhook) in &program.webhooks {
        if !queues.contains(webhook.queue.as_str()) {
            return missing(format!("webhook {name} writes to {}, which is no local queue of it", webhook.queue));
        }
    }
    for (name, function) in &program.functions {
        if let Target::Send(queue) = &function.target
            && !queues.contains(queue.as_str())
        {
            return missing(format!("function {name} sends to {queue}, which is no local queue of it"));
        }
    }
    for (name, subscriber) in &program.subscribers {
        if !program.events.contains_key(&subscriber.on) {
            return missing(format!("{name} subscribes to {}, which is no event of it", subscriber.on));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_another_form_says_so_even_if_nothing_else_of_it_is_known() {
        assert_eq!(App::start(r#"{"format":2,"apps":[]}"#), Err(StartError::OtherFormat(2)));
        assert!(matches!(App::start("{"), Err(StartError::Malformed(_))));
        assert!(matches!(App::start(r#"{"format":1}"#), Err(StartError::Malformed(_))));
        assert!(App::start(r#"{"format":1,"app":"a"}"#).is_ok());
        let changed = r#"{"format":1,"app":"a","subscribers":{"s":{"on":"Gone","target":{"run":"f"}}}}"#;
        let error = App::start(changed).unwrap_err().to_string();
        assert_eq!(
            error,
            "program.json was changed by hand: s subscribes to Gone, which is no event of it; build the app again"
        );
    }

    #[test]
    fn a_queue_that_nothing_receives_has_no_route_but_its_dead_letters_do() {
        let program = r#"{"format":1,"app":"a","connections":{
            "seen":{"driver":"cloudflare_queues","queue":"q","dead_letter_queue":"q-dead"},
            "unseen":{"driver":"cloudflare_queues","queue":"r","dead_letter_queue":"r-dead"}},
            "events":{"E":"json"},"receiving":{"seen":{"event":"E"}}}"#;
        let app = App::start(program).unwrap();
        assert_eq!(app.route("q").map(|route| route.dead_letters), Some(false));
        assert_eq!(app.route("q-dead").map(|route| route.dead_letters), Some(true));
        assert_eq!((app.route("r"), app.route("surprise")), (None, None));
        assert_eq!(app.route("r-dead").map(|route| (route.dead_letters, &route.receiving)), Some((true, &None)));
    }
}
