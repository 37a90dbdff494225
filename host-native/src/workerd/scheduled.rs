//! In development a Worker's `scheduled` handler can be called by hand, at the addresses that Wrangler's own server has:
//! `/cdn-cgi/handler/scheduled?cron=…&time=…` and `/__scheduled?cron=…`.

use std::time::Duration;

use hyper::{StatusCode, Uri};
use jadpo_core::push::{Verdict, WALL_LIMIT_MS};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::phase::Phases;
use super::tails::Tails;
use crate::host::now_ms;

/// How long it is waited for workerd, and for the handler.
const START_MAX: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_millis(WALL_LIMIT_MS as u64);

/// The newer address, which answers the outcome in the runtime's word.
const HANDLER: &str = "/cdn-cgi/handler/scheduled";
/// The older one.
const OLD: &str = "/__scheduled";

/// Whether a request is for the handler and not for the Worker.
pub(super) fn is_meant(uri: &Uri) -> bool {
    matches!(uri.path(), HANDLER | OLD)
}

/// Calls the handler. How that ended: 200 if well, and else 500 with what it threw.
pub(super) async fn answer(uri: &Uri, worker: &str, phases: &Phases, tails: &Tails) -> (StatusCode, String) {
    let query = uri.query().unwrap_or_default();
    let value = |wanted: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    let at_ms = match value("time").filter(|time| !time.is_empty()).map(|time| time.parse::<i64>()) {
        None => now_ms(),
        Some(Ok(at_ms)) => at_ms,
        Some(Err(_)) => {
            let text = "`time` is when the occurrence was to be, in milliseconds since 1970\n";
            return (StatusCode::BAD_REQUEST, text.to_owned());
        }
    };
    let body = json!({"cron": value("cron").unwrap_or_default(), "scheduledTime": at_ms}).to_string();
    let up = match phases.up(Instant::now() + START_MAX).await {
        Ok(up) => up,
        Err(why) => return (StatusCode::SERVICE_UNAVAILABLE, format!("the Worker cannot be asked now: {why}\n")),
    };
    let (busy, since) = (up.begin(), Instant::now());
    let path = format!("/scheduled?worker={}", utf8_percent_encode(worker, NON_ALPHANUMERIC));
    let answered = timeout(LIMIT, up.ask(&path, body.into())).await;
    let outcome = match answered {
        Ok(Ok((StatusCode::OK, answer))) => {
            drop(busy.answered());
            jadpo_core::push::occurred(&answer, &[]).unwrap_or_else(|error| outcome("internalError", error))
        }
        Ok(Ok((_, text))) => outcome("internalError", String::from_utf8_lossy(&text).into_owned()),
        Ok(Err(_)) => match up.ended().await {
            Some(end) => outcome(end.outcome, end.why),
            None => outcome("daemonDown", "workerd broke it off".to_owned()),
        },
        Err(_) => outcome("exceededWallTime", format!("it did not end within {} s", LIMIT.as_secs())),
    };
    told(uri, worker, outcome, tails, since).await
}

async fn told(uri: &Uri, worker: &str, ended: Verdict, tails: &Tails, since: Instant) -> (StatusCode, String) {
    let outcome = ended.outcome.as_deref().unwrap_or_default();
    if ended.is_well() {
        let old = uri.path() == OLD;
        return (StatusCode::OK, if old { "Ran scheduled event".to_owned() } else { outcome.to_owned() });
    }
    let why = match ended.error.clone() {
        Some(why) => Some(why),
        None => tails.thrown(worker, None, since).await,
    };
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{outcome}\n{}\n", why.unwrap_or_default().trim_end()))
}

fn outcome(outcome: &str, error: String) -> Verdict {
    Verdict { outcome: Some(outcome.to_owned()), error: Some(error), ..Verdict::default() }
}
