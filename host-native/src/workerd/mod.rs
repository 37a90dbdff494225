//! Workers: their Wrangler files read, their code bundled, and one workerd that runs all of them.
//!
//! workerd speaks to nobody but us: over unix sockets in a folder of its own. Into it go batches and occurrences, through
//! a small Worker that hands them on, and the requests of each Worker's HTTP address. Out of it come what producers send,
//! what is asked of databases, and what Workers log.

mod bundle;
mod changes;
pub mod child;
mod config;
mod failure;
mod inner;
mod link;
mod maps;
mod modules;
mod node;
mod phase;
mod prepare;
mod process;
mod project;
mod proxy;
mod reload;
mod run;
mod scheduled;
mod secrets;
mod tails;
mod told;
mod tools;
mod visitors;

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use hyper::{Method, Request, StatusCode};
use jadpo_core::workers::Worker;
use percent_encoding::percent_decode_str;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

pub use failure::Failure;
pub(crate) use inner::{Answer, Asked};
use link::{Unanswered, in_words};
use phase::{Phases, Up};
pub use prepare::{Options, Prepared, Started};
pub(crate) use prepare::{Scratch, scratch};
pub(crate) use project::describe;
use tails::Tails;
pub use tools::Named;

/// Most bytes of the dispatcher's answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A Wrangler file that is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file, or the folder that it is in.
    pub file: PathBuf,
    /// Which of its environments, if one was named.
    pub environment: Option<String>,
}

/// The Workers that run here. Clones mean the same ones.
#[derive(Debug, Clone)]
pub struct Workerd {
    phases: Phases,
    workers: watch::Receiver<Arc<Vec<Worker>>>,
    tails: Tails,
    running: Running,
    /// Says that workerd is to end for good.
    over: Arc<watch::Sender<bool>>,
}

/// Batches and occurrences that run now, each kind with how many there are: `batches of NAME`.
#[derive(Debug, Clone, Default)]
struct Running(Arc<Mutex<BTreeMap<(String, bool), usize>>>);

/// One that runs, until it is dropped.
struct Runs(Running, (String, bool));

impl Running {
    fn begin(&self, path_and_query: &str) -> Runs {
        let worker = path_and_query.split_once("worker=").map(|(_, worker)| worker).unwrap_or_default();
        let worker = worker.split('&').next().unwrap_or_default();
        let worker = percent_decode_str(worker).decode_utf8_lossy().into_owned();
        let of = (worker, path_and_query.starts_with("/scheduled"));
        *self.lock().entry(of.clone()).or_default() += 1;
        Runs(self.clone(), of)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, bool), usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let Self(running, of) = self;
        let mut all = running.lock();
        let left = all.get(of).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            all.remove(of);
        } else {
            all.insert(of.clone(), left);
        }
    }
}

/// Why a dispatch has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// It reached nobody: no handler has begun. In words.
    NotStarted(String),
    /// A handler may have begun, and how it ended is not known.
    Broken {
        /// As Cloudflare calls it: `daemonDown`, `exceededCpu`, `exceededWallTime`, `canceled`.
        outcome: &'static str,
        /// In words.
        error: String,
        /// Whether something else ran in the same workerd when that ended; whose doing it was is not known then.
        in_company: bool,
    },
}

/// Makes a folder that nobody else may enter, and those above it.
fn private_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

impl Workerd {
    /// The Workers that run, which a reload changes.
    #[must_use]
    pub fn workers(&self) -> watch::Receiver<Arc<Vec<Worker>>> {
        self.workers.clone()
    }

    /// What runs now, in words: `2 batches of the Worker NAME`.
    #[must_use]
    pub fn runs(&self) -> Vec<String> {
        let in_words = |((worker, is_cron), count): (&(String, bool), &usize)| {
            let what = match (is_cron, count) {
                (false, 1) => "a batch".to_owned(),
                (false, count) => format!("{count} batches"),
                (true, 1) => "a cron's occurrence".to_owned(),
                (true, count) => format!("{count} crons' occurrences"),
            };
            format!("{what} of the Worker {worker}")
        };
        self.running.lock().iter().map(in_words).collect()
    }

    /// Ends workerd for good: what runs in it is called off.
    pub fn end(&self) {
        self.over.send_replace(true);
    }

    /// What the handler of a queue's batches threw last, or that of crons if there is no queue, if it has since then. It
    /// is waited for a little.
    pub async fn thrown(&self, worker: &str, queue: Option<&str>, since: Instant) -> Option<String> {
        self.tails.thrown(worker, queue, since).await
    }

    /// Posts a body to the dispatcher, `/queue?worker=NAME` or `/scheduled?worker=NAME`, and gives its answer. While
    /// workerd starts anew, this waits for it.
    ///
    /// # Errors
    /// [`CallError`]; within `limit` in any case.
    pub async fn dispatch(
        &self,
        path_and_query: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<(StatusCode, Bytes), CallError> {
        let until = Instant::now() + limit;
        let up = self.phases.up(until).await.map_err(CallError::NotStarted)?;
        let (busy, _runs) = (up.begin(), self.running.begin(path_and_query));
        let broken = |outcome, error, in_company| Err(CallError::Broken { outcome, error, in_company });
        match timeout_at(until, up.ask(path_and_query, body)).await {
            Ok(Ok(answer)) => {
                drop(busy.answered());
                Ok(answer)
            }
            Ok(Err(Unanswered::Unsent(error, _))) => {
                drop(busy.answered());
                Err(CallError::NotStarted(error))
            }
            Ok(Err(Unanswered::Broken(error))) => match up.ended().await {
                Some(end) => broken(end.outcome, end.why.clone(), busy.had_company(&end)),
                None => broken("daemonDown", error, false),
            },
            Err(_) => {
                broken("exceededWallTime", format!("the handler did not end within {} s", limit.as_secs()), false)
            }
        }
    }

    /// Asks the dispatcher something that calls no handler. While workerd starts anew, this waits for it. `None` if there
    /// is no answer by then, or no good one.
    pub async fn look(&self, path_and_query: &str, limit: Duration) -> Option<Bytes> {
        let until = Instant::now() + limit;
        let up = self.phases.up(until).await.ok()?;
        let (status, answer) = timeout_at(until, up.ask(path_and_query, Bytes::new())).await.ok()?.ok()?;
        (status == StatusCode::OK).then_some(answer)
    }
}

impl Up {
    /// Posts a body to the dispatcher, and gives its answer.
    async fn ask(&self, path_and_query: &str, body: Bytes) -> Result<(StatusCode, Bytes), Unanswered> {
        let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(hyper::header::HOST, HeaderValue::from_static("dispatcher"));
        match path_and_query.parse() {
            Ok(uri) => *request.uri_mut() = uri,
            Err(error) => return Err(Unanswered::Unsent(error.to_string(), Box::new(request))),
        }
        let answer = self.dispatcher.send(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Unanswered::Broken(in_words(&*error)))?;
        Ok((status, body.to_bytes()))
    }
}
