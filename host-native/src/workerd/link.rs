//! HTTP to a unix socket, over connections that are kept while they are idle.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::Instant;

/// A body that is sent, whole or as it comes.
pub(crate) type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Idle connections that are kept, and for how long: workerd closes them after 5 s, and what is sent at that moment is
/// lost without a word.
const IDLE_MAX: usize = 64;
const IDLE_TIME_MAX: Duration = Duration::from_secs(2);

/// A unix socket that takes HTTP. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Link {
    path: Arc<PathBuf>,
    idle: Arc<Mutex<Vec<Idle>>>,
}

/// A connection, and since when it is idle.
type Idle = (SendRequest<Body>, Instant);

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// Nothing was sent: here it is again.
    Unsent(String, Box<Request<Body>>),
    /// It was sent, in part or whole, and nobody knows what came of it.
    Broken(String),
}

impl Link {
    pub(crate) fn to(path: PathBuf) -> Self {
        Self { path: Arc::new(path), idle: Arc::default() }
    }

    /// Sends a request. A kept connection that turns out to be closed is replaced by another, as long as nothing of the
    /// request was sent.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, Unanswered> {
        loop {
            let kept = self.kept();
            let was_kept = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => match self.connect().await {
                    Ok(connection) => connection,
                    Err(error) => return Err(Unanswered::Unsent(error.to_string(), Box::new(request))),
                },
            };
            if connection.is_closed() {
                continue;
            }
            match connection.try_send_request(request).await {
                Ok(response) => {
                    self.keep(connection);
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    Some(unsent) if was_kept => request = unsent,
                    Some(unsent) => {
                        return Err(Unanswered::Unsent(error.into_error().to_string(), Box::new(unsent)));
                    }
                    None => return Err(Unanswered::Broken(in_words(&error.into_error()))),
                },
            }
        }
    }

    /// The one that was used last: so the others grow old and go.
    fn kept(&self) -> Option<SendRequest<Body>> {
        let mut idle = self.lock();
        idle.retain(|(_, since)| since.elapsed() < IDLE_TIME_MAX);
        idle.pop().map(|(connection, _)| connection)
    }

    async fn connect(&self) -> std::io::Result<SendRequest<Body>> {
        let stream = UnixStream::connect(&*self.path).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(std::io::Error::other)?;
        tokio::spawn(async move {
            // How it ends is told to whoever uses it.
            let _ = connection.with_upgrades().await;
        });
        Ok(sender)
    }

    /// Keeps a connection for the next request once the answer on it has been read to its end.
    fn keep(&self, mut connection: SendRequest<Body>) {
        let link = self.clone();
        tokio::spawn(async move {
            if connection.ready().await.is_ok() {
                let mut idle = link.lock();
                if idle.len() < IDLE_MAX {
                    idle.push((connection, Instant::now()));
                }
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.path).finish()
    }
}

/// What happened, with what lies under it.
pub(crate) fn in_words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(under) = source {
        text.push_str(": ");
        text.push_str(&under.to_string());
        source = under.source();
    }
    text
}
