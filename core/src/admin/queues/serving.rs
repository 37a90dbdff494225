//! What a server leaves in its store about itself, so that a command that opens the store knows the app as it runs.

use serde::{Deserialize, Serialize};

use crate::program::{Connection, Program, Setting, Verify};

/// What a server runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Serving {
    /// The app, without secrets that are written out in it.
    pub program: Program,
    /// How it is run.
    pub mode: Mode,
    /// Where it answers HTTP, if it does: `http://127.0.0.1:7878`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// When it started, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// The Workers that run beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<ServedWorker>,
}

/// A Worker, as far as queues know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedWorker {
    /// Its name.
    pub name: String,
    /// The queues whose messages it gets; that of its crons, if it has any, is the last.
    pub consumes: Vec<String>,
    /// The queues that it sends to.
    pub produces: Vec<String>,
    /// When its `scheduled` handler is called: each expression, and its schedule's name.
    pub crons: Vec<(String, String)>,
}

impl ServedWorker {
    /// The one of these that gets a queue's messages.
    #[must_use]
    pub fn consuming<'a>(workers: &'a [Self], queue: &str) -> Option<&'a Self> {
        workers.iter().find(|worker| worker.consumes.iter().any(|one| one == queue))
    }

    /// Those of these that send to a queue.
    pub fn producing<'a>(workers: &'a [Self], queue: &str) -> impl Iterator<Item = &'a Self> {
        workers.iter().filter(move |worker| worker.produces.iter().any(|one| one == queue))
    }

    /// The queue whose messages are the occurrences of its crons, if it has any.
    #[must_use]
    pub fn cron_queue(&self) -> Option<&str> {
        self.consumes.last().filter(|_| !self.crons.is_empty()).map(String::as_str)
    }

    /// Why its consumer of a queue is not taken away, and the queue not deleted, for a person.
    #[must_use]
    pub fn says_who_consumes(&self, queue: &str) -> String {
        let name = &self.name;
        let (what, key) = if self.cron_queue() == Some(queue) {
            (format!("has crons, which come by the queue `{queue}`: take them"), "triggers.crons")
        } else {
            (format!("consumes the queue `{queue}`: take it"), "queues.consumers")
        };
        format!(
            "the Worker `{name}` runs here and its Wrangler file says that it {what} out of `{key}` there, and start the \
             server again if it does not follow the file"
        )
    }

    /// Why it is not made a queue's consumer, for a person.
    #[must_use]
    pub fn says_what_it_consumes(&self, queue: &str) -> String {
        let name = &self.name;
        format!(
            "the Worker `{name}` runs here and its Wrangler file says what it consumes: add the queue `{queue}` to \
             `queues.consumers` there, and start the server again if it does not follow the file"
        )
    }
}

/// How an app is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// On a developer's machine: webhooks' addresses hold no token.
    Dev,
    /// In production: they do.
    Serve,
}

impl Serving {
    /// What there is to be told of a server that starts now.
    #[must_use]
    pub fn new(mut program: Program, mode: Mode, url: Option<String>, started_at_ms: i64) -> Self {
        for webhook in program.webhooks.values_mut() {
            if let Some(
                Verify::Stripe(secret) | Verify::Github(secret) | Verify::Shopify(secret) | Verify::Standard(secret),
            ) = &mut webhook.verify
            {
                hide(secret);
            }
        }
        program.subscribers.values_mut().filter_map(|subscriber| subscriber.secret.as_mut()).for_each(hide);
        for connection in program.connections.values_mut() {
            if let Connection::CloudflarePull { token, .. } = connection {
                hide(token);
            }
        }
        Self { program, mode, url, started_at_ms, workers: Vec::new() }
    }

    /// The same with the Workers that run beside it.
    #[must_use]
    pub fn with_workers(self, workers: Vec<ServedWorker>) -> Self {
        Self { workers, ..self }
    }

    /// As it is kept.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what was kept. `None` if a build of another form wrote it, which is then as if nothing had.
    #[must_use]
    pub fn from_json(json: &str) -> Option<Self> {
        let serving: Self = serde_json::from_str(json).ok()?;
        (serving.program.format == crate::program::PROGRAM_FORMAT).then_some(serving)
    }
}

/// A secret's name is no secret; what is written out is one.
fn hide(setting: &mut Setting) {
    if let Setting::Text(text) = setting {
        text.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = r#"{"format":1,"app":"a","connections":{"jobs":{"driver":"local_queue","queue":"jobs",
        "max_receives":3,"visibility_ms":30000}},"webhooks":{"w":{"queue":"jobs","verify":{"github":{"text":"hush"}}},
        "x":{"queue":"jobs","verify":{"stripe":{"env":"STRIPE"}}}}}"#;

    #[test]
    fn a_secret_that_is_written_out_is_not_left_in_the_store() {
        let program: Program = serde_json::from_str(PROGRAM).unwrap();
        let serving = Serving::new(program, Mode::Serve, Some("http://127.0.0.1:7878".to_owned()), 5);
        let json = serving.to_json();
        assert!(!json.contains("hush") && json.contains("STRIPE"), "{json}");
        assert_eq!(Serving::from_json(&json), Some(serving));
    }

    #[test]
    fn what_another_form_of_build_left_is_as_if_it_had_not() {
        assert_eq!(Serving::from_json("{"), None);
        let other = r#"{"program":{"format":2,"app":"a"},"mode":"dev","started_at_ms":1}"#;
        assert_eq!(Serving::from_json(other), None);
    }
}
