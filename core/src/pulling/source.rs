//! A connection that is pulled from, and the requests that are made for it.

use std::fmt;

use super::course::Act;
use super::trouble::{Kind, Trouble};
use crate::program::{Connection, Program, PullQueue, Setting};
use crate::pull::wire::{AckOne, AckRequest, PullRequest, RetryOne};
use crate::queue::Answer;

/// Cloudflare's own API.
const CLOUDFLARE: &str = "https://api.cloudflare.com/client/v4";
/// Bytes of an answer that are read for each message asked for. A message has 128,000 bytes at most, and a third more in
/// base64; a text that JSON must escape is longer, and then fewer messages are asked for.
const ANSWER_BYTES_PER_MESSAGE: usize = 180_000;
/// Bytes of an answer that are read in any case: one message fits, were each of its bytes an escape of six.
const ANSWER_BYTES_MIN: usize = 1 << 20;
/// How long a pull may take, in milliseconds.
const PULL_TIME_MAX_MS: u32 = 30_000;
/// How long anything else may take.
const CALL_TIME_MAX_MS: u32 = 15_000;
const ACCOUNT_CHARS_MAX: usize = 64;

/// A connection that is pulled from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The connection's name.
    pub connection: String,
    /// What its messages become.
    pub event: String,
    /// The queue, as the app names it.
    pub queue: PullQueue,
    /// Messages asked for in one pull.
    pub batch_size: u32,
    /// How long they are leased, in milliseconds.
    pub visibility_ms: u32,
    account: Setting,
    token: Setting,
    domains: Vec<String>,
    base_url: String,
}

/// A request to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// GET or POST.
    pub method: &'static str,
    /// Where.
    pub url: String,
    /// What it is authorized by: `Authorization: Bearer`.
    pub token: Token,
    /// A JSON body, if it has one.
    pub body: Option<String>,
    /// Bytes of the answer's body that are read, at most.
    pub answer_bytes_max: usize,
    /// How long it may take, in milliseconds.
    pub time_max_ms: u32,
}

/// A token, which no log shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Source {
    /// The connections of a program that are pulled from: those that something is received from.
    #[must_use]
    pub fn all(program: &Program) -> Vec<Self> {
        let source = |(name, connection): (&String, &Connection)| {
            let Connection::CloudflarePull { account, queue, token, domains, base_url, batch_size, visibility_ms } =
                connection
            else {
                return None;
            };
            let receiving = program.receiving.get(name)?;
            Some(Self {
                connection: name.clone(),
                event: receiving.event.clone(),
                queue: queue.clone(),
                batch_size: (*batch_size).clamp(1, 100),
                visibility_ms: u32::try_from(*visibility_ms).unwrap_or(u32::MAX),
                account: account.clone(),
                token: token.clone(),
                domains: domains.clone(),
                base_url: base_url.as_deref().unwrap_or(CLOUDFLARE).trim_end_matches('/').to_owned(),
            })
        };
        program.connections.iter().filter_map(source).collect()
    }

    /// What the queue is called in logs, and beside a message that is parked.
    #[must_use]
    pub fn queue_name(&self) -> &str {
        self.queue.text()
    }

    /// The host that is reached, with its port where it is not the scheme's own.
    #[must_use]
    pub fn host(&self) -> &str {
        let (scheme, rest) = self.base_url.split_once("://").unwrap_or(("", &self.base_url));
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let usual = if scheme.eq_ignore_ascii_case("http") { ":80" } else { ":443" };
        host.strip_suffix(usual).unwrap_or(host)
    }

    /// The environment variables that it needs.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        [&self.account, &self.token].into_iter().filter_map(|setting| match setting {
            Setting::Env(name) => Some(name.as_str()),
            Setting::Text(_) => None,
        })
    }

    /// What to do next, as a request. The environment is read anew each time.
    ///
    /// # Errors
    /// [`Kind::Setting`], when the account or the token is not set, or when the host is none that the connection may
    /// reach.
    pub fn request(&self, act: &Act, env: impl Fn(&str) -> Option<String>) -> Result<Request, Trouble> {
        let host = self.host();
        if !self.domains.iter().any(|domain| domain.eq_ignore_ascii_case(host)) {
            return Err(setting(format!("its address is at `{host}`, which its `domains` do not allow")));
        }
        let account = value(&self.account, "the account's id", &env)?;
        let is_id = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if account.len() > ACCOUNT_CHARS_MAX || !is_id(&account) {
            return Err(setting(format!("{} is no account id", named(&self.account))));
        }
        let token = value(&self.token, "the token", &env)?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(setting(format!("{} holds a character that no token has", named(&self.token))));
        }
        let (method, path, body) = self.call(act);
        let answer_bytes_max = match act {
            Act::Pull { .. } => (self.batch_size as usize * ANSWER_BYTES_PER_MESSAGE).max(ANSWER_BYTES_MIN),
            Act::Find { .. } | Act::Settle { .. } => ANSWER_BYTES_MIN,
        };
        Ok(Request {
            method,
            url: format!("{}/accounts/{account}/queues{path}", self.base_url),
            token: Token(token),
            body,
            answer_bytes_max,
            time_max_ms: if matches!(act, Act::Pull { .. }) { PULL_TIME_MAX_MS } else { CALL_TIME_MAX_MS },
        })
    }

    fn call(&self, act: &Act) -> (&'static str, String, Option<String>) {
        match act {
            Act::Find { page } => ("GET", format!("?page={page}&name={}", self.queue_name()), None),
            Act::Pull { queue_id, batch_size } => {
                let body =
                    PullRequest { batch_size: Some(*batch_size), visibility_timeout_ms: Some(self.visibility_ms) };
                ("POST", format!("/{queue_id}/messages/pull"), serde_json::to_string(&body).ok())
            }
            Act::Settle { queue_id, group } => {
                let mut body = AckRequest::default();
                for (lease_id, answer) in group.answers() {
                    let lease_id = lease_id.to_owned();
                    match answer {
                        Answer::Ack => body.acks.push(AckOne { lease_id }),
                        Answer::Retry { delay_s } => {
                            body.retries.push(RetryOne { lease_id, delay_seconds: Some(delay_s) });
                        }
                    }
                }
                ("POST", format!("/{queue_id}/messages/ack"), serde_json::to_string(&body).ok())
            }
        }
    }

    /// A trouble in words, with what a person can do about it.
    #[must_use]
    pub fn in_words(&self, trouble: &Trouble) -> String {
        let (words, host, queue) = (&trouble.words, self.host(), self.queue_name());
        match trouble.kind {
            Kind::Token => format!(
                "{host} refuses {} ({words}); it must be a token with read and write permission for queues, of the \
                 account that the connection names",
                named(&self.token)
            ),
            Kind::NoQueue => format!(
                "{host} knows no queue `{queue}` in the account ({words}); `wrangler queues list` shows those that \
                 there are"
            ),
            Kind::Refused => format!(
                "{host} does not let queue `{queue}` be pulled from ({words}); if it has no HTTP pull consumer, add \
                 one with `wrangler queues consumer http add NAME`"
            ),
            Kind::Redirected => format!(
                "{host} is not where queue `{queue}` is pulled from ({words}); the connection's `base_url` must be the \
                 API's own address, with no proxy before it that asks for a login"
            ),
            Kind::Setting | Kind::NotKept => words.clone(),
            Kind::Paused => format!("queue `{queue}` is paused"),
            Kind::Busy | Kind::Failed | Kind::TooLong => format!("{host}: {words}"),
        }
    }
}

impl PullQueue {
    /// The queue's id or name, whichever it is.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Id(text) | Self::Name(text) => text,
        }
    }
}

fn value(setting: &Setting, what: &str, env: impl Fn(&str) -> Option<String>) -> Result<String, Trouble> {
    let value = match setting {
        Setting::Text(text) => Some(text.clone()),
        Setting::Env(name) => env(name),
    };
    // A line break at the end is what a file or a shell leaves behind.
    let value = value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    value.ok_or_else(|| self::setting(format!("{}, {what}, is not set", named(setting))))
}

fn named(setting: &Setting) -> String {
    match setting {
        Setting::Text(_) => "what is written in the app".to_owned(),
        Setting::Env(name) => format!("the environment variable {name}"),
    }
}

fn setting(words: String) -> Trouble {
    Trouble::new(Kind::Setting, words)
}
