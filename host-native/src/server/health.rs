//! `/healthz`: the process is alive. `/readyz`: it does its work, which it shows by writing to the store, and by
//! reaching the queues that it pulls from.

use std::time::Duration;

use hyper::StatusCode;
use jadpo_core::host::Host;
use jadpo_core::store::Statement;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::Shared;
use super::reply::{self, Problem, Reply};

/// How long the store may take to answer a write.
const WRITE_TIME_MAX: Duration = Duration::from_secs(2);
/// How long an answer holds. Whoever asks again within it costs no write.
const HOLDS_FOR: Duration = Duration::from_millis(500);

/// When the store last answered, and what.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    last: Mutex<Option<(Instant, Result<(), String>)>>,
}

pub(super) fn alive() -> Reply {
    reply::text(StatusCode::OK, "text/plain", "ok\n".to_owned())
}

pub(super) async fn ready(shared: &Shared) -> Reply {
    let not_ready = |why: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", why).into();
    if *shared.stopping.borrow() {
        return not_ready("the server is stopping".to_owned());
    }
    match shared.readiness.ask(shared).await {
        Ok(()) => match shared.pulls.not_ready() {
            None => reply::text(StatusCode::OK, "text/plain", "ready\n".to_owned()),
            Some(why) => not_ready(why),
        },
        Err(why) => not_ready(why),
    }
}

impl Readiness {
    async fn ask(&self, shared: &Shared) -> Result<(), String> {
        let mut last = self.last.lock().await;
        if let Some((at, answer)) = last.as_ref()
            && at.elapsed() < HOLDS_FOR
        {
            return answer.clone();
        }
        // A row is written as it is: a write like any other, which changes nothing.
        let write = Statement::new("UPDATE jadpo_schema SET pruned_seq = pruned_seq", Vec::new());
        let answer = match timeout(WRITE_TIME_MAX, shared.host.batch(vec![write])).await {
            Ok(written) => written.map(drop).map_err(|error| error.to_string()),
            Err(_) => Err(format!("the store did not answer a write within {} s", WRITE_TIME_MAX.as_secs())),
        };
        *last = Some((Instant::now(), answer.clone()));
        answer
    }
}
